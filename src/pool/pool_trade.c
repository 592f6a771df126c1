/* SPDX-License-Identifier: ISC */
/*
 * Servers go to the loop whose clients have waited longest.
 *
 *   a pool without a permit for a server:  share_want()    --> wakes the pool in the other loops
 *   a pool with an idle server:            share_promise() --> server_pack() --> a letter
 *   the letter                             --> server_unpack() --> lent
 *
 * Hard here: a server must not wander. Its loop keeps it for STAY after it has arrived, so one
 * client here and one there do not exchange a server with each transaction. And the clients of its
 * own loop come first, unless those of another loop have waited FAIR longer.
 */
#include "pool_priv.h"

#include "pgweir/base/container_of.h"
#include "pgweir/pool/server_parcel.h"

#include "server/server_priv.h"

#include "pgweir/base/banned.h"

#define STAY USEC_PER_MS
#define FAIR (2 * USEC_PER_MS)

static void on_stay_over(struct timer *timer) { pool_wake(container_of(timer, struct pool, stay)); }

/* An idle server that may leave. NULL: there is none now. */
static struct server *spare_server(struct pool *pool)
{
	struct loop *loop = pool_loop(pool);
	struct server *server;

	TAILQ_FOREACH_REVERSE(server, &pool->servers[SERVER_IDLE], server_list, node)
	{
		if (!server_may_move(server))
			continue;
		if (loop_now(loop) - server->arrived_at >= STAY)
			return server;
		if (!timer_is_set(&pool->stay))
			timer_set(&pool->stay, loop_timer_queue(loop, STAY, on_stay_over),
			          server->arrived_at);
	}
	return NULL;
}

static bool move_one(struct pool *pool, usec_t before)
{
	struct server *server = share_is_asked(&pool->share) ? spare_server(pool) : NULL;
	struct broker_member *to = server ? share_promise(&pool->share, before) : NULL;

	if (!to)
		return false;
	if (server_move(server, to))
		return true;
	share_unpromise(&pool->share, to);
	return false;
}

void pool_trade_first(struct pool *pool)
{
	const struct borrower *head = TAILQ_FIRST(&pool->waiting);

	while (head && move_one(pool, head->waiting_since - FAIR))
		continue;
}

/* How many servers of other loops would be of use here. */
static unsigned int wanted(const struct pool *pool)
{
	unsigned int missing = pool_missing(pool);

	if (pool_is_held(pool) || share_servers(&pool->share) <= pool->server_count)
		return 0;
	return pool_is_full(pool) ? missing + pool->wait_dedicated_count : missing;
}

void pool_trade(struct pool *pool)
{
	const struct borrower *head = TAILQ_FIRST(&pool->waiting);
	unsigned int count = wanted(pool);

	if (!head)
		head = TAILQ_FIRST(&pool->wait_dedicated);
	if (TAILQ_EMPTY(&pool->waiting) && !pool_is_held(pool)) {
		while (move_one(pool, INT64_MAX))
			continue;
	}
	share_want(&pool->share, head ? head->waiting_since : loop_now(pool_loop(pool)), count);
}
