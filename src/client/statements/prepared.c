/* SPDX-License-Identifier: ISC */
/*
 * Named prepared statements.
 *
 *   Parse "s1" <text>  -->  [Close] Parse "PGBOUNCER_7" <text>
 *   Bind "" "s1" ...   -->  [Parse "PGBOUNCER_7"] Bind "" "PGBOUNCER_7" ...
 *   Close "s1"         -->  nothing: the statement stays for others
 *
 * Hard here: each message is handled when the client sends it, long before the server
 * answers. The change is in force at once, and the ledger reverts it if the server refuses
 * or skips the message. So a name exists for the Bind after its Parse, and disappears if
 * the Parse fails. A message after a Sync that is not answered yet has to wait, because
 * what failed before that Sync is unknown. An answer of our own must be sent where the
 * server's answer would be, so it has an entry in the ledger.
 *
 * PostgreSQL reports what is wrong with a name: an unknown name is sent unchanged, and a
 * name that exists is made to fail on the server. So a transaction fails exactly as without
 * a pooler.
 */
#include "statements_priv.h"

#include <stdlib.h>

#include "../session/listening_priv.h"
#include "names_priv.h"

/* ---- Parse ---- */

/*
 * The name exists already. PostgreSQL reports that only if the text has no other error and
 * the transaction has not failed. So the text is parsed under a scratch name, which is
 * closed at once, and then a message follows that fails.
 */
static enum judgement refuse_twice(struct client *client, const char *name, struct bytes text,
                                   struct batch *batch)
{
	static const char trial[] = SCRATCH_NAME;
	struct server *server = client->borrower.server;
	char front[FRAME_HEADER_SIZE] = { 'P' };
	struct err err;

	err_set(&err, ERR_STATEMENT_TWICE, "prepared statement \"%s\" already exists", name);
	store_be32(front + 1, (uint32_t)(4 + sizeof(trial) + text.count));
	inject_named(batch, 'C', bytes_of(trial, sizeof(trial) - 1));
	batch_copy(batch, bytes_of(front, sizeof(front)));
	batch_copy(batch, bytes_of(trial, sizeof(trial)));
	batch_run(batch, text);
	inject_named(batch, 'C', bytes_of(trial, sizeof(trial) - 1));
	if (!server_note_change(server, LEDGER_CLOSE, LEDGER_DROPPED, NULL) ||
	    !server_note_change(server, LEDGER_PARSE, LEDGER_DROPPED, NULL) ||
	    !server_note_change(server, LEDGER_CLOSE, LEDGER_DROPPED, NULL))
		return JUDGE_MEMORY;
	return inject_refuse(client, &err, batch);
}

/*
 * Each Parse is sent, also if another client has prepared the text on this server: it is analyzed
 * as if nobody had. What others know of the statement then is what the server has analyzed last.
 */
static bool send_parse(struct client *client, const char *name, struct statement *statement,
                       struct batch *batch)
{
	struct ledger_change *parse, *change;

	if (!inject_make_way(client, batch, statement, &parse))
		return false;
	change = names_come(client, name, statement, parse);
	if (!change) {
		parse->settle(parse, false);
		return false;
	}
	inject_parse(client, batch, statement);
	return server_note_change(client->borrower.server, LEDGER_PARSE, LEDGER_CLIENT, change);
}

enum judgement prepared_parse(struct client *client, const struct frame *frame, struct bytes in,
                              struct batch *batch)
{
	struct bytes body, text, scope;
	struct parse_fields parse;
	struct statement *statement;
	bool is_good, is_forgetting, is_by_name;
	enum judgement result;
	struct err err;

	if (in.count < frame->length)
		return JUDGE_MORE;
	body = frame_body(in, frame);
	if (fields_parse(body, &parse) != WIRE_OK)
		return JUDGE_SEND; /* PostgreSQL reports the error */
	is_by_name = sql_is_by_name(bytes_text(parse.query), &is_forgetting);
	if (names_are_unsure(client))
		return batch_wait(batch, LEDGER_WAIT_READY);
	result = is_by_name ? sql_before_named(client, parse.query, batch) : JUDGE_SEND;
	if (result != JUDGE_SEND)
		return result;
	text = bytes_skip(body, strlen(parse.statement) + 1);
	if (!server_scope(client->borrower.server, &scope))
		return JUDGE_MEMORY;
	statement = statement_of(names_store(client), text, scope);
	if (!statement)
		return JUDGE_MEMORY;
	statement->is_forgetting = is_forgetting;
	if (!server_statements_is_sure(&client->borrower.server->session.statements, statement)) {
		statement_release(&statement);
		return batch_wait(batch, LEDGER_WAIT_READY);
	}
	client->borrower.pool->stats.client_parse_count++;
	if (is_by_name) /* what it means may have changed since another client has parsed it */
		server_statements_mark_stale(&client->borrower.server->session.statements,
		                             statement);
	if (names_find(client, parse.statement)) {
		statement_release(&statement);
		return refuse_twice(client, parse.statement, text, batch);
	}
	if (!names_have_room(client, statement, &err)) {
		statement_release(&statement);
		return inject_refuse(client, &err, batch);
	}
	is_good = send_parse(client, parse.statement, statement, batch);
	/* the name and the server hold it now */
	statement_release(&statement);
	return is_good ? JUDGE_DROP : JUDGE_MEMORY;
}

/* ---- Bind, Describe, Close ---- */

/*
 * Adds the front of a message, with the statement's name on the server. The rest is sent as
 * it is.
 */
static enum judgement replace_head(const struct frame *frame, const struct object_names *names,
                                   struct bytes name, struct batch *batch, size_t *head)
{
	size_t portal_size = names->portal ? strlen(names->portal) + 1 : 0;
	size_t front_size = FRAME_HEADER_SIZE + (names->target ? 1 : 0);
	char front[FRAME_HEADER_SIZE + 1] = { frame->type, 0, 0, 0, 0, names->target };

	*head = FRAME_HEADER_SIZE + names->count;
	store_be32(front + 1, (uint32_t)(frame->length - 1 - *head + front_size + portal_size +
	                                 name.count + 1));
	batch_copy(batch, bytes_of(front, front_size));
	if (portal_size)
		batch_run(batch, bytes_of(names->portal, portal_size));
	batch_copy(batch, bytes_of(name.at, name.count + 1));
	return JUDGE_HEAD;
}

/*
 * The client has no such name. SQL's PREPARE may have made it on the server. But a name of
 * ours must not reach the server: it would be another client's statement.
 */
static enum judgement judge_unknown(struct client *client, const char *name, struct batch *batch)
{
	struct err err;

	if (!statement_name_is_reserved(name))
		return JUDGE_SEND; /* PostgreSQL reports that there is no such statement */
	err_set(&err, ERR_STATEMENT_NAME, "prepared statement \"%s\" does not exist", name);
	return inject_refuse(client, &err, batch);
}

/* Whether the client was told the result columns that the statement has on its server. */
static bool knows_columns(struct client *client, const struct client_statement *entry)
{
	return entry->columns &&
	       server_statements_columns(&client->borrower.server->session.statements,
	                                 names_statement(entry)) == entry->columns;
}

/* Adds a Bind or Describe to the ledger. false: no memory. */
static bool note_use(struct client *client, char type, struct client_statement *entry)
{
	struct server *server = client->borrower.server;
	struct ledger_change *description;

	if (type == 'D' && !(names_statement(entry)->is_typed && knows_columns(client, entry))) {
		description = names_describe(client, entry, true);
		return description &&
		       server_note_change(server, LEDGER_TYPES, LEDGER_CLIENT, description);
	}
	entry->use_count++; /* cannot overflow: the ledger's length is bounded */
	return server_note_change(server, type == 'B' ? LEDGER_BIND : LEDGER_DESCRIBE,
	                          LEDGER_CLIENT, &entry->use);
}

/* The text may mean another statement by its name. JUDGE_SEND, or what else must be done. */
static enum judgement before_use(struct client *client, const struct statement *statement,
                                 unsigned int *touches, struct batch *batch)
{
	const char *text = statement_text(statement).at;
	enum judgement result;
	bool is_forgetting;

	if (!(statement->touches & SQL_TOUCH_BY_NAME) ||
	    !sql_is_by_name(bytes_text(text), &is_forgetting))
		return JUDGE_SEND;
	*touches = SQL_TOUCH_HIDDEN | SESSION_TOUCH_BY_NAME;
	result = sql_before_named(client, text, batch);
	if (result == JUDGE_SEND)
		server_statements_mark_stale(&client->borrower.server->session.statements,
		                             statement);
	return result;
}

/* ---- the columns of the result ---- */

/* Whether a Describe of the portal comes directly after its Bind: the client is told again. */
static bool is_described_next(const struct frame *frame, struct bytes in, const char *portal)
{
	struct bytes next = bytes_skip(in, frame->length < in.count ? frame->length : in.count);
	struct object_names names;
	struct frame describe;

	return frame_peek(next, UINT32_MAX, &describe) == WIRE_OK && describe.type == 'D' &&
	       next.count >= describe.length &&
	       fields_names('D', frame_body(next, &describe), describe.length - FRAME_HEADER_SIZE,
	                    &names) == WIRE_OK &&
	       names.target == 'P' && strcmp(names.portal, portal) == 0;
}

/* Has the statement described to us, before the client's Bind of it is sent. */
static enum judgement ask_columns(struct client *client, struct client_statement *entry,
                                  struct batch *batch)
{
	struct server *server = client->borrower.server;
	struct ledger_change *change;
	struct bytes name;

	if (!inject_statement(client, batch, names_statement(entry), &name))
		return JUDGE_MEMORY;
	change = names_describe(client, entry, false);
	if (!change || !server_note_change(server, LEDGER_TYPES, LEDGER_DROPPED, change))
		return JUDGE_MEMORY;
	inject_named(batch, 'D', name);
	return batch_wait(batch, LEDGER_WAIT_EMPTY);
}

/*
 * PostgreSQL refuses to run a statement whose result would have other columns than the client was
 * told. A server that has parsed it later does not know what that was. JUDGE_SEND: no objection.
 */
static enum judgement check_columns(struct client *client, const struct frame *frame,
                                    struct bytes in, const struct object_names *names,
                                    struct client_statement *entry, struct batch *batch)
{
	struct err err;

	if (entry->columns <= FIELDS_NO_COLUMNS || knows_columns(client, entry) ||
	    is_described_next(frame, in, names->portal))
		return JUDGE_SEND;
	if (!server_statements_columns(&client->borrower.server->session.statements,
	                               names_statement(entry)))
		return ask_columns(client, entry, batch);
	err_set(&err, ERR_PLAN_CHANGED, "cached plan must not change result type");
	return inject_refuse(client, &err, batch);
}

enum judgement prepared_describe_portal(struct client *client, struct batch *batch)
{
	struct client_statement *entry = batch->bound;
	struct ledger_change *change;

	if (knows_columns(client, entry))
		return JUDGE_SEND;
	change = names_describe(client, entry, true);
	return change && server_note_change(client->borrower.server, LEDGER_TYPES, LEDGER_CLIENT,
	                                    change)
	           ? JUDGE_HEAD
	           : JUDGE_MEMORY;
}

enum judgement prepared_use(struct client *client, const struct frame *frame, struct bytes in,
                            const struct object_names *names, struct batch *batch, size_t *head)
{
	struct client_statement *entry = names_find(client, names->statement);
	unsigned int touches = 0;
	enum judgement result;
	struct bytes name;
	struct err err;

	if ((!entry || !entry->is_confirmed) && names_are_unsure(client))
		return batch_wait(batch, LEDGER_WAIT_READY);
	if (entry && !names_enter_scope(client, entry))
		return JUDGE_MEMORY;
	if (entry && !server_statements_is_sure(&client->borrower.server->session.statements,
	                                        names_statement(entry)))
		return batch_wait(batch, LEDGER_WAIT_READY);
	if (entry && !names_can_run(client, entry, false, &err))
		return inject_refuse(client, &err, batch);
	result = entry ? before_use(client, names_statement(entry), &touches, batch) : JUDGE_SEND;
	if (result != JUDGE_SEND)
		return result;
	/* What a statement means by name has the columns that it has now. */
	if (entry && frame->type == 'B' && !touches) {
		result = check_columns(client, frame, in, names, entry, batch);
		if (result != JUDGE_SEND)
			return result;
	}
	if (frame->type == 'B')
		client->borrower.pool->stats.bind_count++;
	if (!entry)
		return judge_unknown(client, names->statement, batch);
	if (frame->type == 'B')
		touches = session_relevant(
		    client, touches | session_statement_touches(client, names_statement(entry)));
	if (touches) {
		result = place_before(client, touches,
		                      bytes_text(statement_text(names_statement(entry)).at), batch);
		if (result != JUDGE_SEND)
			return result;
	}
	batch->is_query = false;
	if (touches && !session_use(client, touches, session_text_of(names_statement(entry), batch),
	                            true, &err))
		return inject_refuse(client, &err, batch);
	/* DISCARD ALL or similar: later messages must not rely on known statements */
	if (names_statement(entry)->is_forgetting)
		server_statements_distrust_sent(&client->borrower.server->session.statements);
	if (!inject_statement(client, batch, names_statement(entry), &name) ||
	    !note_use(client, frame->type, entry))
		return JUDGE_MEMORY;
	if (frame->type == 'B') {
		batch->bound = entry;
		batch->bound_portal = names->portal;
	}
	return replace_head(frame, names, name, batch, head);
}

enum judgement prepared_close(struct client *client, const char *name, struct batch *batch)
{
	struct ledger_change *change;

	if (names_are_unsure(client))
		return batch_wait(batch, LEDGER_WAIT_READY);
	if (!names_find(client, name) && !statement_name_is_reserved(name))
		return JUDGE_SEND; /* it may be a name of SQL's PREPARE */
	change = names_go(client, name);
	return change && server_note_change(client->borrower.server, LEDGER_CLOSE_HERE,
	                                    LEDGER_CLIENT, change)
	           ? JUDGE_DROP
	           : JUDGE_MEMORY;
}
