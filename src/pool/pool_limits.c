/* SPDX-License-Identifier: ISC */
/*
 * The limits of a database and of a role on servers.
 *
 * If such a limit is reached, the longest unused idle server of another pool is evicted, in this
 * loop or else in another one. If there is none, the pool is blocked until a server of that
 * database or role is returned or closed.
 */
#include "pool_priv.h"

#include "pgweir/base/container_of.h"

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

/* The first blocked pool of a database or role waits in the name of this loop. */
static void block_pool(struct pool *pool, bool by_role)
{
	usec_t now = loop_now(pool_loop(pool));

	if (by_role && !pool->is_role_blocked) {
		pool->is_role_blocked = true;
		pool->role->server_limit_hits++;
		if (TAILQ_EMPTY(&pool->role->blocked))
			share_want(&pool->role->share, now, 1);
		TAILQ_INSERT_TAIL(&pool->role->blocked, pool, role_blocked);
	} else if (!by_role && !pool->is_database_blocked) {
		pool->is_database_blocked = true;
		pool->database->server_limit_hits++;
		if (TAILQ_EMPTY(&pool->database->blocked))
			share_want(&pool->database->share, now, 1);
		TAILQ_INSERT_TAIL(&pool->database->blocked, pool, database_blocked);
	}
}

static unsigned int most_of(int limit) { return limit > 0 ? (unsigned int)limit : PERMIT_NO_LIMIT; }

static struct permit_ask ask_for(struct pool *pool, unsigned int most)
{
	return (struct permit_ask){
		.pool = most ? &pool->share : NULL,
		.database = &pool->database->share,
		.role = &pool->role->share,
		.pool_most = most,
		.database_most = most_of(pool->database->server_limit),
		.role_most = most_of(pool->role->server_limit),
	};
}

/* An idle server of this loop is closed. Without one, the other loops are asked to close one. */
static bool make_space(struct pool *pool, bool by_role, enum eviction eviction)
{
	const struct pool *spared = eviction == EVICT_OTHERS ? pool : NULL;

	if (eviction != EVICT_NONE &&
	    evict_idle(by_role ? &pool->role->idle : &pool->database->idle, by_role, spared))
		return true;
	block_pool(pool, by_role);
	if (eviction != EVICT_NONE)
		share_ask_eviction(by_role ? &pool->role->share : &pool->database->share);
	return false;
}

bool pool_take_permit(struct pool *pool, unsigned int most, enum eviction eviction)
{
	struct permit_ask ask = ask_for(pool, most);
	enum permit permit;

	while ((permit = broker_take(&ask)) != PERMIT_GRANTED) {
		if (permit == PERMIT_POOL_FULL ||
		    !make_space(pool, permit == PERMIT_ROLE_FULL, eviction))
			return false;
	}
	return true;
}

void pool_take_permit_anyway(struct pool *pool, bool is_listening)
{
	struct permit_ask ask =
	    ask_for(pool, is_listening ? PERMIT_FOR_LISTENING : PERMIT_NO_LIMIT);

	ask.database_most = ask.role_most = PERMIT_NO_LIMIT;
	broker_take(&ask);
}

void pool_pack_permit(struct pool *pool, struct packed_permit *packed)
{
	struct permit_ask ask = ask_for(pool, PERMIT_NO_LIMIT);

	broker_pack_permit(&ask, packed);
}

void pool_give_permit(struct pool *pool, bool is_listening)
{
	struct permit_ask ask =
	    ask_for(pool, is_listening ? PERMIT_FOR_LISTENING : PERMIT_NO_LIMIT);

	broker_give(&ask);
}

void pool_leave_blocked(struct pool *pool)
{
	struct database *database = pool->database;
	struct role *role = pool->role;

	if (pool->is_database_blocked) {
		TAILQ_REMOVE(&database->blocked, pool, database_blocked);
		share_want(&database->share, loop_now(pool_loop(pool)),
		           !TAILQ_EMPTY(&database->blocked));
	}
	if (pool->is_role_blocked) {
		TAILQ_REMOVE(&role->blocked, pool, role_blocked);
		share_want(&role->share, loop_now(pool_loop(pool)), !TAILQ_EMPTY(&role->blocked));
	}
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

/* Another loop is blocked by this limit and has no idle server that it could close. */
static void evict_for_others(struct share *share, struct server_list *idle, bool by_role)
{
	while (!TAILQ_EMPTY(idle) && share_may_evict(share) && evict_idle(idle, by_role, NULL))
		continue;
}

void pool_database_woken(struct share *share)
{
	struct database *database = container_of(share, struct database, share);

	unblock_first(TAILQ_FIRST(&database->blocked));
	evict_for_others(share, &database->idle, false);
}

void pool_role_woken(struct share *share)
{
	struct role *role = container_of(share, struct role, share);

	unblock_first(TAILQ_FIRST(&role->blocked));
	evict_for_others(share, &role->idle, true);
}

void pool_unblock(struct pool *pool)
{
	share_wake_first(&pool->database->share);
	share_wake_first(&pool->role->share);
}

void pool_pass_on(struct pool *pool)
{
	if (!pool->is_unblocked)
		return;
	pool->is_unblocked = false;
	if (!pool->is_database_blocked)
		share_wake_first(&pool->database->share);
	if (!pool->is_role_blocked)
		share_wake_first(&pool->role->share);
}

bool pool_dedicated_goes_first(const struct pool *pool)
{
	const struct borrower *borrower = TAILQ_FIRST(&pool->wait_dedicated);

	return borrower && pool_is_full(pool) && !pool_is_unreachable(pool) && pool_may_login(pool);
}
