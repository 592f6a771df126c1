/* SPDX-License-Identifier: ISC */
/* Databases and pools are added when they are asked for, and freed when nothing uses them. */
#include <assert.h>

#include "pool_priv.h"

/* ---- freeing: what is unused, or was removed by a reload ---- */

void pools_keep_stats(struct pool *pool)
{
	stats_add(&pool->database->gone, &pool->stats);
	pool->database->has_gone = true;
	pool->pools->gone_count++;
	latency_move(&pool->database->gone_latency, &pool->latency, pool_now(pool));
	pool->stats = (struct stats){ 0 };
}

static void forget_pool(struct pool *pool)
{
	struct pools *pools = pool->pools;

	assert(pool->member_count == 0 && TAILQ_EMPTY(&pool->servers[SERVER_CLOSING]));
	assert(pool->server_count == 0 && pool->listening_count == 0);
	pools_keep_stats(pool);
	pool->block.is_refused = false;
	pool_pass_on(pool); /* it claims nothing, and holds no host */
	pool_leave_sized(pool);
	timer_clear(&pool->look);
	loop_undefer(pools->shared.loop, &pool->serve_task);
	listening_forget_all(pool);
	params_release(pools->shared.params, &pool->baseline);
	free(pool->sequence_scores);
	buf_free(&pool->welcome);
	sql_touchers_free(&pool->pin_functions);
	buf_free(&pool->read_functions);
	pool_forget_greeting(pool);
	credentials_release(&pool->credentials);
	credentials_release(&pool->learnt);
	fair_free(&pool->fair);
	share_close(&pool->share);
	HASH_DEL(pool->database->pool_table, pool);
	TAILQ_REMOVE(&pools->list, pool, node);
	pool->role->pool_count--;
	role_forget_unused(pools, pool->role);
	slab_put(&pools->pool_slab, pool);
}

/* Whether the database has no clients, no servers, and only empty pools. */
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

void pools_forget_database(struct database *database)
{
	struct pools *pools = database->pools;
	struct pool *pool, *next;

	HASH_ITER (hh, database->pool_table, pool, next)
		forget_pool(pool);
	stats_add(&pools->gone, &database->gone);
	latency_done(&database->gone_latency);
	sparse_sum_free(&database->client_closes);
	sparse_sum_free(&database->server_closes);
	database_forget_reads(database);
	catalog_reading_release(&database->reading);
	share_close(&database->catalog);
	share_close(&database->cap.share);
	HASH_DEL(pools->database_table, database);
	TAILQ_REMOVE(&pools->databases, database, node);
	slab_put(&pools->database_slab, database);
}

/* When the pool is to be freed. 0: it is not current; INT64_MAX: not a matter of time. */
static usec_t pool_ends_at(const struct pool *pool)
{
	const struct config_database *entry = pool->database->entry;
	usec_t limit = pool->pools->config->pool_idle_timeout;

	if (!entry || !pool_is_empty(pool))
		return INT64_MAX;
	if (!pool_is_current(pool))
		return 0;
	/* min_pool_size keeps its servers without clients */
	return limit && !(entry->user && pool->limits.min_size) ? pool->unused_since + limit
	                                                        : INT64_MAX;
}

/* The same for a database, which goes with its pools. */
static usec_t database_ends_at(const struct database *database, usec_t now)
{
	usec_t limit = database->pools->config->autodb_idle_timeout;

	if ((database->entry && (!database->is_auto || !limit)) || !is_unused(database))
		return INT64_MAX;
	if (!database->entry)
		return 0;
	return (database->is_paused || database->is_disabled ? now : database->unused_since) +
	       limit;
}

void pools_sweep(struct task *task)
{
	struct pools *pools = container_of(task, struct pools, sweep_task);
	usec_t now = loop_now(pools->shared.loop), end;
	struct database *database, *next_database;
	struct pool *pool, *next;
	bool is_due = false;

	timer_clear(&pools->sweep_timer);
	TAILQ_FOREACH_SAFE (pool, &pools->list, node, next) {
		end = pool_ends_at(pool);
		is_due |= end > now && end < INT64_MAX;
		if (end > now)
			continue;
		if (end)
			log_info(&pool->log, "cleaning up idle pool %s/%s", pool->database->name,
			         pool->role->name);
		forget_pool(pool);
	}
	TAILQ_FOREACH_SAFE (database, &pools->databases, node, next_database) {
		end = database_ends_at(database, now);
		is_due |= end > now && end < INT64_MAX;
		if (end <= now)
			pools_forget_database(database);
	}
	if (is_due)
		pools_sweep_in_time(pools);
}

/* ---- adding ---- */

struct database *pools_database(struct pools *pools, const char *name)
{
	struct database *database = pools_find_database(pools, name);
	const struct config_database *star = config_database_auto(pools->config);
	struct logger log = { pools->shared.log, NULL };

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

static void on_woken(struct share *share) { pool_wake(container_of(share, struct pool, share)); }

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
	pool->unused_since = pool_now(pool);
	pool->share.on_woken = on_woken;
	if (!share_open(&pool->share, &pools->member, TALLY_POOL + purpose, database->name,
	                role->name)) {
		slab_put(&pools->pool_slab, pool);
		return NULL;
	}
	pool->block.claim.pool = &pool->share;
	pool->block.claim.of[OF_POOL] = pool->share.tally;
	pool->block.claim.of[OF_DATABASE] = database->cap.share.tally;
	pool->block.claim.of[OF_ROLE] = role->cap.share.tally;
	pool->filed_by = pools_file_by(role, purpose);
	pool->log = (struct logger){ pools->shared.log, tell_pool };
	pool->baseline = pool->greeting_for = params_none(pools->shared.params);
	pool->tried.asked = pool->tried.told = params_none(pools->shared.params);
	pool->serve_task.run = pools->serve;
	pool->site = (struct server_site){
		.shared = &pools->shared,
		.ops = pools->server_ops,
		.database = database->name,
		.user = role->name,
		.hosts = &pool->share.tally->hosts,
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
	for (int state = 0; state <= BORROWER_SERVED; state++)
		TAILQ_INIT(&pool->queues[state].list);
	TAILQ_INIT(&pool->listenings);
	cancel_queue_init(&pool->cancels, pools);
	HASH_ADD_PTR(database->pool_table, filed_by, pool);
	TAILQ_INSERT_TAIL(&pools->list, pool, node);
	role->pool_count++;
	pool_configure(pool);
	pool_find_welcome(pool);
	pool_hear_news(pool);
	return pool;
}

struct pool *pools_exact_pool(struct database *database, const char *user,
                              enum pool_purpose purpose)
{
	struct role *role = role_of_name(database->pools, user);
	struct pool *pool = role ? pools_find_of(database, role, purpose) : NULL;

	return pool || !role ? pool : add_pool(database, role, purpose);
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
