/* SPDX-License-Identifier: ISC */
/*
 * A reload has given the database another forced user, or its first one. All members of a pool
 * without a server move to that user's pool. Members with a server move when they return the
 * server.
 */
#include "pgweir/pool/pools.h"

#include "pool_priv.h"

void pool_move_borrower(struct borrower *borrower, struct pool *to)
{
	enum borrower_state state = borrower->state;
	struct err err;
	bool is_good = true;

	pool_leave(borrower);
	pool_join(to, borrower);
	if (state == BORROWER_WAITING || state == BORROWER_WAIT_PLACE || state == BORROWER_WAIT_OWN)
		is_good = pool_ask(borrower, &err);
	else if (state == BORROWER_NEWCOMER && to->has_welcome)
		borrower->ops->on_welcome(borrower);
	else if (state == BORROWER_NEWCOMER)
		is_good = pool_await_welcome(borrower, &err);
	if (!is_good)
		borrower->ops->on_refused(borrower, &err);
}

/* Waiting borrowers keep their order. */
static void move_wait_queue(struct borrower_list *line, struct pool *to)
{
	struct borrower *borrower;

	while ((borrower = TAILQ_FIRST(line)))
		pool_move_borrower(borrower, to);
}

void pool_move_members(struct pool *pool)
{
	const struct config_database *entry = pool->database->entry;
	struct pool *to = entry ? pools_pool(pool->database, entry->user) : NULL;
	struct borrower *borrower, *next;

	if (!to)
		return; /* the database is being removed, or there is no memory: no change */
	move_wait_queue(&pool->wait_place, to);
	move_wait_queue(&pool->wait_own, to);
	move_wait_queue(&pool->waiting, to);
	move_wait_queue(&pool->newcomers, to);
	for (borrower = TAILQ_FIRST(&pool->members); borrower; borrower = next) {
		next = TAILQ_NEXT(borrower, node);
		if (borrower->state == BORROWER_RESTING)
			pool_move_borrower(borrower, to);
	}
	pool_arm_expiry(pool);
}
