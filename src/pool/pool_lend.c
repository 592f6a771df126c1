/* SPDX-License-Identifier: ISC */
/*
 * A pool and its borrowers: they join, ask, are lent a server, return it, and leave.
 *
 *   pool_take --> a server at once
 *   pool_ask  --> the wait queue --> end of turn: an idle server, or a new one
 *
 * Hard here: no borrower is served within a callback of another one. A returned server wakes the
 * pool, and pool_serve() serves the wait queue at the end of the turn.
 */
#include "pgweir/pool/pool.h"

#include <assert.h>

#include "pgweir/base/probes.h"

#include "server/server_priv.h"
#include "pool_priv.h"

/* ---- membership ---- */

void pool_join(struct pool *pool, struct borrower *borrower)
{
	borrower->pool = pool;
	borrower->state = BORROWER_RESTING;
	TAILQ_INSERT_TAIL(&pool->members, borrower, node);
	pool->member_count++;
	pool->share.tally->client_count++;
	if (pool->limits.min_size)
		pool_wake(pool);
}

/* The borrower parts from its server, whatever that is fit for. */
static void part(struct server *server, struct borrower *borrower)
{
	struct pool *pool = server->pool;

	PROBE_SERVER_RETURNED(borrower_client_id(borrower), pool->database->name, pool->role->name,
	                      server_backend_pid(server), pool_now(pool) - server->lease.lent_at);
	pool_part(pool, borrower, server);
}

void pool_leave(struct borrower *borrower)
{
	struct pool *pool = borrower->pool;
	struct server *server = borrower->server;

	if (!pool)
		return;
	/* It needs fewer servers of the cap: none must be closed for the one that leaves. */
	if (borrower_waits(borrower) && pool_is_blocked(pool))
		pool_wake(pool);
	pool_give_up(borrower);
	pool_leave_place(borrower);
	pool_drop_place(borrower);
	if (server) {
		bool is_whole =
		    server_rest(server) >= REST_MID_RESPONSE && !server->wire.is_mid_request;

		if (is_whole && server->replication == REPLICATION_NONE) {
			pool_return(borrower);
		} else {
			part(server, borrower);
			cancel_forget_target(borrower, pool);
			server_close_for(server, server->replication ? CLOSE_REPLICATION_CLIENT_LEFT
			                         : borrower->has_quit ? CLOSE_CLIENT_QUIT_EARLY
			                                              : CLOSE_CLIENT_LEFT);
		}
	}
	if (pool->fair)
		fair_forget(pool->fair, borrower);
	pool_disown(borrower->owned);
	TAILQ_REMOVE(&pool->members, borrower, node);
	pool->member_count--;
	pool->share.tally->client_count--;
	borrower->pool = NULL;
	pool_arm_expiry(pool);
}

void pool_expel(struct pool *pool, const struct err *err)
{
	struct borrower_list leaving;
	struct borrower *borrower;

	/* An expelled borrower may stay a member until the end of the turn. */
	TAILQ_INIT(&leaving);
	TAILQ_CONCAT(&leaving, &pool->members, node);
	while ((borrower = TAILQ_FIRST(&leaving))) {
		TAILQ_REMOVE(&leaving, borrower, node);
		TAILQ_INSERT_TAIL(&pool->members, borrower, node);
		borrower->ops->on_expelled(borrower, err);
	}
}

/* Not even one that is logging in. */
static bool has_no_server(const struct pool *pool)
{
	return pool_shared_count(pool) + pool_elsewhere_count(pool) == 0;
}

static bool is_refused_for_failure(const struct pool *pool, struct err *err)
{
	struct err failure;

	if (!has_no_server(pool) || !pool_is_refused(pool, &failure))
		return false;
	*err = failure;
	err_set(err, failure.code,
	        "server login has been failing, cached error: %.99s (server_login_retry)",
	        failure.text);
	err_reason(err, CLOSE_LOGIN_FAILING);
	if (failure.code == ERR_FOREIGN)
		memcpy(err->sqlstate, failure.sqlstate, sizeof(err->sqlstate));
	err_detail(err, "%s", failure.detail);
	return true;
}

/* ---- asking ---- */

bool pool_await_welcome(struct borrower *borrower, struct err *err)
{
	struct pool *pool = borrower->pool;

	assert(!pool->has_welcome);
	if (pool_turns_away(pool, borrower, err))
		return false;
	if (is_refused_for_failure(pool, err))
		return false;
	if (pool->limits.guards_queue && !pool_admits(pool, false, err))
		return false;
	pool_stand(borrower, BORROWER_NEWCOMER);
	return true;
}

static bool ask(struct borrower *borrower, struct err *err)
{
	struct pool *pool = borrower->pool;
	const struct server *owned = pool_owned(borrower);

	if (pool->pools->is_ending)
		return err_close(err, CLOSE_SERVER_SHUTDOWN);
	if (pool_turns_away(pool, borrower, err))
		return false;
	if (!pool_is_held(pool) && is_refused_for_failure(pool, err))
		return false;
	if (borrower->wants_place)
		pool_stand(borrower, BORROWER_WAIT_PLACE);
	else if (borrower->wants_own && owned && !pool_is_home(owned->state))
		pool_stand(borrower, BORROWER_WAIT_OWN);
	else
		pool_stand(borrower, BORROWER_WAITING);
	return true;
}

bool pool_ask(struct borrower *borrower, struct err *err)
{
	struct pool *pool = borrower->pool;

	return (!pool->limits.guards_queue || pool_admits(pool, true, err)) && ask(borrower, err);
}

bool pool_ask_first(struct borrower *borrower, usec_t since, struct err *err)
{
	if (!ask(borrower, err))
		return false;
	pool_wait_first(borrower, since);
	return true;
}

/* ---- lending ---- */

void pool_lend(struct server *server, struct borrower *borrower)
{
	struct pool *pool = server->pool;

	server_enter(server, SERVER_LENT);
	server->lease.borrower = borrower;
	borrower->server = server;
	borrower->state = BORROWER_SERVED;
	borrower->waits_for = LEDGER_WAIT_NOT;
	replay_forget_opening(&server->lease.replay);
	/* a reset query of ours does not matter to this borrower */
	server_held_after(server, HELD_RESTARTED);
	server_close_scope(server);
	if (pool_rules(borrower)->mode == POOL_MODE_SESSION)
		server_hold(server, HELD_SESSION);
	if (!borrower->pairing || server->lease.sequences.pairing != borrower->pairing)
		pool_sequences_lend(server, borrower);
	if (pool->purpose == POOL_FOR_READS)
		database_count_read(pool->database, server);
	pool_count_served(pool, 1);
	pool->stats.assignment_count++;
	server->lease.request_at = server->lease.lent_at = pool_now(pool);
	if (pool->fair)
		pool_fair_lend(borrower);
	PROBE_SERVER_LENT(borrower_client_id(borrower), pool->database->name, pool->role->name,
	                  server_backend_pid(server));
}

/* The server that the borrower owns, if it can be lent. */
static struct server *own_server(const struct borrower *borrower)
{
	struct server *server = pool_owned(borrower);

	return server && server->state == SERVER_IDLE && pool_may_lend(server) ? server : NULL;
}

/* Without a library that the borrower does not want; if none is coming, one is closed. Rare. */
__attribute__((noinline)) static struct server *fitting_server(struct borrower *borrower)
{
	struct pool *pool = borrower->pool;
	const struct params *want = borrower->ops->params(borrower);
	struct server *server = own_server(borrower);

	if (server && server_libraries_are_in(server->session.params, want))
		return server;
	TAILQ_FOREACH (server, &pool->servers[SERVER_IDLE], place.node) {
		if (pool_may_lend(server) && server_libraries_are_in(server->session.params, want))
			return server;
	}
	server = TAILQ_FIRST(&pool->servers[SERVER_IDLE]);
	if (server && pool_missing(pool))
		pool_close_server(server,
		                  server->close_reason ? server->close_reason : CLOSE_LIBRARY);
	return NULL;
}

/* One with new values of sequences is passed over: the next question may ask for them. */
#define PASSES_MAX 8

static inline struct server *idle_server(struct borrower *borrower)
{
	struct server *server = borrower->owned ? own_server(borrower) : NULL, *next;
	struct server *kept = NULL;
	struct pool *pool = borrower->pool;
	unsigned int passed = 0;

	if (pool->site.library_count)
		return fitting_server(borrower);
	if (pool_is_choosy(pool) && (next = pool_standby_suitable(borrower)))
		return next;
	if (server || pool_waits_for_own(borrower))
		return server;
	TAILQ_FOREACH_SAFE (server, &pool->servers[SERVER_IDLE], place.node, next) {
		if (pool_may_lend(server)) {
			if (!server->lease.sequences.owner || !pool_is_kept(server, borrower))
				return server;
			kept = kept ? kept : server;
			if (++passed == PASSES_MAX)
				return kept;
		} else if (server->close_reason) {
			pool_close_server(server, server->close_reason);
		}
	}
	return kept;
}

struct server *pool_idle_server(struct borrower *borrower) { return idle_server(borrower); }

/* Whether the first that waits for a dedicated server comes before those that want an idle one. */
static bool dedicated_goes_first(const struct pool *pool)
{
	const struct borrower *borrower = pool_first(pool, BORROWER_WAIT_DEDICATED);

	return borrower && pool_is_full(pool) && !pool_is_unreachable(pool) && pool_may_login(pool);
}

struct server *pool_take(struct borrower *borrower)
{
	struct pool *pool = borrower->pool;
	struct server *server;

	if (borrower->wants_place || pool_is_held(pool) ||
	    (pool->queues[BORROWER_WAIT_DEDICATED].count && dedicated_goes_first(pool)))
		return NULL;
	server = borrower->wants_own ? own_server(borrower) : NULL;
	if (!server &&
	    (!TAILQ_EMPTY(&pool->queues[BORROWER_WAITING].list) || share_is_asked(&pool->share)))
		return NULL;
	if (!server)
		server = idle_server(borrower);
	if (!server)
		return NULL;
	pool_lend(server, borrower);
	latency_note_no_wait(&pool->latency, &pool->pools->latency);
	sketch_add(&pool->demand.wanted, pool->served_count);
	return server;
}

static void part_from_server(struct borrower *borrower, struct server *server)
{
	struct pool *pool = server->pool;

	assert(server_is_between_transactions(server) && ledger_is_empty(&server->wire.ledger));
	if (pool_sequences(borrower) == CATALOG_SEQUENCES_CALLED ||
	    server_holds(server, HELD_DOUBT))
		pool_sequences_return(server, borrower);
	part(server, borrower);
	server->lease.request_at = 0;
	if (server->lease.vacancy)
		vacancy_forget(server);
	if (borrower->awaits_place)
		pool_leave_place(borrower);
	if (borrower->has_place)
		pool_drop_place(borrower);
	server_close_scope(server);
	timer_clear(&server->xact);
	server->lease.xact_at = 0;
	server->lease.watches = 0;
	if (pool->cancels.count)
		cancel_forget_target(borrower, pool);
	server_drop_rest(server);
}

static void on_discarded(struct server *server)
{
	server_held_after(server, HELD_DISCARDED);
	if (!server->site->cannot_clean)
		return;
	/* There is nothing better. */
	server_held_after(server, HELD_LENT);
	server_held_after(server, HELD_CLEANED);
}

/*
 * Starts the reset query if necessary: what must be discarded always is, and in session mode an
 * administrator decides. false: it is not.
 */
static bool begin_reset(struct server *server)
{
	const struct config *config = server->pool->pools->config;
	enum held_need need = pool_need(server);
	const char *query = "";

	if (need == NEEDS_CLOSING) /* of what is lasting, that is known */
		server_need_close(server, CLOSE_LIBRARY);
	if (need == NEEDS_DISCARD)
		query = "DISCARD ALL";
	else if (need == NEEDS_RESET || config->server_reset_query_always)
		query = config->server_reset_query;
	/* It resets what connect_query has set, too. */
	if (need == NEEDS_DISCARD && params_count(server->session.unreported))
		server_need_close(server, CLOSE_SESSION_STATE);
	if (!*query || server->close_reason || !ledger_is_certain(&server->wire.ledger))
		return false;
	server_enter(server, SERVER_RESETTING);
	server_order(
	    server,
	    &(struct order){ .kind = ORDER_RESET,
	                     .text = query,
	                     .on_done = strcasecmp(query, "DISCARD ALL") ? NULL : on_discarded });
	return true;
}

/* What the borrower may have left is noted. */
static void take_back(struct server *server, struct borrower *borrower)
{
	const struct pool_rules *rules = pool_rules(borrower);

	part_from_server(borrower, server);
	/* What was defined while it was lent may have left something. */
	pool_catalog_look(server->pool->database);
	if (rules->leaves_doubt)
		server_hold(server, HELD_UNKNOWN);
	/* Then libraries are left to others. */
	if (rules->mode != POOL_MODE_SESSION && rules->session_state == SESSION_STATE_OFF)
		server_settle_loads(server);
}

void pool_return(struct borrower *borrower)
{
	struct server *server = borrower->server;

	take_back(server, borrower);
	if (!begin_reset(server))
		pool_home(server);
}

/* What goes to a server before a borrower's first message, besides its parameters. */
enum preparation {
	PREPARES_NOTHING,
	PREPARES_SEQUENCES, /* values of sequences are forgotten */
	PREPARES_CLEANING   /* and all that former borrowers may have left */
};

/* Whether it may not have values of sequences that another one has got. */
static inline bool forgets_values(const struct borrower *borrower)
{
	return pool_sequences(borrower) == CATALOG_SEQUENCES_CALLED ||
	       (borrower->pool->limits.is_mixed && pool_rules(borrower)->mode == POOL_MODE_SESSION);
}

static inline enum preparation preparation_of(const struct server *server)
{
	if (server_holds(server, HELD_FOREIGN))
		return PREPARES_CLEANING;
	return server->lease.sequences.state != SEQUENCES_NONE &&
	               forgets_values(server->lease.borrower) && pool_has_foreign_values(server)
	           ? PREPARES_SEQUENCES
	           : PREPARES_NOTHING;
}

static void write_preparation(struct server *server, const struct params *params,
                              enum preparation preparation, struct buf *text)
{
	if (preparation == PREPARES_NOTHING)
		return;
	if (preparation == PREPARES_CLEANING)
		server_clean_text(server, params, text);
	else
		buf_add_text(text, "DISCARD SEQUENCES;");
	pool_discard_sequences(server, DISCARD_SENT);
}

/* All was rolled back. Whether the server accepts anything at all, DISCARD ALL shows. */
static void refuse_params(struct server *server)
{
	struct borrower *borrower = server->lease.borrower;
	struct err err;

	err_close(&err, CLOSE_BAD_SERVER_PARAMETER);
	server_refuse_params(server, &err);
	take_back(server, borrower);
	if (params_count(server->session.params))
		server_hold(server, HELD_FORMER);
	if (!begin_reset(server))
		pool_home(server);
	borrower->ops->on_lost(borrower, &err, false);
}

static void on_prepared(struct server *server)
{
	server_discard_end(server, !server->orders.has_failed);
	if (server->orders.has_failed) {
		refuse_params(server);
		return;
	}
	server_held_after(server, HELD_CLEANED);
	server_confirm_params(server);
	timer_clear(&server->timer);
	server->lease.borrower->ops->on_lent(server->lease.borrower);
}

__attribute__((noinline)) static bool prepare_other(struct borrower *borrower,
                                                    const struct params *params, bool sends_now,
                                                    enum preparation preparation)
{
	struct server *server = borrower->server;
	struct buf *text = &borrower->pool->pools->order_text;
	/* its failure does no harm; but nothing may run behind a cleaning that fails */
	bool may_go_ahead = server_replay_text(server, params, text) && sends_now &&
	                    preparation != PREPARES_CLEANING;
	bool is_ahead = false;

	write_preparation(server, params, preparation, text);
	server_replace_params(server, params);
	if (!may_go_ahead && !borrower->is_spelled) {
		server_expect_reports(server);
		borrower->is_spelled = true;
	}
	server_find_libraries(server);
	if (text->count == 0 || may_go_ahead)
		server_confirm_params(server);
	if (text->count == 0 && buf_ok(text))
		return true;
	if (!buf_ok(text))
		server_break(server);
	else
		is_ahead = server_order(
		    server, &(struct order){ .kind = ORDER_REPLAY,
		                             .where = may_go_ahead ? SENT_AHEAD : SENT_AT_REST,
		                             .text = buf_text(text),
		                             .on_done = on_prepared });
	buf_reuse(text, ORDER_KEEP_MAX);
	return is_ahead && may_go_ahead;
}

bool pool_prepare(struct borrower *borrower, const struct params *params, bool sends_now)
{
	const struct server *server = borrower->server;
	enum preparation preparation = preparation_of(server);

	return (server->session.params == params && preparation == PREPARES_NOTHING) ||
	       prepare_other(borrower, params, sends_now, preparation);
}

void pool_lost_server(struct server *server, struct borrower *borrower)
{
	pool_part(server->pool, borrower, server);
	pool_leave_place(borrower);
	cancel_forget_target(borrower, server->pool);
}
