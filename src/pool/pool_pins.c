/* SPDX-License-Identifier: ISC */
/*
 * Servers that stay with their clients because of session state: counted in all loops together.
 */
#include "pool_priv.h"

#include "pgweir/base/banned.h"

/* A pool that may have none at all is as its administrator wants it. */
void pool_note_pins_met(struct pool *pool)
{
	const struct limit_event event = { .limit = "max_pinned_servers",
		                           .value = pool->limits.max_pinned,
		                           .counted = "the pinned servers",
		                           .database = pool->database->name,
		                           .user = pool->role->name };

	pool->pins_refused++;
	if (event.value > 0)
		limit_event_note(&pool->share.tally->pins_met, loop_now(pool_loop(pool)),
		                 pool->log.log, &event);
}

bool pool_pin(struct pool *pool)
{
	if (share_pin(&pool->share, (unsigned int)pool->limits.max_pinned))
		return true;
	pool_note_pins_met(pool);
	return false;
}

void pool_pin_anyway(struct pool *pool) { share_pin(&pool->share, PERMIT_NO_LIMIT); }

/* Wakes borrowers that wait for a place: only if there was none. */
void pool_unpin(struct pool *pool)
{
	bool was_full = (int)share_pins(&pool->share) >= pool->limits.max_pinned;

	share_unpin(&pool->share);
	if (pool->wait_place_count)
		pool_wake(pool);
	if (was_full && !share_is_alone(&pool->share))
		share_wake_others(&pool->share);
}

/* ---- waiting for a place ---- */

bool pool_lacks_place(const struct borrower *borrower)
{
	const struct pool *pool = borrower->pool;

	return !borrower->has_place && pool->limits.max_pinned > 0 &&
	       (pool->wait_place_count || (int)share_pins(&pool->share) >= pool->limits.max_pinned);
}

bool pool_forgo_place(struct borrower *borrower)
{
	if (borrower->state != BORROWER_WAIT_PLACE)
		return false;
	borrower->wants_place = false;
	pool_wait_move(borrower, BORROWER_WAITING, false);
	pool_wake(borrower->pool);
	return true;
}

void pool_drop_place(struct borrower *borrower)
{
	borrower->wants_place = false;
	if (borrower->has_place)
		pool_unpin(borrower->pool);
	borrower->has_place = false;
}

void pool_give_places(struct pool *pool)
{
	struct borrower *borrower;
	unsigned int most;

	while ((borrower = TAILQ_FIRST(&pool->wait_place))) {
		most = pool->limits.max_pinned > 0 ? (unsigned int)pool->limits.max_pinned : 0;
		borrower->has_place = most && share_pin(&pool->share, most);
		/* with a limit of 0, the statement is refused when it runs */
		if (most && !borrower->has_place)
			return;
		pool_forgo_place(borrower);
	}
}
