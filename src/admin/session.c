/* SPDX-License-Identifier: ISC */
/*
 * A session is one client of the console; this file sends its answers.
 *
 *   READY --message--> [ROWS | WAITING] --> answer complete --> FULL --writable--> READY
 *
 * Hard here: output must not accumulate. While the client reads nothing, no row is made and
 * no further message is handled. While the client reads, a turn makes no more than
 * TURN_SIZE bytes, so that other connections do not wait. An answer that is completed
 * inside a callback of another module is sent in the next turn.
 */
#include "admin_priv.h"

#include <ctype.h>
#include <stdio.h>
#include <unistd.h>

#include "pgweir/pgwire/message.h"

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

void session_drop_portal(struct console_session *session)
{
	cursor_end(&session->portal.cursor);
	session->portal.state = PORTAL_NONE;
}

/* What the client asked for has been answered. */
static void end_answer(struct console_session *session)
{
	session->state = SESSION_FULL;
	if (!session->is_simple)
		return;
	session->is_simple = false;
	message_ready(&session->out, session->status);
}

/* Bytes of an error in the log; fewer if it quotes a query, as those of psql's \d are long. */
#define LOGGED_MAX 700
#define QUOTED_MAX 160

/* Logs the text in one line. */
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
		count--; /* the last character may be cut */
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
	session_drop_portal(session);
	end_answer(session);
}

void session_complete(struct console_session *session)
{
	const char *tag = *session->tag ? session->tag : session->portal.request.tag;

	if (!*tag)
		message_bare(&session->out, 'I');
	else
		message_complete(&session->out, tag);
	*session->tag = 0;
	cursor_end(&session->portal.cursor);
	session->portal.state = PORTAL_ENDED;
	end_answer(session);
}

/* ---- continue ---- */

bool session_flush(struct console_session *session)
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

bool session_settle(struct console_session *session)
{
	bool has_space = session_flush(session);

	if (!buf_ok(&session->out)) {
		client_console_end(session->client, CLOSE_MEMORY);
		return false;
	}
	if (session->state != SESSION_FULL && session->state != SESSION_READY)
		return false;
	buf_free(&session->out);
	session->state = has_space ? SESSION_READY : SESSION_FULL;
	return has_space;
}

static void on_turn(struct timer *timer);

void session_later(struct console_session *session)
{
	timer_begin(&session->turn, session->console->with.loop, 1, on_turn);
}

/* Adds rows until a piece is full. true: there may be more rows. */
static bool add_piece(struct console_session *session)
{
	struct portal *portal = &session->portal;
	struct columns columns = request_columns(&portal->request, session->console);
	_Alignas(max_align_t) char row[ROW_SIZE_MAX];

	while (session->out.count < PIECE_SIZE && buf_ok(&session->out)) {
		if (session->row_limit && session->row_count >= session->row_limit) {
			message_bare(&session->out, 's');
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
	return buf_ok(&session->out);
}

/* Small talk needs no lane, and drivers repeat it often. */
void session_add_rows(struct console_session *session)
{
	const struct lanes *lanes = session->console->with.lanes;
	bool is_show = !session->portal.request.talk;
	size_t count = 0;

	if (is_show)
		lanes_hold(lanes);
	while (add_piece(session)) {
		count += session->out.count;
		if (!session_flush(session))
			break; /* session_on_writable() will continue */
		if (count >= TURN_SIZE) {
			session_later(session);
			break;
		}
	}
	cursor_suspend(&session->portal.cursor);
	if (is_show)
		lanes_release(lanes);
}

/* For the session's own callbacks. */
static void go_on(struct console_session *session)
{
	if (session->state == SESSION_ROWS)
		session_add_rows(session);
	if (session->state != SESSION_READY && session_settle(session))
		client_console_next(session->client);
}

static void on_turn(struct timer *timer)
{
	go_on(container_of(timer, struct console_session, turn));
}

void session_on_writable(struct console_session *session)
{
	if (session->state != SESSION_ROWS || !timer_is_set(&session->turn))
		go_on(session);
}

bool session_is_owner(const struct console_session *session)
{
	const struct address *peer = &session->client->peer;

	return address_is_unix(peer) && peer->un.uid == geteuid() && session->role == CONSOLE_ADMIN;
}
