/* SPDX-License-Identifier: ISC */
/*
 * Servers go to the loop whose clients have waited longest.
 *
 *   a pool without a permit for a server:  share_want()    --> wakes the pool in the other loops
 *   a pool with an idle server:            share_promise() --> server_pack() --> a letter
 *   the letter                             --> server_unpack() --> lent
 *
 * Hard here: a server must not wander. A move wakes two loops and costs them up to 100 us of CPU
 * time together, so it must be rare where transactions take less than that; and there a client gets
 * a server of its own loop nearly as soon. So a client waits for STAY before its loop posts a want,
 * and a server leaves when it has been idle for STAY. That bounds what the moves of a server cost
 * to a tenth of a loop, and to two STAY what a client may wait while a server is idle.
 *
 * While clients of its own loop wait, a server goes only to a loop that has fewer servers for its
 * clients. Always to serve the first of all loops would send every second server to another loop:
 * measured with 64 clients on 20 servers in two loops. With its part of the servers each loop
 * serves its queue as fast as the others.
 */
#include "pool_priv.h"

#include "pgweir/base/container_of.h"

#include "handover_priv.h"
#include "server/server_priv.h"

/* ---- from loop to loop ---- */

static void on_arrival(struct letter *letter)
{
	struct server_parcel *parcel = container_of(letter, struct server_parcel, letter);
	struct broker_member *to = parcel->to;
	struct pools *pools = container_of(to, struct pools, member);
	struct server *server;

	parcel->permit.of[OF_POOL]->broker->moving_count--;
	if (letter->is_late) {
		server_parcel_end(&parcel);
		return;
	}
	share_keep_promise(parcel->permit.of[OF_POOL], to);
	server = server_unpack(pools, &parcel);
	if (server) {
		server->place.arrived_at = loop_now(pools->shared.loop);
		pools->moved_in++;
	}
}

/* Packs and posts it to a loop that was promised one. false: nothing has changed. */
static bool server_move(struct server *server, struct broker_member *to)
{
	struct pools *pools = server->pool->pools;
	struct server_parcel *parcel = server_pack(server);

	if (!parcel)
		return false;
	pools->moved_out++;
	pools->with.broker->moving_count++;
	parcel->to = to;
	parcel->letter.open = on_arrival;
	loop_post(to->loop, &parcel->letter);
	return true;
}

/* ---- trade ---- */

#define STAY USEC_PER_MS

/*
 * The head of another loop's queue comes before the own one if it has waited so much longer:
 * without any server there, so two loops with one server exchange it every FAIR; and with some, FAR
 * longer, and twice as long. Before that the numbers of servers are levelled, which mends the
 * cause.
 */
#define FAIR (2 * STAY)
#define FAR (20 * USEC_PER_MS)

/* A mean: a loop that has not run for milliseconds has not read its queries, and seems idle. */
#define LOAD_TIME (20 * USEC_PER_MS)
#define LOAD_UNIT 65536 /* one borrower; fine enough for changes within microseconds */

/* While two loops wait for long, a look each time would take the lock and mostly find nothing. */
static bool may_look(struct pool *pool)
{
	if (!share_is_asked(&pool->share) ||
	    (!share_has_new_want(&pool->share) && pool_now(pool) - pool->trade.looked_at < STAY))
		return false;
	pool->trade.looked_at = pool_now(pool);
	return true;
}

/*
 * The longest unused server of a state that may leave, one with new values of sequences last: here
 * its owner may still ask for them. NULL: there is none now.
 */
static struct server *spare_server(struct pool *pool, enum server_state state,
                                   const struct share_fair *fair)
{
	struct server *server, *kept = NULL;

	TAILQ_FOREACH_REVERSE(server, &pool->servers[state], server_list, place.node)
	{
		usec_t since = server->place.arrived_at; /* since then or later it could leave */

		if (!fair && server->used_at > since)
			since = server->used_at;
		if (pool_now(pool) - since < STAY) {
			pool_wake_after(pool, since, STAY);
			continue;
		}
		if (pool->limits.has_lag_limit && pool_is_behind(server))
			continue;
		if (server_may_move(server)) {
			if (!pool_is_kept(server, NULL))
				return server;
			kept = kept ? kept : server;
			continue;
		}
		pool_wake_after(pool, pool_now(pool), STAY); /* the rest of a message will come */
		if (server->close_reason) {                  /* nobody would get it here, either */
			pool_close_server(server, server->close_reason);
			return NULL;
		}
	}
	return kept;
}

/* fair: clients wait here too. */
static bool move_one(struct pool *pool, const struct share_fair *fair)
{
	struct broker_member *to;
	struct server *server;

	if (!share_is_asked(&pool->share))
		return false;
	server = spare_server(pool, SERVER_IDLE, fair);
	if (!server && pool_may_check(pool))
		server = spare_server(pool, SERVER_USED, fair);
	to = server ? share_promise(&pool->share, fair) : NULL;
	if (!to)
		return false;
	if (server_move(server, to))
		return true;
	share_unpromise(&pool->share, to);
	pool_wake_after(pool, pool_now(pool), STAY);
	return false;
}

static void tell_load(struct pool *pool)
{
	int64_t load =
	    (int64_t)(pool->queues[BORROWER_WAITING].count + pool->served_count) * LOAD_UNIT;
	usec_t past = pool_now(pool) - pool->trade.load_at;

	if (past > LOAD_TIME)
		past = LOAD_TIME;
	pool->trade.load += (load - pool->trade.load) * past / LOAD_TIME;
	pool->trade.load_at = pool_now(pool);
	share_tell_load(&pool->share, (uint64_t)pool->trade.load, pool_shared_count(pool));
}

void pool_trade_first(struct pool *pool)
{
	const struct borrower *head = pool_first(pool, BORROWER_WAITING);
	struct share_fair fair;

	if (!head || !may_look(pool))
		return;
	fair.before_any = head->waiting_since - FAIR;
	fair.before = 2 * head->waiting_since - pool_now(pool) - FAR;
	do
		tell_load(pool);
	while (move_one(pool, &fair));
}

/* Nobody waits here. */
static void give_idle(struct pool *pool)
{
	if (may_look(pool)) {
		while (move_one(pool, NULL))
			continue;
	} else if (share_is_asked(&pool->share) &&
	           (pool->server_counts[SERVER_IDLE] || pool_may_check(pool))) {
		pool_wake_after(pool, pool->trade.looked_at, STAY);
	}
}

/* How many would be of use here. Logins do not count: what exists is there sooner. */
static unsigned int wanted(const struct pool *pool)
{
	unsigned int coming = pool->share.promised_count + pool->server_counts[SERVER_CHECKING] +
	                      pool->server_counts[SERVER_RESETTING];
	unsigned int count = pool->queues[BORROWER_WAITING].count;

	/* It takes the slot of an idle server; or it is woken when another login has ended. */
	if (pool_is_full(pool) || !pool_may_login(pool))
		count += pool->queues[BORROWER_WAIT_DEDICATED].count;
	return count > coming && !pool_is_held(pool) ? count - coming : 0;
}

/* Whether the first that waits may soon get a server that works for this loop. */
static bool is_patient(struct pool *pool, const struct borrower *head)
{
	if (pool->share.is_wanting || pool->served_count == 0 ||
	    pool->queues[BORROWER_WAIT_DEDICATED].count ||
	    pool_now(pool) - head->waiting_since >= STAY)
		return false;
	pool_wake_after(pool, head->waiting_since, STAY);
	return true;
}

void pool_trade(struct pool *pool)
{
	const struct borrower *head = pool_first(pool, BORROWER_WAITING);

	if (share_is_alone(&pool->share))
		return;
	if (!head && !pool_is_held(pool))
		give_idle(pool);
	if (head && is_patient(pool, head))
		return;
	if (!head)
		head = pool_first(pool, BORROWER_WAIT_DEDICATED);
	tell_load(pool);
	if (share_want(&pool->share, head ? head->waiting_since : 0, wanted(pool)))
		pool_wake(pool);
}
