/* SPDX-License-Identifier: ISC */
/*
 * How many servers a pool needs: for waiting borrowers, and for min_pool_size.
 *
 * Each limit is one check: after a failure (pool_retry.c), pool_size and the reserve, then the
 * limits of the database and of the role (pool_limits.c).
 */
#include "pool_priv.h"
#include "pgweir/base/container_of.h"

#include "server/server_priv.h"

/* ---- pool_size and the reserve ---- */

static void on_reserve(struct timer *timer)
{
	pool_wake(container_of(timer, struct pool, reserve));
}

static bool may_use_reserve(struct pool *pool)
{
	const struct pool_limits *limits = &pool->limits;
	struct borrower *head = pool_first(pool, BORROWER_WAITING);
	usec_t now = loop_now(pool_loop(pool));

	if (limits->reserve_size <= 0 || limits->reserve_after <= 0 || !head)
		return false;
	if (share_servers(&pool->share) >= pool_limits_most(limits))
		return false;
	if (now - head->waiting_since < limits->reserve_after) {
		timer_set(&pool->reserve,
		          loop_timer_queue(pool_loop(pool), limits->reserve_after, on_reserve),
		          head->waiting_since);
		return false;
	}
	log_kept(&pool->log, LOG_LEVEL_WARNING, "reserve", "taking connection from reserve_pool");
	return true;
}

static unsigned int most_now(struct pool *pool)
{
	unsigned int size = pool_size_most(pool);

	if (!pool_is_full(pool))
		return size;
	/* No client could log in while all servers are busy and the pool has no welcome. */
	if (!pool->has_welcome && pool->queues[BORROWER_NEWCOMER].count &&
	    pool_login_count(pool) == 0 && share_logins(&pool->share) == 0)
		return size + 1;
	return may_use_reserve(pool) ? pool_limits_most(&pool->limits) : size;
}

static bool take_permit(struct pool *pool)
{
	unsigned int most = most_now(pool);

	if (share_servers(&pool->share) < most && pool_take_permit(pool, most, EVICT_OTHERS))
		return true;
	return pool_standby_make_space(pool) && share_servers(&pool->share) < most &&
	       pool_take_permit(pool, most, EVICT_OTHERS);
}

/* ---- growing ---- */

/* The pool has a permit. false: another loop was faster, or no memory. */
static bool launch_shared(struct pool *pool)
{
	struct server *server;

	if (!pool_begin_login(pool)) {
		pool_drop_permit(pool, false);
		return false;
	}
	server = pool_add_server(pool, false);
	if (!server) {
		share_end_login(&pool->share);
		share_wake_logins(&pool->share);
		return false;
	}
	server->place.is_login_counted = true;
	pool->counted_login_count++;
	return server_launch(server);
}

/* How many servers the pool has without waiting borrowers: min_pool_size, or 0. */
static unsigned int least_now(const struct pool *pool)
{
	const struct config_database *entry = pool->database->entry;
	int least = pool->limits.min_size;

	if (pool->limits.size > 0 && least > pool->limits.size)
		least = pool->limits.size;
	return !pool->pools->is_leaving && pool_is_current(pool) &&
	               (pool->member_count || entry->user)
	           ? (unsigned int)least
	           : 0;
}

/* The permit is asked for with this limit, as another loop may launch one, too. */
static void grow_to_minimum(struct pool *pool)
{
	unsigned int least = least_now(pool);

	if (share_servers(&pool->share) < least && pool_login_count(pool) == 0 &&
	    share_logins(&pool->share) == 0 && pool_may_try(pool) &&
	    pool_take_permit(pool, least, FOR_NOBODY))
		launch_shared(pool);
}

static void probe(struct pool *pool)
{
	if (!pool_may_try(pool) || !pool_take_permit(pool, pool_size_most(pool), EVICT_NONE))
		return;
	launch_shared(pool);
}

void pool_share_woken(struct share *share) { pool_wake(container_of(share, struct pool, share)); }

void pool_grow(struct pool *pool)
{
	while (pool_missing(pool) && pool_may_login(pool) && pool_may_try(pool) &&
	       take_permit(pool)) {
		if (!launch_shared(pool))
			return;
	}
	if (pool_missing(pool))
		return;
	if (pool_wants_probe(pool))
		probe(pool);
	else
		grow_to_minimum(pool);
}
