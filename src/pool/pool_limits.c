/* SPDX-License-Identifier: ISC */
/*
 * The limits of a database and of a role on servers.
 *
 * If such a limit is reached, the longest unused idle server of another pool is evicted. If there
 * is none, the pool is blocked until a server of that database or role is returned or closed.
 */
#include "pool_priv.h"
#include "server/server_priv.h"

#include "pgweir/base/banned.h"

/*
 * Closes the longest unused server in `idle` that belongs to a pool without waiting borrowers.
 * spared: not one of this pool; or NULL.
 */
static bool evict_idle(struct server_list *idle, bool by_role, const struct pool *spared)
{
	struct server *server = TAILQ_FIRST(idle);

	/*
	 * Idle servers of a pool with waiting borrowers are about to be lent; such moments are
	 * rare.
	 */
	while (server && (server->pool == spared || server->pool->waiting_count))
		server =
		    by_role ? TAILQ_NEXT(server, role_node) : TAILQ_NEXT(server, database_node);
	if (!server)
		return false;
	server_close_for(server, by_role ? CLOSE_EVICTED_USER : CLOSE_EVICTED_DATABASE);
	return true;
}

static bool is_below_limit(unsigned int count, int limit)
{
	return limit <= 0 || count < (unsigned int)limit;
}

static void block_pool(struct pool *pool, bool by_role)
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

	if (!is_below_limit(database->server_count, database->server_limit) &&
	    (eviction == EVICT_NONE || !evict_idle(&database->idle, false, spared))) {
		block_pool(pool, false);
		return false;
	}
	if (!is_below_limit(role->server_count, role->server_limit) &&
	    (eviction == EVICT_NONE || !evict_idle(&role->idle, true, spared))) {
		block_pool(pool, true);
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

static void unblock_first(struct pool *first)
{
	if (!first)
		return;
	pool_leave_blocked(first);
	first->is_unblocked = true;
	pool_wake(first);
}

void pool_unblock(struct pool *pool)
{
	unblock_first(TAILQ_FIRST(&pool->database->blocked));
	unblock_first(TAILQ_FIRST(&pool->role->blocked));
}

void pool_pass_on(struct pool *pool)
{
	if (!pool->is_unblocked)
		return;
	pool->is_unblocked = false;
	if (!pool->is_database_blocked)
		unblock_first(TAILQ_FIRST(&pool->database->blocked));
	if (!pool->is_role_blocked)
		unblock_first(TAILQ_FIRST(&pool->role->blocked));
}

bool pool_dedicated_goes_first(const struct pool *pool)
{
	const struct borrower *borrower = TAILQ_FIRST(&pool->wait_dedicated);

	return borrower && pool_is_full(pool) && !pool_is_unreachable(pool) && pool_may_login(pool);
}
