/* SPDX-License-Identifier: ISC */
/*
 * All pools: finds existing databases and pools.
 */
#include "pool_priv.h"

#include "pgweir/base/banned.h"

uint64_t pools_next_id(struct pools *pools) { return broker_next_id(pools->with.broker); }

struct database *pools_find_database(struct pools *pools, const char *name)
{
	struct database *database;

	TABLE_FIND_STR(hh, &pools->secret, pools->database_table, name, database);
	return database && database->entry ? database : NULL;
}

/* Two unique addresses: one user may have two pools on one database. */
const void *pools_file_by(const struct role *role, bool is_for_lookups)
{
	if (!role)
		return NULL;
	return is_for_lookups ? (const void *)&role->credentials : role;
}

struct pool *pools_find_pool(struct pools *pools, const char *database_name, const char *role_name)
{
	struct database *database;
	struct role *role;
	struct pool *pool = NULL;
	const void *filed_by;

	TABLE_FIND_STR(hh, &pools->secret, pools->database_table, database_name, database);
	TABLE_FIND_STR(hh, &pools->secret, pools->role_table, role_name, role);
	if (!database || !role)
		return NULL;
	filed_by = pools_file_by(role, false);
	HASH_FIND_PTR(database->pool_table, &filed_by, pool);
	return pool;
}

const struct pool *pools_lookup_sibling(const struct pool *pool)
{
	const void *filed_by = pools_file_by(pool->role, !pool->is_for_lookups);
	const struct pool *sibling;

	HASH_FIND_PTR(pool->database->pool_table, &filed_by, sibling);
	return sibling;
}
