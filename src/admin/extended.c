/* SPDX-License-Identifier: ISC */
/*
 * The extended protocol: named statements and portals, as drivers use them.
 *
 * A statement is parsed at Parse. A portal is one execution of a statement, with its own
 * cursor. It lives until Sync, or within a BEGIN until the Sync after its end. There are no
 * parameters.
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

/* ---- messages: each function fills *err and returns false if the message fails ---- */

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
	const struct prepared *statement;
	struct request request;

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
	statement = session_find_statement(session, fields.statement);
	if (statement && *fields.statement)
		return err_set(err, ERR_STATEMENT_TWICE, "prepared statement \"%s\" already exists",
		               fields.statement);
	if (!session_add_statement(session, fields.statement, &request))
		return err_set(err, ERR_MEMORY, "out of memory");
	message_parse_complete(&session->out);
	return true;
}

/*
 * Which columns are sent in binary: no format (text), one format for all columns, or one
 * for each.
 */
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
	struct portal *portal;
	uint32_t binary;

	if (fields_bind(body, &fields) != WIRE_OK)
		return broken(err);
	statement = session_find_statement(session, fields.statement);
	if (!statement)
		return err_set(err, ERR_STATEMENT_NAME, "prepared statement \"%s\" does not exist",
		               fields.statement);
	if (fields.parameters.left)
		return err_set(err, ERR_UNSUPPORTED, "the console takes no parameters");
	portal = session_find_portal(session, fields.portal);
	if (portal && *fields.portal)
		return err_set(err, ERR_STATE, "portal \"%s\" already exists", fields.portal);
	if (!read_formats(&fields, request_columns(&statement->request).count, &binary, err) ||
	    !fits(fields.portal, HASH_COUNT(session->portals), PORTALS_MAX, err))
		return false;
	session_drop_portal(session, portal);
	if (!session_add_portal(session, fields.portal, &statement->request, binary))
		return err_set(err, ERR_MEMORY, "out of memory");
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
		statement = session_find_statement(session, names.statement);
		if (!statement)
			return err_set(err, ERR_STATEMENT_NAME,
			               "prepared statement \"%s\" does not exist", names.statement);
		message_parameter_types(&session->out, NULL, 0);
	} else {
		portal = session_find_portal(session, names.portal);
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
		session_drop_statement(session, names.statement);
	else
		session_drop_portal(session, session_find_portal(session, names.portal));
	message_close_complete(&session->out);
	return true;
}

static bool on_function(struct err *err)
{
	return err_set(err, ERR_UNSUPPORTED, "the console has no functions");
}

/* Sends the answer itself, now or later. *is_alive: the session still exists. */
static bool on_execute(struct console_session *session, struct bytes body, bool *is_alive,
                       struct err *err)
{
	struct portal *portal;
	const char *name;
	uint32_t limit;

	if (fields_execute(body, &name, &limit) != WIRE_OK)
		return broken(err);
	portal = session_find_portal(session, name);
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
	/* Outside BEGIN, Sync ends the transaction, and so all portals. */
	if (session->status == 'I')
		session_drop_portals(session);
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
	/*
	 * Flush needs no action. PostgreSQL also ignores CopyData, CopyDone and CopyFail outside a
	 * COPY.
	 */
	if (type == 'H' || type == 'd' || type == 'c' || type == 'f')
		return true;
	if (!frame_is_extended(type) && type != 'F')
		return false;
	if (session->is_skipping)
		return true;
	/* PostgreSQL sends ReadyForQuery after a FunctionCall without waiting for a Sync */
	session->is_simple = type == 'F';
	if (!act_on(session, type, body, is_alive, &err))
		session_fail(session, &err);
	return true;
}
