/* SPDX-License-Identifier: ISC */
/*
 * Unused pools: pool_idle_timeout.
 */
#include "pool_priv.h"

/* Clients of the pool that read on standbys need its credentials. */
static bool has_readers(const struct pool *pool)
{
	const struct pool *reads = NULL;

	if (pool->purpose == POOL_FOR_CLIENTS)
		reads = pools_find_twin(pool, POOL_FOR_READS);
	return reads && reads->member_count;
}

bool pool_is_empty(const struct pool *pool)
{
	return pool->member_count == 0 && pool->server_count == 0 && pool->listening_count == 0 &&
	       TAILQ_EMPTY(&pool->listenings) && TAILQ_EMPTY(&pool->servers[SERVER_CLOSING]) &&
	       pool->cancel_count == 0 && !has_readers(pool);
}

static struct timer_queue *pool_expiry_queue(const struct pool *pool)
{
	const struct config_database *entry = pool->database->entry;

	if (entry && entry->user && pool->limits.min_size)
		return NULL; /* min_pool_size keeps its servers without clients */
	return pool->pools->pool_expiry;
}

void pool_rearm(struct pool *pool)
{
	if (pool_is_empty(pool))
		timer_change(&pool->rest, pool_expiry_queue(pool));
}

static void arm(struct pool *pool)
{
	struct pools *pools = pool->pools;
	const struct config_database *entry = pool->database->entry;

	if (pools->is_closing || !pool_is_empty(pool))
		return;
	if (!entry && pool->database->client_count == 0 && pool->database->server_count == 0) {
		pools_sweep_later(pools); /* the entry was removed from the configuration */
		return;
	}
	if (entry && !pool_is_current(pool))
		pools_sweep_later(pools); /* the pool gets no more clients */
	timer_set(&pool->rest, pool_expiry_queue(pool), loop_now(pools->with.loop));
	database_arm_expiry(pool->database);
}

void pool_arm_expiry(struct pool *pool)
{
	struct pool *clients = NULL;

	if (pool->purpose == POOL_FOR_READS && !pool->member_count)
		clients = pools_find_twin(pool, POOL_FOR_CLIENTS);
	if (clients)
		arm(clients);
	arm(pool);
}
