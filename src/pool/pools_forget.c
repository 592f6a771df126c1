/* SPDX-License-Identifier: ISC */
/*
 * All pools: frees databases and pools that are unused, or that a reload has removed.
 */
#include <assert.h>

#include "pgweir/base/container_of.h"

#include "pool_priv.h"

void pools_keep_stats(struct pool *pool)
{
	stats_add(&pool->database->gone, &pool->stats);
	pool->database->gone_count++;
	latency_move(&pool->database->gone_latency, &pool->latency,
	             loop_now(pool->pools->with.loop));
	pool->database->has_gone = true;
	pool->stats = (struct stats){ 0 };
}

static void forget_pool(struct pool *pool)
{
	struct pools *pools = pool->pools;

	assert(pool->member_count == 0 && TAILQ_EMPTY(&pool->servers[SERVER_CLOSING]));
	assert(pool->server_count == 0 && pool->listening_count == 0);
	WALKS_SKIP(pools, next_pool, pool, node);
	pools_keep_stats(pool);
	pool_leave_blocked(pool);
	timer_clear(&pool->retry);
	timer_clear(&pool->role_retry);
	timer_clear(&pool->reserve);
	timer_clear(&pool->rest);
	timer_clear(&pool->stay);
	loop_undefer(pools->with.loop, &pool->serve_task);
	listening_forget_all(pool);
	params_release(pools->with.params, &pool->baseline);
	free(pool->sequence_scores);
	buf_free(&pool->welcome);
	sql_touchers_free(&pool->pin_functions);
	buf_free(&pool->read_functions);
	pool_forget_greeting(pool);
	credentials_done(&pool->credentials);
	credentials_done(&pool->learnt);
	share_close(&pool->share);
	HASH_DEL(pool->database->pool_table, pool);
	TAILQ_REMOVE(&pools->list, pool, node);
	pool->database->pool_count--;
	pools->pool_count--;
	pool->role->pool_count--;
	role_forget_unused(pools, pool->role);
	slab_put(&pools->pool_slab, pool);
}

void pools_pool_expired(struct timer *timer)
{
	struct pool *pool = container_of(timer, struct pool, rest);

	if (!pool_is_empty(pool))
		return;
	log_info(&pool->log, "cleaning up idle pool %s/%s", pool->database->name, pool->role->name);
	forget_pool(pool);
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

/* The pools must have neither members nor servers. */
void pools_forget_database(struct database *database)
{
	struct pools *pools = database->pools;
	struct pool *pool, *next;

	HASH_ITER (hh, database->pool_table, pool, next)
		forget_pool(pool);
	WALKS_SKIP(pools, next_database, database, node);
	stats_add(&pools->gone, &database->gone);
	latency_done(&database->gone_latency);
	sparse_sum_free(&database->client_closes);
	sparse_sum_free(&database->server_closes);
	database_forget_reads(database);
	timer_clear(&database->rest);
	catalog_reading_release(&database->reading);
	share_close(&database->share);
	HASH_DEL(pools->database_table, database);
	TAILQ_REMOVE(&pools->databases, database, node);
	pools->database_count--;
	slab_put(&pools->database_slab, database);
}

void pools_database_expired(struct timer *timer)
{
	struct database *database = container_of(timer, struct database, rest);

	if (!database->is_paused && !database->is_disabled && is_unused(database))
		pools_forget_database(database);
	else
		database_arm_expiry(database);
}

/* ---- after a reload ---- */

static void forget_left_pools(struct database *database)
{
	struct pool *pool, *next;

	HASH_ITER (hh, database->pool_table, pool, next) {
		if (!pool_is_current(pool) && pool_is_empty(pool))
			forget_pool(pool);
	}
}

void pools_sweep(struct task *task)
{
	struct pools *pools = container_of(task, struct pools, sweep_task);
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
