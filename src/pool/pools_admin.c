/* SPDX-License-Identifier: ISC */
/*
 * The administrator's commands on pools: PAUSE, RESUME, RECONNECT, KILL.
 */
#include "pgweir/base/text.h"

#include "host_watches_priv.h"
#include "pool_priv.h"

/* Calls `act` for each pool of the database, or of all. */
static void each_pool(struct pools *pools, struct database *database,
                      void (*act)(struct pool *pool, enum close_reason reason),
                      enum close_reason reason)
{
	struct pool *pool;

	pools->changed_at = clock_now();
	TAILQ_FOREACH (pool, &pools->list, node) {
		if (!database || pool->database == database)
			act(pool, reason);
	}
}

static void wake_pool(struct pool *pool, enum close_reason reason)
{
	(void)reason;
	pool_wake(pool);
}

static void note_hold(const struct pools *pools, struct hold *hold, const char *by)
{
	hold->since = loop_now(pools->with.loop);
	text_copy(hold->by, sizeof(hold->by), by);
}

void pools_pause(struct pools *pools, struct database *database, const char *by)
{
	note_hold(pools, database ? &database->hold : &pools->hold, by);
	*(database ? &database->is_paused : &pools->is_paused) = true;
	each_pool(pools, database, pool_close_idle, CLOSE_PAUSED);
	host_watches_update(pools);
}

void pools_resume(struct pools *pools, struct database *database)
{
	*(database ? &database->is_paused : &pools->is_paused) = false;
	each_pool(pools, database, wake_pool, CLOSE_NONE);
	host_watches_update(pools);
	pools_changed(pools); /* a console that waits for the PAUSE must stop waiting */
}

void pools_reconnect(struct pools *pools, struct database *database)
{
	each_pool(pools, database, pool_recycle, CLOSE_RECONNECT);
}

static void kill_pool(struct pool *pool, enum close_reason reason)
{
	struct err err;

	err_close(&err, reason);
	pool_expel(pool, &err);
	pool_refuse(pool, &err);
	pool_close_all(pool, reason);
	pool_forget_welcome(pool);
	pools_keep_stats(pool);
}

void pools_hold(struct pools *pools, struct database *database, const char *by)
{
	database->is_paused = true;
	note_hold(pools, &database->hold, by);
}

void pools_kill(struct pools *pools, struct database *database, const char *by)
{
	const struct pool *pool;

	TAILQ_FOREACH (pool, &pools->list, node) {
		if (!database)
			pools_hold(pools, pool->database, by);
	}
	if (database)
		pools_hold(pools, database, by);
	each_pool(pools, database, kill_pool, CLOSE_DATABASE_REMOVED);
	host_watches_update(pools);
}

void pools_refuse_waiting(struct pools *pools, const struct err *err)
{
	struct pool *pool;

	pools->is_ending = true;
	TAILQ_FOREACH (pool, &pools->list, node) {
		pool_refuse(pool, err);
		pool_dedicated_refuse(pool, err);
	}
}
