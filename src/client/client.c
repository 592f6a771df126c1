/* SPDX-License-Identifier: ISC */
/*
 * A client's life: its states, its limits, its end.
 *
 * Hard here: a client that is told why it must go shall be able to read it. If we
 * closed while bytes of its own are still on their way, the kernel would answer
 * them with a reset, and that would destroy our words. So a client that was told
 * something lingers: we stop talking, and read to the end what it still says.
 */
#include "pgweir/client/client.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "pgweir/auth/digest.h"
#include "pgweir/auth/auth_server.h"
#include "pgweir/config/entries.h"
#include "pgweir/pgwire/message.h"

#include "client_priv.h"
#include "login/auth_query_priv.h"
#include "relay/late_begin_priv.h"
#include "statements/names_priv.h"
#include "statements/sql_priv.h"

#include "pgweir/base/banned.h"

#define READ_OFF_MAX 16 /* reads of what nobody will look at */
#define LINGER_LIMIT (5 * USEC_PER_SEC)

#define TO(state) (1u << (state))
#define END (TO(CLIENT_LINGERING) | TO(CLIENT_CLOSED))

static const struct client_step {
	const char *name;
	const char *shown; /* as SHOW CLIENTS has it; NULL: not listed */
	unsigned int next; /* TO() of each state that may follow */
} steps[CLIENT_STATES] = {
	[CLIENT_STARTUP] = { "startup", NULL,
	                     TO(CLIENT_AUTHENTICATION) | TO(CLIENT_CANCELING) | TO(CLIENT_ROUTING) |
	                         TO(CLIENT_CONSOLE) | END },
	[CLIENT_AUTHENTICATION] = { "proof", NULL,
	                            TO(CLIENT_LOOKING) | TO(CLIENT_DERIVING) | TO(CLIENT_DELAYED) |
	                                TO(CLIENT_NEWCOMER) | TO(CLIENT_IDLE) | TO(CLIENT_CONSOLE) |
	                                END },
	[CLIENT_LOOKING] = { "looking", NULL, TO(CLIENT_AUTHENTICATION) | END },
	[CLIENT_DERIVING] = { "deriving", NULL, TO(CLIENT_AUTHENTICATION) | END },
	[CLIENT_DELAYED] = { "delayed", NULL, END },
	[CLIENT_NEWCOMER] = { "newcomer", "waiting", TO(CLIENT_IDLE) | TO(CLIENT_ACTIVE) | END },
	[CLIENT_IDLE] = { "idle", "idle",
	                  TO(CLIENT_LATE) | TO(CLIENT_WAITING) | TO(CLIENT_PREPARING) |
	                      TO(CLIENT_ACTIVE) | END },
	[CLIENT_LATE] = { "late", "idle",
	                  TO(CLIENT_IDLE) | TO(CLIENT_WAITING) | TO(CLIENT_PREPARING) |
	                      TO(CLIENT_ACTIVE) | END },
	[CLIENT_WAITING] = { "waiting", "waiting",
	                     TO(CLIENT_PREPARING) | TO(CLIENT_ACTIVE) | TO(CLIENT_IDLE) |
	                         TO(CLIENT_LATE) | END },
	[CLIENT_PREPARING] = { "preparing", "active", TO(CLIENT_ACTIVE) | END },
	[CLIENT_ACTIVE] = { "active", "active", TO(CLIENT_IDLE) | TO(CLIENT_PREPARING) | END },
	[CLIENT_CANCELING] = { "canceling", NULL, TO(CLIENT_CLOSED) },
	[CLIENT_ROUTING] = { "routing", NULL, TO(CLIENT_CLOSED) },
	[CLIENT_CONSOLE] = { "console", "active", END },
	[CLIENT_LINGERING] = { "lingering", NULL, TO(CLIENT_CLOSED) },
	[CLIENT_CLOSED] = { "closed", NULL, 0 },
};

#define UNPROVEN_STATES                                                        \
	(TO(CLIENT_STARTUP) | TO(CLIENT_AUTHENTICATION) | TO(CLIENT_LOOKING) | \
	 TO(CLIENT_DERIVING) | TO(CLIENT_DELAYED))

const char *client_state_name(const struct client *client)
{
	if (client->state == CLIENT_CANCELING)
		return client->cancel && client->cancel->is_active ? "active_cancel_req"
		                                                   : "waiting_cancel_req";
	if (client->state == CLIENT_ROUTING)
		return client->forward && client->forward->state == FORWARD_SENT
		           ? "active_cancel_req"
		           : "waiting_cancel_req";
	return steps[client->state].shown;
}

void client_enter(struct client *client, enum client_state next)
{
	struct clients *clients = client->clients;

	assert(steps[client->state].next & TO(next));
	log_debug(&client->log, "%s -> %s", steps[client->state].name, steps[next].name);
	clients->state_counts[client->state]--;
	clients->state_counts[next]++;
	client->state = next;
	/* Behind these it has shown something: who it is, or a key. */
	if (client->login && !(TO(next) & UNPROVEN_STATES))
		unauthenticated_remove(client->login);
}

const char *client_user(const struct client *client)
{
	if (client->role)
		return client->role->name;
	return client->login && client->login->user ? client->login->user : "(nouser)";
}

const char *client_database(const struct client *client)
{
	if (client->database)
		return client->database->name;
	if (client->state == CLIENT_CONSOLE)
		return CONFIG_CONSOLE_DATABASE;
	return client->login && client->login->database ? client->login->database : "(nodb)";
}

void client_login_free(struct client *client)
{
	struct client_login *login = client->login;

	if (!login)
		return;
	throttle_forget(client);
	unauthenticated_remove(login);
	client->login = NULL;
	auth_server_free(&login->auth);
	hba_check_free(login);
	secret_free(&login->outside);
	auth_query_free(login);
	buf_free(&login->unknown);
	buf_free(&login->parameters);
	free(login->database);
	free(login->user);
	free(login->certificate_name);
	free(login->options);
	free(login);
}

/* ---- the end ---- */

const char *client_plain(const char *name, char out[CLIENT_PLAIN_SIZE])
{
	size_t count = 0;

	for (; name && name[count] && count + 1 < CLIENT_PLAIN_SIZE; count++) {
		char byte = name[count];

		out[count] = byte < ' ' || byte > '~' || byte == '"' ? '?' : byte;
	}
	out[count] = 0;
	return out;
}

void client_add_application_name(const struct client *client, struct strbuf *line)
{
	const char *name = params_find(client->params, "application_name");
	char buffer[CLIENT_PLAIN_SIZE];

	if (!name || !*name)
		return;
	strbuf_add(line, " application_name=\"");
	strbuf_add(line, client_plain(name, buffer));
	strbuf_add(line, "\"");
}

static void log_close(const struct client *client, const char *reason, const char *sqlstate)
{
	usec_t age = loop_now(client->clients->with.loop) - client->connected_at;
	struct log_entry entry;

	if (!reason || !client->clients->config->log_disconnections ||
	    !log_begin(&client->log, LOG_LEVEL_INFO, &entry))
		return;
	entry.who.facts = &(struct log_facts){ .event = "disconnect",
		                               .sqlstate = sqlstate,
		                               .reason = reason,
		                               .has_duration = true,
		                               .duration = age };
	strbuf_add(&entry.line, "closing because: ");
	strbuf_add(&entry.line, reason);
	strbuf_add(&entry.line, " (age=");
	strbuf_add_number(&entry.line, (uint64_t)(age / USEC_PER_SEC));
	strbuf_add(&entry.line, "s)");
	if (!entry.is_json)
		client_add_application_name(client, &entry.line);
	log_end(&client->log, LOG_LEVEL_INFO, &entry);
}

/* For SHOW ERRORS. */
static void note_end(const struct client *client, enum err_code code, const char *reason,
                     const char *detail)
{
	if (!reason && client->state == CLIENT_STARTUP)
		reason = "left before the first message";
	else if (!reason && client->login && client->login->client)
		reason = "left before proving who it is";
	else if (!reason && (client->state == CLIENT_CANCELING || client->state == CLIENT_ROUTING))
		reason = "cancel request delivered";
	if (reason)
		endings_note(&client->clients->endings,
		             &(struct ending_told){ .code = code,
		                                    .words = reason,
		                                    .detail = detail,
		                                    .database = client_database(client),
		                                    .user = client_user(client) });
}

/* It works for nobody and nobody works for it any more. */
static void detach(struct client *client)
{
	struct clients *clients = client->clients;

	timer_clear(&client->timer);
	if (client->state == CLIENT_CONSOLE && client->console)
		clients->with.door->close(client->console);
	if (client->state == CLIENT_CANCELING && client->cancel)
		cancel_drop(client->cancel);
	if (client->state == CLIENT_ROUTING && client->forward)
		forward_drop(client->forward);
	client->console = NULL;
	client->borrower.is_mid_message = client->frame_left && client->forwards_rest;
	pool_leave(&client->borrower);
	sql_forget(client);
	names_free(client); /* the ledger has taken back what was under way */
	unnamed_free(client);
	late_begin_forget(client);
	slow_forget(client);
	cancel_keys_remove(&clients->keys, client);
	admit_uncount(client);
	if (client->is_counted) {
		client->clients->guest_count -= client->is_guest;
		client->role->exempt_count -= client->is_exempt;
		client->is_guest = client->is_exempt = false;
		if (client->database)
			database_count_client(client->database, -1);
		client->database = NULL;
		pools_leave_role(clients->with.pools, &client->role);
	}
	client->is_counted = false;
}

static void client_retire(struct client *client)
{
	struct clients *clients = client->clients;
	struct clients_walk *walk;

	stream_close(&client->stream);
	client_enter(client, CLIENT_CLOSED);
	TAILQ_FOREACH (walk, &clients->walks, node) {
		if (walk->next == client)
			walk->next = TAILQ_NEXT(client, node);
	}
	TAILQ_REMOVE(&clients->list, client, node);
	TAILQ_INSERT_TAIL(&clients->closed, client, node);
	clients->count--;
	drain_gone(client);
	loop_defer(clients->with.loop, &clients->free_task);
	pools_changed(clients->with.pools);
	clients->with.on_free(clients->with.arg);
}

void client_close(struct client *client, const char *reason)
{
	if (client->state == CLIENT_CLOSED)
		return;
	if (client->state != CLIENT_LINGERING) {
		log_close(client, reason, NULL);
		note_end(client, ERR_NONE, reason, NULL);
		detach(client);
	}
	timer_clear(&client->timer);
	client_login_free(client);
	client_retire(client);
}

void client_forget(struct client *client)
{
	struct loop *loop = client->clients->with.loop;

	log_debug(&client->log, "handed over");
	loop_close_later(loop, stream_take_socket(&client->stream));
	detach(client);
	client_login_free(client);
	client_retire(client);
}

static void on_linger_due(struct timer *timer) { client_close(CLIENT_OF(timer, timer), NULL); }

/* Goes on lingering: what is unsent goes out, then we say no more. */
static void linger(struct client *client)
{
	struct loop *loop = client->clients->with.loop;

	detach(client);
	client_login_free(client);
	client_enter(client, CLIENT_LINGERING);
	timer_set(&client->timer, loop_timer_queue(loop, LINGER_LIMIT, on_linger_due),
	          loop_now(loop));
	if (stream_is_halted(&client->stream))
		stream_go_on(&client->stream);
	stream_push(&client->stream);
	if (stream_unsent(&client->stream) == 0)
		stream_finish(&client->stream);
	if (!stream_want(&client->stream, WANT_INPUT))
		client_close(client, NULL);
}

/* Whether a message of ours would stand in the middle of one of the server's. */
static bool is_within_frame(const struct client *client)
{
	const struct server *server = client->borrower.server;

	return server ? server->is_mid_response : client->borrower.is_mid_answer;
}

void client_leave(struct client *client, const char *reason)
{
	if (client->state == CLIENT_LINGERING || client->state == CLIENT_CLOSED)
		return;
	log_close(client, reason, NULL);
	note_end(client, ERR_NONE, reason, NULL);
	linger(client);
}

static void say_fatal(const struct client *client, const struct err *err, const char *detail)
{
	const struct borrower *borrower = &client->borrower;
	bool has_wait = borrower->pool && borrower->state != BORROWER_RESTING &&
	                borrower->state != BORROWER_SERVED;
	struct log_facts facts = { .event = "error",
		                   .sqlstate = err->sqlstate,
		                   .reason = err->text };

	if (!client->clients->config->log_pooler_errors)
		return;
	facts.has_wait = has_wait;
	if (has_wait)
		facts.wait = loop_now(client->clients->with.loop) - borrower->waiting_since;
	log_event(&client->log, LOG_LEVEL_WARNING, &facts, "pooler error: %s%s%s", err->text,
	          detail ? ": " : "", detail ? detail : "");
}

void client_fatal(struct client *client, const struct err *err)
{
	client_fatal_detailed(client, err, err->detail[0] ? err->detail : NULL, NULL);
}

void client_fatal_detailed(struct client *client, const struct err *err, const char *detail,
                           const char *hint)
{
	struct buf out = { 0 };
	struct err told = *err; /* it may lie in what goes now */
	bool is_sent;

	if (client->state == CLIENT_LINGERING || client->state == CLIENT_CLOSED)
		return;
	if (is_within_frame(client) || stream_is_shaking(&client->stream)) {
		client_close(client, told.text);
		return;
	}
	say_fatal(client, &told, detail);
	log_close(client, told.text, told.sqlstate);
	note_end(client, told.code, told.text, detail);
	message_error(&out, &(struct report){ .severity = "FATAL",
	                                      .sqlstate = told.sqlstate,
	                                      .text = told.text,
	                                      .detail = detail,
	                                      .hint = hint });
	is_sent = buf_ok(&out) && stream_send(&client->stream, buf_bytes(&out));
	buf_free(&out);
	if (is_sent) {
		linger(client);
		return;
	}
	detach(client);
	client_login_free(client);
	client_retire(client);
}

/* Whether it would understand a message of ours now. */
static bool listens(const struct client *client)
{
	switch (client->state) {
	case CLIENT_STARTUP: /* it may have asked for TLS */
	case CLIENT_CANCELING:
	case CLIENT_ROUTING:
	case CLIENT_LINGERING:
	case CLIENT_CLOSED:
		return false;
	default:
		return !is_within_frame(client) && !stream_is_shaking(&client->stream);
	}
}

/* What has come and was not read would turn the close into a reset, which swallows our words. */
static void read_off(const struct client *client)
{
	char buffer[4096];

	for (int i = 0; i < READ_OFF_MAX; i++) {
		if (recv(client->stream.watch.fd, buffer, sizeof(buffer), MSG_DONTWAIT) <= 0)
			return;
	}
}

void client_dismiss(struct client *client, struct bytes words, const char *reason)
{
	if (listens(client) && stream_send(&client->stream, words)) {
		stream_push(&client->stream);
		read_off(client);
	}
	client_close(client, reason);
}

void client_refuse(struct client *client, enum err_code code, const char *format, ...)
{
	struct err err;
	char words[ERR_TEXT_SIZE];
	va_list args;

	va_start(args, format);
	vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	err_set(&err, code, "%s", words);
	client_fatal(client, &err);
}

void client_give_up(struct client *client, enum err_code code, const char *words)
{
	struct buf reason = { 0 };
	struct err err;
	const char *hint;

	err_set(&err, code, "%s", words);
	hint = pool_wait_tell(&client->borrower, &reason);
	client_fatal_detailed(client, &err, buf_ok(&reason) ? buf_text(&reason) : NULL, hint);
	buf_free(&reason);
}

void client_turn_away(struct client *client, const struct err *err)
{
	struct buf detail = { 0 };

	if (err->code != ERR_UNREACHABLE) {
		client_fatal(client, err);
		return;
	}
	pool_unreachable_tell(client->borrower.pool, &detail);
	client_fatal_detailed(client, err, buf_ok(&detail) ? buf_text(&detail) : NULL,
	                      "With fail_fast = 0 clients wait for it, up to query_wait_timeout.");
	buf_free(&detail);
}

void client_hurry(struct client *client)
{
	pool_hurry(&client->borrower,
	           config_fail_fast(client->clients->config, client->database->entry,
	                            client->role->entry));
}

/* ---- limits ---- */

static void on_idle_due(struct timer *timer)
{
	client_refuse(CLIENT_OF(timer, timer), ERR_IDLE_SESSION, "client_idle_timeout");
}

static usec_t idle_limit(const struct client *client)
{
	return config_client_idle_timeout(client->clients->config, client->role->entry);
}

void client_idle_begin(struct client *client)
{
	struct loop *loop = client->clients->with.loop;
	usec_t limit = idle_limit(client);

	if (limit || timer_is_set(&client->timer))
		timer_set(&client->timer, loop_timer_queue(loop, limit, on_idle_due),
		          loop_now(loop));
}

void client_idle_resume(struct client *client, usec_t since)
{
	struct loop *loop = client->clients->with.loop;

	timer_set(&client->timer, loop_timer_queue(loop, idle_limit(client), on_idle_due), since);
}

usec_t client_idle_since(const struct client *client)
{
	usec_t now = loop_now(client->clients->with.loop), since = now;

	if (timer_is_set(&client->timer))
		since = client->timer.due - idle_limit(client);
	/* A limit that has just changed is not in all timers yet. */
	return since > 0 && since < now ? since : now;
}

static void on_wait_due(struct timer *timer)
{
	client_give_up(CLIENT_OF(timer, timer), ERR_LIMIT, "query_wait_timeout");
}

static void on_query_due(struct timer *timer)
{
	client_give_up(CLIENT_OF(timer, timer), ERR_QUERY_CANCELED, "query_timeout");
}

/* The limit of waiting: query_wait_timeout, or query_timeout if that is shorter. */
static void arm_wait(struct client *client, usec_t since)
{
	const struct config *config = client->clients->config;
	struct loop *loop = client->clients->with.loop;
	usec_t wait =
	    config_query_wait_timeout(config, client->database->entry, client->role->entry);
	usec_t query = config_query_timeout(config, client->role->entry);

	if (query && (!wait || query < wait))
		timer_set(&client->timer, loop_timer_queue(loop, query, on_query_due), since);
	else
		timer_set(&client->timer, loop_timer_queue(loop, wait, on_wait_due), since);
}

/* Its login still has its own limit: the one that ends first counts. */
void client_newcomer_begin(struct client *client)
{
	usec_t login_due = client_login_due(client);

	arm_wait(client, client->borrower.waiting_since);
	if (login_due && (!timer_is_set(&client->timer) || login_due < client->timer.due))
		client_login_begin(client);
}

static void on_notify_due(struct timer *timer)
{
	struct client *client = CLIENT_OF(timer, timer);
	struct buf out = { 0 };

	arm_wait(client, client->request_at);
	client->was_notified = true;
	message_notice(&out, &(struct report){
				 .severity = "NOTICE",
				 .sqlstate = "00000",
				 .text = "No server connection available in postgres backend, "
					 "client being queued",
			     });
	if (buf_ok(&out))
		client_send(client, buf_bytes(&out));
	buf_free(&out);
}

void client_wait_begin(struct client *client)
{
	const struct config *config = client->clients->config;
	struct loop *loop = client->clients->with.loop;
	usec_t notify = config->query_wait_notify;

	arm_wait(client, client->request_at);
	if (!notify || client->was_notified)
		return;
	/* The notice comes first, if its time comes first. */
	if (!timer_is_set(&client->timer) || client->timer.due > client->request_at + notify)
		timer_set(&client->timer, loop_timer_queue(loop, notify, on_notify_due),
		          client->request_at);
}

void client_rearm(struct client *client)
{
	struct loop *loop = client->clients->with.loop;

	switch (client->state) {
	case CLIENT_STARTUP:
	case CLIENT_AUTHENTICATION:
	case CLIENT_LOOKING:
	case CLIENT_DERIVING:
		client_login_begin(client);
		return;
	case CLIENT_NEWCOMER:
		client_hurry(client);
		client_newcomer_begin(client);
		return;
	case CLIENT_IDLE:
		timer_change(&client->timer,
		             loop_timer_queue(loop, idle_limit(client), on_idle_due));
		return;
	case CLIENT_LATE:
		late_begin_arm(client);
		return;
	case CLIENT_WAITING:
		client_hurry(client);
		client_wait_begin(client);
		return;
	default:
		return;
	}
}
