/* SPDX-License-Identifier: ISC */
/*
 * The console: what the client module calls, when a session is opened, fed with messages, cancelled
 * and closed; what its sessions share, and the timer of the statistics; and tables for the web
 * server.
 *
 *   struct console_door --> a Query | the extended protocol --> the portal runs --> session.c
 */
#include "admin_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "pgweir/base/table.h"
#include "pgweir/base/text.h"
#include "pgweir/client/clients.h"
#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/message.h"

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

	session_drop_portal(session);
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
		session_add_rows(session);
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

/* Says with the error what may have been meant, and hides passwords from the log. */
static void explain_unknown(struct console_session *session, struct bytes text)
{
	request_suggest(text, session->hint, sizeof(session->hint));
	request_hide(text, session->logged, sizeof(session->logged));
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
	count = request_read(bytes_text(query), requests, TALKS_MAX, &err);
	for (unsigned int i = 0; i < count; i++)
		run_statement(session, &requests[i], i + 1 == count);
	if (!count) {
		explain_unknown(session, bytes_text(query));
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
	if (!request_read(bytes_text(fields.query), &request, 1, err)) {
		explain_unknown(session, bytes_text(fields.query));
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
		session_drop_portal(session);
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
			session_drop_portal(session);
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
	session_flush(session);
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
	session_flush(session);
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
	return client->state == CLIENT_CONSOLE && session_settle(session);
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
		with->resume(with->daemon);
}

static void on_close(struct console_session *session)
{
	const struct console *console = session->console;

	/* While everything is suspended, no new console can log in to end the SUSPEND. */
	if (console_pools(console)->suspend != SUSPEND_NONE &&
	    show_source_console_count(&console->source) <= 1)
		console->with.resume(console->with.daemon);
	commands_wait_stop(session);
	timer_clear(&session->turn);
	drop_statements(session);
	session_drop_portal(session);
	buf_free(&session->out);
	free(session);
}

static const struct console_door session_door = {
	.open = on_open,
	.message = on_session_message,
	.on_writable = session_on_writable,
	.cancel = on_cancel,
	.close = on_close,
};

static void on_second(struct timer *timer);

/* ---- statistics ---- */

static void tell_averages(const struct console *console, usec_t now)
{
	const struct logger log = { console->with.log, NULL };
	struct stats average;
	char text[512];

	show_stats_average_all(&console->source, now, &average);
	snprintf(text, sizeof(text),
	         "%" PRIu64 " xacts/s, %" PRIu64 " queries/s, %" PRIu64 " client parses/s, %" PRIu64
	         " server parses/s, %" PRIu64 " binds/s, %" PRIu64 " client logins/s, in %" PRIu64
	         " B/s, out %" PRIu64 " B/s, xact %" PRIu64 " us, query %" PRIu64
	         " us, wait %" PRIu64 " us",
	         average.xact_count, average.query_count, average.client_parse_count,
	         average.server_parse_count, average.bind_count, average.client_login_count,
	         average.client_bytes, average.server_bytes, average.xact_time, average.query_time,
	         average.wait_time);
	if (show_source_config(&console->source)->log_stats)
		log_info(&log, "stats: %s", text);
	console->with.on_period(console->with.daemon, text);
}

static void on_tick(struct timer *timer)
{
	struct console *console = container_of(timer, struct console, tick);
	usec_t now = loop_now(console->with.loop);

	lanes_hold(console->with.lanes);
	show_stats_tick(&console->source, now);
	console->ticked_at = now;
	/* The averages begin at the tick before this one, so this line covers one stats_period. */
	tell_averages(console, now);
	lanes_release(console->with.lanes);
	console_configure(console);
}

/* ---- each second ---- */

static void arm_second(struct console *console, usec_t now, usec_t period)
{
	timer_set(&console->second, loop_timer_queue(console->with.loop, period, on_second), now);
}

/* Whether a pool wants to be measured again in a quarter of a second. */
static bool measure_pools(const struct console *console, usec_t now)
{
	bool is_sized = false;

	LANES_EACH (lane, console->with.lanes)
		is_sized |= pools_measure(lane->pools, now);
	LANES_EACH (lane, console->with.lanes)
		pools_resize(lane->pools, now);
	return is_sized;
}

/* Few sums for each lane, however many pools there are. */
static void on_second(struct timer *timer)
{
	struct console *console = container_of(timer, struct console, second);
	usec_t now = loop_now(console->with.loop);
	bool is_second = console->quarters == 0, is_sized;

	lanes_hold(console->with.lanes);
	if (is_second) {
		timeline_tick(&console->source.timeline, console->with.lanes, now);
		LANES_EACH (lane, console->with.lanes)
			latency_drain(&console->source.latency, &lane->pools->latency, now);
	}
	is_sized = measure_pools(console, now);
	lanes_release(console->with.lanes);
	if (is_second)
		logins_sweep(console->with.lanes->at->clients->shared->logins, now);
	console->quarters = is_sized ? (console->quarters + 1) % 4 : 0;
	arm_second(console, now, is_sized ? USEC_PER_SEC / 4 : USEC_PER_SEC);
}

/* ---- the console ---- */

struct console *console_new(const struct console_with *with, struct err *err)
{
	struct console *console = err_calloc(sizeof(*console), "out of memory", err);
	usec_t now = loop_now(with->loop);

	if (!console)
		return NULL;
	console->source.history.older_at = console->source.history.newer_at = now;
	console->source.timeline.rings[TIMELINE_MINUTES].began_at = now;
	console->with = *with;
	console->source.with = &console->with;
	console->door = session_door;
	console->door.arg = console;
	console->ticked_at = now;
	console_configure(console);
	arm_second(console, now, USEC_PER_SEC);
	for (size_t i = 0; i < commands_count; i++) {
		if (command_is_event(&commands[i]))
			log_expect(with->log, commands[i].words); /* see log_command() */
	}
	return console;
}

const struct console_door *console_door(const struct console *console) { return &console->door; }

void console_begin_at(struct console *console)
{
	usec_t now = loop_now(console->with.loop);

	lanes_hold(console->with.lanes);
	for (int i = 0; i < 2; i++)
		show_stats_tick(&console->source, now);
	lanes_release(console->with.lanes);
}

void console_configure(struct console *console)
{
	usec_t period = show_source_config(&console->source)->stats_period;

	timer_set(&console->tick, loop_timer_queue(console->with.loop, period, on_tick),
	          console->ticked_at);
}

void console_free(struct console **consolep)
{
	struct console *console = *consolep;

	if (!console)
		return;
	*consolep = NULL;
	timer_clear(&console->tick);
	timer_clear(&console->second);
	latency_done(&console->source.latency);
	free(console);
}

/*
 * ---- SHOW tables for other readers than sessions of the console ----
 *
 * What one piece may take: bytes, and time on the main thread while all lanes are held. To find the
 * first row takes as long as there are pools, in each turn again, so it does not count, and some
 * rows are always made.
 */
#define PIECE_BYTES ((size_t)64 * 1024)
#define PIECE_TIME ((usec_t)250)
#define PIECE_ROWS 32

struct table {
	struct console *console;
	struct request request; /* the cursor has pointers into it */
	struct cursor cursor;
};

const struct show *tables_find(const char *words)
{
	struct request request;

	return request_read_table(words, &request, NULL) ? request.show : NULL;
}

struct table *table_begin(struct console *console, const char *words, bool skips_unused,
                          struct err *err)
{
	struct table *table = err_calloc(sizeof(*table), "out of memory", err);

	if (!table)
		return NULL;
	table->console = console;
	if (!request_read_table(words, &table->request, err) ||
	    !request_check(&table->request, console, CONSOLE_STATS, err)) {
		free(table);
		return NULL;
	}
	cursor_begin(&table->cursor, &console->source, table->request.show, &table->request.words);
	table->cursor.role = CONSOLE_STATS;
	table->cursor.skips_unused = skips_unused;
	return table;
}

static enum table_result add_rows(struct table *table, struct buf *out)
{
	struct columns columns = table->request.show->columns;
	_Alignas(max_align_t) char row[ROW_SIZE_MAX];
	unsigned int count = 0;
	usec_t until = 0;

	do {
		if (!cursor_next(&table->cursor, row))
			return table->cursor.has_more ? TABLE_MORE : TABLE_END;
		rows_add(out, columns, 0, row);
		if (count++ == 0)
			until = clock_now() + PIECE_TIME;
	} while (buf_ok(out) && out->count < PIECE_BYTES &&
	         (count < PIECE_ROWS || clock_now() < until));
	return buf_ok(out) ? TABLE_MORE : TABLE_BROKEN;
}

enum table_result table_next(struct table *table, struct buf *out)
{
	enum table_result result;

	lanes_hold(table->console->with.lanes);
	result = add_rows(table, out);
	cursor_suspend(&table->cursor);
	lanes_release(table->console->with.lanes);
	return result;
}

void table_end(struct table **table)
{
	if (!*table)
		return;
	cursor_end(&(*table)->cursor);
	free(*table);
	*table = NULL;
}
