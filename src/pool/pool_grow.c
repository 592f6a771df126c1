/* SPDX-License-Identifier: ISC */
/*
 * How many servers a pool shall have: for those who wait, and min_pool_size.
 *
 * Each limit is one question, asked in the order of the contract. Where a limit
 * of the database or of the user stands in the way, the longest unused idle
 * server of another pool makes room; where there is none, the pool waits in a
 * line of its own until a server of that database or user comes home or closes.
 */
#include "pool_priv.h"
#include "server/server_priv.h"

#include "pgweir/base/banned.h"

static struct loop *loop_of(const struct pool *pool) { return pool->pools->with.loop; }

/* ---- after a failure ---- */

static void on_retry(struct timer *timer)
{
	pool_wake((struct pool *)((char *)timer - offsetof(struct pool, retry)));
}

bool pool_may_try(struct pool *pool)
{
	if (!pool->is_failing)
		return true;
	if (!pool_is_backing_off(pool))
		return pool_login_count(pool) == 0; /* one try, until one succeeds */
	timer_set(&pool->retry,
	          loop_timer_queue(loop_of(pool), pool->site.limits.retry_gap, on_retry),
	          pool_due(pool) - pool->site.limits.retry_gap);
	return false;
}

bool pool_may_login(const struct pool *pool) { return pool_login_count(pool) < POOL_LOGINS_MAX; }

/* ---- pool_size and the reserve ---- */

static void on_reserve(struct timer *timer)
{
	pool_wake((struct pool *)((char *)timer - offsetof(struct pool, reserve)));
}

static bool may_use_reserve(struct pool *pool)
{
	const struct pool_limits *limits = &pool->limits;
	struct borrower *head = TAILQ_FIRST(&pool->waiting);
	usec_t now = loop_now(loop_of(pool));

	if (limits->reserve_size <= 0 || limits->reserve_after <= 0 || !head)
		return false;
	if (pool->server_count >= pool_limits_most(limits))
		return false;
	if (now - head->waiting_since < limits->reserve_after) {
		timer_set(&pool->reserve,
		          loop_timer_queue(loop_of(pool), limits->reserve_after, on_reserve),
		          head->waiting_since);
		return false;
	}
	log_warning(&pool->log, "taking connection from reserve_pool");
	return true;
}

static bool has_space(struct pool *pool)
{
	if (!pool_is_full(pool))
		return true;
	/* Nobody could log in any more while all servers are busy and none says how to welcome. */
	if (!pool->has_welcome && pool->newcomer_count && pool_login_count(pool) == 0 &&
	    pool->server_count == (unsigned int)pool->limits.size)
		return true;
	return may_use_reserve(pool);
}

/* ---- limits of the database and of the user ---- */

/*
 * Closes the longest unused of these that belongs to a pool without a line. spared: not one
 * of this pool's; or NULL.
 */
static bool evict(struct server_list *idle, bool by_role, const struct pool *spared)
{
	struct server *server = TAILQ_FIRST(idle);
	struct err err;

	/* Idle servers of a pool with a line are about to be lent; there are few such moments. */
	while (server && (server->pool == spared || server->pool->waiting_count))
		server =
		    by_role ? TAILQ_NEXT(server, role_node) : TAILQ_NEXT(server, database_node);
	if (!server)
		return false;
	err_set(&err, ERR_SERVER_LOST,
	        by_role ? "evicted for max_user_connections" : "evicted for max_db_connections");
	server_close(server, &err);
	return true;
}

static bool fits(unsigned int count, int limit)
{
	return limit <= 0 || count < (unsigned int)limit;
}

static void block(struct pool *pool, bool by_role)
{
	if (by_role && !pool->is_role_blocked) {
		pool->is_role_blocked = true;
		pool->role->server_limit_hits++;
		TAILQ_INSERT_TAIL(&pool->role->blocked, pool, role_blocked);
	} else if (!by_role && !pool->is_database_blocked) {
		pool->is_database_blocked = true;
		pool->database->server_limit_hits++;
		TAILQ_INSERT_TAIL(&pool->database->blocked, pool, database_blocked);
	}
}

bool pool_passes_limits(struct pool *pool, enum eviction eviction)
{
	const struct pool *spared = eviction == EVICT_OTHERS ? pool : NULL;
	struct database *database = pool->database;
	struct role *role = pool->role;

	if (!fits(database->server_count, database->server_limit) &&
	    (eviction == EVICT_NONE || !evict(&database->idle, false, spared))) {
		block(pool, false);
		return false;
	}
	if (!fits(role->server_count, role->server_limit) &&
	    (eviction == EVICT_NONE || !evict(&role->idle, true, spared))) {
		block(pool, true);
		return false;
	}
	return true;
}

void pool_leave_blocked(struct pool *pool)
{
	if (pool->is_database_blocked)
		TAILQ_REMOVE(&pool->database->blocked, pool, database_blocked);
	if (pool->is_role_blocked)
		TAILQ_REMOVE(&pool->role->blocked, pool, role_blocked);
	pool->is_database_blocked = pool->is_role_blocked = false;
}

static void unblock(struct pool *first)
{
	if (!first)
		return;
	pool_leave_blocked(first);
	first->is_unblocked = true;
	pool_wake(first);
}

void pool_unblock(struct pool *pool)
{
	unblock(TAILQ_FIRST(&pool->database->blocked));
	unblock(TAILQ_FIRST(&pool->role->blocked));
}

void pool_pass_on(struct pool *pool)
{
	if (!pool->is_unblocked)
		return;
	pool->is_unblocked = false;
	if (!pool->is_database_blocked)
		unblock(TAILQ_FIRST(&pool->database->blocked));
	if (!pool->is_role_blocked)
		unblock(TAILQ_FIRST(&pool->role->blocked));
}

/* ---- growing ---- */

/* How many more servers those who wait could use. */
unsigned int pool_missing(const struct pool *pool)
{
	unsigned int sure = pool_shared_login_count(pool) - pool->probe_count;
	unsigned int coming =
	    sure + pool->server_counts[SERVER_CHECKING] + pool->server_counts[SERVER_RESETTING];
	unsigned int wanted = pool->waiting_count;

	if (pool->newcomer_count && !pool->has_welcome && wanted == 0)
		return sure ? 0 : 1;
	return wanted > coming ? wanted - coming : 0;
}

static bool wants_minimum(const struct pool *pool)
{
	const struct config_database *entry = pool->database->entry;
	int least = pool->limits.min_size;

	if (pool->limits.size > 0 && least > pool->limits.size)
		least = pool->limits.size;
	return pool->server_count < (unsigned int)least && pool_login_count(pool) == 0 &&
	       !pool->pools->is_leaving && pool_is_current(pool) &&
	       (pool->member_count || entry->user);
}

static bool launch(struct pool *pool)
{
	struct server *server = pool_add_server(pool);

	return server && server_launch(server);
}

void pool_grow(struct pool *pool)
{
	while (pool_missing(pool) && pool_login_count(pool) < POOL_LOGINS_MAX &&
	       pool_may_try(pool) && has_space(pool) && pool_passes_limits(pool, EVICT_OTHERS)) {
		pool_leave_blocked(pool);
		if (!launch(pool))
			return;
	}
	if (!pool_missing(pool) && (wants_minimum(pool) || pool_wants_probe(pool)) &&
	    pool_may_try(pool) && pool_passes_limits(pool, EVICT_NONE)) {
		pool->probes_left -= pool->probes_left > 0;
		launch(pool);
	}
}
