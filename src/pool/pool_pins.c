/* SPDX-License-Identifier: ISC */
/*
 * Servers that stay with their clients because of session state: counted in all loops together.
 */
#include "pool_priv.h"

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

static bool has_waiting(const struct pool *pool)
{
	return pool->wait_place_count || pool->served_wait_place_count;
}

/* Wakes borrowers that wait for a place: only if there was none. */
void pool_unpin(struct pool *pool)
{
	bool was_full = (int)share_pins(&pool->share) >= pool->limits.max_pinned;

	share_unpin(&pool->share);
	if (has_waiting(pool))
		pool_wake(pool);
	if (was_full && !share_is_alone(&pool->share))
		share_wake_others(&pool->share);
}

void pool_note_relief(struct pool *pool) { pool->relieved_at = loop_now(pool_loop(pool)); }

/* ---- waiting for a place ---- */

bool pool_lacks_place(const struct borrower *borrower)
{
	const struct pool *pool = borrower->pool;

	return !borrower->has_place && pool->limits.max_pinned > 0 &&
	       (has_waiting(pool) || (int)share_pins(&pool->share) >= pool->limits.max_pinned);
}

/* Who has a place is served first, since others wait for that. */
static void move_to_front(struct borrower *borrower)
{
	struct borrower_list *line = &borrower->pool->waiting;
	struct borrower *before;

	TAILQ_REMOVE(line, borrower, wait_node);
	TAILQ_FOREACH (before, line, wait_node) {
		if (!before->has_place)
			break;
	}
	if (!before) {
		TAILQ_INSERT_TAIL(line, borrower, wait_node);
		return;
	}
	TAILQ_INSERT_BEFORE(before, borrower, wait_node);
	if (borrower->wait_number > before->wait_number)
		borrower->wait_number = before->wait_number;
}

bool pool_forgo_place(struct borrower *borrower)
{
	if (borrower->state != BORROWER_WAIT_PLACE)
		return false;
	borrower->wants_place = false;
	pool_wait_move(borrower, BORROWER_WAITING, false);
	if (borrower->has_place)
		move_to_front(borrower);
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

/*
 * Who waits for a place longest. With PAUSE, a borrower without a server would keep the place from
 * those whose transaction PAUSE waits for.
 */
static struct borrower *next_for_place(const struct pool *pool)
{
	struct borrower *served = TAILQ_FIRST(&pool->served_wait_place);
	struct borrower *other =
	    served && pool_is_held(pool) ? NULL : TAILQ_FIRST(&pool->wait_place);

	if (!served || !other)
		return served ? served : other;
	return served->wait_number < other->wait_number ? served : other;
}

void pool_give_places(struct pool *pool)
{
	struct borrower *borrower;
	unsigned int most;

	while ((borrower = next_for_place(pool))) {
		most = pool->limits.max_pinned > 0 ? (unsigned int)pool->limits.max_pinned : 0;
		borrower->has_place = most && share_pin(&pool->share, most);
		/* with a limit of 0, the statement is refused when it runs */
		if (most && !borrower->has_place)
			return;
		if (pool_forgo_place(borrower))
			continue;
		pool_leave_place(borrower);
		borrower->ops->on_place(borrower);
	}
}
