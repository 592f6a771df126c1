/* SPDX-License-Identifier: ISC */
/*
 * Servers go to the loop whose clients have waited longest.
 *
 *   a pool without a permit for a server:  share_want()    --> wakes the pool in the other loops
 *   a pool with an idle server:            share_promise() --> server_pack() --> a letter
 *   the letter                             --> server_unpack() --> lent
 *
 * Hard here: a server must not wander. Its loop keeps it for STAY after it has arrived, so one
 * client here and one there do not exchange a server with each transaction. And while clients of
 * its own loop wait, it goes only to a loop that has fewer servers for its clients. Always to serve
 * the first of all loops would send every second server to another loop: measured with 64 clients
 * on 20 servers in two loops. With its part of the servers each loop serves its queue as fast as
 * the others.
 */
#include "pool_priv.h"

#include "pgweir/base/container_of.h"
#include "pgweir/pool/server_parcel.h"

#include "server/server_priv.h"

#include "pgweir/base/banned.h"

#define STAY USEC_PER_MS

/*
 * The head of another loop's queue comes before the own one if it has waited so much longer:
 * without any server there; and with some, FAR longer, and twice as long.
 */
#define FAIR (2 * USEC_PER_MS)
#define FAR (20 * USEC_PER_MS)

static void on_stay_over(struct timer *timer) { pool_wake(container_of(timer, struct pool, stay)); }

static void look_again(struct pool *pool, usec_t since)
{
	if (!timer_is_set(&pool->stay))
		timer_set(&pool->stay, loop_timer_queue(pool_loop(pool), STAY, on_stay_over),
		          since);
}

/* The longest unused server of a state that may leave. NULL: there is none now. */
static struct server *spare_server(struct pool *pool, enum server_state state)
{
	usec_t now = loop_now(pool_loop(pool));
	struct server *server;

	TAILQ_FOREACH_REVERSE(server, &pool->servers[state], server_list, node)
	{
		if (now - server->arrived_at < STAY) {
			look_again(pool, server->arrived_at);
			continue;
		}
		if (server_may_move(server))
			return server;
		look_again(pool, now); /* part of a message has come, and the rest will come */
	}
	return NULL;
}

static bool move_one(struct pool *pool, const struct share_fair *fair)
{
	struct broker_member *to;
	struct server *server;

	if (!share_is_asked(&pool->share))
		return false;
	server = spare_server(pool, SERVER_IDLE);
	if (!server)
		server = spare_server(pool, SERVER_USED);
	to = server ? share_promise(&pool->share, fair) : NULL;
	if (!to)
		return false;
	if (server_move(server, to))
		return true;
	share_unpromise(&pool->share, to);
	return false;
}

static unsigned int demand(const struct pool *pool)
{
	return pool->waiting_count + pool->served_count;
}

void pool_trade_first(struct pool *pool)
{
	const struct borrower *head = TAILQ_FIRST(&pool->waiting);

	struct share_fair fair;

	if (!head || !share_is_asked(&pool->share))
		return;
	fair.before_any = head->waiting_since - FAIR;
	fair.before = 2 * head->waiting_since - loop_now(pool_loop(pool)) - FAR;
	do
		share_tell_load(&pool->share, demand(pool), pool_shared_count(pool));
	while (move_one(pool, &fair));
}

/*
 * How many servers of other loops would be of use here. Logins in progress do not count: a server
 * that exists already is there sooner, and a login may fail.
 */
static unsigned int wanted(const struct pool *pool)
{
	unsigned int coming = share_promised(&pool->share) + pool->server_counts[SERVER_CHECKING] +
	                      pool->server_counts[SERVER_RESETTING];
	unsigned int count = pool->waiting_count;

	if (pool_is_full(pool))
		count += pool->wait_dedicated_count; /* it takes the slot of an idle server */
	return count > coming && !pool_is_held(pool) ? count - coming : 0;
}

void pool_trade(struct pool *pool)
{
	const struct borrower *head = TAILQ_FIRST(&pool->waiting);

	if (!head && !pool_is_held(pool)) {
		while (move_one(pool, NULL))
			continue;
	}
	if (!head)
		head = TAILQ_FIRST(&pool->wait_dedicated);
	share_tell_load(&pool->share, demand(pool), pool_shared_count(pool));
	share_want(&pool->share, head ? head->waiting_since : 0, wanted(pool));
}
