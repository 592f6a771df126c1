/* SPDX-License-Identifier: ISC */
/* The states of a server, its time limits, sending, closing, and what may be sent again. */
#include "pgweir/pool/server/server.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/container_of.h"
#include "pgweir/base/probes.h"
#include "pgweir/config/entries.h"
#include "pgweir/pgwire/frame.h"
#include "pgweir/pgwire/message.h"
#include "pgweir/pgwire/sql_block.h"
#include "pgweir/pool/server/question.h"

#include "server_priv.h"

#define SEND_BEHIND_MAX 16  /* pieces of one write that includes a prefix */
#define PREFIX_KEEP_MAX 512 /* bytes of `prefix` that are kept for the next one */

#define TO(state) (1u << (state))
#define OVER (TO(SERVER_ENDING) | TO(SERVER_CLOSING))
#define HOME (TO(SERVER_IDLE) | TO(SERVER_USED) | TO(SERVER_CANCELED) | OVER)

static const struct server_step {
	const char *name;
	const char *shown; /* as SHOW SERVERS has it */
	unsigned int next; /* TO() of each state that may follow */
} steps[SERVER_STATES] = {
	[SERVER_CONNECTING] = { "connecting", "new", TO(SERVER_LOGIN) | TO(SERVER_CLOSING) },
	[SERVER_LOGIN] = { "login", "new", HOME | TO(SERVER_CONNECTING) | TO(SERVER_LENT) },
	[SERVER_IDLE] = { "idle", "idle",
	                  TO(SERVER_LENT) | TO(SERVER_USED) | TO(SERVER_CHECKING) | OVER },
	[SERVER_USED] = { "used", "used", TO(SERVER_CHECKING) | OVER },
	[SERVER_CHECKING] = { "checking", "tested", HOME },
	[SERVER_LENT] = { "lent", "active", HOME | TO(SERVER_RESETTING) },
	[SERVER_RESETTING] = { "resetting", "tested", HOME },
	[SERVER_CANCELED] = { "canceled", "being_canceled", HOME },
	[SERVER_ENDING] = { "ending", "being_canceled", TO(SERVER_RESETTING) | TO(SERVER_CLOSING) },
	[SERVER_CLOSING] = { "closing", "closing", 0 },
};

const char *server_state_name(const struct server *server)
{
	bool is_leaving = server->wire.ending.how == ENDING_LEAVES;

	return steps[is_leaving ? SERVER_CLOSING : server->state].shown;
}

bool server_is_quiescent(const struct server *server)
{
	return stream_is_halted(&server->wire.stream) &&
	       (server->wire.stream.tls ||
	        (server->wire.frame_left == 0 && stream_unsent(&server->wire.stream) == 0));
}

bool server_has_nothing_pending(const struct server *server)
{
	return server_rest(server) != REST_WORKING && ledger_is_at_rest(&server->wire.ledger) &&
	       !server->wire.frame_left && !stream_kept(&server->wire.stream).count &&
	       !stream_unsent(&server->wire.stream) && !server->wire.is_mid_response &&
	       !server->wire.is_mid_request && !server_got_fatal(server) &&
	       !server->lease.replay.is_failed && !server->wire.replacement.count &&
	       !server->free_task.is_waiting;
}

void server_set_state_timer(struct server *server)
{
	const struct server_limits *limits = &server->site->limits;
	usec_t now = loop_now(server->site->shared->loop);

	switch (server->state) {
	case SERVER_CONNECTING:
	case SERVER_LOGIN:
		timer_set(&server->timer, limits->connect, server->connected_at);
		return;
	case SERVER_CHECKING:
	case SERVER_RESETTING:
		timer_set(&server->timer, limits->connect, now);
		return;
	case SERVER_IDLE:
		timer_set(&server->timer, limits->check ? limits->check : limits->idle,
		          server->used_at);
		return;
	case SERVER_USED:
		timer_set(&server->timer, limits->idle, server->used_at);
		return;
	case SERVER_ENDING:
		timer_set(&server->timer,
		          server->wire.ending.how >= ENDING_KEEPS ? limits->grace : limits->ending,
		          now);
		return;
	default:
		timer_clear(&server->timer);
	}
}

void server_enter(struct server *server, enum server_state next)
{
	enum server_state from = server->state;

	assert(steps[from].next & TO(next));
	log_debug(&server->log, "%s -> %s", steps[from].name, steps[next].name);
	server->state = next;
	if (from == SERVER_LENT) {
		server->lease.times = NULL;
		ledger_shrink(&server->wire.ledger);
	}
	server->site->ops->on_state(server, from);
	server_set_state_timer(server);
}

/* ---- the time limits of queries and transactions ---- */

void server_connect_due(struct timer *timer)
{
	struct server *server = container_of(timer, struct server, timer);

	if (server->state == SERVER_CHECKING)
		server_close_for(server, CLOSE_CHECK_TIMEOUT);
	else if (server->state == SERVER_RESETTING)
		server_close_for(server, CLOSE_RESET_TIMEOUT);
	else if (server->state == SERVER_LENT)
		server_close_for(server, CLOSE_PARAMETERS_TIMEOUT);
	else if (server->login && server->login->dial.is_active)
		server_close_with(server, ERR_SERVER_CONNECT,
		                  "connect failed: Connection timed out");
	else
		server_close_for(server, CLOSE_CONNECT_TIMEOUT);
}

void server_check_due(struct timer *timer)
{
	server_enter(container_of(timer, struct server, timer), SERVER_USED);
}

static const struct server_times *times_of(const struct server *server)
{
	return server->lease.times ? server->lease.times : &server->site->limits.times;
}

static void query_due(struct timer *timer)
{
	struct server *server = container_of(timer, struct server, timer);
	struct err err;

	/* Nothing is owed and only the client's Sync is missing: no query is running. */
	if (server->state == SERVER_LENT && ledger_is_empty(&server->wire.ledger)) {
		server->lease.request_at = 0;
		timer_set(timer, times_of(server)->idle_transaction,
		          loop_now(server->site->shared->loop));
		return;
	}
	err_close(&err, CLOSE_QUERY_TIMEOUT);
	if (server->lease.statement_limit)
		err_hint(&err, "The statement has a query_timeout of its own in [statements].");
	server_close(server, &err);
}

static void idle_transaction_due(struct timer *timer)
{
	server_close_for(container_of(timer, struct server, timer), CLOSE_IDLE_TRANSACTION);
}

static void transaction_due(struct timer *timer)
{
	server_close_for(container_of(timer, struct server, xact), CLOSE_TRANSACTION_TIMEOUT);
}

/* No query_timeout for replication: a stream or a base backup is no query. */
static struct timer_queue *query_limit(const struct server *server)
{
	if (server->lease.statement_limit)
		return loop_timer_queue(server->site->shared->loop, server->lease.statement_limit,
		                        query_due);
	return server->replication ? NULL : times_of(server)->query;
}

static struct timer_queue *transaction_limit(const struct server *server)
{
	return server->replication ? NULL : times_of(server)->transaction;
}

void server_begin_query(struct server *server, usec_t query_since, usec_t xact_since)
{
	server->lease.statement_limit = 0;
	if (query_limit(server) || timer_is_set(&server->timer))
		timer_set(&server->timer, query_limit(server), query_since);
	if (transaction_limit(server) && !timer_is_set(&server->xact))
		timer_set(&server->xact, transaction_limit(server), xact_since);
	server->lease.request_at = query_since;
	server->lease.xact_at = xact_since;
	server->wire.is_ready = false;
}

/* What a statement has waited before does not count for a limit of its own. */
static usec_t query_since(const struct server *server)
{
	const struct server_lease *lease = &server->lease;

	return lease->statement_limit && lease->lent_at > lease->request_at ? lease->lent_at
	                                                                    : lease->request_at;
}

void server_limit_statement(struct server *server, usec_t limit)
{
	server->lease.statement_limit = limit;
	timer_set(&server->timer, query_limit(server), query_since(server));
}

struct server_times server_times_of(struct loop *loop, const struct config_times *times)
{
	return (struct server_times){
		loop_timer_queue(loop, times->query, query_due),
		loop_timer_queue(loop, times->idle_transaction, idle_transaction_due),
		loop_timer_queue(loop, times->transaction, transaction_due),
	};
}

void server_idle_transaction_begin(struct server *server)
{
	timer_set(&server->timer,
	          server->wire.status == 'I' ? NULL : times_of(server)->idle_transaction,
	          server->used_at);
}

bool server_begin_run(struct server *server, atomic_uint *running, unsigned int most)
{
	struct server_run *run = server->lease.runs;

	while (run && run->running != running)
		run = run->next;
	if (run)
		return true;
	if (atomic_fetch_add(running, 1) < most && (run = malloc(sizeof(*run)))) {
		*run = (struct server_run){ server->lease.runs, running };
		server->lease.runs = run;
		return true;
	}
	atomic_fetch_sub(running, 1);
	return false;
}

void server_end_runs(struct server *server)
{
	for (struct server_run *run; (run = server->lease.runs);) {
		server->lease.runs = run->next;
		atomic_fetch_sub(run->running, 1);
		free(run);
	}
}

void server_end_transaction(struct server *server, bool is_settled)
{
	server->lease.xact_at = is_settled ? 0 : loop_now(server->site->shared->loop);
	timer_set(&server->xact, is_settled ? NULL : transaction_limit(server),
	          server->lease.xact_at);
}

void server_rearm(struct server *server)
{
	const struct server_limits *limits = &server->site->limits;

	if (server->state == SERVER_CHECKING || server->state == SERVER_RESETTING)
		timer_change(&server->timer, limits->connect);
	else if (server->state != SERVER_LENT)
		server_set_state_timer(server);
	else if (server->orders.running != ORDER_NONE)
		timer_change(&server->timer, limits->connect);
	else if (server->wire.is_ready)
		server_idle_transaction_begin(server);
	else
		timer_set(&server->timer, query_limit(server), query_since(server));
	if (server->state == SERVER_LENT && server->lease.xact_at)
		timer_set(&server->xact, transaction_limit(server), server->lease.xact_at);
	if (server->state != SERVER_CONNECTING && server->state != SERVER_LOGIN)
		timer_set(&server->life, limits->life, server->connected_at);
}

/* ---- start and end ---- */

static void tell_server(const struct logger *logger, struct log_who *who)
{
	const struct server *server = container_of(logger, struct server, log);

	who->kind = "server";
	who->pointer = server;
	who->id = server->id;
	who->database = server->site->database;
	who->user = server->site->user;
	if (server->place.peer.family)
		address_add(&server->place.peer, &who->address);
	else
		strbuf_add(&who->address, "(not connected)");
}

void server_renew_session(struct server *server)
{
	const struct server_shared *shared = server->site->shared;
	const struct params *none = params_none(shared->params);

	params_release(shared->params, &server->session.unreported);
	server->session = (struct server_session){ .params = none,
		                                   .before = none,
		                                   .baseline = server->session.baseline,
		                                   .unreported = none };
	server_statements_init(&server->session.statements, &server->wire.ledger);
}

void server_init(struct server *server, struct server_site *site, struct pool *pool, uint64_t id)
{
	const struct server_shared *shared = site->shared;

	server->site = site;
	server->pool = pool;
	server->id = id;
	server->log = (struct logger){ shared->log, tell_server };
	server->session.baseline = params_none(shared->params);
	server_renew_session(server);
}

void server_login_free(struct server *server)
{
	struct server_login *login = server->login;

	if (!login)
		return;
	server->login = NULL;
	tls_forget_peer(&server->wire.stream);
	dial_cancel(&login->dial);
	timer_clear(&login->patience);
	if (login->is_probe)
		server->site->ops->on_probe(server, -1);
	resolver_cancel(&login->ask);
	auth_client_free(&login->auth);
	buf_free(&login->parameters);
	free(login);
}

void server_note_definition(struct server *server, struct bytes text, bool is_shown, bool defines)
{
	struct definition *definition = &server->lease.definition;
	struct buf *texts = &definition->texts;
	bool is_within =
	    server->wire.status == 'T' && ledger_is_at_rest(&server->wire.ledger) && text.count;

	texts->limit = DEFINITIONS_MAX;
	server_defines(server, DEFINITION_TEXTS);
	buf_add(texts, text.at, text.count);
	buf_add_byte(texts, 0);
	texts->is_broken |= !is_shown || !text.count;
	if (defines)
		server_defines(server, buf_ok(texts) ? DEFINITION_RELATION : DEFINITION_ANYTHING);
	if (!defines && definition->state < DEFINITION_ANYTHING)
		return;
	definition->is_unclear |= defines && !sql_defines_relations(text);
	/* Within a block, one statement that does not end it commits nothing. */
	definition->may_commit |= definition->is_unclear || !is_within || !sql_is_no_block(text);
	server->site->ops->on_definition(server, DEFINES_BY_TEXT);
}

void server_end_definition(struct server *server)
{
	if (server->lease.definition.state >= DEFINITION_RELATION)
		server->site->ops->on_definition(server, DEFINES_NO_MORE);
	buf_free(&server->lease.definition.texts);
	server->lease.definition = (struct definition){ 0 };
}

static void free_server(struct task *task)
{
	struct server *server = container_of(task, struct server, free_task);

	server->site->ops->on_free(server);
}

void server_question_free(struct server_question **question)
{
	if (*question) {
		facts_done(&(*question)->facts);
		buf_free(&(*question)->names);
	}
	free(*question);
	*question = NULL;
}

void server_release_work(struct server *server)
{
	struct params_table *params = server->site->shared->params;

	server_login_free(server);
	ledger_done(&server->wire.ledger);
	server_statements_done(&server->session.statements);
	replay_done(&server->lease.replay);
	buf_free(&server->wire.replacement);
	buf_free(&server->orders.ahead);
	buf_free(&server->session.reports.list);
	params_release(params, &server->session.before);
	params_release(params, &server->session.reports.forgotten);
	free(server->orders.refusal);
	server->orders.refusal = NULL;
	server_question_free(&server->orders.question);
}

static void release_connection(struct server *server)
{
	struct params_table *params = server->site->shared->params;

	timer_clear(&server->life);
	timer_clear(&server->xact);
	resolver_watch_end(&server->place.address_watch);
	hosts_leave(server->site->hosts, &server->place.counted);
	stream_close(&server->wire.stream);
	params_release(params, &server->session.params);
	params_release(params, &server->session.baseline);
	params_release(params, &server->session.unreported);
	explicit_bzero(&server->key, sizeof(server->key));
}

void server_say_goodbye(struct server *server)
{
	struct buf out = { 0 };

	/* Within a frame, Terminate would be the rest of that, and could complete it. */
	if (!stream_is_open(&server->wire.stream) || server->wire.stream.error ||
	    server->wire.is_mid_request || stream_unsent(&server->wire.stream))
		return;
	message_bare(&out, 'X');
	if (buf_ok(&out))
		stream_send(&server->wire.stream, buf_bytes(&out));
	buf_free(&out);
}

/* The text for the log. The borrower gets one common text for all changes of the configuration. */
static const char *words_of(const struct err *err)
{
	switch (err->reason) {
	case CLOSE_RECONNECT:
	case CLOSE_ENTRY_CHANGED:
	case CLOSE_SERVER_TLS_CHANGED:
	case CLOSE_SERVER_TLS_STOPPED:
	case CLOSE_TAKEN_OVER:
		return close_reason_row(err->reason)->name;
	default:
		return err->text;
	}
}

static void log_close(struct server *server, const struct err *err)
{
	const struct server_shared *shared = server->site->shared;
	usec_t age = loop_now(shared->loop) - server->connected_at;
	struct log_facts facts = { .event = "disconnect",
		                   .sqlstate = err->sqlstate,
		                   .reason = words_of(err),
		                   .has_duration = true,
		                   .duration = age };

	/* The pool has logged that the host cannot be reached; attempts follow each other fast. */
	if (server->login && server->login->is_test && !stream_is_open(&server->wire.stream))
		return;
	if (shared->config->log_disconnections && !server->site->is_watch)
		log_event(&server->log, LOG_LEVEL_INFO, &facts, "closing because: %s (age=%llds)",
		          words_of(err), (long long)(age / USEC_PER_SEC));
}

void server_forget(struct server *server)
{
	struct loop *loop = server->site->shared->loop;
	bool was_ending = server->state == SERVER_ENDING;

	server_enter(server, SERVER_CLOSING);
	server_end_definition(server);
	if (!was_ending)
		server_release_work(server);
	server_end_runs(server);
	release_connection(server);
	server->site->ops->on_released(server);
	server->free_task.run = free_server;
	loop_undefer(loop, &server->free_task);
	loop_defer(loop, &server->free_task);
}

/* SHOW ERRORS distinguishes failed logins of ours from other errors of PostgreSQL. */
static void note_end(const struct server *server, const struct err *err)
{
	char words[ERR_DETAIL_SIZE + ERR_TEXT_SIZE + sizeof(": ")];

	snprintf(words, sizeof(words), "%s%s%s", err->detail, *err->detail ? ": " : "",
	         words_of(err));
	close_reason_note(
	    server->site->shared->closes,
	    &(struct close_told){ .reason = *err->detail ? CLOSE_OWN_LOGIN : err->reason,
	                          .words = words,
	                          .database = server->site->database,
	                          .user = server->site->user,
	                          .of_database = server->site->closes });
}

/* Logs and counts the end. */
static void tell_end(struct server *server, const struct err *err)
{
	log_close(server, err);
	if (!server->site->is_watch)
		note_end(server, err);
}

/* It is closed after all. */
static void tell_late(struct server *server)
{
	struct err err;

	err_close(&err, server->close_reason);
	tell_end(server, &err);
}

void server_give_up(struct server *server)
{
	if (server->wire.ending.how >= ENDING_KEEPS)
		tell_late(server);
	server_forget(server);
}

void server_keep_not(struct server *server)
{
	if (server->wire.ending.how == ENDING_CLEANS)
		server_give_up(server);
	if (server->wire.ending.how != ENDING_KEEPS)
		return;
	tell_late(server);
	server->wire.ending.how = ENDING_CLOSES;
	server_set_state_timer(server);
}

bool server_may_resend(const struct server *server)
{
	return replay_may_resend(&server->lease.replay) && server->state == SERVER_LENT &&
	       server->orders.running == ORDER_NONE;
}

bool server_has_no_effect(const struct server *server)
{
	return server_has_only_begun(server) ||
	       (server_may_resend(server) && server->lease.replay.unsent_least == 0);
}

bool server_has_not_run(const struct server *server)
{
	return server_has_no_effect(server) ||
	       (server_may_resend(server) &&
	        stream_undelivered(&server->wire.stream) >= server->lease.replay.unsent_least);
}

void server_close_unrun(struct server *server, const struct err *err)
{
	server->lease.replay.is_unrun = true;
	server_close(server, err);
}

/* What its borrower can rely on: for the DETAIL of its error. */
static const char *tell_work(const struct server *server)
{
	bool is_running = ledger_owes_borrower(&server->wire.ledger) || server->wire.is_mid_request;

	if (server->wire.status == 'I')
		return is_running ? "The statement might have been executed."
		                  : "No statement was running.";
	return is_running ? "The transaction was not committed, unless COMMIT was sent last."
	                  : "The transaction was not committed.";
}

/* The borrower's parameters are being set: it has not sent anything yet. */
static bool is_before_all(const struct server *server)
{
	const struct borrower *borrower = server->lease.borrower;

	return borrower && borrower->ops->on_unrun && server->orders.running == ORDER_REPLAY;
}

bool server_can_go_unnoticed(const struct server *server)
{
	return is_before_all(server) || (server->lease.borrower && server_has_only_begun(server));
}

void server_drop_rest(struct server *server)
{
	server->wire.is_mid_response = false;
	stream_want(&server->wire.stream, WANT_INPUT);
}

void server_close(struct server *server, const struct err *err)
{
	const struct server_ops *ops = server->site->ops;
	struct borrower *borrower = server->lease.borrower;
	/* a login that is done has not failed, whatever the pool closes the server for then */
	bool was_new =
	    server->state == SERVER_CONNECTING || (server->state == SERVER_LOGIN && server->login);
	struct err reason = *err; /* err may point into an object that is freed below: copy it */
	bool got_fatal = server_got_fatal(server);
	bool is_unsent = is_before_all(server);
	enum ending_how ending = ENDING_NOT;
	struct replay unrun = { 0 }; /* what must be sent again */

	if (server->state == SERVER_ENDING)
		server_keep_not(server);
	if (server_is_over(server))
		return;
	if (ops->how_it_ends)
		ending = ops->how_it_ends(server, err->reason);
	if (server->lease.replay.is_unrun) {
		unrun = server->lease.replay;
		server->lease.replay = (struct replay){ 0 };
	}
	if (ledger_is_empty(&server->wire.ledger))
		server_end_definition(server);   /* it is rolled back */
	else if (server->lease.definition.state) /* its tags are not read any more */
		ops->on_definition(server, DEFINES_ANYTHING);
	if (ending <= ENDING_CLOSES)
		tell_end(server, &reason);
	if (!was_new && ending == ENDING_NOT)
		server_say_goodbye(server);
	if (borrower && reason.code == ERR_SERVER_LOST && !server_is_dedicated(server))
		err_detail(&reason, "%s", tell_work(server));
	if (borrower)
		PROBE_SERVER_RETURNED(borrower_client_id(borrower), server->site->database,
		                      server->site->user, server_backend_pid(server),
		                      loop_now(server->site->shared->loop) - server->lease.lent_at);
	server->lease.borrower = NULL;
	if (ending == ENDING_NOT) {
		server_forget(server);
	} else {
		server_need_close(server, reason.reason);
		server->close_reason = reason.reason;
		ops->on_ending(server, ending);
	}
	if (was_new)
		ops->on_login_failed(server, &reason);
	if (!borrower)
		return;
	borrower->is_mid_answer = server->wire.is_mid_response;
	borrower->server = NULL;
	borrower->state = BORROWER_RESTING;
	ops->on_borrower_lost(server, borrower);
	if (is_unsent || unrun.is_unrun)
		borrower->ops->on_unrun(borrower, &reason, &unrun);
	else
		borrower->ops->on_lost(borrower, &reason, got_fatal);
	replay_done(&unrun);
}

void server_close_with(struct server *server, enum err_code code, const char *text)
{
	struct err err;

	err_set(&err, code, "%s", text);
	server_close(server, &err);
}

void server_close_for(struct server *server, enum close_reason reason)
{
	server_close_as(server, close_reason_row(reason)->code, reason);
}

void server_close_as(struct server *server, enum err_code code, enum close_reason reason)
{
	struct err err;

	err_close(&err, reason);
	err_recode(&err, code);
	server_close(server, &err);
}

void server_hold(struct server *server, unsigned int kinds)
{
	server->session.held |= kinds;
	if (kinds & HELD_LASTING)
		server_need_close(server, CLOSE_SESSION_STATE);
}

void server_distrust(struct server *server, bool is_of_others)
{
	if (!is_of_others)
		server_hold(server, HELD_UNKNOWN);
	else
		server_hold(server, server->state == SERVER_LENT ? HELD_LATE : HELD_FOREIGN);
}

void server_settle_scope(struct server *server)
{
	if (server->session.scope == SCOPE_OPEN_USED)
		server_statements_distrust_marked(&server->session.statements);
	server->session.scope = SCOPE_KNOWN;
}

void server_need_close(struct server *server, enum close_reason reason)
{
	bool has_changed = !reason != !server->close_reason;

	if (reason && server->state == SERVER_ENDING)
		server_keep_not(server);
	if (!reason || !server->close_reason)
		server->close_reason = reason;
	if (has_changed && server->site->ops->on_close_needed)
		server->site->ops->on_close_needed(server);
}

/* ---- sending ---- */

bool server_note(struct server *server, enum ledger_kind kind)
{
	bool is_good = ledger_add(&server->wire.ledger, kind, LEDGER_CLIENT);

	/* A request that gets no reply (the rest of a failed COPY) leaves the server ready. */
	if (!ledger_is_empty(&server->wire.ledger))
		server->wire.is_ready = false;
	return is_good;
}

bool server_note_change(struct server *server, enum ledger_kind kind, enum ledger_fate fate,
                        struct ledger_change *change)
{
	server->wire.is_ready = false;
	return ledger_add_change(&server->wire.ledger, kind, fate, change);
}

static void settle_begin(struct ledger_change *change, bool is_done)
{
	struct server *server = container_of(change, struct server, lease.begin);

	if (is_done)
		server->wire.status = 'T';
}

bool server_note_begin(struct server *server)
{
	server->lease.begin = (struct ledger_change){ .settle = settle_begin };
	return server_note_change(server, LEDGER_EXECUTE, LEDGER_OURS, &server->lease.begin);
}

/* Sending failed. The server may have sent the reason before: read that first. */
static void close_broken(struct task *task)
{
	struct server *server = container_of(task, struct server, free_task);

	if (server_is_over(server))
		return;
	if (stream_is_open(&server->wire.stream))
		server->wire.stream.ops->on_input(&server->wire.stream);
	server_close_for(server, CLOSE_SERVER_CRASHED);
}

void server_break(struct server *server)
{
	server->free_task.run = close_broken;
	loop_defer(server->site->shared->loop, &server->free_task);
}

/* Sends the prefix and the pieces after it; with one write if they are few. */
static bool send_behind(struct server *server, const struct iovec *pieces, int count)
{
	struct iovec all[SEND_BEHIND_MAX] = { { server->orders.ahead.at,
		                                server->orders.ahead.count } };
	bool is_one = count < SEND_BEHIND_MAX, is_sent;

	for (int i = 0; is_one && i < count; i++)
		all[1 + i] = pieces[i];
	is_sent = stream_sendv(&server->wire.stream, all, is_one ? 1 + count : 1);
	buf_reuse(&server->orders.ahead, PREFIX_KEEP_MAX);
	return is_sent && (is_one || stream_sendv(&server->wire.stream, pieces, count));
}

static inline void count_sent(const struct server *server, size_t count)
{
	*server->site->client_bytes += count;
	*server->site->all_client_bytes += count;
}

bool server_send(struct server *server, struct bytes bytes)
{
	assert(!server_holds(server, HELD_FOREIGN)); /* pool_prepare() */
	if (server->orders.ahead.count)
		return server_sendv(server, &(struct iovec){ (void *)bytes.at, bytes.count }, 1);
	count_sent(server, bytes.count);
	if (stream_send(&server->wire.stream, bytes))
		return true;
	server_break(server);
	return false;
}

bool server_sendv(struct server *server, const struct iovec *pieces, int count)
{
	for (int i = 0; i < count; i++)
		count_sent(server, pieces[i].iov_len);
	if (server->orders.ahead.count ? send_behind(server, pieces, count)
	                               : stream_sendv(&server->wire.stream, pieces, count))
		return true;
	server_break(server);
	return false;
}

void server_read_on(struct server *server) { stream_want(&server->wire.stream, WANT_INPUT); }

/* By the cancel key. Without one, a Unix socket knows only the process that listens. */
int64_t server_backend_pid(const struct server *server)
{
	if (!server)
		return 0;
	if (server->key.size >= 4)
		return (int32_t)load_be32(server->key.bytes);
	return address_is_unix(&server->place.peer) ? server->place.peer.un.pid : 0;
}

/*
 * ---- several batches that are kept: see replay.h ----
 *
 *   [Query BEGIN] [Parse Bind Execute Sync]     sent in one write
 *   BEGIN, ReadyForQuery                        the client gets it
 *   BEGIN       [Parse Bind Execute Sync]       the text of the opening, and what is kept
 */

void replay_ready(struct replay *replay, char status)
{
	struct replay_batches *batches = &replay->batches;
	uint16_t size = batches->at[0].end;

	if (batches->count < 2) {
		replay_drop(replay);
		return;
	}
	replay->opening_count = batches->at[0].opening;
	replay->is_answered = false;
	replay->count -= size;
	memmove(replay->at, replay->at + size, replay->count);
	batches->count--;
	for (int i = 0; i < batches->count; i++) {
		batches->at[i] = batches->at[i + 1];
		batches->at[i].end -= size;
	}
	if (status != (replay->opening_count ? 'T' : 'I'))
		replay_end_resend(replay); /* it has not opened what it should have opened */
}

unsigned int replay_count_opening(const struct replay *replay)
{
	unsigned int count = 0;

	for (size_t i = replay->opening_count; i < replay_whole_opening(replay); i++)
		count += replay->at[REPLAY_MAX + i] == 0;
	return count;
}
