/* SPDX-License-Identifier: ISC */
/*
 * The functions of struct console_door: the client module opens, feeds, cancels and closes
 * a session through them.
 */
#include "admin_priv.h"

#include <stdlib.h>

#include "pgweir/base/version.h"
#include "pgweir/pgwire/message.h"

#include "pgweir/base/banned.h"

static bool on_unknown(struct console_session *session, char type)
{
	struct client *client = session->client;
	struct err err;

	err_set(&err, ERR_PROTOCOL, "unsupported packet type for admin console: %d",
	        (unsigned char)type);
	log_error(&client->log, "%s", err.text);
	message_err(&session->out, "ERROR", &err);
	message_ready(&session->out, session->status);
	session_flush(session);
	err_set(&err, ERR_PROTOCOL, "bad packet");
	client_fatal(client, &err);
	return false;
}

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
	session_flush(session);
	buf_free(&session->out);
	return session;
}

static bool on_session_message(struct console_session *session, char type, struct bytes body)
{
	struct console *console = session->console;
	bool is_alive = true;

	console->source.own.client_bytes += FRAME_HEADER_SIZE + body.count;
	if (type == 'X') {
		client_console_end(session->client, CLOSE_CLIENT_QUIT);
		return false;
	}
	if (type == 'Q' && !session->is_skipping)
		is_alive = simple_query(session, body);
	else if (type != 'Q' && !extended_message(session, type, body, &is_alive))
		is_alive = on_unknown(session, type);
	return is_alive && session_settle(session);
}

/* Ends the running request with an error, in the next turn. */
static void interrupt(struct console_session *session)
{
	struct err err;

	commands_wait_stop(session);
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
	/*
	 * A cancel request ends the PAUSE or SUSPEND that this session waits for. If the session is
	 * idle, its command may have completed just before the cancel request arrived, so the PAUSE
	 * is ended too.
	 */
	if ((is_global || is_at_rest) && pools_are_held(console_pools(session->console)) &&
	    session->role == CONSOLE_ADMIN && !with->is_shutting_down(with->arg))
		command_resume_all(session->console);
}

/* While everything is suspended, no new console can log in to end the SUSPEND. */
static void resume_if_last(const struct console_session *session)
{
	const struct console *console = session->console;

	if (console_pools(console)->suspend != SUSPEND_NONE &&
	    show_source_console_count(&console->source) <= 1)
		console->with.go_on(console->with.arg);
}

static void on_close(struct console_session *session)
{
	resume_if_last(session);
	commands_wait_stop(session);
	timer_clear(&session->turn);
	session_drop_all(session);
	buf_free(&session->out);
	free(session);
}

const struct console_door session_door = {
	.open = on_open,
	.message = on_session_message,
	.on_writable = session_on_writable,
	.cancel = on_cancel,
	.close = on_close,
};
