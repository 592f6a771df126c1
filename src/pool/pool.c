/* SPDX-License-Identifier: ISC */
/*
 * A pool as all its files see it: what it is like now, its pins, and that it has something to do.
 * What happens in its turn is in pool_serve.c, its borrowers are in pool_lend.c.
 */
#include "pgweir/pool/pool.h"

#include "pool_priv.h"
#include "server/server_priv.h"

bool pool_is_current(const struct pool *pool)
{
	const struct config_database *entry = pool->database->entry;

	return entry && (!entry->user || pool->purpose == POOL_FOR_LOOKUPS ||
	                 strcmp(entry->user, pool->role->name) == 0);
}

void pool_wake(struct pool *pool) { loop_defer(pool_loop(pool), &pool->serve_task); }

static void on_look(struct timer *timer) { pool_wake(container_of(timer, struct pool, look)); }

void pool_wake_after(struct pool *pool, usec_t since, usec_t limit)
{
	if (!timer_is_set(&pool->look) || since + limit < pool->look.due)
		timer_set(&pool->look, loop_timer_queue(pool_loop(pool), limit, on_look), since);
}

/* Of one pool: the first borrowers of its wait queues have waited longest. */
usec_t pool_longest_wait(const struct pool *pool, usec_t now)
{
	usec_t longest = 0;

	for (int state = 0; state <= BORROWER_SERVED; state++) {
		const struct borrower *first = pool_first(pool, (enum borrower_state)state);

		if (first && now - first->waiting_since > longest)
			longest = now - first->waiting_since;
	}
	return longest;
}

bool pool_is_behind(const struct server *server)
{
	struct roster_row row;

	return server_roster_row(server, &row) &&
	       roster_row_is_behind(&row, &server->pool->limits.lag_limit);
}

/*
 * ---- pins ----
 *
 * Servers that stay with their clients because of session state: counted in all loops together.
 */

/* A pool that may have none at all is as its administrator wants it. */
void pool_note_pins_met(struct pool *pool)
{
	const struct limit_event event = { .limit = "max_pinned_servers",
		                           .value = pool->limits.max_pinned,
		                           .counted = "the pinned servers",
		                           .database = pool->database->name,
		                           .user = pool->role->name };

	pool->pins_refused++;
	if (event.value > 0)
		limit_event_note(&pool->share.tally->pins_met, pool_now(pool), pool->log.log,
		                 &event);
}

bool pool_take_place(struct borrower *borrower)
{
	struct pool *pool = borrower->pool;

	if (!borrower->has_place)
		borrower->has_place = count_below(&pool->share.tally->pinned_count,
		                                  (unsigned int)pool->limits.max_pinned);
	if (!borrower->has_place)
		pool_note_pins_met(pool);
	return borrower->has_place;
}

void pool_take_place_anyway(struct borrower *borrower)
{
	if (!borrower->has_place)
		count_below(&borrower->pool->share.tally->pinned_count, PERMIT_NO_LIMIT);
	borrower->has_place = true;
}

/*
 * Wakes borrowers that wait for a place: only if there was none. One that has found none since then
 * looks again when it has begun to wait.
 */
void pool_drop_place(struct borrower *borrower)
{
	struct pool *pool = borrower->pool;
	bool was_full;

	borrower->wants_place = false;
	if (!borrower->has_place)
		return;
	borrower->has_place = false;
	was_full = (int)pool->share.tally->pinned_count-- >= pool->limits.max_pinned;
	if (pool_awaits_place(pool))
		pool_wake(pool);
	if (was_full && !share_is_alone(&pool->share))
		share_wake_others(&pool->share);
}

void pool_tell_pins(const struct pool *pool, struct buf *out)
{
	if (pool->share.tally->pinned_count)
		buf_printf(out, "; %u of %u servers stay with clients: SHOW PINNED",
		           pool->share.tally->pinned_count, share_servers(&pool->share));
}

void pool_note_relief(struct pool *pool) { pool->relieved_at = pool_now(pool); }

/*
 * ---- all pools ----
 *
 * Walks that survive removals.
 */

void pools_wake(struct pools *pools)
{
	TAILQ_EACH (pool, &pools->list, node)
		pool_wake(pool);
	share_wake_pools(&pools->member);
}

void pools_sweep_later(struct pools *pools) { loop_defer(pools->shared.loop, &pools->sweep_task); }

static void on_sweep_due(struct timer *timer)
{
	pools_sweep_later(container_of(timer, struct pools, sweep_timer));
}

/* A sweep looks at all of them, so there are few in the shorter of the two times. */
#define SWEEPS 8

void pools_sweep_in_time(struct pools *pools)
{
	usec_t pool = pools->config->pool_idle_timeout, limit = pools->config->autodb_idle_timeout;

	if (pool && (!limit || pool < limit))
		limit = pool;
	if (limit && !timer_is_set(&pools->sweep_timer))
		timer_begin(&pools->sweep_timer, pools->shared.loop, limit / SWEEPS + 1,
		            on_sweep_due);
}

void pools_walk_start(struct pools *pools, struct pools_walk *walk)
{
	walk->next_server = TAILQ_FIRST(&pools->servers);
	TAILQ_INSERT_TAIL(&pools->walks, walk, node);
}

void pools_walk_stop(struct pools *pools, struct pools_walk *walk)
{
	TAILQ_REMOVE(&pools->walks, walk, node);
}

/* ---- one of them ---- */

uint64_t pools_next_id(struct pools *pools) { return broker_next_id(pools->with.broker); }

struct database *pools_find_any_database(const struct pools *pools, const char *name)
{
	return TABLE_GET(hh, &pools->secret, pools->database_table, name, strlen(name));
}

struct database *pools_find_database(struct pools *pools, const char *name)
{
	struct database *database = pools_find_any_database(pools, name);

	return database && database->entry ? database : NULL;
}

struct role *pools_find_role(const struct pools *pools, const char *name)
{
	return TABLE_GET(hh, &pools->secret, pools->role_table, name, strlen(name));
}

_Static_assert(POOL_PURPOSES <= sizeof(struct role), "each purpose has an address in the role");

const void *pools_file_by(const struct role *role, enum pool_purpose purpose)
{
	return (const char *)role + purpose;
}

struct pool *pools_find_of(const struct database *database, const struct role *role,
                           enum pool_purpose purpose)
{
	const void *filed_by = pools_file_by(role, purpose);
	struct pool *pool;

	HASH_FIND_PTR(database->pool_table, &filed_by, pool);
	return pool;
}

struct pool *pools_find_exact_pool(const struct pools *pools, const char *database_name,
                                   const char *role_name, enum pool_purpose purpose)
{
	const struct database *database = pools_find_any_database(pools, database_name);
	const struct role *role = pools_find_role(pools, role_name);

	return database && role ? pools_find_of(database, role, purpose) : NULL;
}

struct pool *pools_find_pool(const struct pools *pools, const char *database, const char *role)
{
	return pools_find_exact_pool(pools, database, role, POOL_FOR_CLIENTS);
}

struct pool *pools_find_twin(const struct pool *pool, enum pool_purpose purpose)
{
	return pools_find_of(pool->database, pool->role, purpose);
}
