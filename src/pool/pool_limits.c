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

/*
 * The longest unused server in `idle` that belongs to a pool without waiting borrowers, in any
 * loop. spared: not one of this pool; or NULL.
 */
static struct server *find_idle(struct server_list *idle, bool by_role, const struct pool *spared)
{
	struct server *server = TAILQ_FIRST(idle);

	/*
	 * Idle servers of a pool with waiting borrowers are about to be lent, or to move; such
	 * moments are rare.
	 */
	while (server && (server->pool == spared || server->pool->waiting_count ||
	                  share_is_asked(&server->pool->share)))
		server = by_role ? TAILQ_NEXT(server, place.role_node)
		                 : TAILQ_NEXT(server, place.database_node);
	return server;
}

static bool evict_idle(struct server_list *idle, bool by_role, const struct pool *spared)
{
	struct server *server = find_idle(idle, by_role, spared);

	if (!server)
		return false;
	server_close_for(server, by_role ? CLOSE_EVICTED_USER : CLOSE_EVICTED_DATABASE);
	return true;
}

/* The first blocked pool of a database or role waits in the name of this loop. */
static bool want_for_database(struct database *database)
{
	const struct pool *first = TAILQ_FIRST(&database->blocked);

	return share_want(&database->share, first ? first->blocked_since : 0, first != NULL);
}

static bool want_for_role(struct role *role)
{
	const struct pool *first = TAILQ_FIRST(&role->blocked);

	return share_want(&role->share, first ? first->blocked_since : 0, first != NULL);
}

/*
 * A pool that was unblocked, and found that another loop had been faster, has waited longer than
 * the other blocked pools.
 */
static void block_by_database(struct pool *pool)
{
	struct database *database = pool->database;
	const struct limit_event event = { .limit = "max_db_connections",
		                           .value = database->server_limit,
		                           .counted = "the servers",
		                           .database = database->name };

	pool->is_database_blocked = true;
	database->server_limit_hits += !pool->is_unblocked;
	if (pool->is_unblocked)
		TAILQ_INSERT_HEAD(&database->blocked, pool, database_blocked);
	else
		TAILQ_INSERT_TAIL(&database->blocked, pool, database_blocked);
	if (want_for_database(database))
		pool_wake(pool);
	limit_event_note(&database->share.tally->servers_met, loop_now(pool_loop(pool)),
	                 pool->log.log, &event);
}

static void block_by_role(struct pool *pool)
{
	struct role *role = pool->role;
	const struct limit_event event = { .limit = "max_user_connections",
		                           .value = role->server_limit,
		                           .counted = "the servers",
		                           .user = role->name };

	pool->is_role_blocked = true;
	role->server_limit_hits += !pool->is_unblocked;
	if (pool->is_unblocked)
		TAILQ_INSERT_HEAD(&role->blocked, pool, role_blocked);
	else
		TAILQ_INSERT_TAIL(&role->blocked, pool, role_blocked);
	if (want_for_role(role))
		pool_wake(pool);
	limit_event_note(&role->share.tally->servers_met, loop_now(pool_loop(pool)), pool->log.log,
	                 &event);
}

static void block_pool(struct pool *pool, bool by_role)
{
	*(by_role ? &pool->is_role_refused : &pool->is_database_refused) = true;
	if (!pool->is_unblocked && !pool->is_database_blocked && !pool->is_role_blocked)
		pool->blocked_since = loop_now(pool_loop(pool));
	if (by_role && !pool->is_role_blocked)
		block_by_role(pool);
	else if (!by_role && !pool->is_database_blocked)
		block_by_database(pool);
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

/*
 * An idle server of this loop is closed. Without one, the other loops are asked to close one:
 * pool_evict_elsewhere().
 */
static bool make_space(struct pool *pool, bool by_role, enum eviction eviction)
{
	const struct pool *spared = eviction == EVICT_OTHERS ? pool : NULL;

	if (eviction != EVICT_NONE &&
	    evict_idle(by_role ? &pool->role->idle : &pool->database->idle, by_role, spared))
		return true;
	block_pool(pool, by_role);
	pool->wants_eviction |= eviction != EVICT_NONE;
	return false;
}

void pool_evict_elsewhere(struct pool *pool)
{
	if (pool->wants_eviction && pool->is_database_blocked)
		share_ask_eviction(&pool->database->share);
	if (pool->wants_eviction && pool->is_role_blocked)
		share_ask_eviction(&pool->role->share);
	pool->wants_eviction = false;
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

static void leave_database(struct pool *pool)
{
	if (!pool->is_database_blocked)
		return;
	pool->is_database_blocked = false;
	TAILQ_REMOVE(&pool->database->blocked, pool, database_blocked);
	want_for_database(pool->database);
	share_end_eviction(&pool->database->share);
}

static void leave_role(struct pool *pool)
{
	if (!pool->is_role_blocked)
		return;
	pool->is_role_blocked = false;
	TAILQ_REMOVE(&pool->role->blocked, pool, role_blocked);
	want_for_role(pool->role);
	share_end_eviction(&pool->role->share);
}

void pool_leave_blocked(struct pool *pool)
{
	leave_database(pool);
	leave_role(pool);
}

/* It keeps its place, and what it wants, until it has tried: a new want would wake all loops. */
static void unblock_first(struct pool *first)
{
	if (!first)
		return;
	first->is_unblocked = true;
	first->is_database_refused = first->is_role_refused = false;
	pool_wake(first);
}

/*
 * Other loops are blocked by this limit and have no idle server that they could close. An idle
 * server that another loop wants is not closed: it is about to move.
 */
static void evict_for_others(struct share *share, struct server_list *idle, bool by_role)
{
	while (find_idle(idle, by_role, NULL) && share_may_evict(share))
		evict_idle(idle, by_role, NULL);
}

void pool_evict_for_others(struct pool *pool)
{
	evict_for_others(&pool->database->share, &pool->database->idle, false);
	evict_for_others(&pool->role->share, &pool->role->idle, true);
}

/*
 * A share is woken only once for several permits, and its pools may have left since. So without a
 * blocked pool it tells the next one.
 */
static void pass_on(struct share *share, int limit)
{
	if (share_servers(share) < most_of(limit))
		share_wake_first(share);
}

void pool_database_woken(struct share *share)
{
	struct database *database = container_of(share, struct database, share);

	pool_catalog_hear(database);
	vacancy_hear(database);
	unblock_first(TAILQ_FIRST(&database->blocked));
	evict_for_others(share, &database->idle, false);
	if (TAILQ_EMPTY(&database->blocked))
		pass_on(share, database->server_limit);
}

void pool_role_woken(struct share *share)
{
	struct role *role = container_of(share, struct role, share);

	unblock_first(TAILQ_FIRST(&role->blocked));
	evict_for_others(share, &role->idle, true);
	if (TAILQ_EMPTY(&role->blocked))
		pass_on(share, role->server_limit);
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
	if (!pool->is_database_refused) {
		leave_database(pool);
		share_wake_first(&pool->database->share);
	}
	if (!pool->is_role_refused) {
		leave_role(pool);
		share_wake_first(&pool->role->share);
	}
}

bool pool_dedicated_goes_first(const struct pool *pool)
{
	const struct borrower *borrower = TAILQ_FIRST(&pool->wait_dedicated);

	return borrower && pool_is_full(pool) && !pool_is_unreachable(pool) && pool_may_login(pool);
}
