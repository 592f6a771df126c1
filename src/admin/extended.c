/* SPDX-License-Identifier: ISC */
/*
 * The extended protocol: named statements and portals, as drivers use them.
 *
 * A statement is understood when it is parsed; a portal is one execution of it,
 * with a cursor of its own, and lives until Sync, or as long as a BEGIN. There are
 * no parameters.
 *
 * Source: PostgreSQL's manual, "Frontend/Backend Protocol", "Extended Query".
 */
#include "admin_priv.h"

#include <stdio.h>
#include <stdlib.h>

#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/message.h"

#include "pgweir/base/banned.h"

#define STATEMENTS_MAX 1000
#define PORTALS_MAX 100
#define NAME_MAX_SIZE 256

struct prepared {
	UT_hash_handle hh;
	struct request request;
	char name[];
};

/* ---- statements and portals ---- */

static const struct hash_key *table_secret(const struct console_session *session)
{
	return &session->console->with.pools->secret;
}

static struct prepared *statement_find(struct console_session *session, const char *name)
{
	struct prepared *statement;

	TABLE_FIND_STR(hh, table_secret(session), session->statements, name, statement);
	return statement;
}

static struct portal *portal_find(struct console_session *session, const char *name)
{
	struct portal *portal;

	TABLE_FIND_STR(hh, table_secret(session), session->portals, name, portal);
	return portal;
}

static void drop_statement(struct console_session *session, struct prepared *statement)
{
	if (!statement)
		return;
	HASH_DEL(session->statements, statement);
	free(statement);
}

/* The one that runs is let be. */
static void drop_portal(struct console_session *session, struct portal *portal)
{
	if (!portal || portal == session->portal)
		return;
	HASH_DEL(session->portals, portal);
	portal_free(&portal);
}

static void drop_portals(struct console_session *session)
{
	struct portal *portal, *next;

	HASH_ITER (hh, session->portals, portal, next)
		drop_portal(session, portal);
}

struct portal *portal_new(const char *name, const struct request *request)
{
	size_t size = strlen(name) + 1;
	struct portal *portal = calloc(1, sizeof(*portal) + size);

	if (!portal)
		return NULL;
	memcpy(portal->name, name, size);
	portal->request = *request;
	return portal;
}

void portal_free(struct portal **portal)
{
	if (!*portal)
		return;
	cursor_end(&(*portal)->cursor);
	free(*portal);
	*portal = NULL;
}

void extended_forget(struct console_session *session, const char *name)
{
	struct prepared *statement, *next;

	if (name) {
		drop_statement(session, statement_find(session, name));
		return;
	}
	HASH_ITER (hh, session->statements, statement, next)
		drop_statement(session, statement);
}

void extended_done(struct console_session *session)
{
	session->portal = NULL;
	extended_forget(session, NULL);
	drop_portals(session);
}

/* ---- messages: each fills *err and returns false when it fails ---- */

static bool broken(struct err *err) { return err_set(err, ERR_PROTOCOL, "bad packet"); }

static bool fits(const char *name, unsigned int count, unsigned int limit, struct err *err)
{
	if (strlen(name) >= NAME_MAX_SIZE)
		return err_set(err, ERR_STATEMENT_NAME, "name is too long");
	return count < limit || err_set(err, ERR_LIMIT, "too many statements or portals");
}

static bool on_parse(struct console_session *session, struct bytes body, struct err *err)
{
	struct parse_fields fields;
	struct request request;
	struct prepared *statement;

	if (fields_parse(body, &fields) != WIRE_OK)
		return broken(err);
	if (fields.type_count)
		return err_set(err, ERR_UNSUPPORTED, "the console takes no parameters");
	if (!request_read(bytes_text(fields.query), &request, err)) {
		request_suggest(bytes_text(fields.query), session->hint, sizeof(session->hint));
		request_hide(bytes_text(fields.query), session->logged, sizeof(session->logged));
		return false;
	}
	if (!fits(fields.statement, HASH_COUNT(session->statements), STATEMENTS_MAX, err))
		return false;
	statement = statement_find(session, fields.statement);
	if (statement && *fields.statement)
		return err_set(err, ERR_STATEMENT_TWICE, "prepared statement \"%s\" already exists",
		               fields.statement);
	drop_statement(session, statement);
	statement = calloc(1, sizeof(*statement) + strlen(fields.statement) + 1);
	if (!statement)
		return err_set(err, ERR_MEMORY, "out of memory");
	memcpy(statement->name, fields.statement, strlen(fields.statement) + 1);
	statement->request = request;
	TABLE_ADD_STR(hh, table_secret(session), session->statements, statement->name, statement);
	message_parse_complete(&session->out);
	return true;
}

/* Which columns are wanted in binary: one format for all, or one for each. */
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
	struct prepared *statement;
	struct portal *portal;
	uint32_t binary;

	if (fields_bind(body, &fields) != WIRE_OK)
		return broken(err);
	statement = statement_find(session, fields.statement);
	if (!statement)
		return err_set(err, ERR_STATEMENT_NAME, "prepared statement \"%s\" does not exist",
		               fields.statement);
	if (fields.parameters.left)
		return err_set(err, ERR_UNSUPPORTED, "the console takes no parameters");
	portal = portal_find(session, fields.portal);
	if (portal && *fields.portal)
		return err_set(err, ERR_STATE, "portal \"%s\" already exists", fields.portal);
	if (!read_formats(&fields, request_columns(&statement->request).count, &binary, err) ||
	    !fits(fields.portal, HASH_COUNT(session->portals), PORTALS_MAX, err))
		return false;
	drop_portal(session, portal);
	portal = portal_new(fields.portal, &statement->request);
	if (!portal)
		return err_set(err, ERR_MEMORY, "out of memory");
	portal->binary = binary;
	TABLE_ADD_STR(hh, table_secret(session), session->portals, portal->name, portal);
	message_bind_complete(&session->out);
	return true;
}

static bool no_portal(const char *name, struct err *err)
{
	char text[NAME_MAX_SIZE + 32];

	snprintf(text, sizeof(text), "portal \"%.*s\" does not exist", NAME_MAX_SIZE, name);
	return err_set_foreign(err, "34000", text);
}

static bool on_describe(struct console_session *session, struct bytes body, struct err *err)
{
	struct object_names names;
	const struct prepared *statement = NULL;
	const struct portal *portal = NULL;
	struct columns columns;

	if (fields_names('D', body, body.count, &names) != WIRE_OK)
		return broken(err);
	if (names.target == 'S') {
		statement = statement_find(session, names.statement);
		if (!statement)
			return err_set(err, ERR_STATEMENT_NAME,
			               "prepared statement \"%s\" does not exist", names.statement);
		message_parameter_types(&session->out, NULL, 0);
	} else {
		portal = portal_find(session, names.portal);
		if (!portal)
			return no_portal(names.portal, err);
	}
	columns = request_columns(statement ? &statement->request : &portal->request);
	if (columns.count)
		rows_describe(&session->out, columns, portal ? portal->binary : 0);
	else
		message_no_data(&session->out);
	return true;
}

static bool on_close(struct console_session *session, struct bytes body, struct err *err)
{
	struct object_names names;

	if (fields_names('C', body, body.count, &names) != WIRE_OK)
		return broken(err);
	if (names.target == 'S')
		drop_statement(session, statement_find(session, names.statement));
	else
		drop_portal(session, portal_find(session, names.portal));
	message_close_complete(&session->out);
	return true;
}

static bool on_function(struct err *err)
{
	return err_set(err, ERR_UNSUPPORTED, "the console has no functions");
}

/* Runs on by itself. *is_alive: the session is still there. */
static bool on_execute(struct console_session *session, struct bytes body, bool *is_alive,
                       struct err *err)
{
	struct portal *portal;
	const char *name;
	uint32_t limit;

	if (fields_execute(body, &name, &limit) != WIRE_OK)
		return broken(err);
	portal = portal_find(session, name);
	if (!portal)
		return no_portal(name, err);
	session->console->source.own.query_count++;
	session->is_simple = false;
	*is_alive = session_execute(session, portal, limit);
	return true;
}

static void on_sync(struct console_session *session)
{
	session->is_skipping = false;
	if (session->status == 'I')
		drop_portals(session);
	message_ready(&session->out, session->status);
}

static bool act_on(struct console_session *session, char type, struct bytes body, bool *is_alive,
                   struct err *err)
{
	switch (type) {
	case 'P':
		return on_parse(session, body, err);
	case 'B':
		return on_bind(session, body, err);
	case 'D':
		return on_describe(session, body, err);
	case 'C':
		return on_close(session, body, err);
	case 'E':
		return on_execute(session, body, is_alive, err);
	default:
		return on_function(err);
	}
}

bool extended_message(struct console_session *session, char type, struct bytes body, bool *is_alive)
{
	struct err err;

	if (type == 'S') {
		on_sync(session);
		return true;
	}
	/* PostgreSQL too lets the end of a COPY pass that there is not. */
	if (type == 'H' || type == 'd' || type == 'c' || type == 'f')
		return true;
	if (!type || !strchr("PBDCEF", type))
		return false;
	if (session->is_skipping)
		return true;
	session->is_simple = type == 'F'; /* which ReadyForQuery answers by itself */
	if (!act_on(session, type, body, is_alive, &err))
		session_fail(session, &err);
	return true;
}
