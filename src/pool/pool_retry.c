/* SPDX-License-Identifier: ISC */
/*
 * After failed logins: when a pool may try again, and whether waiting for that makes sense.
 */
#include "pool_priv.h"

#include "pgweir/base/container_of.h"

#include "pgweir/base/banned.h"

/* How long SHOW POOLS has a failed login: monitoring scrapes at least once a minute. */
#define FAILURE_SHOWN (60 * USEC_PER_SEC)

usec_t pool_due(const struct pool *pool)
{
	return hosts_due(&pool->site.hosts, pool->site.limits.retry_gap);
}

/* Whether logins failed at all hosts so recently that it is too early for another attempt. */
bool pool_is_backing_off(const struct pool *pool)
{
	return pool->is_failing && loop_now(pool_loop(pool)) < pool_due(pool);
}

bool pool_has_failed_lately(const struct pool *pool)
{
	return pool->failed_at && loop_now(pool_loop(pool)) < pool->failed_at + FAILURE_SHOWN;
}

void pool_reset_retry(struct pool *pool)
{
	pool->is_failing = pool->is_hopeful = false;
	pool->probes_left = 0;
	hosts_reset(&pool->site.hosts);
}

/* PostgreSQL is starting up or shutting down: worth waiting for. */
static bool pool_is_not_yet(const struct err *err) { return strcmp(err->sqlstate, "57P03") == 0; }

/* The failure is about reachability, not our credentials, so retrying may help. */
bool pool_is_worth_waiting(const struct err *err)
{
	return err->code == ERR_SERVER_CONNECT || err->code == ERR_FILES || pool_is_not_yet(err);
}

bool pool_is_unreachable(const struct pool *pool)
{
	return pool->is_failing && pool_is_worth_waiting(&pool->failure);
}

static void on_retry(struct timer *timer) { pool_wake(container_of(timer, struct pool, retry)); }

bool pool_may_try(struct pool *pool)
{
	if (!pool->is_failing)
		return true;
	if (!pool_is_backing_off(pool))
		return pool_login_count(pool) == 0; /* one attempt at a time until one succeeds */
	timer_set(&pool->retry,
	          loop_timer_queue(pool_loop(pool), pool->site.limits.retry_gap, on_retry),
	          pool_due(pool) - pool->site.limits.retry_gap);
	return false;
}

bool pool_may_login(const struct pool *pool) { return pool_login_count(pool) < POOL_LOGINS_MAX; }
