/* SPDX-License-Identifier: ISC */
/*
 * Databases: found by name, made by the `*` entry, forgotten when nobody uses them
 * or when a reload took their entry away.
 */
#include "pgweir/pool/pools.h"

#include "pgweir/base/text.h"

#include "outage_priv.h"
#include "pool_priv.h"

#include "pgweir/base/banned.h"

/* Nobody is in it, and nothing of it is on its way. */
static bool is_unused(const struct database *database)
{
	struct pool *pool, *next;

	if (database->client_count || database->server_count)
		return false;
	HASH_ITER (hh, database->pool_table, pool, next) {
		if (!pool_is_empty(pool))
			return false;
	}
	return true;
}

static struct timer_queue *expiry_of(const struct database *database)
{
	const struct pools *pools = database->pools;

	if (!database->is_auto || database->client_count || database->server_count)
		return NULL;
	return pools->database_expiry;
}

void database_arm_expiry(struct database *database)
{
	struct timer_queue *line = expiry_of(database);

	if (line)
		timer_set(&database->rest, line, loop_now(database->pools->with.loop));
}

void database_rearm(struct database *database)
{
	timer_change(&database->rest, expiry_of(database));
}

void database_count_client(struct database *database, int change)
{
	database->client_count += (unsigned int)change;
	if (change > 0)
		timer_clear(&database->rest);
	else
		database_arm_expiry(database);
}

struct database *database_add(struct pools *pools, const char *name,
                              const struct config_database *entry, bool is_auto)
{
	struct database *database = slab_take(&pools->database_slab);

	if (!database)
		return NULL;
	text_copy(database->name, sizeof(database->name), name);
	database->pools = pools;
	database->entry = entry;
	database->is_auto = is_auto;
	database->server_limit = config_max_db_connections(pools->config, entry);
	TAILQ_INIT(&database->blocked);
	TAILQ_INIT(&database->idle);
	TABLE_ADD_STR(hh, &pools->secret, pools->database_table, database->name, database);
	TAILQ_INSERT_TAIL(&pools->databases, database, node);
	pools->database_count++;
	return database;
}

/* Its pools must have neither members nor servers. */
void pools_forget_database(struct database *database)
{
	struct pools *pools = database->pools;
	struct pool *pool, *next;

	HASH_ITER (hh, database->pool_table, pool, next)
		pools_forget_pool(pool);
	WALKS_SKIP(pools, next_database, database, node);
	stats_add(&pools->gone, &database->gone);
	timer_clear(&database->rest);
	outages_done(&database->outages);
	HASH_DEL(pools->database_table, database);
	TAILQ_REMOVE(&pools->databases, database, node);
	pools->database_count--;
	slab_put(&pools->database_slab, database);
}

void pools_database_expired(struct timer *timer)
{
	struct database *database =
	    (struct database *)((char *)timer - offsetof(struct database, rest));

	if (!database->is_paused && !database->is_disabled && is_unused(database))
		pools_forget_database(database);
	else
		database_arm_expiry(database);
}

struct database *pools_find_database(struct pools *pools, const char *name)
{
	struct database *database;

	TABLE_FIND_STR(hh, &pools->secret, pools->database_table, name, database);
	return database && database->entry ? database : NULL;
}

struct database *pools_database(struct pools *pools, const char *name)
{
	struct database *database = pools_find_database(pools, name);
	const struct config_database *star = config_database_auto(pools->config);
	struct logger log = { pools->with.log, NULL };

	if (database || !star || strlen(name) > CONFIG_DATABASE_NAME_MAX)
		return database;
	TABLE_FIND_STR(hh, &pools->secret, pools->database_table, name, database);
	if (database)
		return NULL; /* its old clients and servers are still leaving */
	log_info(&log, "registered new auto-database: %s", name);
	database = database_add(pools, name, star, true);
	if (database)
		database_arm_expiry(database);
	return database;
}

/* ---- databases and pools that went with a reload ---- */

static void forget_left_pools(struct database *database)
{
	struct pool *pool, *next;

	HASH_ITER (hh, database->pool_table, pool, next) {
		if (!pool_is_current(pool) && pool_is_empty(pool))
			pools_forget_pool(pool);
	}
}

void pools_sweep(struct task *task)
{
	struct pools *pools = (struct pools *)((char *)task - offsetof(struct pools, sweep_task));
	struct database *database = TAILQ_FIRST(&pools->databases);

	while (database) {
		struct database *next = TAILQ_NEXT(database, node);

		if (database->entry)
			forget_left_pools(database);
		else if (is_unused(database))
			pools_forget_database(database);
		database = next;
	}
}

void pools_sweep_later(struct pools *pools) { loop_defer(pools->with.loop, &pools->sweep_task); }
