/* SPDX-License-Identifier: ISC */
/*
 * A session: one client of the console, from its welcome to its end.
 *
 *   READY --message--> [ROWS | WAITING] --> answer whole --> FULL --room--> READY
 *
 * Hard here: nothing may pile up. While the reader has no room no row is made and
 * no further message is taken; while it has room, a turn makes no more than
 * TURN_SIZE bytes, so that nobody else is kept waiting. Whatever is answered from
 * within somebody else's callback goes on in a turn of its own.
 */
#include "admin_priv.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "pgweir/base/version.h"
#include "pgweir/pgwire/message.h"

#include "pgweir/base/banned.h"

#define PIECE_SIZE ((size_t)16 * 1024)
#define TURN_SIZE ((size_t)256 * 1024)

/* ---- answers ---- */

void session_notice(struct console_session *session, const char *text, const char *detail)
{
	message_notice(&session->out, &(struct report){ .severity = "NOTICE",
	                                                .sqlstate = "00000",
	                                                .text = text,
	                                                .detail = detail });
}

/* What runs has been answered. */
static void end_answer(struct console_session *session)
{
	session->state = SESSION_FULL;
	if (session->portal) {
		cursor_end(&session->portal->cursor);
		session->portal->is_ended = true;
	}
	session->portal = NULL;
	if (!session->is_simple)
		return;
	portal_free(&session->simple);
	session->is_simple = false;
	message_ready(&session->out, session->status);
}

/* Bytes of an error that are logged; and if it quotes a query: those of psql's \d are long. */
#define LOGGED_MAX 700
#define QUOTED_MAX 160

/* In one line. */
static void log_failure(const struct console_session *session, const char *text, size_t max)
{
	char line[LOGGED_MAX + sizeof("...")];
	size_t count = 0;

	while (*text && count < max) {
		bool is_blank = isspace((unsigned char)*text);

		line[count++] = is_blank ? ' ' : *text;
		text += is_blank ? strspn(text, " \t\r\n\f\v") : 1;
	}
	while (*text && count && ((unsigned char)line[count - 1] & 0x80))
		count--; /* a character may have been cut in two */
	snprintf(line + count, sizeof(line) - count, "%s", *text ? "..." : "");
	log_error(&session->client->log, "%s", line);
}

void session_fail(struct console_session *session, const struct err *err)
{
	log_failure(session, *session->logged ? session->logged : err->text,
	            err->code == ERR_SYNTAX ? QUOTED_MAX : LOGGED_MAX);
	*session->logged = 0;
	message_error(&session->out,
	              &(struct report){ .severity = "ERROR",
	                                .sqlstate = err->sqlstate,
	                                .text = err->text,
	                                .hint = *session->hint ? session->hint : NULL });
	*session->hint = 0;
	session->is_skipping = !session->is_simple;
	end_answer(session);
}

void session_complete(struct console_session *session)
{
	const struct request *request = &session->portal->request;

	if (request->kind == REQUEST_EMPTY) {
		message_empty_query(&session->out);
	} else {
		message_complete(&session->out,
		                 *session->tag ? session->tag : request_tag(request));
	}
	*session->tag = 0;
	end_answer(session);
}

/* ---- going on ---- */

/* Hands what there is to the client. false: it has no room for more. */
static bool flush(struct console_session *session)
{
	struct client *client = session->client;
	bool has_space;

	if (!buf_ok(&session->out))
		return false;
	session->console->source.own.server_bytes += session->out.count;
	has_space = session->out.count ? client_console_send(client, buf_bytes(&session->out))
	                               : stream_unsent(&client->stream) == 0;
	buf_clear(&session->out);
	return has_space;
}

/* Sends, and says whether the next message may come. The last to touch the session. */
static bool settle(struct console_session *session)
{
	bool has_space = flush(session);

	if (!buf_ok(&session->out)) {
		client_console_end(session->client, "out of memory");
		return false;
	}
	if (session->state != SESSION_FULL && session->state != SESSION_READY)
		return false;
	buf_free(&session->out);
	session->state = has_space ? SESSION_READY : SESSION_FULL;
	return has_space;
}

/* For callbacks of the session's own. */
static void go_on(struct console_session *session)
{
	struct client *client = session->client;

	if (session->state != SESSION_READY && settle(session))
		client_console_next(client);
}

static void on_turn(struct timer *timer);

void session_later(struct console_session *session)
{
	struct loop *loop = session->console->with.loop;

	timer_set(&session->turn, loop_timer_queue(loop, 1, on_turn), loop_now(loop));
}

/* One piece of rows. true: there may be more of them. */
static bool add_piece(struct console_session *session)
{
	struct portal *portal = session->portal;
	struct columns columns = request_columns(&portal->request);
	_Alignas(max_align_t) char row[ROW_SIZE_MAX];

	while (session->out.count < PIECE_SIZE && buf_ok(&session->out)) {
		if (session->row_limit && session->row_count >= session->row_limit) {
			message_portal_suspended(&session->out);
			cursor_suspend(&portal->cursor);
			session->portal = NULL;
			session->state = SESSION_FULL;
			return false;
		}
		if (!cursor_next(&portal->cursor, row)) {
			if (portal->cursor.has_more)
				session_later(session);
			else
				session_complete(session);
			return false;
		}
		session->row_count++;
		rows_add(&session->out, columns, portal->binary, row);
	}
	return true;
}

/* As many rows as there is room for, in this turn. */
static void add_rows(struct console_session *session)
{
	size_t count = 0;

	while (add_piece(session)) {
		count += session->out.count;
		if (!buf_ok(&session->out))
			break;
		if (!flush(session))
			break; /* room() comes */
		if (count >= TURN_SIZE) {
			session_later(session);
			break;
		}
	}
	if (session->state == SESSION_ROWS)
		cursor_suspend(&session->portal->cursor);
}

static void on_turn(struct timer *timer)
{
	struct console_session *session = OWNER_OF(timer, struct console_session, turn);

	if (session->state == SESSION_ROWS)
		add_rows(session);
	go_on(session);
}

static void on_writable(struct console_session *session)
{
	if (session->state == SESSION_ROWS && timer_is_set(&session->turn))
		return;
	if (session->state == SESSION_ROWS)
		add_rows(session);
	go_on(session);
}

/* ---- running ---- */

static void log_command(struct console_session *session, const struct request *request)
{
	const struct command *command = request->command;
	const struct words *words = &request->words;
	const struct log_facts facts = { .event = "command", .command = command->words };

	if (command->role != CONSOLE_ADMIN || command->argument == ARG_SETTING)
		return; /* SET says more when it is done */
	if (command->argument == ARG_NONE || words->count < 2)
		log_event(&session->client->log, LOG_LEVEL_INFO, &facts, "%s command issued",
		          command->words);
	else
		log_event(&session->client->log, LOG_LEVEL_INFO, &facts, "%s '%s' command issued",
		          command->words, words->argument);
}

static enum outcome run_talk(struct console_session *session, const struct request *request)
{
	switch (request->talk->effect) {
	case TALK_BEGIN:
		session->status = 'T';
		break;
	case TALK_END:
		session->status = 'I';
		break;
	case TALK_FORGET:
		extended_forget(session, request->words.value);
		break;
	case TALK_FORGET_ALL:
		extended_forget(session, NULL);
		break;
	case TALK_IGNORED:
		session_notice(session, "SET ignored", NULL);
		break;
	default:
		break;
	}
	return OUTCOME_DONE;
}

static enum outcome run(struct console_session *session, struct err *err)
{
	const struct request *request = &session->portal->request;

	if (request->kind == REQUEST_TALK)
		return run_talk(session, request);
	if (request->kind != REQUEST_COMMAND)
		return OUTCOME_DONE;
	if (session->role < request->command->role) {
		err_set(err, ERR_RIGHTS, "admin access needed");
		return OUTCOME_FAILED;
	}
	log_command(session, request);
	return request->command->run(session, err);
}

bool session_may_see(const struct console_session *session, const struct request *request)
{
	return request->kind != REQUEST_SHOW || session->role >= request->show->role;
}

bool session_is_owner(const struct console_session *session)
{
	const struct address *peer = &session->client->peer;

	return address_is_unix(peer) && peer->un.uid == geteuid() && session->role == CONSOLE_ADMIN;
}

static void begin_rows(struct console_session *session, struct portal *portal)
{
	cursor_begin(&portal->cursor, &session->console->source, request_asked(&portal->request));
	portal->cursor.is_owner = session_is_owner(session);
	portal->cursor.role = session->role;
}

bool session_execute(struct console_session *session, struct portal *portal, uint32_t row_limit)
{
	struct err err;

	session->portal = portal;
	session->row_limit = row_limit;
	session->row_count = 0;
	if (!session_may_see(session, &portal->request)) {
		err_set(&err, ERR_RIGHTS, "admin access needed");
		session_fail(session, &err);
		return true;
	}
	if (!request_check(&portal->request, session, &err)) {
		session_fail(session, &err);
		return true;
	}
	if (request_columns(&portal->request).count) {
		session->state = SESSION_ROWS;
		if (!portal->is_started)
			begin_rows(session, portal);
		portal->is_started = true;
		if (!portal->is_ended)
			add_rows(session);
		else
			session_complete(session);
		return true;
	}
	session->state = SESSION_WAITING;
	if (portal->is_started) {
		err_set(&err, ERR_STATE, "portal \"%s\" cannot be run", portal->name);
		session_fail(session, &err);
		return true;
	}
	portal->is_started = true;
	switch (run(session, &err)) {
	case OUTCOME_DONE:
		session_complete(session);
		return true;
	case OUTCOME_FAILED:
		session_fail(session, &err);
		return true;
	case OUTCOME_WAIT:
		return true;
	case OUTCOME_OVER:
	default:
		return false;
	}
}

static bool on_unknown(struct console_session *session, char type)
{
	struct client *client = session->client;
	struct err err;

	err_set(&err, ERR_PROTOCOL, "unsupported packet type for admin console: %d",
	        (unsigned char)type);
	log_error(&client->log, "%s", err.text);
	message_err(&session->out, "ERROR", &err);
	message_ready(&session->out, session->status);
	flush(session);
	err_set(&err, ERR_PROTOCOL, "bad packet");
	client_fatal(client, &err);
	return false;
}

/* ---- the door ---- */

static void add_welcome(struct console_session *session)
{
	static const char *const parameters[][2] = {
		{ "server_version", VERSION_COMPATIBLE "/bouncer" },
		{ "client_encoding", "UTF8" },
		{ "server_encoding", "UTF8" },
		{ "DateStyle", "ISO" },
		{ "TimeZone", "GMT" },
		{ "standard_conforming_strings", "on" },
		{ "is_superuser", "on" },
		{ "pgbouncer.version", VERSION_COMPATIBLE },
	};
	const char *notice = show_source_config(&session->console->source)->login_notify_message;
	struct buf *out = &session->out;

	message_auth_ok(out);
	for (size_t i = 0; i < sizeof(parameters) / sizeof(parameters[0]); i++)
		message_parameter(out, parameters[i][0], parameters[i][1]);
	message_key(out, client_key(session->client));
	if (notice && *notice)
		session_notice(session, notice, NULL);
	message_ready(out, session->status);
}

static struct console_session *on_open(void *arg, struct client *client, enum console_role role)
{
	struct console *console = arg;
	struct console_session *session = calloc(1, sizeof(*session));

	if (!session)
		return NULL;
	session->console = console;
	session->client = client;
	session->role = role;
	session->status = 'I';
	add_welcome(session);
	if (!buf_ok(&session->out)) {
		buf_free(&session->out);
		free(session);
		return NULL;
	}
	console->source.own.client_login_count++;
	flush(session);
	buf_free(&session->out);
	return session;
}

static bool on_message(struct console_session *session, char type, struct bytes body)
{
	struct console *console = session->console;
	bool is_alive = true;

	console->source.own.client_bytes += FRAME_HEADER_SIZE + body.count;
	if (type == 'X') {
		client_console_end(session->client, "client close request");
		return false;
	}
	if (type == 'Q' && !session->is_skipping)
		is_alive = simple_query(session, body);
	else if (type != 'Q' && !extended_message(session, type, body, &is_alive))
		is_alive = on_unknown(session, type);
	return is_alive && settle(session);
}

/* Answers what runs with an error, and goes on. */
static void interrupt(struct console_session *session)
{
	struct err err;

	waiting_stop(session);
	err_set(&err, ERR_QUERY_CANCELED, "canceling statement due to user request");
	session_fail(session, &err);
	session_later(session);
}

static void on_cancel(struct console_session *session)
{
	const struct console_with *with = &session->console->with;
	const struct waiting *waiting = &session->waiting;
	bool is_waiting = session->state == SESSION_WAITING && waiting->is_on;
	bool is_drain = is_waiting && waiting->kind == WAITING_DRAIN;
	bool is_global =
	    is_waiting && !is_drain && waiting->kind != WAITING_CLOSE && !*waiting->database;
	bool is_at_rest = session->state == SESSION_READY;

	if (session->state == SESSION_ROWS || is_waiting)
		interrupt(session);
	if (is_drain && !with->is_shutting_down(with->arg))
		with->drain_end(with->arg);
	/* Nobody else's PAUSE: only that of this client, or one that it may not know to be done. */
	if ((is_global || is_at_rest) && pools_are_held(with->pools) &&
	    session->role == CONSOLE_ADMIN && !with->is_shutting_down(with->arg))
		console_resume(session->console);
}

/* While all is suspended nobody else could come to end it. */
static void resume_if_last(const struct console_session *session)
{
	const struct console *console = session->console;

	if (console->with.pools->suspend != SUSPEND_NONE &&
	    show_source_console_count(&console->source) <= 1)
		console->with.go_on(console->with.arg);
}

static void on_close(struct console_session *session)
{
	resume_if_last(session);
	waiting_stop(session);
	timer_clear(&session->turn);
	extended_done(session);
	portal_free(&session->simple);
	buf_free(&session->out);
	free(session);
}

const struct console_door session_door = {
	.open = on_open,
	.message = on_message,
	.on_writable = on_writable,
	.cancel = on_cancel,
	.close = on_close,
};
