/* SPDX-License-Identifier: ISC */
/*
 * All pools: walks that survive removals, and the notice that something has changed.
 */
#include "pool_priv.h"

void pools_changed(struct pools *pools) { watches_changed(pools->with.watches, pools->with.loop); }

void pools_wake_failing(struct pools *pools)
{
	struct pool *pool;

	TAILQ_FOREACH (pool, &pools->list, node) {
		if (pool->is_failing)
			pool_wake(pool);
	}
	share_wake_pools(&pools->member);
}

void pools_sweep_later(struct pools *pools) { loop_defer(pools->with.loop, &pools->sweep_task); }

void pools_walk_start(struct pools *pools, struct pools_walk *walk)
{
	walk->next_pool = TAILQ_FIRST(&pools->list);
	walk->next_database = TAILQ_FIRST(&pools->databases);
	walk->next_server = TAILQ_FIRST(&pools->servers);
	TAILQ_INSERT_TAIL(&pools->walks, walk, node);
}

void pools_walk_stop(struct pools *pools, struct pools_walk *walk)
{
	TAILQ_REMOVE(&pools->walks, walk, node);
}
