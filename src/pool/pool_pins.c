/* SPDX-License-Identifier: ISC */
/*
 * Servers that stay with their clients because of session state: counted in all loops together.
 */
#include "pool_priv.h"

#include "pgweir/base/banned.h"

/* A pool that may have none at all is as its administrator wants it. */
static void note_refusal(struct pool *pool)
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
	note_refusal(pool);
	return false;
}

void pool_pin_anyway(struct pool *pool) { share_pin(&pool->share, PERMIT_NO_LIMIT); }

void pool_unpin(struct pool *pool) { share_unpin(&pool->share); }
