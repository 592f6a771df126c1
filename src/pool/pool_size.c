/* SPDX-License-Identifier: ISC */
/*
 * pool_size: as it is set, or auto.
 *
 *   each quarter, all loops held:  pools_measure()  of each loop  -->  one sample of the pool
 *                                  pools_resize()   of the first  -->  sizing_look(): the size
 *                                                   of each loop  -->  limits.size
 *
 * In a trial two sizes take turns. In those of the smaller one the servers above it stay open, or
 * each turn would begin with logins: they are held back, in USED, each loop's part of them.
 *
 * Hard here: a pool has a part in each loop, and one size. So what decides about it belongs to the
 * tally, and is touched only by the main thread while the loops are held; but a pool that is made
 * meanwhile reads the size.
 */
#include "pool_priv.h"

#include <stdlib.h>

#include "server/server_priv.h"

struct pool_sizing {
	struct sizing sizing;
	struct sizing_sample sample;
	usec_t looked_at;
	/* in all loops: servers, those to be held back, and of both what loops have got so far */
	unsigned int servers, held_back, servers_so_far, held_so_far;
	bool is_unable; /* for a part of the time no client could get a server */
};

/* ---- settings ---- */

void pool_leave_sized(struct pool *pool)
{
	if (pool->is_sized)
		TAILQ_REMOVE(&pool->pools->sized, pool, sized);
	pool->is_sized = false;
}

static struct sizing_bounds bounds_of(const struct pool *pool)
{
	int least = pool->limits.min_size > 0 ? pool->limits.min_size : 1;
	int most =
	    config_max_pool_size(pool->pools->config, pool->database->entry, pool->role->entry);

	return (struct sizing_bounds){ (unsigned int)(least < most ? least : most),
		                       (unsigned int)most };
}

void pool_set_size(struct pool *pool, int size)
{
	if (size != pool->demand.size)
		pool->demand = (struct demand){
			.size = size,
			.used_before = pool_used_time(pool, pool_now(pool)),
			.lent_before = pool->stats.assignment_count,
		};
	pool->limits.size = size;
	pool->held_back = 0;
	if (size != CONFIG_AUTO) {
		pool_leave_sized(pool);
		return;
	}
	if (!pool->is_sized)
		TAILQ_INSERT_TAIL(&pool->pools->sized, pool, sized);
	pool->is_sized = true;
	pool->limits.sizes = bounds_of(pool);
	pool->limits.size = (int)sizing_within(&pool->limits.sizes, pool->share.tally->auto_size);
}

void pool_keep_size(struct pool *pool)
{
	unsigned int count = share_servers(&pool->share);

	if (!pool->is_sized || count <= pool->share.tally->auto_size)
		return;
	pool->share.tally->auto_size = count;
	pool->limits.size = (int)sizing_within(&pool->limits.sizes, count);
}

/* ---- servers above the size ---- */

unsigned int pool_missing(const struct pool *pool)
{
	unsigned int sure = pool_shared_login_count(pool) - pool->probe_count;
	unsigned int coming = sure + pool->share.promised_count +
	                      pool->server_counts[SERVER_CHECKING] +
	                      pool->server_counts[SERVER_RESETTING];
	unsigned int wanted = pool->queues[BORROWER_WAITING].count;

	/* One login, in any loop, gives the welcome to all. */
	if (pool->queues[BORROWER_NEWCOMER].count && !pool->has_welcome && wanted == 0)
		return pool->share.tally->login_count ? 0 : 1;
	return wanted > coming ? wanted - coming : 0;
}

bool pool_has_over(struct pool *pool)
{
	bool has_over = pool->limits.size > 0 &&
	                tally_staying(pool->share.tally) > pool_limits_most(&pool->limits);

	pool->is_over = has_over || pool->held_back;
	return has_over;
}

void pool_shrink(struct pool *pool)
{
	struct server *server;
	struct err err;

	err_close(&err, CLOSE_POOL_SHRUNK);
	while (pool_has_over(pool) &&
	       ((server = TAILQ_FIRST(&pool->servers[SERVER_USED])) ||
	        (server = TAILQ_LAST(&pool->servers[SERVER_IDLE], server_list))))
		server_close(server, &err);
}

/* Idle ones at once, others when they come home. */
static void hold_back(struct pool *pool, unsigned int count)
{
	struct server *server;

	pool->held_back = count;
	while (pool_holds_back(pool) &&
	       (server = TAILQ_LAST(&pool->servers[SERVER_IDLE], server_list)))
		server_enter(server, SERVER_USED);
}

/* ---- samples ---- */

static void measure(struct pool *pool, struct pool_sizing *all, usec_t now)
{
	struct pool_measured before = pool->measured;

	pool->measured = (struct pool_measured){
		.at = now,
		.used = pool_used_time(pool, now),
		.done = pool->stats.query_count,
	};
	all->is_unable |= pool_is_held(pool) || pool_is_failing(pool) || pool->pools->is_leaving;
	all->sample.waiting +=
	    pool->queues[BORROWER_WAITING].count + pool->queues[BORROWER_WAIT_DEDICATED].count;
	/* The counters begin anew when a take-over has begun. */
	if (!before.at || pool->measured.done < before.done)
		return;
	all->sample.busy += (usec_t)(pool->measured.used - before.used);
	all->sample.done += pool->measured.done - before.done;
}

bool pools_measure(struct pools *pools, usec_t now)
{
	TAILQ_EACH (pool, &pools->sized, sized) {
		struct pool_sizing **sizing = &pool->share.tally->sizing;

		if (!*sizing && (*sizing = calloc(1, sizeof(**sizing)))) {
			(*sizing)->sizing.size = (unsigned int)pool->limits.size;
			pool->share.tally->auto_size = (*sizing)->sizing.size;
		}
		if (*sizing)
			measure(pool, *sizing, now);
	}
	return !TAILQ_EMPTY(&pools->sized);
}

/* ---- the size ---- */

#define MS(time) ((double)(time) / USEC_PER_MS)

static void tell(const struct pool *pool, const struct sizing *sizing, enum sizing_reason reason,
                 unsigned int before)
{
	char why[160] = "min_pool_size and max_pool_size are its bounds";

	if (reason == SIZING_WAITING)
		snprintf(why, sizeof(why), "%u clients wait",
		         sizing_waiting(sizing->wanted_then, before));
	else if (reason == SIZING_NO_GAIN)
		snprintf(why, sizeof(why),
		         "they did hardly more: a statement took %.1f ms of a server, before "
		         "%.1f ms",
		         MS(sizing->trial.other_response), MS(sizing->trial.former_response));
	else if (reason == SIZING_SLOW)
		snprintf(why, sizeof(why),
		         "fewer may do as much: a statement takes %.1f ms of a server",
		         MS(sizing->trial.former_response));
	else if (reason == SIZING_LESS_DONE)
		snprintf(why, sizeof(why), "fewer have done less");
	log_kept(&pool->log, LOG_LEVEL_INFO, "pool size", "pool_size = auto: %u -> %u servers: %s",
	         before, sizing_aim(sizing), why);
}

/* What exists for the larger size of a trial stays, and is not lent. Nothing is opened for it. */
static void keep_for_trial(struct pool *pool, struct pool_sizing *all)
{
	unsigned int size = all->sizing.size, most = sizing_most(&all->sizing);
	unsigned int servers = tally_staying(pool->share.tally), open = servers;

	if (open > most)
		open = most;
	if (open < size)
		open = size;
	pool->share.tally->auto_size = open;
	all->servers = servers;
	all->held_back = open - size;
	all->servers_so_far = all->held_so_far = 0;
}

/* How many are held back in this loop, of those of all loops as many as it has of the servers. */
static unsigned int held_here(const struct pool *pool, struct pool_sizing *all)
{
	unsigned int before = all->held_so_far;

	all->servers_so_far += pool->server_count;
	if (all->servers_so_far > all->servers)
		all->servers_so_far = all->servers;
	if (all->held_back)
		all->held_so_far =
		    (unsigned int)((uint64_t)all->held_back * all->servers_so_far / all->servers);
	return all->held_so_far - before;
}

static void look(struct pool *pool, struct pool_sizing *all, usec_t now)
{
	struct sizing *sizing = &all->sizing;
	unsigned int before = sizing_aim(sizing);
	enum sizing_reason reason = SIZING_KEEPS;

	if (all->looked_at == now)
		return;
	all->sample.span = now - all->looked_at;
	all->sample.is_full = share_servers(&pool->share) >= sizing->size;
	if (all->is_unable || !all->looked_at) /* or it was made just now */
		sizing_forget(sizing);
	else
		reason = sizing_look(sizing, &pool->limits.sizes, &all->sample);
	if (reason != SIZING_KEEPS)
		tell(pool, sizing, reason, before);
	keep_for_trial(pool, all);
	all->sample = (struct sizing_sample){ 0 };
	all->is_unable = false;
	all->looked_at = now;
}

void pools_resize(struct pools *pools, usec_t now)
{
	unsigned int held;

	TAILQ_EACH (pool, &pools->sized, sized) {
		if (!pool->share.tally->sizing)
			continue;
		look(pool, pool->share.tally->sizing, now);
		held = held_here(pool, pool->share.tally->sizing);
		if (pool->limits.size == (int)pool->share.tally->auto_size &&
		    pool->held_back == held)
			continue;
		pool->limits.size = (int)pool->share.tally->auto_size;
		hold_back(pool, held);
		pool_shrink(pool);
		pool_wake(pool);
	}
}
