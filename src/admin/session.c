/* SPDX-License-Identifier: ISC */
/*
 * Sessions: what the client module calls when one is opened, fed with messages, cancelled and
 * closed, and its answers. A session is one client of the console.
 *
 *   struct console_door --> a Query | the extended protocol --> the portal runs --> answers
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
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "pgweir/base/table.h"
#include "pgweir/base/text.h"
#include "pgweir/pgwire/fields.h"
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

static void drop_portal(struct console_session *session)
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
	drop_portal(session);
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

static bool settle(struct console_session *session)
{
	bool has_space = flush(session);

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
static void add_rows(struct console_session *session)
{
	const struct lanes *lanes = session->console->with.lanes;
	bool is_show = !session->portal.request.talk;
	size_t count = 0;

	if (is_show)
		lanes_hold(lanes);
	while (add_piece(session)) {
		count += session->out.count;
		if (!flush(session))
			break; /* on_writable() will continue */
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
		add_rows(session);
	if (session->state != SESSION_READY && settle(session))
		client_console_next(session->client);
}

static void on_turn(struct timer *timer)
{
	go_on(container_of(timer, struct console_session, turn));
}

static void on_writable(struct console_session *session)
{
	if (session->state != SESSION_ROWS || !timer_is_set(&session->turn))
		go_on(session);
}

bool session_is_owner(const struct console_session *session)
{
	const struct address *peer = &session->client->peer;

	return address_is_unix(peer) && peer->un.uid == geteuid() && session->role == CONSOLE_ADMIN;
}

/* ---- requests ---- */

static bool may_run(const struct console_session *session, const struct request *request,
                    struct err *err)
{
	/*
	 * If SELECT 1 fails with PgBouncer's error, pgcli recognises a console and sends no queries
	 * on PostgreSQL's catalogs. So the error is the same here.
	 */
	if (request->talk && strcmp(request->talk->words, "SELECT 1") == 0 &&
	    strcmp(show_application(session->client), "pgcli") == 0)
		return err_set(err, ERR_PROTOCOL, "invalid command 'SELECT 1', use SHOW HELP;");
	return request_check(request, session->console, session->role, err);
}

/* ---- prepared statements ---- */

static struct prepared *find_statement(const struct console_session *session, const char *name)
{
	return TABLE_GET(hh, &console_pools(session->console)->secret, session->statements, name,
	                 strlen(name));
}

static bool add_statement(struct console_session *session, const char *name,
                          const struct request *request)
{
	size_t size = strlen(name) + 1;
	struct prepared *statement = malloc(sizeof(*statement) + size);

	if (!statement)
		return false;
	memcpy(statement->name, name, size);
	statement->request = *request;
	TABLE_ADD_STR(hh, &console_pools(session->console)->secret, session->statements,
	              statement->name, statement);
	return true;
}

/* Accepts NULL. */
static void drop_statement(struct console_session *session, struct prepared *statement)
{
	if (statement)
		HASH_DEL(session->statements, statement);
	free(statement);
}

static void drop_statements(struct console_session *session)
{
	while (session->statements)
		drop_statement(session, session->statements);
}

/* ---- running ---- */

static void log_command(struct console_session *session, const struct request *request)
{
	const struct command *command = request->command;
	const struct words *words = &request->words;
	const struct log_facts facts = { .kept = command->words,
		                         .event = "command",
		                         .command = command->words };
	char name[sizeof(words->value) + sizeof(" ''")] = "";

	if (!command_is_event(command))
		return;
	if (words->count)
		snprintf(name, sizeof(name), " '%s'",
		         command->argument == ARG_HOST ? words->value : words->argument);
	log_event(&session->client->log, LOG_LEVEL_INFO, &facts, "%s%s command issued",
	          command->words, name);
}

static void run_talk(struct console_session *session, const struct request *request)
{
	switch (request->talk->effect) {
	case TALK_BEGIN:
		session->status = 'T';
		break;
	case TALK_END:
		session->status = 'I';
		break;
	case TALK_FORGET:
		drop_statement(session, find_statement(session, request->words.value));
		break;
	case TALK_FORGET_ALL:
		drop_statements(session);
		break;
	case TALK_IGNORED:
		session_notice(session, "SET ignored", NULL);
		break;
	default:
		break;
	}
}

/*
 * Without a hold around all of a command a database of `*` could expire in one lane, between the
 * check and what is done to it: that would be done to all databases there, as if none was named.
 */
static bool run(struct console_session *session, struct err *err)
{
	const struct request *request = &session->portal.request;
	const struct lanes *lanes = session->console->with.lanes;
	bool is_done;

	if (request->talk)
		run_talk(session, request);
	if (!request->command)
		return true;
	log_command(session, request);
	/* RELOAD reads files, and SET may: without a hold. */
	if (request->command->argument != ARG_NAME && request->command->argument != ARG_HOST)
		return request->command->run(session, err);
	lanes_hold(lanes);
	is_done = request->command->run(session, err);
	lanes_release(lanes);
	return is_done;
}

static void set_portal(struct console_session *session, const char *name,
                       const struct request *request, uint32_t binary)
{
	struct portal *portal = &session->portal;

	drop_portal(session);
	portal->state = PORTAL_NEW;
	portal->request = *request;
	portal->binary = binary;
	text_copy(portal->name, sizeof(portal->name), name);
}

/* The portal has rows: sends them, or those that are left. */
static void execute_rows(struct console_session *session, uint32_t row_limit)
{
	struct portal *portal = &session->portal;

	session->row_limit = row_limit;
	session->row_count = 0;
	session->state = SESSION_ROWS;
	if (portal->state == PORTAL_NEW) {
		cursor_begin(&portal->cursor, &session->console->source, portal->request.show,
		             &portal->request.words);
		portal->cursor.is_owner = session_is_owner(session);
		portal->cursor.role = session->role;
		portal->state = PORTAL_BEGUN;
	}
	if (portal->state == PORTAL_BEGUN)
		add_rows(session);
	else
		session_complete(session);
}

/* Runs the portal, and answers now or later. It may close the client, which frees the session. */
static void execute(struct console_session *session, uint32_t row_limit)
{
	const struct client *client = session->client;
	struct portal *portal = &session->portal;
	struct err err;
	bool is_done;

	if (portal->request.show) {
		execute_rows(session, row_limit);
		return;
	}
	if (portal->state != PORTAL_NEW) { /* as in PostgreSQL, without rows it runs only once */
		err_set(&err, ERR_STATE, "portal \"%s\" cannot be run", portal->name);
		session_fail(session, &err);
		return;
	}
	session->state = SESSION_WAITING;
	portal->state = PORTAL_ENDED;
	is_done = run(session, &err);
	if (client->state != CLIENT_CONSOLE)
		return;
	if (!is_done)
		session_fail(session, &err);
	else if (session->state == SESSION_WAITING && !timer_is_set(&session->waiting.look))
		session_complete(session);
}

/*
 * ---- a Query: one statement, or several of small talk ----
 *
 * Hard here: ReadyForQuery follows only the last of several, and none of them may continue in a
 * later turn. So all must be small talk, which is checked before the first one is run.
 */

/* Maximum statements of small talk in one Query. Their answers together must fit into one piece. */
#define TALKS_MAX 32

/* is_last: ReadyForQuery follows. */
static void run_statement(struct console_session *session, const struct request *request,
                          bool is_last)
{
	struct err err;

	session->is_simple = is_last;
	set_portal(session, "", request, 0);
	if (!may_run(session, request, &err)) {
		session_fail(session, &err);
		return;
	}
	if (request->show)
		rows_describe(&session->out, request_columns(request, session->console), 0);
	execute(session, 0);
}

static void on_query(struct console_session *session, struct bytes body)
{
	struct request requests[TALKS_MAX];
	unsigned int count;
	const char *query;
	struct err err;

	session->console->source.own.query_count++;
	session->console->source.own.xact_count++;
	session->is_simple = true;
	if (fields_text(body, &query) != WIRE_OK) {
		err_set(&err, ERR_PROTOCOL, "bad packet");
		session_fail(session, &err);
		return;
	}
	count = request_read(bytes_text(query), commands, requests, TALKS_MAX, &err);
	for (unsigned int i = 0; i < count; i++)
		run_statement(session, &requests[i], i + 1 == count);
	if (!count) {
		request_explain(bytes_text(query), commands, session);
		session_fail(session, &err);
	}
}

/*
 * ---- the extended protocol, without parameters ----
 *
 * A statement is parsed at Parse. There is one portal at a time, whatever its name: it is one
 * execution of a statement, with a cursor. It ends with the next Bind or Query, and with Sync, or
 * within a BEGIN with the Sync after its end (PostgreSQL's manual, "Extended Query").
 */

#define STATEMENTS_MAX 1000

/* ---- messages: each function fills *err and returns false if the message fails ---- */

static bool broken(struct err *err) { return err_set(err, ERR_PROTOCOL, "bad packet"); }

static bool no_statement(const char *name, struct err *err)
{
	return err_set(err, ERR_STATEMENT_NAME, "prepared statement \"%s\" does not exist", name);
}

static bool on_parse(struct console_session *session, struct bytes body, struct err *err)
{
	struct parse_fields fields;
	struct prepared *statement;
	struct request request;

	if (fields_parse(body, &fields) != WIRE_OK)
		return broken(err);
	if (fields.type_count)
		return err_set(err, ERR_UNSUPPORTED, "the console takes no parameters");
	if (!request_read(bytes_text(fields.query), commands, &request, 1, err)) {
		request_explain(bytes_text(fields.query), commands, session);
		return false;
	}
	if (strlen(fields.statement) >= SESSION_NAME_SIZE)
		return err_set(err, ERR_STATEMENT_NAME, "name is too long");
	if (HASH_COUNT(session->statements) >= STATEMENTS_MAX)
		return err_set(err, ERR_LIMIT, "too many statements");
	statement = find_statement(session, fields.statement);
	if (statement && *fields.statement)
		return err_set(err, ERR_STATEMENT_TWICE, "prepared statement \"%s\" already exists",
		               fields.statement);
	drop_statement(session, statement);
	if (!add_statement(session, fields.statement, &request))
		return err_set(err, ERR_MEMORY, "out of memory");
	message_bare(&session->out, '1');
	return true;
}

/* Which columns are sent in binary: none, all by one format, or each by its own. */
static bool read_formats(const struct bind_fields *bind, size_t columns, uint32_t *binary,
                         struct err *err)
{
	uint16_t count = bind->result_format_count;

	*binary = 0;
	if (count > 1 && count != columns)
		return err_set(err, ERR_PROTOCOL,
		               "bind message has %u result formats but query has %zu columns",
		               count, columns);
	for (uint16_t i = 0; i < count; i++) {
		uint16_t format = load_be16(bind->result_formats.at + 2 * (size_t)i);

		if (format > 1)
			return err_set(err, ERR_PARAMETER, "unsupported format code: %u", format);
	}
	for (size_t i = 0; i < columns; i++)
		*binary |= (uint32_t)fields_is_binary(bind, i) << i;
	return true;
}

static bool on_bind(struct console_session *session, struct bytes body, struct err *err)
{
	struct bind_fields fields;
	const struct prepared *statement;
	struct columns columns;
	uint32_t binary;

	if (fields_bind(body, &fields) != WIRE_OK)
		return broken(err);
	statement = find_statement(session, fields.statement);
	if (!statement)
		return no_statement(fields.statement, err);
	if (fields.parameters.left)
		return err_set(err, ERR_UNSUPPORTED, "the console takes no parameters");
	if (strlen(fields.portal) >= SESSION_NAME_SIZE)
		return err_set(err, ERR_STATE, "name is too long");
	columns = request_columns(&statement->request, session->console);
	if (!read_formats(&fields, rows_columns_shown(columns), &binary, err))
		return false;
	set_portal(session, fields.portal, &statement->request, binary);
	message_bare(&session->out, '2');
	return true;
}

static bool has_portal(const struct console_session *session, const char *name)
{
	return session->portal.state != PORTAL_NONE && strcmp(session->portal.name, name) == 0;
}

static bool no_portal(const char *name, struct err *err)
{
	char text[SESSION_NAME_SIZE + 32];

	snprintf(text, sizeof(text), "portal \"%.*s\" does not exist", SESSION_NAME_SIZE, name);
	return err_set_foreign(err, "34000", text);
}

static bool on_describe(struct console_session *session, struct bytes body, struct err *err)
{
	const struct request *request = &session->portal.request;
	const struct prepared *statement;
	struct object_names names;
	uint32_t binary = session->portal.binary;

	if (fields_names('D', body, body.count, &names) != WIRE_OK)
		return broken(err);
	if (names.target == 'S') {
		statement = find_statement(session, names.statement);
		if (!statement)
			return no_statement(names.statement, err);
		request = &statement->request;
		binary = 0;
		message_parameter_types(&session->out, NULL, 0);
	} else if (!has_portal(session, names.portal)) {
		return no_portal(names.portal, err);
	}
	if (request->show)
		rows_describe(&session->out, request_columns(request, session->console), binary);
	else
		message_bare(&session->out, 'n');
	return true;
}

static bool on_close_message(struct console_session *session, struct bytes body, struct err *err)
{
	struct object_names names;

	if (fields_names('C', body, body.count, &names) != WIRE_OK)
		return broken(err);
	if (names.target == 'S')
		drop_statement(session, find_statement(session, names.statement));
	else if (has_portal(session, names.portal))
		drop_portal(session);
	message_bare(&session->out, '3');
	return true;
}

/* Sends the answer itself, now or later. */
static bool on_execute(struct console_session *session, struct bytes body, struct err *err)
{
	const char *name;
	uint32_t limit;

	if (fields_execute(body, &name, &limit) != WIRE_OK)
		return broken(err);
	if (!has_portal(session, name))
		return no_portal(name, err);
	if (!may_run(session, &session->portal.request, err))
		return false;
	session->console->source.own.query_count++;
	execute(session, limit);
	return true;
}

static bool act_on(struct console_session *session, char type, struct bytes body, struct err *err)
{
	switch (type) {
	case 'P':
		return on_parse(session, body, err);
	case 'B':
		return on_bind(session, body, err);
	case 'D':
		return on_describe(session, body, err);
	case 'C':
		return on_close_message(session, body, err);
	case 'E':
		return on_execute(session, body, err);
	default:
		return err_set(err, ERR_UNSUPPORTED, "the console has no functions");
	}
}

/* false: there is no such message. */
static bool on_extended(struct console_session *session, char type, struct bytes body)
{
	struct err err;

	if (type == 'S') {
		session->is_skipping = false;
		/* outside BEGIN, Sync ends the transaction, and so the portal */
		if (session->status == 'I')
			drop_portal(session);
		message_ready(&session->out, session->status);
		return true;
	}
	/* Flush needs no action. PostgreSQL, too, ignores these messages outside a COPY. */
	if (type == 'H' || type == 'd' || type == 'c' || type == 'f')
		return true;
	if (!frame_is_extended(type) && type != 'F')
		return false;
	if (session->is_skipping)
		return true;
	/* PostgreSQL sends ReadyForQuery after a FunctionCall without waiting for a Sync */
	session->is_simple = type == 'F';
	if (!act_on(session, type, body, &err))
		session_fail(session, &err);
	return true;
}

/* ---- the functions of struct console_door ---- */

static void on_unknown(struct console_session *session, char type)
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
}

static void add_welcome(struct console_session *session)
{
	const struct release *release = rows_release(&session->console->source);
	const char *const parameters[][2] = {
		{ "server_version", release->server_version },
		{ "client_encoding", "UTF8" },
		{ "server_encoding", "UTF8" },
		{ "DateStyle", "ISO" },
		{ "TimeZone", "GMT" },
		{ "standard_conforming_strings", "on" },
		{ "is_superuser", "on" },
		{ "pgbouncer.version", release->number },
	};
	const char *notice = show_source_config(&session->console->source)->login_notify_message;
	struct buf *out = &session->out;

	message_auth(out, AUTH_OK, bytes_of("", 0));
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

/* The client outlives the session, which may be freed within a message. */
static bool on_session_message(struct console_session *session, char type, struct bytes body)
{
	const struct client *client = session->client;

	session->console->source.own.client_bytes += FRAME_HEADER_SIZE + body.count;
	if (type == 'X')
		client_console_end(session->client, CLOSE_CLIENT_QUIT);
	else if (type == 'Q' && !session->is_skipping)
		on_query(session, body);
	else if (type != 'Q' && !on_extended(session, type, body))
		on_unknown(session, type);
	return client->state == CLIENT_CONSOLE && settle(session);
}

static void on_cancel(struct console_session *session)
{
	const struct console_with *with = &session->console->with;
	const struct waiting *waiting = &session->waiting;
	bool is_waiting = session->state == SESSION_WAITING && timer_is_set(&waiting->look);
	bool is_drain = is_waiting && waiting->kind == WAITING_DRAIN;
	bool is_global =
	    is_waiting && !is_drain && waiting->kind != WAITING_CLOSE && !*waiting->name;
	bool is_at_rest = session->state == SESSION_READY;
	struct err err;

	if (session->state == SESSION_ROWS || is_waiting) {
		commands_wait_stop(session);
		err_set(&err, ERR_QUERY_CANCELED, "canceling statement due to user request");
		session_fail(session, &err);
		session_later(session);
	}
	if (is_drain && !with->is_shutting_down(with->daemon))
		with->drain_end(with->daemon);
	/* Also if it is idle: its PAUSE may have completed just before the request came. */
	if ((is_global || is_at_rest) && pools_are_held(console_pools(session->console)) &&
	    session->role == CONSOLE_ADMIN && !with->is_shutting_down(with->daemon))
		with->resume(with->daemon, "");
}

static void on_close(struct console_session *session)
{
	const struct console *console = session->console;

	/* While everything is suspended, no new console can log in to end the SUSPEND. */
	if (console_pools(console)->suspend != SUSPEND_NONE &&
	    show_source_console_count(&console->source) <= 1)
		console->with.resume(console->with.daemon, "");
	commands_wait_stop(session);
	timer_clear(&session->turn);
	drop_statements(session);
	drop_portal(session);
	buf_free(&session->out);
	free(session);
}

const struct console_door session_door = {
	.open = on_open,
	.message = on_session_message,
	.on_writable = on_writable,
	.cancel = on_cancel,
	.close = on_close,
};
