/* SPDX-License-Identifier: ISC */
/*
 * The states of a client, its socket, closing, and its time limits; and gates.
 *
 * Hard here: a client must be able to read the error that closes it. If we close the socket while
 * bytes from the client are still in flight, the kernel answers those with a reset, which destroys
 * our error. So after an error the client lingers: we stop sending, and read and drop what it still
 * sends.
 */
#include "pgweir/client/client.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>

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
	                     TO(CLIENT_AUTHENTICATION) | TO(CLIENT_CANCELING) | TO(CLIENT_CONSOLE) |
	                         END },
	[CLIENT_AUTHENTICATION] = { "authentication", NULL,
	                            TO(CLIENT_LOOKING) | TO(CLIENT_DELAYED) | TO(CLIENT_NEWCOMER) |
	                                TO(CLIENT_IDLE) | TO(CLIENT_CONSOLE) | END },
	[CLIENT_LOOKING] = { "looking", NULL, TO(CLIENT_AUTHENTICATION) | END },
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
	[CLIENT_CONSOLE] = { "console", "active", END },
	[CLIENT_LINGERING] = { "lingering", NULL, TO(CLIENT_CLOSED) },
	[CLIENT_CLOSED] = { "closed", NULL, 0 },
};

#define UNPROVEN_STATES \
	(TO(CLIENT_STARTUP) | TO(CLIENT_AUTHENTICATION) | TO(CLIENT_LOOKING) | TO(CLIENT_DELAYED))

/* Its login is over, and it is read. */
#define READ_STATES (TO(CLIENT_IDLE) | TO(CLIENT_LATE) | TO(CLIENT_ACTIVE))

/* Waits for others: what it sends is kept, and its end is noticed. */
#define UNREAD_STATES                                                                             \
	(TO(CLIENT_LOOKING) | TO(CLIENT_NEWCOMER) | TO(CLIENT_WAITING) | TO(CLIENT_CATCHING_UP) | \
	 TO(CLIENT_PREPARING) | TO(CLIENT_SETTLING))

const char *client_state_name(const struct client *client)
{
	if (client->state == CLIENT_CANCELING)
		return client->cancel && client->cancel->state != CANCEL_WAITING
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
	if (TO(next) & READ_STATES)
		return;
	if (TO(next) & UNREAD_STATES)
		stream_want(&client->stream, WANT_END);
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
	if (client->state != CLIENT_CANCELING && client->database)
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
	return client_close(client, CLOSE_CLIENT_EOF);
}

bool client_send_all(struct client *client, struct buf *out)
{
	bool is_sent;

	if (buf_ok(out))
		is_sent = !out->count || client_send(client, buf_bytes(out));
	else
		is_sent = client_close(client, CLOSE_MEMORY);
	buf_free(out);
	return is_sent;
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
	usec_t age = client_now(client) - client->connected_at;
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
	if (!entry.who.is_json)
		client_add_application_name(client, &entry.line);
	log_end(&client->log, LOG_LEVEL_INFO, &entry);
}

/* For SHOW ERRORS and the log; words NULL: those of the reason, and nothing is logged. */
static void note_end(const struct client *client, enum close_reason reason, const char *words,
                     const char *sqlstate, const char *detail)
{
	struct database *database =
	    pools_find_any_database(client->clients->pools, client_database(client));

	if (words)
		log_close(client, words, sqlstate);
	close_reason_note(
	    &client->clients->closes,
	    &(struct close_told){ .reason = reason,
	                          .words = words ? words : close_reason_row(reason)->name,
	                          .detail = detail,
	                          .database = client_database(client),
	                          .user = client_user(client),
	                          .of_database = database ? &database->client_closes : NULL });
}

void client_release_admission(struct client *client)
{
	if (client->is_admitted) {
		client->clients->pools->with.broker->admitted_count--;
		atomic_fetch_sub(&client_gate(client)->client_count, 1);
	}
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
	pool_leave(&client->borrower);
	ops->free_work(client);
	cancel_keys_remove(&clients->keys, client);
	client_release_admission(client);
	if (client->count) {
		clients->guest_count -= client->count == CLIENT_COUNTED_AS_GUEST;
		if (client->database)
			database_count_client(client->database, -1);
		client->database = NULL;
		role_leave(clients->pools, &client->role,
		           client->count == CLIENT_COUNTED_AS_EXEMPT);
	}
	client->count = CLIENT_NOT_COUNTED;
}

static void retire(struct client *client)
{
	struct clients *clients = client->clients;

	if (client->state != CLIENT_LINGERING)
		detach(client);
	timer_clear(&client->timer);
	client_login_free(client);
	stream_close(&client->stream);
	client_enter(client, CLIENT_CLOSED);
	TAILQ_EACH (walk, &clients->walks, node) {
		if (walk->next == client)
			walk->next = TAILQ_NEXT(client, node);
	}
	TAILQ_REMOVE(&clients->list, client, node);
	if (clients->filed == client)
		clients->filed = NULL;
	TAILQ_INSERT_TAIL(&clients->closed, client, node);
	clients->count--;
	clients->drain.leaving_count -= client->is_leaving;
	loop_defer(clients->loop, &clients->free_task);
}

bool client_close(struct client *client, enum close_reason reason)
{
	if (client->state == CLIENT_CLOSED)
		return false;
	if (reason != CLOSE_NONE && client->state != CLIENT_LINGERING)
		note_end(client, reason, close_reason_row(reason)->words, NULL, NULL);
	retire(client);
	return false;
}

bool client_close_err(struct client *client, const struct err *err)
{
	if (!client_is_over(client))
		note_end(client, err->reason, err->text, NULL, NULL);
	return client_close(client, CLOSE_NONE);
}

void client_forget(struct client *client)
{
	struct loop *loop = client->clients->loop;

	log_debug(&client->log, "handed over");
	if (stream_is_open(&client->stream))
		loop_close_later(loop, stream_take_socket(&client->stream));
	retire(client);
}

static void on_linger_due(struct timer *timer)
{
	client_close(container_of(timer, struct client, timer), CLOSE_NONE);
}

/* Continues to linger: flushes, then stops sending. */
static void linger(struct client *client)
{
	detach(client);
	client_login_free(client);
	client_enter(client, CLIENT_LINGERING);
	client_arm(client, LINGER_LIMIT, on_linger_due, client_now(client));
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
	if (client_is_over(client))
		return;
	note_end(client, err->reason, err->text, NULL, NULL);
	linger(client);
}

void client_note_said(const struct client *client, const struct err *err, const char *severity)
{
	PROBE_ERROR(client->id, client_database(client), client_user(client), err->sqlstate,
	            err->code != ERR_FOREIGN);
	sqlstates_note(&client->clients->pools->sqlstates,
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
		facts.wait = client_now(client) - borrower->waiting_since;
	log_event(&client->log, LOG_LEVEL_WARNING, &facts, "pooler error: %s%s%s", err->text,
	          detail ? ": " : "", detail ? detail : "");
}

bool client_fatal(struct client *client, const struct err *err)
{
	struct buf out = { 0 };
	struct err told = *err; /* err may point into an object that is freed below: copy it */
	const char *detail = *told.detail ? told.detail : NULL;
	bool is_sent;

	if (client_is_over(client))
		return false;
	if (is_within_frame(client) || stream_is_shaking(&client->stream))
		return client_close_err(client, &told);
	say_fatal(client, &told, detail);
	note_end(client, told.reason, told.text, told.sqlstate, detail);
	client_note_said(client, &told, "FATAL");
	message_err(&out, "FATAL", &told);
	is_sent = buf_ok(&out) && stream_send(&client->stream, buf_bytes(&out));
	buf_free(&out);
	if (is_sent)
		linger(client);
	else
		retire(client);
	return false;
}

/* Whether the client would understand a message of ours now. */
static bool listens(const struct client *client)
{
	switch (client->state) {
	case CLIENT_STARTUP: /* it may have sent an SSLRequest */
	case CLIENT_CANCELING:
	case CLIENT_LINGERING:
	case CLIENT_CLOSED:
		return false;
	default:
		return !is_within_frame(client) && !stream_is_shaking(&client->stream);
	}
}

void client_dismiss(struct client *client, struct bytes words, enum close_reason reason)
{
	char buffer[4096];
	int left = READ_OFF_MAX;

	if (listens(client) && stream_send(&client->stream, words)) {
		stream_push(&client->stream);
		/* Unread input would make the close a reset, which destroys our message. */
		while (left-- &&
		       recv(client->stream.watch.fd, buffer, sizeof(buffer), MSG_DONTWAIT) > 0)
			continue;
	}
	client_close(client, reason);
}

bool client_refuse_for(struct client *client, enum close_reason reason)
{
	struct err err;

	err_close(&err, reason);
	return client_fatal(client, &err);
}

bool client_refuse(struct client *client, unsigned int reason, const char *format, ...)
{
	struct err err;
	va_list args;

	va_start(args, format);
	err_vset(&err, close_reason_row((enum close_reason)reason)->code, format, args);
	va_end(args);
	err_reason(&err, (enum close_reason)reason);
	return client_fatal(client, &err);
}

void client_turn_away(struct client *client, const struct err *err)
{
	struct err told = *err;
	struct buf detail = { 0 };

	if (told.code == ERR_UNREACHABLE) {
		pool_unreachable_tell(client->borrower.pool, &detail);
		err_detail_take(&told, &detail);
		err_hint(&told,
		         "With fail_fast = 0 clients wait for it, up to query_wait_timeout.");
	}
	client_fatal(client, &told);
}

/*
 * ---- the socket ----
 *
 * Input and flushed output are handled by the functions of the client's state (client_ops).
 *
 * Hard here: handling input may close the client or stop reading, so each step returns whether to
 * continue. And one client gets at most sbuf_loopcnt reads in a turn.
 */

static bool consume(struct client *client, struct bytes in)
{
	const struct client_state_ops *ops = &client->clients->ops->states[client->state];

	if (ops->on_input)
		return ops->on_input(client, in);
	/* The other states do not read, but get buffered input. */
	if (!stream_keep(&client->stream, in))
		client_close(client, CLOSE_MEMORY);
	return false;
}

void client_judge_kept(struct client *client)
{
	struct bytes in = stream_kept(&client->stream);

	if (in.count)
		consume(client, in);
}

void client_read_on(struct client *client)
{
	if (stream_want(&client->stream, WANT_INPUT))
		client_judge_kept(client);
}

static void on_end(struct client *client)
{
	bool is_silent = client_is_nobody(client) && !client->stream.error;
	enum close_reason reason = stream_tls_fault(&client->stream);

	/*
	 * Its server only owes what we have asked, and is fit for others as soon as it has
	 * answered. A client that connects for each transaction leaves just then.
	 */
	if (client->state == CLIENT_SETTLING &&
	    server_rest(client->borrower.server) == REST_WORKING) {
		client->is_gone = true;
		return;
	}
	/*
	 * Monitoring connects and disconnects, also after the startup packet: not worth a log line.
	 */
	if (!reason && is_silent)
		reason =
		    client->state == CLIENT_STARTUP ? CLOSE_LEFT_EARLY : CLOSE_LEFT_UNAUTHENTICATED;
	else if (!reason)
		reason = CLOSE_CLIENT_EOF;
	client_close(client, reason);
}

static void take_input(struct client *client)
{
	struct stream *stream = &client->stream;
	int rounds = client->clients->config->sbuf_loopcnt;
	enum stream_result result;

	do {
		struct bytes in;

		result = stream_read(stream, &in);
		if (result == STREAM_NOTHING)
			return;
		if (result == STREAM_END) {
			on_end(client);
			return;
		}
		if (!consume(client, in))
			return;
	} while (result == STREAM_DATA && (rounds == 0 || --rounds > 0));
}

static void on_input(struct stream *stream)
{
	struct client *client = container_of(stream, struct client, stream);

	take_input(client);
	drain_look(client);
}

static void on_flushed(struct stream *stream)
{
	struct client *client = container_of(stream, struct client, stream);
	const struct client_state_ops *ops = &client->clients->ops->states[client->state];

	if (ops->on_flushed)
		ops->on_flushed(client);
	drain_look(client);
}

static void on_secured(struct stream *stream, const struct err *err)
{
	struct client *client = container_of(stream, struct client, stream);

	client->clients->ops->on_secured(client, err);
}

static void on_gone(struct stream *stream) { on_end(container_of(stream, struct client, stream)); }

const struct stream_ops client_stream_ops = { on_input, on_flushed, on_gone, on_secured };

/*
 * ---- time limits ----
 *
 * Time limits of a client without a server: of its login, of idle time, of waiting. A client has
 * one timer, for the limit of its state.
 */

usec_t client_login_due(const struct client *client)
{
	usec_t limit = client->clients->config->client_login_timeout;

	return limit ? client->connected_at + limit : 0;
}

/* Closes a client that waits in its pool, and adds why it waited so long. */
static void give_up(struct client *client, enum close_reason reason)
{
	struct buf detail = { 0 };
	struct err err;

	err_close(&err, reason);
	err_hint(&err, pool_wait_tell(&client->borrower, &detail));
	err_detail_take(&err, &detail);
	client_fatal(client, &err);
}

static void on_login_due(struct timer *timer)
{
	struct client *client = container_of(timer, struct client, timer);

	if (client->state == CLIENT_NEWCOMER)
		give_up(client, CLOSE_LOGIN_TIMEOUT_SERVER);
	else
		client_refuse_for(client, CLOSE_LOGIN_TIMEOUT);
}

void client_login_begin(struct client *client)
{
	client_arm(client, client->clients->config->client_login_timeout, on_login_due,
	           client->connected_at);
}

static void on_idle_due(struct timer *timer)
{
	client_refuse_for(container_of(timer, struct client, timer), CLOSE_CLIENT_IDLE_TIMEOUT);
}

static usec_t idle_limit(const struct client *client)
{
	const struct config *config = client->clients->config;
	const struct config_user *entry = client->role->entry;

	return entry ? config_client_idle_timeout(config, entry) : config->client_idle_timeout;
}

void client_idle_begin(struct client *client)
{
	usec_t limit = idle_limit(client);

	if (limit || timer_is_set(&client->timer))
		client_arm(client, limit, on_idle_due, client_now(client));
}

void client_idle_resume(struct client *client, usec_t since)
{
	client_arm(client, idle_limit(client), on_idle_due, since);
}

usec_t client_idle_since(const struct client *client)
{
	usec_t now = client_now(client), since = now;

	if (timer_is_set(&client->timer))
		since = client->timer.due - idle_limit(client);
	/* A changed limit is not in all timers yet. */
	return since > 0 && since < now ? since : now;
}

void client_idle_rearm(struct client *client)
{
	struct loop *loop = client->clients->loop;

	timer_change(&client->timer, loop_timer_queue(loop, idle_limit(client), on_idle_due));
}

void client_hurry(struct client *client)
{
	pool_hurry(&client->borrower,
	           config_fail_fast(client->clients->config, client->database->entry,
	                            client->role->entry));
}

static void on_wait_due(struct timer *timer)
{
	struct client *client = container_of(timer, struct client, timer);

	if (client->borrower.state != BORROWER_WAIT_PLACE ||
	    !client->clients->ops->refuse_place(client))
		give_up(client, CLOSE_QUERY_WAIT_TIMEOUT);
}

static void on_query_due(struct timer *timer)
{
	give_up(container_of(timer, struct client, timer), CLOSE_QUERY_TIMEOUT_WAITING);
}

/*
 * The duration of a patience, in a byte: three binary digits behind the first one, and where they
 * begin. Clients choose it, and for each duration there is a queue of timers for good.
 */
static usec_t patience(unsigned int code)
{
	unsigned int exponent = code >> 3, digits = code & 7;

	return (exponent ? (usec_t)(8 + digits) << (exponent - 1) : (usec_t)digits) * USEC_PER_MS;
}

uint8_t client_patience(usec_t time)
{
	unsigned int code = time ? UINT8_MAX : 0;

	while (code > 1 && patience(code) > time)
		code--;
	return (uint8_t)code;
}

usec_t client_wait_limit(const struct client *client)
{
	const struct borrower *borrower = &client->borrower;
	usec_t own = patience(borrower->patience_now ? borrower->patience_now : borrower->patience);
	usec_t wait = config_query_wait_timeout(client->clients->config, client->database->entry,
	                                        client->role->entry);

	return own && (!wait || own < wait) ? own : wait;
}

bool client_times(const struct client *client, const struct config_user *user,
                  struct config_times *times)
{
	const struct config *config = client->clients->config;
	const struct config_application *entry = NULL;
	const char *name;

	if (config_entry_count(config, ENTRY_APPLICATION)) {
		name = params_find(client->params, "application_name");
		entry = config_application_find(config, name ? name : "");
	}
	*times = config_times(config, client->borrower.pool->database->entry, user, entry);
	return entry != NULL;
}

/* Sets the limit of waiting: that, or query_timeout if that is shorter. */
static void arm_wait(struct client *client, usec_t since)
{
	usec_t wait = client_wait_limit(client);
	struct config_times times;

	client_times(client, client->role->entry, &times);
	if (times.query && (!wait || times.query < wait))
		client_arm(client, times.query, on_query_due, since);
	else
		client_arm(client, wait, on_wait_due, since);
}

static void on_notify_due(struct timer *timer)
{
	struct client *client = container_of(timer, struct client, timer);
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
	usec_t notify = client->clients->config->query_wait_notify;

	arm_wait(client, client->request_at);
	if (!notify || client->was_notified)
		return;
	/* The timer is for the notice if the notice is due first. */
	if (!timer_is_set(&client->timer) || client->timer.due > client->request_at + notify)
		client_arm(client, notify, on_notify_due, client->request_at);
}

/* The limit of the login still applies: the one that ends first counts. */
void client_newcomer_begin(struct client *client)
{
	usec_t login_due = client_login_due(client);

	/* A server tries the client's parameters, with a limit of its own. */
	if (client->borrower.server) {
		client_login_begin(client);
		return;
	}
	arm_wait(client, client->borrower.waiting_since);
	if (login_due && (!timer_is_set(&client->timer) || login_due < client->timer.due))
		client_login_begin(client);
}

void client_wait_rearm(struct client *client)
{
	client_hurry(client);
	if (client->state == CLIENT_NEWCOMER)
		client_newcomer_begin(client);
	else
		client_wait_begin(client);
}

/* ---- gates ---- */

struct gate *gate_get(struct gate_table *table, const char *name, struct err *err)
{
	struct gate *gate = gate_find(table, name);

	if (gate)
		return gate;
	if (table->count == GATES_MAX) {
		err_set(err, ERR_LIMIT, "more than %d listeners since the start", GATES_MAX);
		return NULL;
	}
	gate = err_calloc(sizeof(*gate), "out of memory", err);
	if (!gate)
		return NULL;
	table->at[++table->count] = gate;
	gate->number = (uint8_t)table->count;
	text_copy(gate->name, sizeof(gate->name), name);
	return gate;
}

struct gate *gate_find(const struct gate_table *table, const char *name)
{
	for (unsigned int number = 1; number <= table->count; number++) {
		if (strcmp(table->at[number]->name, name) == 0)
			return table->at[number];
	}
	return NULL;
}

void gate_rules_done(struct gate_rules *rules)
{
	config_unref(&rules->config);
	hba_release(&rules->hba);
	tls_context_unref(&rules->tls);
	rules->entry = NULL;
}

void gates_done(struct gate_table *table)
{
	for (; table->count; table->count--) {
		gate_rules_done(&table->at[table->count]->rules);
		free(table->at[table->count]);
	}
	gate_rules_done(&table->main.rules);
}

bool gate_admit(struct gate *gate)
{
	const struct config_listener *entry = gate->rules.entry;
	unsigned int most = entry ? (unsigned int)entry->max_client_conn : 0;

	if (atomic_fetch_add(&gate->client_count, 1) < most || most == 0)
		return true;
	atomic_fetch_sub(&gate->client_count, 1);
	atomic_fetch_add(&gate->refused_count, 1);
	return false;
}
