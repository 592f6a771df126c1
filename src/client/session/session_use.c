/* SPDX-License-Identifier: ISC */
/*
 * What a client's texts touch, before they run.
 *
 * Hard here: a text may be refused only before it runs, but only PostgreSQL knows what it did. So a
 * statement that may make the server stay gets a slot of max_pinned_servers first, and gives it
 * back if the server need not stay after all.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "pgweir/base/container_of.h"
#include "pgweir/pgwire/sql_token.h"
#include "pgweir/pool/server/params.h"
#include "pgweir/pool/vacancy.h"

#include "../client_records_priv.h"
#include "features_priv.h"
#include "resets_priv.h"

/* What a DISCARD ALL touches. */
#define DISCARDS (SQL_TOUCH_PARAMS | SQL_TOUCH_DEFAULT | SQL_TOUCH_UNLISTEN | SQL_TOUCH_RELEASE)

/* The server may have to stay. */
#define PINS (SQL_TOUCH_PINS | SQL_TOUCH_PREPARE)

/* What is noted of a client that is not pinned. */
#define NOTED                                                                                   \
	(SQL_TOUCH_PARAMS | SQL_TOUCH_DEFAULT | SQL_TOUCH_LIBRARY | SQL_TOUCH_LISTEN |          \
	 SQL_TOUCH_UNLISTEN | SQL_TOUCH_NOTIFY | PINS | SQL_TOUCH_SEQUENCE | SQL_TOUCH_HIDDEN | \
	 SQL_TOUCH_CREATE | SESSION_TOUCH_NAMED | SESSION_TOUCH_EARLY)

/* ---- what texts touch ---- */

/* Placeholders may be set. */
#define NAMES (SQL_TOUCH_PARAMS | SQL_TOUCH_HIDDEN | SESSION_TOUCH_EARLY)

/* Whether a DO block or a CALL may define something. named: what its names touch. */
static bool may_define(struct bytes text, unsigned int named)
{
	return (named & (SQL_TOUCH_TEMP | SQL_TOUCH_HIDDEN)) || bytes_contain(text, "create") ||
	       bytes_contain(text, "alter") || bytes_contain(text, "execute");
}

unsigned int session_add_names(const struct client *client, unsigned int touches, struct bytes text)
{
	unsigned int named = 0;

	if (client->touched & SESSION_TOUCH_SAMPLE)
		touches |= SQL_TOUCH_HIDDEN | SESSION_TOUCH_NAMED;
	if (pool_has_names(client->borrower.pool, client->borrower.server))
		named = pool_touches(client->borrower.pool, client->borrower.server, text, NULL);
	if ((touches & SQL_TOUCH_HIDDEN) && !(touches & SESSION_TOUCH_NAMED) &&
	    may_define(text, named))
		touches |= SQL_TOUCH_CREATE;
	/* Who does not listen gets no notifications. */
	if (!client->listening)
		named &= ~(unsigned int)SQL_TOUCH_NOTIFY;
	return named ? touches | named | SESSION_TOUCH_NAMED : touches;
}

static unsigned int touches_of(const struct client *client, const struct statement *statement)
{
	return session_looks_for_names(client)
	           ? session_add_names(client, statement->touches,
	                               bytes_text(statement_text(statement).at))
	           : statement->touches;
}

unsigned int session_touches_of(struct client *client, const struct statement *statement)
{
	return session_is_watched(client) ? touches_of(client, statement) : 0;
}

/* ---- a statement is used ---- */

/* Whether a text is one RESET or DISCARD. */
static bool is_reset(struct bytes text)
{
	struct scanner scanner = { .rest = text };

	return (sql_takes(&scanner, "reset") || sql_takes(&scanner, "discard")) &&
	       sql_is_last(&scanner, sql_token(&scanner));
}

/*
 * Whether a text may run although session state is refused: what sets parameters back does no harm,
 * and parameters that PostgreSQL reports follow their client anyway.
 */
static bool is_harmless(const struct client *client, unsigned int touches, struct bytes text)
{
	char name[SQL_SET_NAME_MAX + 1];

	if (features_first(touches & ~(unsigned int)SQL_TOUCH_PARAMS))
		return false;
	return is_reset(text) || (sql_set_name(text, name) &&
	                          params_find(client->borrower.server->session.baseline, name));
}

static void keep_text(struct session *session, struct bytes text)
{
	free(session->text);
	session->text = NULL;
	if (text.count)
		session->text =
		    strndup(text.at, text.count < SESSION_TEXT_MAX ? text.count : SESSION_TEXT_MAX);
}

/* In a failed transaction it fails anyway, in PostgreSQL's words. */
static bool get_slot(struct client *client, unsigned int own, struct err *err)
{
	struct session *session = client->session;
	enum session_place place = own & PINS ? session->place : PLACE_OPEN;
	bool has_slot =
	    place == PLACE_OPEN && (client->borrower.has_place || pool_pin(client->borrower.pool));

	session->place = PLACE_OPEN;
	if (place == PLACE_CANCELED)
		return err_set(err, ERR_QUERY_CANCELED, "canceling statement due to user request");
	client->borrower.has_place = false;
	if (!has_slot && (own & PINS) && !server_is_in_failed_block(client->borrower.server))
		return features_refuse_pin(client, features_first(own & PINS), err);
	session->slot = has_slot ? client->borrower.pool : NULL;
	return true;
}

/* Whether pg_temp, or pg_temp_3, is a name of the list. */
static bool has_pg_temp(const char *path)
{
	static const char name[] = "pg_temp";

	for (const char *at = path; (at = strstr(at, name)); at += sizeof(name) - 1) {
		char next = at[sizeof(name) - 1];

		if ((at == path || strchr(", \"", at[-1])) && (!next || strchr(", \"_", next)))
			return true;
	}
	return false;
}

/*
 * Whether what a CREATE makes is temporary, or may be, because search_path says so. If only a
 * SET LOCAL or a default says so, that is known when the server is asked.
 */
static bool creates_temporary(const struct client *client, unsigned int touches)
{
	const char *path = params_find(client->borrower.server->session.params, "search_path");

	return (path && has_pg_temp(path)) || ((client->touched | touches) & SQL_TOUCH_PARAMS);
}

/* Whether a text is one PREPARE or EXECUTE, which is followed or refused elsewhere:
 * sql_statements.c. */
static bool is_followed(const struct client *client, struct bytes text, enum sql_kind kind)
{
	struct sql_statement sql;

	if (client->clients->config->max_prepared_statements <= 0)
		return false;
	sql_read(text, &sql);
	return sql.kind == kind || (sql.kind == SQL_UNSURE && !session_is_followed(client));
}

/* ---- placeholders ---- */

const char *session_encoding(const struct client *client)
{
	const char *encoding = params_find(client->params, "client_encoding");

	return encoding ? encoding
	                : params_find(client->borrower.server->session.baseline, "client_encoding");
}

bool session_encoding_is_unclear(const struct client *client)
{
	static const char *const unclear[] = { "SJIS",    "BIG5",  "GBK",           "UHC",
		                               "GB18030", "JOHAB", "SHIFT_JIS_2004" };
	const char *encoding = session_encoding(client);

	for (size_t i = 0; encoding && i < sizeof(unclear) / sizeof(unclear[0]); i++) {
		if (strcasecmp(encoding, unclear[i]) == 0)
			return true;
	}
	return false;
}

/* Whether what a text says to functions may be names. */
static bool is_inside(unsigned int touches)
{
	return touches & (SQL_TOUCH_HIDDEN | SESSION_TOUCH_NAMED);
}

/* names: NULL: no memory. */
static bool note_names(struct client *client, const struct sql_names *names)
{
	struct session *session = session_get(client);

	if (!session || !names)
		return false;
	placeholders_note(session, names);
	session->names.is_unknown |= names->is_unclear && session_encoding_is_unclear(client);
	return true;
}

/* Notes the placeholders that a text may set. */
static bool note_text(struct client *client, unsigned int touches, const struct session_text *text)
{
	struct sql_names *own = NULL, **kept = text->names ? text->names : &own;
	bool was_unknown = client->session && client->session->names.is_unknown;
	bool is_noted = note_names(client, sql_names_of(kept, text->text, is_inside(touches)));

	/* If only the catalog says that names may be set, the text need not say which. */
	if (is_noted && (touches & SESSION_TOUCH_NAMED) && !(touches & SQL_TOUCH_EXECUTE) &&
	    !(sql_touch(text->text) & NAMES))
		client->session->names.is_unknown = was_unknown;
	sql_names_drop(&own);
	return is_noted;
}

/*
 * Without what names show: they may be those of other objects, so they are no reason to refuse,
 * unless the settings have them.
 */
static unsigned int own_touches(unsigned int touches, struct bytes text)
{
	return touches & SESSION_TOUCH_NAMED ? touches & (sql_touch(text) | SQL_TOUCH_EXTENSION)
	                                     : touches;
}

/* Which bits are noted of a statement of this client. */
static unsigned int noted(const struct client *client)
{
	unsigned int bits = NOTED;

	if (session_stays(client))
		bits |= SQL_TOUCH_RELEASE;
	if (client->borrower.pool->asks_sequences)
		bits |= SQL_TOUCH_WRITE;
	return bits;
}

/* false: refuse with *err. own: what the text itself touches. */
static bool may_run(const struct client *client, unsigned int own, struct bytes text, bool is_run,
                    struct err *err)
{
	bool refuses = client_rules(client)->session_state == SESSION_STATE_REFUSE;
	const struct feature *feature = features_first(own);

	if (refuses && feature && !is_harmless(client, own, text))
		return features_refuse(client, feature, err);
	return !is_run || standby_allows(client, own, err);
}

/* ---- what is done before it runs ---- */

/* A statement that is about to run. */
struct use {
	unsigned int touches;
	unsigned int own; /* what the text itself touches */
	struct session_text text;
};

static bool watch_databases(struct client *client, struct use *use, struct err *err)
{
	(void)err;
	vacancy_begin(client->borrower.server, use->text.text, VACANCY_BOUND);
	return true;
}

static bool keep_sequences(struct client *client, struct use *use, struct err *err)
{
	return sequences_use(client, use->touches, use->text.text, use->text.batch) ||
	       err_close(err, CLOSE_MEMORY);
}

static bool note_placeholders(struct client *client, struct use *use, struct err *err)
{
	return note_text(client, use->touches, &use->text) || err_close(err, CLOSE_MEMORY);
}

static bool follow_resets(struct client *client, struct use *use, struct err *err)
{
	bool has_startup = params_count(client->startup) != 0;

	/* SET LOCAL ... TO DEFAULT: PostgreSQL has all defaults but those of the startup packet. */
	if (!has_startup && !(use->touches & SQL_TOUCH_PARAMS))
		use->touches &= ~(unsigned int)SQL_TOUCH_DEFAULT;
	if (!(use->touches & SQL_TOUCH_DEFAULT) ||
	    !(has_startup || (use->touches & SQL_TOUCH_FORGET)))
		return true;
	return !session_get(client) || resets_use(client, use->text.text, true, err);
}

/* The server may have to stay. */
static bool take_slot(struct client *client, struct use *use, struct err *err)
{
	struct session *session = session_get(client);

	if (!session)
		return err_close(err, CLOSE_MEMORY);
	if (!session->slot && !get_slot(client, use->own, err))
		return false;
	if (!session->pins)
		keep_text(session, use->text.text);
	if (use->touches & SQL_TOUCH_EXTENSION)
		session->pinning |= SESSION_PIN_EXTENSION;
	return true;
}

static bool note_libraries(struct client *client, struct use *use, struct err *err)
{
	if (!session_get(client))
		return err_close(err, CLOSE_MEMORY);
	libraries_note(client->session, use->text.text);
	if (use->own & SQL_TOUCH_HIDDEN) /* the server does not say what a DO block loads */
		client->session->pinning |= SESSION_PIN_LIBRARY;
	return true;
}

/* A parameter of the statements' scope may get another value. */
static bool open_scope(struct client *client, struct use *use, struct err *err)
{
	(void)err;
	if ((use->touches & SQL_TOUCH_HIDDEN) || text_scope_is_named(use->text.text))
		server_open_scope(client->borrower.server);
	return true;
}

/* Others see what it defines as soon as it is committed. */
static bool note_ddl(struct client *client, struct use *use, struct err *err)
{
	(void)err;
	if (!(use->touches & SQL_TOUCH_TEMP))
		server_note_ddl(client->borrower.server);
	return true;
}

/* In this order. They return false to refuse the statement. */
static const struct {
	unsigned int touch;
	bool (*take)(struct client *client, struct use *use, struct err *err);
} steps[] = {
	{ SQL_TOUCH_DATABASE, watch_databases },
	{ SEQUENCES_CONCERN, keep_sequences },
	{ NAMES, note_placeholders },
	{ SQL_TOUCH_DEFAULT, follow_resets },
	{ PINS, take_slot },
	{ SQL_TOUCH_LIBRARY, note_libraries },
	{ SQL_TOUCH_HIDDEN | SQL_TOUCH_PARAMS, open_scope },
	{ SQL_TOUCH_CREATE, note_ddl },
};

static bool take_steps(struct client *client, struct use *use, struct err *err)
{
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		if ((use->touches & steps[i].touch) && !steps[i].take(client, use, err))
			return false;
	}
	return true;
}

static void note_touched(struct client *client, unsigned int touches)
{
	touches &= noted(client);
	if (touches && client->session && client->session->set)
		client->session->set->is_alone = false;
	client->touched |= touches;
	if (touches & ~(unsigned int)(SQL_TOUCH_SEQUENCE | SQL_TOUCH_WRITE | SQL_TOUCH_CREATE))
		server_set_dirty(client->borrower.server, true);
}

/* What a text touches, with what is known of this client. */
static unsigned int touches_here(const struct client *client, unsigned int touches,
                                 struct bytes text)
{
	if ((touches & SQL_TOUCH_PREPARE) && is_followed(client, text, SQL_PREPARE))
		touches &= ~(unsigned int)SQL_TOUCH_PREPARE;
	if ((touches & SQL_TOUCH_CREATE) && client->borrower.server &&
	    creates_temporary(client, touches))
		touches |= SQL_TOUCH_TEMP;
	return touches;
}

bool session_use(struct client *client, unsigned int touches, struct session_text text, bool is_run,
                 struct err *err)
{
	struct use use = { .touches = touches_here(client, touches, text.text), .text = text };

	if ((use.touches & ~(SESSION_TOUCH_NAMED | SESSION_TOUCH_EARLY)) == SQL_TOUCH_EXECUTE &&
	    is_followed(client, text.text, SQL_EXECUTE))
		return true; /* the statement that it executes counts: sql_statements.c */
	if (use.touches & SQL_TOUCH_EXECUTE)
		use.touches |= SQL_TOUCH_HIDDEN;
	use.own = own_touches(use.touches, text.text);
	if (!may_run(client, use.own, text.text, is_run, err))
		return false;
	if (!is_run)
		return true;
	if (!take_steps(client, &use, err))
		return false;
	note_touched(client, use.touches);
	return true;
}

/* For what a statement may need a place. */
static unsigned int own_pins(const struct client *client, unsigned int touches, struct bytes text)
{
	return own_touches(touches_here(client, touches, text), text) & PINS;
}

bool session_awaits_place(const struct client *client, unsigned int touches, struct bytes text)
{
	return session_is_followed(client) && !(client->session && client->session->slot) &&
	       pool_lacks_place(&client->borrower) && own_pins(client, touches, text);
}

void session_refuse_place(const struct client *client, unsigned int touches, struct bytes text,
                          struct err *err)
{
	const struct feature *feature = features_first(own_pins(client, touches, text));

	if (feature)
		features_refuse_pin(client, feature, err);
	else /* what its names touch has changed while it waited */
		err_close(err, CLOSE_QUERY_WAIT_TIMEOUT);
}

/* The values of a Bind or a FunctionCall. */
static enum wire_result values_of(const struct frame *frame, struct bytes in,
                                  struct row_walk *values)
{
	struct bytes body = frame_body(in, frame);
	struct bind_fields bind;
	enum wire_result result;

	if (frame->type == 'F')
		return fields_call(body, values);
	result = fields_bind(body, &bind);
	*values = bind.parameters;
	return result;
}

void session_bind(struct client *client, const struct frame *frame, struct bytes in)
{
	struct session *session = client->session;
	struct row_walk values;

	/* If it is not whole, a name may be in what follows. */
	if (in.count < frame->length)
		session->names.is_unknown |= (session->bound & ~SQL_PARAMETERS_ALL) != 0;
	else if (values_of(frame, in, &values) == WIRE_OK)
		placeholders_note_values(session, values);
}

static void settle_set(struct ledger_change *change, bool is_done)
{
	container_of(change, struct session_set, change)->is_done = is_done;
}

struct ledger_change *session_note_alone(struct client *client, struct bytes text)
{
	struct session *session = client->session;
	struct sql_set set;

	if (client->touched != SQL_TOUCH_PARAMS || session->set || !sql_set_read(text, &set))
		return NULL;
	session->set = malloc(sizeof(*session->set));
	if (!session->set)
		return NULL;
	*session->set = (struct session_set){ .change = { .settle = settle_set },
		                              .set = set,
		                              .is_alone = true };
	return &session->set->change;
}

void session_run_unknown(struct client *client)
{
	if (!session_is_watched(client))
		return;
	if (pool_sequences(&client->borrower) != CATALOG_SEQUENCES_NONE)
		pool_own_sequences(&client->borrower);
	client->touched |= SQL_TOUCH_HIDDEN;
	server_set_dirty(client->borrower.server, true);
}

/*
 * Whether an EXECUTE may say which parameter is set. Its arguments are not read: rare as that is,
 * the server stays.
 */
static bool names_a_parameter(struct statement *statement, struct bytes text)
{
	struct session_text prepared;
	const struct sql_names *names;

	if (!statement)
		return bytes_contain(text, "(");
	if (!(statement->touches & SQL_TOUCH_PARAMS))
		return false;
	prepared = session_text_of(statement, NULL);
	names = sql_names_of(prepared.names, prepared.text, false);
	return !names || names->parameters;
}

void session_use_execute(struct client *client, struct statement *statement, struct bytes text)
{
	struct sql_names names = { 0 };
	unsigned int touches;

	if (!session_is_watched(client))
		return;
	if (!statement)
		session_run_unknown(client);
	touches = statement ? touches_of(client, statement) : SQL_TOUCH_HIDDEN;
	if (!(touches & NAMES))
		return;
	if (is_inside(touches))
		sql_names_read(&names, text, true);
	if ((touches & SESSION_TOUCH_NAMED) && !(statement->touches & NAMES))
		names.is_unknown = false;
	names.is_unknown |= names_a_parameter(statement, text);
	if (note_names(client, &names))
		client->session->bound = 0;
	sql_names_free(&names);
}

void session_deallocated(struct client *client)
{
	if ((client->touched & DISCARDS) == DISCARDS && client->session)
		client->session->was_discarded = true;
}

/*
 * ---- session mode ----
 *
 * Session mode: what DISCARD ALL does not do between two clients.
 *
 * What some functions keep in the session (connections of dblink, a replication origin) outlives
 * DISCARD ALL. So a server on which a client may have called them is closed when the client leaves.
 *
 * And a client that resets a parameter of its startup packet gets that value again, as it would
 * from PostgreSQL.
 *
 * A server does not report most parameters, and "SET x TO DEFAULT" is confirmed as any other SET
 * is. So a text that resets parameters is noted, and the server is asked for its parameters when
 * that transaction is over.
 */

void session_mode_note(struct client *client, const struct frame *frame, struct bytes in)
{
	struct bytes text;
	unsigned int touches = session_touches(client, frame, in, &text);

	if (touches & SQL_TOUCH_EXTENSION)
		server_need_close(client->borrower.server, CLOSE_SESSION_STATE);
	if (touches & SQL_TOUCH_DATABASE)
		vacancy_begin(client->borrower.server, text,
		              frame->type == 'P' ? VACANCY_PARSED : VACANCY_BOUND);
	if (!(touches & SQL_TOUCH_DEFAULT) || !params_count(client->startup))
		return;
	client->touched |= SQL_TOUCH_DEFAULT;
	if (session_get(client))
		resets_use(client, text, false, NULL);
}

void session_mode_ask(struct client *client)
{
	bool is_sample = client->touched & SESSION_TOUCH_SAMPLE;
	struct server *server = client->borrower.server;
	struct session *session = session_get(client);

	if (session) {
		placeholders_note_map(session, server->session.params);
		placeholders_note_map(session, client->startup);
	}
	server_order(server, &(struct order){ .kind = ORDER_ASK,
	                                      .is_apart = true,
	                                      .parts = is_sample ? QUESTION_ALL : QUESTION_PARAMS,
	                                      .names = session ? buf_bytes(&session->names.list)
	                                                       : bytes_of("", 0) });
}

void session_mode_facts(struct client *client, const struct facts *facts)
{
	unsigned int touched = client->touched;

	client->touched = 0;
	if (touched & SESSION_TOUCH_SAMPLE)
		audit_facts(client, facts);
	/* Without the placeholders it is not known which of them were reset. */
	if ((touched & SQL_TOUCH_DEFAULT) && (facts->parts & QUESTION_PARAMS) &&
	    !facts->lacks_names)
		server_take_facts(client->borrower.server, facts, client->startup, NULL,
		                  resets_back(client));
	resets_settle(client);
	session_free(client);
}
