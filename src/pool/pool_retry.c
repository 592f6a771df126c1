/* SPDX-License-Identifier: ISC */
/*
 * A pool and its hosts: which of them fit; and after failed logins, when it may try again, and
 * whether waiting for that makes sense.
 */
#include "pool_priv.h"

#include "server/server_priv.h"

/* How long SHOW POOLS has a failed login: monitoring scrapes at least once a minute. */
#define FAILURE_SHOWN (60 * USEC_PER_SEC)

/*
 * ---- the roles of hosts ----
 *
 *   a login, a server, a watch --> roster --> the pools are woken --> pool_hear_roster()
 *
 * An idle server whose host does not fit any more is closed, and so is one whose borrower would not
 * notice that. A lent one ends with its transaction; but if its host is fenced or disabled, it is
 * closed at once. One that waits for a host that does not answer is left to the limits of its
 * query: the host may answer yet, and while there is no other primary nothing would be won.
 */

void pool_note_report(struct server *server, const struct host_report *report)
{
	struct pool *pool = server->pool;
	struct roster_at at = server_roster_at(server);
	struct roster_changes changes = { 0 };

	roster_note(server->site->roster, &at, report, pool_now(pool), &changes);
	cluster_changed(pool->share.tally->cluster, &changes, pool->pools->shared.log);
}

/* ---- servers whose host does not fit any more ---- */

enum close_reason pool_host_reason(const struct server *server)
{
	const struct server_site *site = server->site;
	struct roster_at at = server_roster_at(server);

	return site->roster ? roster_stay(site->roster, &at, site->target) : CLOSE_NONE;
}

bool pool_host_answers(const struct server *server)
{
	enum close_reason reason = pool_host_reason(server);

	return reason != CLOSE_HOST_FENCED && reason != CLOSE_HOST_LOST;
}

static void leave(struct server *server, enum close_reason reason)
{
	/* in session mode the session would be lost */
	bool is_unnoticed =
	    pool_rules_at(server)->mode != POOL_MODE_SESSION && server_can_go_unnoticed(server);
	struct err err;

	if (server->state == SERVER_ENDING) {
		server_keep_not(server);
		if (server->state == SERVER_ENDING && !pool_host_answers(server))
			server_forget(server);
		return;
	}
	if (server->state <= SERVER_USED || is_unnoticed || reason == CLOSE_HOST_FENCED ||
	    reason == CLOSE_HOST_DISABLED) {
		err_close(&err, reason);
		/* what has not arrived yet may arrive when the host can be reached again */
		if (server->lease.borrower && server_has_no_effect(server))
			server_close_unrun(server, &err);
		else
			server_close(server, &err);
		return;
	}
	server_need_close(server, reason);
	if (reason == CLOSE_HOST_LOST)
		return; /* it answers nothing that a replacement would wait for */
	if (server->is_listening && server->state == SERVER_LENT)
		listening_replace(server);
	else if (server_is_dedicated(server))
		server_close_for(server, reason);
}

void pool_hear_roster(struct pool *pool)
{
	unsigned int number = pool->site.roster ? roster_number(pool->site.roster) : 0;

	if (pool->roster_number == number)
		return;
	pool->roster_number = number;
	pool_forget_host(pool);
	for (int state = 0; state < SERVER_CLOSING; state++) {
		struct server *server, *next;

		TAILQ_FOREACH_SAFE (server, &pool->servers[state], place.node, next) {
			enum close_reason reason = pool_host_reason(server);

			if (reason != CLOSE_NONE)
				leave(server, reason);
		}
	}
}

/* ---- is there a host? ---- */

usec_t pool_due(const struct pool *pool) { return hosts_due(pool->site.hosts, NULL); }

bool pool_has_host(const struct pool *pool) { return pool_due(pool) == 0; }

bool pool_is_unfit(const struct err *err)
{
	switch (err->reason) {
	case CLOSE_HOST_ROLE:
	case CLOSE_HOST_LOST:
	case CLOSE_HOST_DRAINED:
	case CLOSE_HOST_DISABLED:
	case CLOSE_HOST_FENCED:
		return true;
	default:
		return false;
	}
}

/* ---- failed logins ---- */

/* Whether logins failed at all hosts so recently that it is too early for another attempt. */
bool pool_is_backing_off(const struct pool *pool)
{
	return pool_now(pool) < pool_due(pool) && pool_is_failing(pool);
}

bool pool_has_failed_lately(const struct pool *pool)
{
	return pool->failed_at && pool_now(pool) < pool->failed_at + FAILURE_SHOWN;
}

bool pool_is_refused(const struct pool *pool, struct err *err)
{
	return pool_now(pool) < pool_due(pool) && hosts_are_failing(pool->site.hosts, err) &&
	       !pool_is_worth_waiting(err);
}

void pool_hear_failure(struct pool *pool)
{
	unsigned int count = pool->site.hosts->failure_count;
	struct err err;

	if (count == pool->failure_count)
		return;
	pool->failure_count = count;
	pool->is_hopeful = false;
	if (!pool_is_failing(pool))
		return;
	pool->failed_at = pool_now(pool);
	if (pool->purpose == POOL_FOR_READS)
		return; /* pool_reads_serve(): the primary serves them */
	/* While another host may be tried, waiting borrowers get no error. */
	if ((pool_live_count(pool) == 0 || !pool->has_welcome) && pool_is_refused(pool, &err))
		pool_refuse(pool, BORROWER_WAITING, &err);
}

void pool_reset_retry(struct pool *pool)
{
	bool was_failing = pool_is_failing(pool);

	pool->is_hopeful = false;
	pool->probes_until = 0;
	hosts_reset(pool->site.hosts);
	if (was_failing)
		share_wake_others(&pool->share);
}

bool pool_is_worth_waiting(const struct err *err)
{
	/* Starting up, shutting down, or crashed. During a login, the last two are not about it. */
	return err->code == ERR_SERVER_CONNECT || err->code == ERR_FILES ||
	       strcmp(err->sqlstate, "57P03") == 0 || strcmp(err->sqlstate, "57P01") == 0 ||
	       strcmp(err->sqlstate, "57P02") == 0;
}

bool pool_is_unreachable(const struct pool *pool)
{
	struct err err;

	return hosts_are_failing(pool->site.hosts, &err) && pool_is_worth_waiting(&err);
}

bool pool_seek_host(struct pool *pool)
{
	usec_t due = pool_due(pool);

	if (due == INT64_MAX)
		return false; /* the roster will change */
	if (due <= pool_now(pool) || pool_is_failing(pool))
		return true;
	pool_wake_after(pool, due - ROSTER_GAP, ROSTER_GAP);
	return false;
}

bool pool_may_try(struct pool *pool)
{
	usec_t gap;

	if (!pool_seek_host(pool))
		return false;
	if (!pool_is_failing(pool))
		return true;
	if (!pool_is_backing_off(pool))
		/* one attempt at a time until one succeeds */
		return pool_login_count(pool) == 0 && pool->share.tally->login_count == 0;
	/* Each gap has its own queue, in which timers are set in order. */
	gap = pool->site.limits.retry_gap;
	if (pool_is_unreachable(pool)) { /* another pool may have found that out */
		pool->failed_at = pool_now(pool);
		gap = REACH_GAP_MAX;
	}
	pool_wake_after(pool, pool_due(pool) - gap, gap);
	return false;
}

void pool_uncount_login(struct server *server)
{
	struct pool *pool = server->pool;

	if (!server->place.is_login_counted)
		return;
	server->place.is_login_counted = false;
	pool->counted_login_count--;
	pool->share.tally->login_count--;
}

void pool_end_login(struct server *server)
{
	pool_uncount_login(server);
	share_wake_logins(&server->pool->share);
}

bool pool_may_login(const struct pool *pool)
{
	return pool_login_count(pool) < POOL_LOGINS_MAX &&
	       pool->share.tally->login_count < POOL_LOGINS_MAX;
}

/*
 * ---- haste ----
 *
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

#define PROBE_TIME (3600 * USEC_PER_SEC)

static bool is_probing(const struct pool *pool) { return pool_now(pool) < pool->probes_until; }

static bool can_wait(const struct pool *pool)
{
	return pool_live_count(pool) > 0 || pool_is_held(pool);
}

/* ERR_FILES is a local problem that may end when the next descriptor is closed. */
static bool is_out(const struct pool *pool, struct err *err)
{
	struct err failure;

	if (can_wait(pool) || !hosts_are_failing(pool->site.hosts, &failure) ||
	    !pool_is_worth_waiting(&failure) || failure.code == ERR_FILES)
		return false;
	err_set(err, ERR_UNREACHABLE, "PostgreSQL cannot be reached: %.200s (fail_fast)",
	        failure.text);
	return true;
}

/* All hosts are known not to fit, and only the roster can change that. */
static bool has_no_host(const struct pool *pool, struct err *err)
{
	if (pool->site.target == TARGET_ANY || can_wait(pool) || pool_due(pool) < INT64_MAX)
		return false;
	err_set(err, ERR_UNREACHABLE, "no host is %s (fail_fast)",
	        config_targets[pool->site.target]);
	return true;
}

void pool_keep_trying(struct pool *pool)
{
	pool->probes_until = pool_now(pool) + PROBE_TIME;
	pool_wake(pool);
}

bool pool_turns_away(struct pool *pool, const struct borrower *borrower, struct err *err)
{
	if (!borrower->is_hasty)
		return false;
	if (has_no_host(pool, err))
		return true;
	if (!is_out(pool, err) || pool->is_hopeful)
		return false;
	if (!is_probing(pool) && pool_login_count(pool) == 0 && !pool_is_backing_off(pool)) {
		pool->is_hopeful = true;
		return false;
	}
	pool_keep_trying(pool);
	return true;
}

void pool_turn_hasty_away(struct pool *pool)
{
	struct borrower *borrower, *next;
	struct err err;

	if (!has_no_host(pool, &err) && (!is_out(pool, &err) || pool->is_hopeful))
		return;
	pool->probes_until = pool_now(pool) + PROBE_TIME;
	/* one whose dedicated server is being launched waits for the result */
	for (int state = BORROWER_NEWCOMER; state <= BORROWER_WAIT_DEDICATED; state++) {
		TAILQ_FOREACH_SAFE (borrower, &pool->queues[state].list, wait_node, next) {
			if (!borrower->is_hasty)
				continue;
			pool_give_up(borrower);
			borrower->ops->on_refused(borrower, &err);
		}
	}
}

bool pool_wants_probe(const struct pool *pool)
{
	return is_probing(pool) && pool_is_failing(pool) && pool_live_count(pool) == 0 &&
	       pool_login_count(pool) == 0 && pool_is_current(pool) && !pool->pools->is_leaving &&
	       !pool->pools->is_ending && !pool_is_full(pool);
}

void pool_hurry(struct borrower *borrower, bool is_hasty)
{
	struct pool *pool = borrower->pool;

	if (borrower->is_hasty == is_hasty)
		return;
	borrower->is_hasty = is_hasty;
	if (!borrower_waits(borrower) && !borrower->awaits_place)
		return;
	pool->hasty_count += is_hasty ? 1 : -1u;
	pool_wake(pool);
}

void pool_unreachable_tell(const struct pool *pool, struct buf *out)
{
	usec_t now = pool_now(pool), due = pool_due(pool);

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
