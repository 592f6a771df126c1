/* SPDX-License-Identifier: ISC */
/*
 * The states of a client, sending, and closing.
 *
 * Hard here: a client must be able to read the error that closes it. If we close the socket while
 * bytes from the client are still in flight, the kernel answers those with a reset, which destroys
 * our error. So after an error the client lingers: we stop sending, and read and drop what it still
 * sends.
 */
#include "pgweir/client/client.h"

#include <assert.h>
#include <stdarg.h>

#include "pgweir/base/container_of.h"
#include "pgweir/base/probes.h"
#include "pgweir/config/entries.h"
#include "pgweir/pgwire/message.h"

#include "client_priv.h"

#define READ_OFF_MAX 16 /* reads of input that is dropped */
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
	[CLIENT_AUTHENTICATION] = { "authentication", NULL,
	                            TO(CLIENT_LOOKING) | TO(CLIENT_DERIVING) | TO(CLIENT_DELAYED) |
	                                TO(CLIENT_NEWCOMER) | TO(CLIENT_IDLE) | TO(CLIENT_CONSOLE) |
	                                END },
	[CLIENT_LOOKING] = { "looking", NULL, TO(CLIENT_AUTHENTICATION) | END },
	[CLIENT_DERIVING] = { "deriving", NULL, TO(CLIENT_AUTHENTICATION) | END },
	[CLIENT_DELAYED] = { "delayed", NULL, END },
	[CLIENT_NEWCOMER] = { "newcomer", "waiting", TO(CLIENT_IDLE) | TO(CLIENT_ACTIVE) | END },
	[CLIENT_IDLE] = { "idle", "idle",
	                  TO(CLIENT_LATE) | TO(CLIENT_WAITING) | TO(CLIENT_CATCHING_UP) |
	                      TO(CLIENT_PREPARING) | TO(CLIENT_ACTIVE) | END },
	[CLIENT_LATE] = { "late", "idle",
	                  TO(CLIENT_IDLE) | TO(CLIENT_WAITING) | TO(CLIENT_CATCHING_UP) |
	                      TO(CLIENT_PREPARING) | TO(CLIENT_ACTIVE) | END },
	[CLIENT_WAITING] = { "waiting", "waiting",
	                     TO(CLIENT_CATCHING_UP) | TO(CLIENT_PREPARING) | TO(CLIENT_ACTIVE) |
	                         TO(CLIENT_IDLE) | TO(CLIENT_LATE) | END },
	[CLIENT_CATCHING_UP] = { "catching up", "waiting",
	                         TO(CLIENT_IDLE) | TO(CLIENT_LATE) | TO(CLIENT_PREPARING) |
	                             TO(CLIENT_ACTIVE) | END },
	[CLIENT_PREPARING] = { "preparing", "active",
	                       TO(CLIENT_ACTIVE) | TO(CLIENT_WAITING) | END },
	[CLIENT_ACTIVE] = { "active", "active",
	                    TO(CLIENT_IDLE) | TO(CLIENT_LATE) | TO(CLIENT_PREPARING) |
	                        TO(CLIENT_SETTLING) | TO(CLIENT_WAITING) | END },
	[CLIENT_SETTLING] = { "settling", "active", TO(CLIENT_ACTIVE) | TO(CLIENT_IDLE) | END },
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

/* Removes the login from the list of unauthenticated clients. */
static void leave_unauthenticated(struct client_login *login)
{
	struct clients *clients;

	if (!login->client)
		return;
	clients = login->client->clients;
	TAILQ_REMOVE(&clients->unauthenticated, login, unauthenticated);
	clients->high_count -= login->is_high;
	login->client = NULL;
}

void client_enter(struct client *client, enum client_state next)
{
	struct clients *clients = client->clients;

	assert(steps[client->state].next & TO(next));
	log_debug(&client->log, "%s -> %s", steps[client->state].name, steps[next].name);
	clients->state_counts[client->state]--;
	clients->state_counts[next]++;
	client->state = next;
	/* In all other states the client has authenticated, or shown a cancel key. */
	if (client->login && !(TO(next) & UNPROVEN_STATES))
		leave_unauthenticated(client->login);
}

const char *client_user(const struct client *client)
{
	if (client->role)
		return client->role->name;
	return client->login && client->login->user ? client->login->user : "(nouser)";
}

const char *client_database(const struct client *client)
{
	if (client->state == CLIENT_CONSOLE)
		return CONFIG_CONSOLE_DATABASE;
	if (client->state != CLIENT_CANCELING && client->state != CLIENT_ROUTING &&
	    client->database)
		return client->database->name;
	return client->login && client->login->database ? client->login->database : "(nodb)";
}

void client_login_free(struct client *client)
{
	if (!client->login)
		return;
	leave_unauthenticated(client->login);
	client->clients->ops->free_login(client);
}

/* ---- sending ---- */

bool client_send(struct client *client, struct bytes bytes)
{
	if (stream_send(&client->stream, bytes))
		return true;
	client_close(client, CLOSE_CLIENT_EOF);
	return false;
}

/* ---- closing ---- */

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

void client_add_application_name(const struct client *client, struct strbuf *out)
{
	const char *name = params_find(client->params, "application_name");
	char buffer[CLIENT_PLAIN_SIZE];

	if (!name || !*name)
		return;
	strbuf_add(out, " application_name=\"");
	strbuf_add(out, client_plain(name, buffer));
	strbuf_add(out, "\"");
}

static void log_close(const struct client *client, const char *reason, const char *sqlstate)
{
	usec_t age = loop_now(client->clients->with.loop) - client->connected_at;
	struct log_entry entry;

	if (!client->clients->config->log_disconnections ||
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
static void note_end(const struct client *client, enum close_reason reason, const char *words,
                     const char *detail)
{
	struct database *database =
	    pools_find_any_database(client->clients->with.pools, client_database(client));

	close_reason_note(
	    &client->clients->closes,
	    &(struct close_told){ .reason = reason,
	                          .words = words,
	                          .detail = detail,
	                          .database = client_database(client),
	                          .user = client_user(client),
	                          .of_database = database ? &database->client_closes : NULL });
}

void client_release_admission(struct client *client)
{
	if (client->is_admitted)
		broker_release_admission(client->clients->with.pools->with.broker);
	client->is_admitted = false;
}

/* Unlinks the client from its pool, database and role, and frees what it had. */
static void detach(struct client *client)
{
	struct clients *clients = client->clients;
	const struct client_ops *ops = clients->ops;

	timer_clear(&client->timer);
	if (ops->states[client->state].on_end)
		ops->states[client->state].on_end(client);
	client->borrower.is_mid_message = client->frame_left && client->forwards_rest;
	pool_leave(&client->borrower);
	ops->free_work(client);
	cancel_keys_remove(&clients->keys, client);
	client_release_admission(client);
	if (client->is_counted) {
		client->clients->guest_count -= client->is_guest;
		if (client->database)
			database_count_client(client->database, -1);
		client->database = NULL;
		role_leave(clients->with.pools, &client->role, client->is_exempt);
		client->is_guest = client->is_exempt = false;
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
	clients->ops->on_closed(client);
	loop_defer(clients->with.loop, &clients->free_task);
	pools_changed(clients->with.pools);
	clients->with.on_free(clients->with.arg);
}

void client_close(struct client *client, enum close_reason reason)
{
	const struct close_reason_row *row = close_reason_row(reason);

	if (client->state == CLIENT_CLOSED)
		return;
	if (reason != CLOSE_NONE && client->state != CLIENT_LINGERING) {
		if (row->words)
			log_close(client, row->words, NULL);
		note_end(client, reason, row->words ? row->words : row->name, NULL);
	}
	if (client->state != CLIENT_LINGERING)
		detach(client);
	timer_clear(&client->timer);
	client_login_free(client);
	client_retire(client);
}

void client_close_err(struct client *client, const struct err *err)
{
	if (!client_is_over(client)) {
		log_close(client, err->text, NULL);
		note_end(client, err->reason, err->text, NULL);
	}
	client_close(client, CLOSE_NONE);
}

void client_forget(struct client *client)
{
	struct loop *loop = client->clients->with.loop;

	log_debug(&client->log, "handed over");
	if (stream_is_open(&client->stream))
		loop_close_later(loop, stream_take_socket(&client->stream));
	detach(client);
	client_login_free(client);
	client_retire(client);
}

static void on_linger_due(struct timer *timer)
{
	client_close(container_of(timer, struct client, timer), CLOSE_NONE);
}

bool client_drop_input(struct client *client, struct bytes in)
{
	return stream_keep(&client->stream, bytes_skip(in, in.count));
}

void client_finish(struct client *client) { stream_finish(&client->stream); }

/* Continues to linger: flushes, then stops sending. */
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
		client_close(client, CLOSE_NONE);
}

/* Whether a message of ours would be inside a message of the server. */
static bool is_within_frame(const struct client *client)
{
	const struct server *server = client->borrower.server;

	return server ? server->wire.is_mid_response : client->borrower.is_mid_answer;
}

void client_leave(struct client *client, const struct err *err)
{
	if (client->state == CLIENT_LINGERING || client->state == CLIENT_CLOSED)
		return;
	log_close(client, err->text, NULL);
	note_end(client, err->reason, err->text, NULL);
	linger(client);
}

void client_note_said(const struct client *client, const struct err *err, const char *severity)
{
	PROBE_ERROR(client->id, client_database(client), client_user(client), err->sqlstate,
	            err->code != ERR_FOREIGN);
	sqlstates_note(&client->clients->with.pools->sqlstates,
	               &(struct sqlstate_said){ .sqlstate = err->sqlstate,
	                                        .severity = severity,
	                                        .is_ours = err->code != ERR_FOREIGN,
	                                        .database = client_database(client),
	                                        .user = client_user(client) });
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
	client_fatal_detailed(client, err, err->detail[0] ? err->detail : NULL, err->hint);
}

void client_fatal_detailed(struct client *client, const struct err *err, const char *detail,
                           const char *hint)
{
	struct buf out = { 0 };
	struct err told = *err; /* err may point into an object that is freed below: copy it */
	bool is_sent;

	if (client->state == CLIENT_LINGERING || client->state == CLIENT_CLOSED)
		return;
	if (is_within_frame(client) || stream_is_shaking(&client->stream)) {
		client_close_err(client, &told);
		return;
	}
	say_fatal(client, &told, detail);
	log_close(client, told.text, told.sqlstate);
	note_end(client, told.reason, told.text, detail);
	client_note_said(client, &told, "FATAL");
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

/* Whether the client would understand a message of ours now. */
static bool listens(const struct client *client)
{
	switch (client->state) {
	case CLIENT_STARTUP: /* it may have sent an SSLRequest */
	case CLIENT_CANCELING:
	case CLIENT_ROUTING:
	case CLIENT_LINGERING:
	case CLIENT_CLOSED:
		return false;
	default:
		return !is_within_frame(client) && !stream_is_shaking(&client->stream);
	}
}

/* Input that was not read would turn the close into a reset, which destroys our message. */
static void read_off(const struct client *client)
{
	char buffer[4096];

	for (int i = 0; i < READ_OFF_MAX; i++) {
		if (recv(client->stream.watch.fd, buffer, sizeof(buffer), MSG_DONTWAIT) <= 0)
			return;
	}
}

void client_dismiss(struct client *client, struct bytes words, enum close_reason reason)
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
	va_list args;

	va_start(args, format);
	err_vset(&err, code, format, args);
	va_end(args);
	client_fatal(client, &err);
}

void client_refuse_for(struct client *client, enum close_reason reason)
{
	struct err err;

	err_close(&err, reason);
	client_fatal(client, &err);
}

void client_refuse_with(struct client *client, enum close_reason reason, const char *format, ...)
{
	struct err err;
	va_list args;

	va_start(args, format);
	err_vset(&err, close_reason_row(reason)->code, format, args);
	va_end(args);
	err_reason(&err, reason);
	client_fatal(client, &err);
}

void client_give_up(struct client *client, enum close_reason reason)
{
	struct buf detail = { 0 };
	struct err err;
	const char *hint;

	err_close(&err, reason);
	hint = pool_wait_tell(&client->borrower, &detail);
	client_fatal_detailed(client, &err, buf_ok(&detail) ? buf_text(&detail) : NULL, hint);
	buf_free(&detail);
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

/* ---- walks ---- */

void clients_walk_start(struct clients *clients, struct clients_walk *walk)
{
	walk->next = TAILQ_FIRST(&clients->list);
	TAILQ_INSERT_TAIL(&clients->walks, walk, node);
}

void clients_walk_stop(struct clients *clients, struct clients_walk *walk)
{
	TAILQ_REMOVE(&clients->walks, walk, node);
}
