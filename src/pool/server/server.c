/* SPDX-License-Identifier: ISC */
/*
 * The states of a server, its time limits, sending, and closing.
 */
#include "pgweir/pool/server/server.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "pgweir/base/container_of.h"
#include "pgweir/base/probes.h"
#include "pgweir/pgwire/message.h"
#include "pgweir/pool/server/question.h"

#include "server_priv.h"

#include "pgweir/base/banned.h"

#define SEND_BEHIND_MAX 16  /* pieces of one write that includes a prefix */
#define PREFIX_KEEP_MAX 256 /* bytes of `prefix` that are kept for the next one */

#define TO(state) (1u << (state))
#define HOME (TO(SERVER_IDLE) | TO(SERVER_USED) | TO(SERVER_CANCELED) | TO(SERVER_CLOSING))

static const struct server_step {
	const char *name;
	const char *shown; /* as SHOW SERVERS has it */
	unsigned int next; /* TO() of each state that may follow */
} steps[SERVER_STATES] = {
	[SERVER_CONNECTING] = { "connecting", "new", TO(SERVER_LOGIN) | TO(SERVER_CLOSING) },
	[SERVER_LOGIN] = { "login", "new", HOME | TO(SERVER_CONNECTING) | TO(SERVER_LENT) },
	[SERVER_IDLE] = { "idle", "idle",
	                  TO(SERVER_LENT) | TO(SERVER_USED) | TO(SERVER_CHECKING) |
	                      TO(SERVER_CLOSING) },
	[SERVER_USED] = { "used", "used", TO(SERVER_CHECKING) | TO(SERVER_CLOSING) },
	[SERVER_CHECKING] = { "checking", "tested", HOME },
	[SERVER_LENT] = { "lent", "active", HOME | TO(SERVER_RESETTING) },
	[SERVER_RESETTING] = { "resetting", "tested", HOME },
	[SERVER_CANCELED] = { "canceled", "being_canceled", HOME },
	[SERVER_CLOSING] = { "closing", "closing", 0 },
};

const char *server_state_name(enum server_state state) { return steps[state].shown; }

const char *server_work(const struct server *server)
{
	switch (server_rest(server)) {
	case REST_WORKING:
		return "running";
	case REST_IN_TRANSACTION:
		return "idle in transaction";
	default:
		return "idle";
	}
}

bool server_is_quiescent(const struct server *server)
{
	return stream_is_halted(&server->stream) &&
	       (server->stream.tls ||
	        (server->frame_left == 0 && stream_unsent(&server->stream) == 0));
}

bool server_has_nothing_pending(const struct server *server)
{
	return server_rest(server) != REST_WORKING && ledger_is_at_rest(&server->ledger) &&
	       !server->frame_left && !stream_kept(&server->stream).count &&
	       !stream_unsent(&server->stream) && !server->is_mid_response &&
	       !server->is_mid_request && !server->got_fatal && !server->replay.is_failed &&
	       !server->replacement.count && !server->free_task.is_waiting;
}

/* Each state has its own time limit. */
static void set_state_timer(struct server *server)
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
	server->site->ops->on_state(server, from);
	set_state_timer(server);
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
	if (server->peer.family)
		address_add(&server->peer, &who->address);
	else
		strbuf_add(&who->address, "(not connected)");
}

void server_init(struct server *server, struct server_site *site, struct pool *pool, uint64_t id)
{
	const struct server_shared *shared = site->shared;

	server->site = site;
	server->pool = pool;
	server->id = id;
	server->log = (struct logger){ shared->log, tell_server };
	server->params = server->before = server->baseline = params_none(shared->params);
	server_statements_init(&server->statements, shared->statements, &server->ledger);
}

void server_login_free(struct server *server)
{
	struct server_login *login = server->login;

	if (!login)
		return;
	server->login = NULL;
	dial_cancel(&login->dial);
	timer_clear(&login->patience);
	if (login->is_probe)
		server->site->ops->on_probe(server, -1);
	resolver_cancel(&login->ask);
	auth_client_free(&login->auth);
	buf_free(&login->parameters);
	free(login);
}

static void free_server(struct task *task)
{
	struct server *server = container_of(task, struct server, free_task);

	server->site->ops->on_free(server);
}

static void question_free(struct server_question **question)
{
	if (*question) {
		facts_done(&(*question)->facts);
		buf_free(&(*question)->names);
	}
	free(*question);
	*question = NULL;
}

static void release_server(struct server *server)
{
	struct params_table *params = server->site->shared->params;

	server_login_free(server);
	resolver_watch_end(&server->address_watch);
	hosts_leave(server->site->hosts, &server->place);
	timer_clear(&server->life);
	timer_clear(&server->xact);
	stream_close(&server->stream);
	ledger_done(&server->ledger);
	server_statements_done(&server->statements);
	text_scope_done(&server->scope, params);
	replay_done(&server->replay);
	server_calls_done(server);
	buf_free(&server->replacement);
	buf_free(&server->prefix);
	buf_free(&server->reports);
	params_release(params, &server->params);
	params_release(params, &server->before);
	params_release(params, &server->forgotten);
	free(server->refusal);
	server->refusal = NULL;
	question_free(&server->question);
	params_release(params, &server->baseline);
	params_release(params, &server->unreported);
	explicit_bzero(server->key, sizeof(server->key));
}

static void say_goodbye(struct server *server)
{
	struct buf out = { 0 };

	/*
	 * Within a frame, Terminate would be read as the rest of that frame, and could complete it.
	 */
	if (!stream_is_open(&server->stream) || server->stream.error || server->is_mid_request ||
	    stream_unsent(&server->stream))
		return;
	message_terminate(&out);
	if (buf_ok(&out))
		stream_send(&server->stream, buf_bytes(&out));
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

/* The pool has logged that the host cannot be reached; attempts follow each other fast. */
static bool is_failed_test(const struct server *server)
{
	return server->login && server->login->is_test && !stream_is_open(&server->stream);
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

	if (shared->config->log_disconnections && !is_failed_test(server) &&
	    !server->site->is_watch)
		log_event(&server->log, LOG_LEVEL_INFO, &facts, "closing because: %s (age=%llds)",
		          words_of(err), (long long)(age / USEC_PER_SEC));
}

void server_forget(struct server *server)
{
	struct loop *loop = server->site->shared->loop;

	server_enter(server, SERVER_CLOSING);
	release_server(server);
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
	                          .user = server->site->user });
}

bool server_may_resend(const struct server *server)
{
	const struct replay *replay = &server->replay;

	return replay->count && replay->may_resend && !replay->is_failed &&
	       server->state == SERVER_LENT && server->errand == ERRAND_NONE;
}

bool server_has_not_run(const struct server *server)
{
	if (server_has_only_begun(server))
		return true;
	return server_may_resend(server) &&
	       (server->replay.unsent_least == 0 ||
	        stream_undelivered(&server->stream) >= server->replay.unsent_least);
}

void server_close_unrun(struct server *server, const struct err *err)
{
	server->replay.is_unrun = true;
	server_close(server, err);
}

/* What its borrower can rely on: for the DETAIL of its error. */
static const char *tell_work(const struct server *server)
{
	bool is_running = ledger_owes_borrower(&server->ledger) || server->is_mid_request;

	if (server->status == 'I')
		return is_running ? "The statement might have been executed."
		                  : "No statement was running.";
	return is_running ? "The transaction was not committed, unless COMMIT was sent last."
	                  : "The transaction was not committed.";
}

/* Takes what must be sent again from a server that is being closed. */
static struct replay take_unrun(struct server *server)
{
	struct replay unrun = { 0 };

	if (!server->replay.is_unrun)
		return unrun;
	unrun = server->replay;
	server->replay = (struct replay){ 0 };
	return unrun;
}

/* The borrower's parameters are being set: it has not sent anything yet. */
static bool is_before_all(const struct server *server)
{
	const struct borrower *borrower = server->borrower;

	return borrower && borrower->ops->on_unrun && server->errand == ERRAND_REPLAY;
}

bool server_can_go_unnoticed(const struct server *server)
{
	return is_before_all(server) || (server->borrower && server_has_only_begun(server));
}

void server_close(struct server *server, const struct err *err)
{
	const struct server_ops *ops = server->site->ops;
	struct borrower *borrower = server->borrower;
	bool was_new = server->state == SERVER_CONNECTING || server->state == SERVER_LOGIN;
	struct err reason = *err; /* err may point into an object that is freed below: copy it */
	bool got_fatal = server->got_fatal;
	bool is_unsent = is_before_all(server);
	struct replay unrun;

	if (server->state == SERVER_CLOSING)
		return;
	unrun = take_unrun(server);
	log_close(server, &reason);
	if (!server->site->is_watch)
		note_end(server, &reason);
	if (!was_new)
		say_goodbye(server);
	if (borrower && reason.code == ERR_SERVER_LOST && !server_is_dedicated(server))
		err_detail(&reason, tell_work(server));
	if (borrower)
		PROBE_SERVER_RETURNED(borrower_client_id(borrower), server->site->database,
		                      server->site->user, server_backend_pid(server),
		                      loop_now(server->site->shared->loop) - server->lent_at);
	server->borrower = NULL;
	server_forget(server);
	if (was_new)
		ops->on_login_failed(server, &reason);
	if (!borrower)
		return;
	borrower->is_mid_answer = server->is_mid_response;
	borrower->server = NULL;
	borrower->state = BORROWER_RESTING;
	ops->on_borrower_lost(server, borrower);
	if (is_unsent || unrun.is_unrun)
		borrower->ops->on_unrun(borrower, &reason, &unrun);
	else
		borrower->ops->on_lost(borrower, &reason, got_fatal);
	replay_done(&unrun);
}

void server_leave_host(struct server *server, enum close_reason reason)
{
	struct err err;

	err_close(&err, reason);
	if (server->borrower && server_has_only_begun(server))
		server_close_unrun(server, &err);
	else
		server_close(server, &err);
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

void server_set_close_needed(struct server *server, enum close_reason reason)
{
	bool was_needed = server->is_close_needed;

	if (!reason || !server->close_reason)
		server->close_reason = reason;
	server->is_close_needed = reason != CLOSE_NONE;
	if (server->is_close_needed != was_needed)
		server->site->ops->on_close_needed(server);
}

void server_need_close(struct server *server, enum close_reason reason)
{
	server_set_close_needed(server, reason);
}

/* ---- limits ---- */

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

void server_query_due(struct timer *timer)
{
	struct server *server = container_of(timer, struct server, timer);

	/* Nothing is owed and only the client's Sync is missing: no query is running. */
	if (server->state == SERVER_LENT && ledger_is_empty(&server->ledger)) {
		server->request_at = 0;
		timer_set(timer, server->site->limits.idle_transaction,
		          loop_now(server->site->shared->loop));
		return;
	}
	server_close_for(server, CLOSE_QUERY_TIMEOUT);
}

void server_idle_transaction_due(struct timer *timer)
{
	server_close_for(container_of(timer, struct server, timer), CLOSE_IDLE_TRANSACTION);
}

void server_transaction_due(struct timer *timer)
{
	server_close_for(container_of(timer, struct server, xact), CLOSE_TRANSACTION_TIMEOUT);
}

/* No query_timeout for replication: a stream or a base backup is no query. */
static struct timer_queue *query_limit(const struct server *server)
{
	return server->replication ? NULL : server->site->limits.query;
}

static struct timer_queue *transaction_limit(const struct server *server)
{
	return server->replication ? NULL : server->site->limits.transaction;
}

void server_begin_query(struct server *server, usec_t query_since, usec_t xact_since)
{
	if (query_limit(server) || timer_is_set(&server->timer))
		timer_set(&server->timer, query_limit(server), query_since);
	if (transaction_limit(server) && !timer_is_set(&server->xact))
		timer_set(&server->xact, transaction_limit(server), xact_since);
	server->request_at = query_since;
	server->xact_at = xact_since;
	server->is_ready = false;
}

void server_end_transaction(struct server *server, bool is_settled)
{
	server->xact_at = is_settled ? 0 : loop_now(server->site->shared->loop);
	timer_set(&server->xact, is_settled ? NULL : transaction_limit(server), server->xact_at);
}

void server_begin_limit(struct server *server)
{
	server->is_limited = true;
	timer_set(&server->timer, server->site->limits.connect,
	          loop_now(server->site->shared->loop));
}

void server_end_limit(struct server *server)
{
	server->is_limited = false;
	timer_clear(&server->timer);
}

void server_rearm(struct server *server)
{
	const struct server_limits *limits = &server->site->limits;

	if (server->state == SERVER_CHECKING || server->state == SERVER_RESETTING)
		timer_change(&server->timer, limits->connect);
	else if (server->state != SERVER_LENT)
		set_state_timer(server);
	else if (server->errand != ERRAND_NONE || server->is_limited)
		timer_change(&server->timer, limits->connect);
	else if (server->is_ready)
		timer_set(&server->timer, server->status == 'I' ? NULL : limits->idle_transaction,
		          server->used_at);
	else
		timer_set(&server->timer, query_limit(server), server->request_at);
	if (server->state == SERVER_LENT && server->xact_at)
		timer_set(&server->xact, transaction_limit(server), server->xact_at);
	if (server->state != SERVER_CONNECTING && server->state != SERVER_LOGIN)
		timer_set(&server->life, limits->life, server->connected_at);
}

/* ---- sending ---- */

enum ledger_send server_note(struct server *server, enum ledger_kind kind)
{
	enum ledger_send result = ledger_add(&server->ledger, kind, LEDGER_FORWARD);

	/* A request that gets no reply (the rest of a failed COPY) leaves the server ready. */
	if (!ledger_is_empty(&server->ledger))
		server->is_ready = false;
	return result;
}

enum ledger_send server_note_change(struct server *server, enum ledger_kind kind,
                                    enum ledger_fate fate, struct ledger_change *change)
{
	server->is_ready = false;
	return ledger_add_change(&server->ledger, kind, fate, change);
}

/* Sending failed. The server may have sent the reason before: read that first. */
static void close_broken(struct task *task)
{
	struct server *server = container_of(task, struct server, free_task);

	if (server->state == SERVER_CLOSING)
		return;
	if (stream_is_open(&server->stream))
		server->stream.ops->on_input(&server->stream);
	if (server->state == SERVER_CLOSING)
		return;
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
	struct iovec all[SEND_BEHIND_MAX] = { { server->prefix.at, server->prefix.count } };
	bool is_one = count < SEND_BEHIND_MAX, is_sent;

	for (int i = 0; is_one && i < count; i++)
		all[1 + i] = pieces[i];
	is_sent = stream_sendv(&server->stream, all, is_one ? 1 + count : 1);
	buf_reuse(&server->prefix, PREFIX_KEEP_MAX);
	return is_sent && (is_one || stream_sendv(&server->stream, pieces, count));
}

/* Bytes of the borrower. */
static inline void count_sent(const struct server *server, size_t count)
{
	*server->site->client_bytes += count;
	*server->site->all_client_bytes += count;
}

bool server_send(struct server *server, struct bytes bytes)
{
	if (server->prefix.count)
		return server_sendv(server, &(struct iovec){ (void *)bytes.at, bytes.count }, 1);
	count_sent(server, bytes.count);
	if (stream_send(&server->stream, bytes))
		return true;
	server_break(server);
	return false;
}

bool server_sendv(struct server *server, const struct iovec *pieces, int count)
{
	for (int i = 0; i < count; i++)
		count_sent(server, pieces[i].iov_len);
	if (server->prefix.count ? send_behind(server, pieces, count)
	                         : stream_sendv(&server->stream, pieces, count))
		return true;
	server_break(server);
	return false;
}

void server_push(struct server *server)
{
	if (server->prefix.count)
		server_sendv(server, NULL, 0);
}

void server_make_certain(struct server *server)
{
	/* Close of the unnamed portal: outside of a transaction there is none. */
	static const char ask[] = "C\0\0\0\006P\0"
				  "S\0\0\0\004";

	assert(server->status == 'I');
	if (server_note_change(server, LEDGER_CLOSE, LEDGER_INJECT, NULL) == LEDGER_SENT &&
	    server_note_change(server, LEDGER_SYNC, LEDGER_INJECT, NULL) == LEDGER_SENT)
		server_send(server, bytes_of(ask, sizeof(ask) - 1));
	else
		server_break(server);
}

void server_read_on(struct server *server) { stream_want(&server->stream, WANT_INPUT); }

/* ---- errands ---- */

bool server_errand(struct server *server, enum errand_kind kind, const char *query)
{
	struct buf *out = server->site->shared->errand_message;
	bool is_sent;

	assert(server->errand == ERRAND_NONE);
	server->errand = kind;
	server->errand_failed = false;
	server->is_ready = false;
	if (server->state == SERVER_LENT) /* the other states have this limit anyway */
		timer_set(&server->timer, server->site->limits.connect,
		          loop_now(server->site->shared->loop));
	message_query(out, query);
	is_sent = buf_ok(out) &&
	          ledger_add(&server->ledger, LEDGER_QUERY, LEDGER_INTERNAL) == LEDGER_SENT &&
	          stream_send(&server->stream, buf_bytes(out));
	buf_reuse(out, ERRAND_KEEP_MAX);
	if (!is_sent)
		server_break(server);
	return is_sent;
}

static void settle_ahead(struct ledger_change *change, bool is_done)
{
	struct server *server = container_of(change, struct server, prefix_change);

	server_discard_end(server, is_done);
	if (is_done || server->state == SERVER_CLOSING)
		return;
	log_warning(&server->log, "parameters could not be set; it is closed after this client");
	server_set_close_needed(server, CLOSE_PARAMETERS_NOT_SET);
}

bool server_errand_ahead(struct server *server, const char *query)
{
	server->prefix_change = (struct ledger_change){ .settle = settle_ahead };
	message_query(&server->prefix, query);
	if (buf_ok(&server->prefix) && server_note_change(server, LEDGER_QUERY, LEDGER_IGNORE,
	                                                  &server->prefix_change) == LEDGER_SENT)
		return true;
	server_break(server);
	return false;
}

#define QUESTION_TRIES 5

static const struct {
	const char *name;
	enum close_reason failure; /* CLOSE_NONE: a failure is only logged */
} errands[] = {
	[ERRAND_NONE] = { "nothing", CLOSE_NONE },
	[ERRAND_CONNECT] = { "connect_query", CLOSE_NONE },
	[ERRAND_CHECK] = { "server_check_query", CLOSE_NONE },
	[ERRAND_RESET] = { "server_reset_query", CLOSE_RESET_FAILED },
	[ERRAND_REPLAY] = { "parameters", CLOSE_NONE },
	[ERRAND_SET_BACK] = { "parameters", CLOSE_BAD_SERVER_PARAMETER },
	[ERRAND_CLEAN] = { "RESET ALL", CLOSE_RESET_FAILED },
	[ERRAND_CHANNELS] = { "UNLISTEN", CLOSE_QUESTION_FAILED },
	[ERRAND_ASK] = { "the question about session state", CLOSE_QUESTION_FAILED },
	[ERRAND_ROLE] = { "the role question", CLOSE_NONE },
};

static void write_question(const struct server *server, struct server_question *question,
                           struct buf *text)
{
	const char *version = params_find(server->baseline, "server_version");

	question->try_count++;
	question_text(question->facts.parts, buf_bytes(&question->names),
	              version ? (unsigned int)strtoul(version, NULL, 10) : 0, text);
	buf_add_byte(text, 0);
}

static void send_question(struct server *server)
{
	struct server_question *question = server->question;
	struct buf text = { 0 };

	write_question(server, question, &text);
	if (buf_ok(&question->names) && buf_ok(&text))
		server_errand(server, ERRAND_ASK, text.at);
	else
		server_break(server);
	buf_free(&text);
}

void server_ask(struct server *server, unsigned int parts, struct bytes names)
{
	server->question = calloc(1, sizeof(*server->question));
	if (!server->question) {
		server_break(server);
		return;
	}
	server->question->facts.parts = parts;
	buf_add(&server->question->names, names.at, names.count);
	send_question(server);
}

bool server_ask_behind(struct server *server, unsigned int parts, struct buf *out)
{
	struct server_question *question = calloc(1, sizeof(*question));
	size_t before = out->count;
	struct buf text = { 0 };

	if (!question)
		return false;
	question->facts.parts = parts;
	write_question(server, question, &text);
	if (buf_ok(&text))
		message_query(out, text.at);
	if (!buf_ok(&text) || !buf_ok(out) || out->count - before > UINT16_MAX ||
	    ledger_add(&server->ledger, LEDGER_QUERY, LEDGER_INTERNAL) != LEDGER_SENT) {
		out->count = before;
		buf_free(&text);
		question_free(&question);
		return false;
	}
	buf_free(&text);
	server->question = question;
	server->ask_size = (uint16_t)(out->count - before);
	return true;
}

void server_begin_ask(struct server *server)
{
	server->ask_size = 0;
	server->errand = ERRAND_ASK;
	server->errand_failed = false;
	timer_set(&server->timer, server->site->limits.connect,
	          loop_now(server->site->shared->loop));
}

void server_drop_question(struct server *server)
{
	if (!server->ask_size)
		return;
	ledger_ignore_question(&server->ledger);
	server->ask_size = 0;
	question_free(&server->question);
}

/*
 * The question has failed. It is canceled by a cancel request that was on its way, or by a short
 * statement_timeout before that is put aside. Otherwise a name may be one that this role must not
 * ask for, or it must not read the sources of functions. false: it is not asked again.
 */
static bool ask_again(struct server *server)
{
	struct server_question *question = server->question;
	unsigned int parts = question->facts.parts;
	bool lacks_names = question->facts.lacks_names;

	if (server->status != 'I' || question->try_count >= QUESTION_TRIES)
		return false;
	facts_done(&question->facts);
	if (question->was_canceled) {
		/* the same again */
	} else if (parts & QUESTION_SOURCES) {
		parts &= ~(unsigned int)QUESTION_SOURCES;
	} else if (question->names.count) {
		buf_free(&question->names);
		lacks_names = true;
	} else {
		return false;
	}
	question->was_canceled = false;
	question->facts.parts = parts;
	question->facts.lacks_names = lacks_names;
	send_question(server);
	return true;
}

/* Its replies are dropped. false: the connection is broken, or there is no memory. */
static bool send_ignored(struct server *server, const char *query)
{
	struct buf out = { 0 };
	bool is_sent;

	message_query(&out, query);
	is_sent = buf_ok(&out) &&
	          ledger_add(&server->ledger, LEDGER_QUERY, LEDGER_IGNORE) == LEDGER_SENT &&
	          stream_send(&server->stream, buf_bytes(&out));
	buf_free(&out);
	return is_sent;
}

void server_clear_channels(struct server *server, const char *query)
{
	if (query && !send_ignored(server, query))
		server_break(server);
	else
		server_errand(server, ERRAND_CHANNELS, "UNLISTEN *");
}

void server_change_channels(struct server *server, const char *query)
{
	server_errand(server, ERRAND_CHANNELS, query);
}

static void give_facts(struct server *server)
{
	struct server_question *question = server->question;

	server->question = NULL;
	if (question->facts.is_broken)
		server_close_for(server, CLOSE_QUESTION_FAILED);
	else
		server->borrower->ops->on_facts(server->borrower, &question->facts);
	question_free(&question);
}

void server_errand_done(struct server *server)
{
	enum errand_kind kind = server->errand;

	server->errand = ERRAND_NONE;
	if (server->errand_failed && kind != ERRAND_ROLE)
		log_warning(&server->log, "%s failed", errands[kind].name);
	if (server->errand_failed && kind == ERRAND_ASK && ask_again(server))
		return;
	if (server->errand_failed && errands[kind].failure && server->state != SERVER_LOGIN) {
		server_close_for(server, errands[kind].failure);
		return;
	}
	if (server->status != 'I') {
		server_close_with(server, ERR_STATE, "a query of our own left a transaction open");
		return;
	}
	server->is_ready = true;
	switch (kind) {
	case ERRAND_CONNECT:
		if (server->site->is_followed && !server_is_dedicated(server))
			server_ask_defaults(server);
		else
			server->site->ops->on_login_done(server);
		return;
	case ERRAND_REPLAY:
		server_discard_end(server, !server->errand_failed);
		if (server->errand_failed) {
			server->site->ops->on_params_refused(server);
			return;
		}
		params_release(server->site->shared->params, &server->before);
		timer_clear(&server->timer);
		server->borrower->ops->on_lent(server->borrower);
		return;
	case ERRAND_CHANNELS:
		timer_clear(&server->timer);
		server->borrower->ops->on_channels_cleared(server->borrower);
		return;
	case ERRAND_ASK:
		if (server->state == SERVER_LOGIN) {
			server_take_defaults(server, &server->question->facts);
			question_free(&server->question);
			server->site->ops->on_login_done(server);
			return;
		}
		timer_clear(&server->timer);
		give_facts(server);
		return;
	case ERRAND_ROLE:
		server->site->ops->on_home(server);
		return;
	case ERRAND_RESET:
		server->has_session = server->is_dirty = server->has_unknown_params = false;
		server->site->ops->on_home(server);
		return;
	case ERRAND_CLEAN:
		server->has_unknown_params = false;
		server->site->ops->on_home(server);
		return;
	case ERRAND_SET_BACK:
	case ERRAND_CHECK:
	case ERRAND_NONE:
		server->site->ops->on_home(server);
	}
}

/*
 * The cancel key begins with the process id. Without a key, the Unix socket only knows the
 * process that listens, not the one that serves this connection.
 */
int64_t server_backend_pid(const struct server *server)
{
	if (!server)
		return 0;
	if (server->key_size >= 4)
		return (int32_t)load_be32(server->key);
	return address_is_unix(&server->peer) ? server->peer.un.pid : 0;
}
