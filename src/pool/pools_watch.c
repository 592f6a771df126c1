/* SPDX-License-Identifier: ISC */
/*
 * All pools: watches, walks that survive removals, and the work at the end of a turn.
 */
#include "pool_priv.h"

#include "pgweir/base/container_of.h"

#include "pgweir/base/banned.h"

void pools_changed(struct pools *pools)
{
	if (!TAILQ_EMPTY(&pools->watches))
		loop_defer(pools->with.loop, &pools->watch_task);
}

void pools_ask_watches(struct task *task)
{
	struct pools *pools = container_of(task, struct pools, watch_task);
	struct pools_watch *watch = TAILQ_FIRST(&pools->watches);

	while (watch) {
		struct pools_watch *next = TAILQ_NEXT(watch, node);

		if (watch->is_done(watch)) {
			TAILQ_REMOVE(&pools->watches, watch, node);
			watch->on_done(watch);
		}
		watch = next;
	}
}

void pools_watch_start(struct pools *pools, struct pools_watch *watch)
{
	TAILQ_INSERT_TAIL(&pools->watches, watch, node);
	pools_changed(pools);
}

void pools_watch_stop(struct pools *pools, struct pools_watch *watch)
{
	TAILQ_REMOVE(&pools->watches, watch, node);
}

void pools_sweep_later(struct pools *pools) { loop_defer(pools->with.loop, &pools->sweep_task); }

/* ---- walks ---- */

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
