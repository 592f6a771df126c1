/* SPDX-License-Identifier: ISC */
/* Finds existing databases and pools, one or all of them. */
#include "pool_priv.h"

/* ---- walks that survive removals, and the notice that something has changed ---- */

void pools_wake_failing(struct pools *pools)
{
	struct pool *pool;

	TAILQ_FOREACH (pool, &pools->list, node) {
		if (pool->is_failing)
			pool_wake(pool);
	}
	share_wake_pools(&pools->member);
}

void pools_changed(struct pools *pools)
{
	watches_changed(pools->with.watches, pools->shared.loop);
}

void pools_sweep_later(struct pools *pools) { loop_defer(pools->shared.loop, &pools->sweep_task); }

void pools_walk_start(struct pools *pools, struct pools_walk *walk)
{
	walk->next_server = TAILQ_FIRST(&pools->servers);
	TAILQ_INSERT_TAIL(&pools->walks, walk, node);
}

void pools_walk_stop(struct pools *pools, struct pools_walk *walk)
{
	TAILQ_REMOVE(&pools->walks, walk, node);
}

/* ---- one of them ---- */

uint64_t pools_next_id(struct pools *pools) { return broker_next_id(pools->with.broker); }

struct database *pools_find_any_database(const struct pools *pools, const char *name)
{
	return TABLE_GET(hh, &pools->secret, pools->database_table, name, strlen(name));
}

struct database *pools_find_database(struct pools *pools, const char *name)
{
	struct database *database = pools_find_any_database(pools, name);

	return database && database->entry ? database : NULL;
}

struct role *pools_find_role(const struct pools *pools, const char *name)
{
	return TABLE_GET(hh, &pools->secret, pools->role_table, name, strlen(name));
}

_Static_assert(POOL_PURPOSES <= sizeof(struct role), "each purpose has an address in the role");

const void *pools_file_by(const struct role *role, enum pool_purpose purpose)
{
	return (const char *)role + purpose;
}

struct pool *pools_find_of(const struct database *database, const struct role *role,
                           enum pool_purpose purpose)
{
	const void *filed_by = pools_file_by(role, purpose);
	struct pool *pool;

	HASH_FIND_PTR(database->pool_table, &filed_by, pool);
	return pool;
}

struct pool *pools_find_exact_pool(const struct pools *pools, const char *database_name,
                                   const char *role_name, enum pool_purpose purpose)
{
	const struct database *database = pools_find_any_database(pools, database_name);
	const struct role *role = pools_find_role(pools, role_name);

	return database && role ? pools_find_of(database, role, purpose) : NULL;
}

struct pool *pools_find_pool(const struct pools *pools, const char *database, const char *role)
{
	return pools_find_exact_pool(pools, database, role, POOL_FOR_CLIENTS);
}

struct pool *pools_find_twin(const struct pool *pool, enum pool_purpose purpose)
{
	return pools_find_of(pool->database, pool->role, purpose);
}
