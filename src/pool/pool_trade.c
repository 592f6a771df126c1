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
#include "pgweir/pool/server_parcel.h"

#include "server/server_priv.h"

#define STAY USEC_PER_MS

/*
 * The head of another loop's queue comes before the own one if it has waited so much longer:
 * without any server there, so two loops with one server exchange it every FAIR; and with some, FAR
 * longer, and twice as long. Before that the numbers of servers are levelled, which mends the
 * cause.
 */
#define FAIR (2 * STAY)
#define FAR (20 * USEC_PER_MS)

/*
 * The load of a loop is its mean in this time. A loop that has not run for some milliseconds has
 * not read its clients' queries yet, so for a moment it seems to need fewer servers.
 */
#define LOAD_TIME (20 * USEC_PER_MS)
#define LOAD_UNIT 65536 /* one borrower; fine enough for changes within microseconds */

static usec_t now_in(const struct pool *pool) { return loop_now(pool_loop(pool)); }

static void on_stay_over(struct timer *timer) { pool_wake(container_of(timer, struct pool, stay)); }

static void look_again(struct pool *pool, usec_t since)
{
	if (!timer_is_set(&pool->stay))
		timer_set(&pool->stay, loop_timer_queue(pool_loop(pool), STAY, on_stay_over),
		          since);
}

/*
 * While clients wait in two loops for long, a look at the wants with each server that is returned
 * would take the lock of the broker each time, and mostly find nothing.
 */
static bool may_look(struct pool *pool)
{
	if (!share_is_asked(&pool->share) ||
	    (!share_has_new_want(&pool->share) && now_in(pool) - pool->looked_at < STAY))
		return false;
	pool->looked_at = now_in(pool);
	return true;
}

/* Since when a server could leave. */
static usec_t stays_since(const struct server *server, const struct share_fair *fair)
{
	return fair || server->arrived_at > server->used_at ? server->arrived_at : server->used_at;
}

/* The longest unused server of a state that may leave. NULL: there is none now. */
static struct server *spare_server(struct pool *pool, enum server_state state,
                                   const struct share_fair *fair)
{
	struct server *server;

	TAILQ_FOREACH_REVERSE(server, &pool->servers[state], server_list, node)
	{
		usec_t since = stays_since(server, fair);

		if (now_in(pool) - since < STAY) {
			look_again(pool, since);
			continue;
		}
		if (pool->limits.has_lag_limit && pool_standby_is_behind(server))
			continue;
		if (server_may_move(server))
			return server;
		look_again(pool, now_in(pool)); /* the rest of a message will come */
	}
	return NULL;
}

/* fair: clients wait here too. */
static bool move_one(struct pool *pool, const struct share_fair *fair)
{
	struct broker_member *to;
	struct server *server;

	if (!share_is_asked(&pool->share))
		return false;
	server = spare_server(pool, SERVER_IDLE, fair);
	if (!server)
		server = spare_server(pool, SERVER_USED, fair);
	to = server ? share_promise(&pool->share, fair) : NULL;
	if (!to)
		return false;
	if (server_move(server, to))
		return true;
	share_unpromise(&pool->share, to);
	return false;
}

static void tell_load(struct pool *pool)
{
	int64_t load = (int64_t)(pool->waiting_count + pool->served_count) * LOAD_UNIT;
	usec_t past = now_in(pool) - pool->load_at;

	if (past > LOAD_TIME)
		past = LOAD_TIME;
	pool->load += (load - pool->load) * past / LOAD_TIME;
	pool->load_at = now_in(pool);
	share_tell_load(&pool->share, (uint64_t)pool->load, pool_shared_count(pool));
}

void pool_trade_first(struct pool *pool)
{
	const struct borrower *head = TAILQ_FIRST(&pool->waiting);
	struct share_fair fair;

	if (!head || !may_look(pool))
		return;
	fair.before_any = head->waiting_since - FAIR;
	fair.before = 2 * head->waiting_since - now_in(pool) - FAR;
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
	           (pool->server_counts[SERVER_IDLE] || pool->server_counts[SERVER_USED])) {
		look_again(pool, pool->looked_at);
	}
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

	/* It takes the slot of an idle server; or it is woken when another login has ended. */
	if (pool_is_full(pool) || !pool_may_login(pool))
		count += pool->wait_dedicated_count;
	return count > coming && !pool_is_held(pool) ? count - coming : 0;
}

/* Whether the first that waits may soon get a server that works for this loop. */
static bool is_patient(struct pool *pool, const struct borrower *head)
{
	if (share_is_wanting(&pool->share) || pool->served_count == 0 ||
	    pool->wait_dedicated_count || now_in(pool) - head->waiting_since >= STAY)
		return false;
	look_again(pool, head->waiting_since);
	return true;
}

void pool_trade(struct pool *pool)
{
	const struct borrower *head = TAILQ_FIRST(&pool->waiting);

	if (share_is_alone(&pool->share))
		return;
	if (!head && !pool_is_held(pool))
		give_idle(pool);
	if (head && is_patient(pool, head))
		return;
	if (!head)
		head = TAILQ_FIRST(&pool->wait_dedicated);
	tell_load(pool);
	if (share_want(&pool->share, head ? head->waiting_since : 0, wanted(pool)))
		pool_wake(pool);
}
