/* SPDX-License-Identifier: ISC */
/*
 * All pools: databases and pools are made on demand.
 */
#include "pool_priv.h"

#include "pgweir/base/container_of.h"

struct database *pools_database(struct pools *pools, const char *name)
{
	struct database *database = pools_find_database(pools, name);
	const struct config_database *star = config_database_auto(pools->config);
	struct logger log = { pools->with.log, NULL };

	if (database || !star || strlen(name) > CONFIG_DATABASE_NAME_MAX)
		return database;
	TABLE_FIND_STR(hh, &pools->secret, pools->database_table, name, database);
	if (database)
		return NULL; /* its old clients and servers are still being closed */
	log_info(&log, "registered new auto-database: %s", name);
	database = database_add(pools, name, star, true);
	if (database)
		database_arm_expiry(database);
	return database;
}

static void tell_pool(const struct logger *logger, struct log_who *who)
{
	const struct pool *pool = container_of(logger, const struct pool, log);

	who->kind = "pool";
	who->database = pool->database->name;
	who->user = pool->role->name;
}

static const enum tally_kind tally_kinds[POOL_PURPOSES] = {
	[POOL_FOR_CLIENTS] = TALLY_POOL,
	[POOL_FOR_LOOKUPS] = TALLY_LOOKUP_POOL,
	[POOL_FOR_READS] = TALLY_READS_POOL,
};

static struct pool *add_pool(struct database *database, struct role *role,
                             enum pool_purpose purpose)
{
	struct pools *pools = database->pools;
	struct pool *pool = slab_take(&pools->pool_slab);

	if (!pool)
		return NULL;
	pool->pools = pools;
	pool->database = database;
	pool->role = role;
	pool->purpose = purpose;
	pool->share.on_woken = pool_share_woken;
	if (!share_open(&pool->share, &pools->member, tally_kinds[purpose], database->name,
	                role->name)) {
		slab_put(&pools->pool_slab, pool);
		return NULL;
	}
	pool->filed_by = pools_file_by(role, purpose);
	pool->log = (struct logger){ pools->with.log, tell_pool };
	pool->baseline = pool->greeting_for = params_none(pools->with.params);
	pool->tried.asked = pool->tried.told = params_none(pools->with.params);
	pool->serve_task.run = pools->serve;
	pool->site = (struct server_site){
		.shared = &pools->shared,
		.ops = pools->server_ops,
		.database = database->name,
		.user = role->name,
		.hosts = share_hosts(&pool->share),
		.client_bytes = &pool->stats.client_bytes,
		.server_bytes = &pool->stats.server_bytes,
		.all_client_bytes = &pools->client_bytes,
		.all_server_bytes = &pools->server_bytes,
		.sqlstates = purpose == POOL_FOR_LOOKUPS ? NULL : &pools->sqlstates,
		.closes = &database->server_closes,
	};
	for (int state = 0; state < SERVER_STATES; state++)
		TAILQ_INIT(&pool->servers[state]);
	TAILQ_INIT(&pool->members);
	TAILQ_INIT(&pool->waiting);
	TAILQ_INIT(&pool->wait_place);
	TAILQ_INIT(&pool->wait_own);
	TAILQ_INIT(&pool->served_wait_place);
	TAILQ_INIT(&pool->newcomers);
	TAILQ_INIT(&pool->wait_dedicated);
	TAILQ_INIT(&pool->connect_dedicated);
	TAILQ_INIT(&pool->listenings);
	TAILQ_INIT(&pool->cancels_waiting);
	TAILQ_INIT(&pool->cancels_active);
	HASH_ADD_PTR(database->pool_table, filed_by, pool);
	TAILQ_INSERT_TAIL(&pools->list, pool, node);
	database->pool_count++;
	role->pool_count++;
	pools->pool_count++;
	pool_configure(pool);
	pool_find_welcome(pool);
	pool_hear_news(pool);
	return pool;
}

struct pool *pools_exact_pool(struct database *database, const char *user,
                              enum pool_purpose purpose)
{
	struct role *role = role_of_name(database->pools, user);
	const void *filed_by = pools_file_by(role, purpose);
	struct pool *pool;

	if (!role)
		return NULL;
	HASH_FIND_PTR(database->pool_table, &filed_by, pool);
	return pool ? pool : add_pool(database, role, purpose);
}

struct pool *pools_pool(struct database *database, const char *user)
{
	return pools_exact_pool(database, database->entry->user ? database->entry->user : user,
	                        POOL_FOR_CLIENTS);
}

struct pool *pools_lookup_pool(struct database *database, const char *user)
{
	return pools_exact_pool(database, user, POOL_FOR_LOOKUPS);
}

struct pool *pools_twin(struct pool *pool, enum pool_purpose purpose)
{
	struct pool *twin = pools_find_twin(pool, purpose);

	return twin ? twin : add_pool(pool->database, pool->role, purpose);
}
