/* SPDX-License-Identifier: ISC */
/*
 * All pools: finds existing databases and pools.
 */
#include "pool_priv.h"

#include "pgweir/base/banned.h"

uint64_t pools_next_id(struct pools *pools) { return broker_next_id(pools->with.broker); }

struct database *pools_find_any_database(const struct pools *pools, const char *name)
{
	struct database *database;

	TABLE_FIND_STR(hh, &pools->secret, pools->database_table, name, database);
	return database;
}

struct database *pools_find_database(struct pools *pools, const char *name)
{
	struct database *database = pools_find_any_database(pools, name);

	return database && database->entry ? database : NULL;
}

struct role *pools_find_role(const struct pools *pools, const char *name)
{
	struct role *role;

	TABLE_FIND_STR(hh, &pools->secret, pools->role_table, name, role);
	return role;
}

/* Two unique addresses: one user may have two pools on one database. */
const void *pools_file_by(const struct role *role, bool is_for_lookups)
{
	if (!role)
		return NULL;
	return is_for_lookups ? (const void *)&role->credentials : role;
}

struct pool *pools_find_exact_pool(const struct pools *pools, const char *database_name,
                                   const char *role_name, bool is_for_lookups)
{
	const struct database *database = pools_find_any_database(pools, database_name);
	const struct role *role = pools_find_role(pools, role_name);
	const void *filed_by = pools_file_by(role, is_for_lookups);
	struct pool *pool = NULL;

	if (database && role)
		HASH_FIND_PTR(database->pool_table, &filed_by, pool);
	return pool;
}

struct pool *pools_find_pool(const struct pools *pools, const char *database, const char *role)
{
	return pools_find_exact_pool(pools, database, role, false);
}

struct pool *pools_find_lookup_pool(const struct pools *pools, const char *database,
                                    const char *role)
{
	return pools_find_exact_pool(pools, database, role, true);
}

const struct pool *pools_lookup_sibling(const struct pool *pool)
{
	const void *filed_by = pools_file_by(pool->role, !pool->is_for_lookups);
	const struct pool *sibling;

	HASH_FIND_PTR(pool->database->pool_table, &filed_by, sibling);
	return sibling;
}
