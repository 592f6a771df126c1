/* SPDX-License-Identifier: ISC */
/*
 * fail_fast: clients that do not wait for hosts that cannot be reached.
 *
 * Such a client is refused if no server of the pool exists and the last connection attempt failed
 * at all hosts. It still waits for PAUSE and SUSPEND, which are deliberate.
 *
 * Hard here: without waiting borrowers no pool connects, and the pool would not notice that the
 * host is up again. So a pool that has refused a client continues to try by itself, for PROBE_TIME
 * after the last such client. After that the pool's knowledge is outdated: the next client triggers
 * an attempt, and waits for its result.
 */
#include "pool_priv.h"

#define PROBE_TIME (3600 * USEC_PER_SEC)

static usec_t now_of(const struct pool *pool) { return loop_now(pool_loop(pool)); }

static bool is_probing(const struct pool *pool) { return now_of(pool) < pool->probes_until; }

/* ERR_FILES is a local problem that may end when the next descriptor is closed. */
static bool is_out(const struct pool *pool)
{
	return pool_is_unreachable(pool) && pool->failure.code != ERR_FILES &&
	       pool_live_count(pool) == 0 && !pool_is_held(pool);
}

/* All hosts are known not to fit, and only the roster can change that. */
static bool has_no_host(const struct pool *pool)
{
	return pool->site.target != TARGET_ANY && pool_due(pool) == INT64_MAX &&
	       pool_live_count(pool) == 0 && !pool_is_held(pool);
}

static void fill_err(const struct pool *pool, struct err *err)
{
	if (has_no_host(pool)) {
		err_set(err, ERR_UNREACHABLE, "no host is %s (fail_fast)",
		        config_target_name(pool->site.target));
		return;
	}
	err_set(err, ERR_UNREACHABLE, "PostgreSQL cannot be reached: %.200s (fail_fast)",
	        pool->failure.text);
}

void pool_keep_trying(struct pool *pool)
{
	pool->probes_until = now_of(pool) + PROBE_TIME;
	pool_wake(pool);
}

bool pool_turns_away(struct pool *pool, const struct borrower *borrower, struct err *err)
{
	if (!borrower->is_hasty)
		return false;
	if (has_no_host(pool)) {
		fill_err(pool, err);
		return true;
	}
	if (!is_out(pool) || pool->is_hopeful)
		return false;
	if (!is_probing(pool) && pool_login_count(pool) == 0 && !pool_is_backing_off(pool)) {
		pool->is_hopeful = true;
		return false;
	}
	pool_keep_trying(pool);
	fill_err(pool, err);
	return true;
}

static void turn_away(struct pool *pool, enum borrower_state state, const struct err *err)
{
	unsigned int *count;
	struct borrower *borrower = TAILQ_FIRST(pool_wait_queue(pool, state, &count)), *next;

	for (; borrower && pool->hasty_count; borrower = next) {
		next = TAILQ_NEXT(borrower, wait_node);
		if (!borrower->is_hasty)
			continue;
		pool_give_up(borrower);
		borrower->ops->on_refused(borrower, err);
	}
}

void pool_turn_hasty_away(struct pool *pool)
{
	struct err err;

	if (!has_no_host(pool) && (!is_out(pool) || pool->is_hopeful))
		return;
	pool->probes_until = now_of(pool) + PROBE_TIME;
	fill_err(pool, &err);
	turn_away(pool, BORROWER_WAIT_PLACE, &err);
	turn_away(pool, BORROWER_WAIT_OWN, &err);
	turn_away(pool, BORROWER_NEWCOMER, &err);
	turn_away(pool, BORROWER_WAITING, &err);
	turn_away(pool, BORROWER_WAIT_DEDICATED, &err);
}

bool pool_wants_probe(const struct pool *pool)
{
	return is_probing(pool) && pool->is_failing && pool_live_count(pool) == 0 &&
	       pool_login_count(pool) == 0 && pool_is_current(pool) && !pool->pools->is_leaving &&
	       !pool->pools->is_ending && !pool_is_full(pool);
}

void pool_hurry(struct borrower *borrower, bool is_hasty)
{
	struct pool *pool = borrower->pool;
	unsigned int *count;

	if (borrower->is_hasty == is_hasty)
		return;
	borrower->is_hasty = is_hasty;
	if (borrower->state == BORROWER_CONNECT_DEDICATED ||
	    !pool_wait_queue(pool, borrower->state, &count))
		return;
	pool->hasty_count += is_hasty ? 1 : -1u;
	pool_wake(pool);
}

void pool_unreachable_tell(const struct pool *pool, struct buf *out)
{
	usec_t now = loop_now(pool->pools->with.loop), due = pool_due(pool);

	buf_printf(out, "database \"%s\", host %s port %d: ", pool->database->name,
	           pool->site.hosts->text, pool->database->entry->port);
	if (due == INT64_MAX)
		buf_add_text(out, "waiting for another role of a host");
	else if (due > now)
		buf_printf(out, "next try in %lld s",
		           (long long)((due - now + USEC_PER_SEC - 1) / USEC_PER_SEC));
	else
		buf_add_text(out, "it is being tried again");
}
