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

/* ---- Parse ---- */

/*
 * The name exists already. PostgreSQL reports that only if the text has no other error and
 * the transaction has not failed. So the text is parsed under a scratch name that exists, too.
 */
static enum judgement refuse_twice(struct client *client, const char *name, struct bytes text,
                                   struct batch *batch)
{
	static const char scratch[] = SCRATCH_NAME;
	char front[FRAME_HEADER_SIZE] = { 'P' };

	if (!inject_scratch(client, batch, true))
		return JUDGE_MEMORY;
	store_be32(front + 1, (uint32_t)(4 + sizeof(scratch) + text.count));
	batch_copy(batch, bytes_of(front, sizeof(front)));
	batch_run(batch, bytes_of(scratch, sizeof(scratch)));
	batch_run(batch, text);
	return statements_note(client, LEDGER_PARSE, LEDGER_CLIENT,
	                       names_mention(client, name, NULL), JUDGE_DROP);
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
	const struct client_statement *entry;
	bool is_good;
	struct err err;

	if (in.count < frame->length)
		return JUDGE_MORE;
	body = frame_body(in, frame);
	if (fields_parse(body, &parse) != WIRE_OK)
		return JUDGE_SEND; /* PostgreSQL reports the error */
	entry = names_find(client, parse.statement);
	if (names_are_unsure(client, entry, batch))
		return JUDGE_WAIT;
	text = bytes_skip(body, strlen(parse.statement) + 1);
	if (!server_scope(client->borrower.server, &scope))
		return JUDGE_MEMORY;
	statement = statement_of(names_store(client), text, scope);
	if (!statement)
		return JUDGE_MEMORY;
	if (!server_statements_is_sure(&client->borrower.server->session.statements, statement)) {
		statement_release(&statement);
		return batch_wait(batch, LEDGER_WAIT_READY);
	}
	client->borrower.pool->stats.client_parse_count++;
	if (entry) {
		statement_release(&statement);
		return refuse_twice(client, parse.statement, text, batch);
	}
	if (!names_have_room(client, statement, &err)) {
		statement_release(&statement);
		return statements_refuse(client, frame->type, &err, batch);
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
static void replace_head(const struct frame *frame, const struct object_names *names,
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
}

/*
 * The client has no such name. SQL's PREPARE may have made it on the server. But a name of
 * ours must not reach the server: it would be another client's statement.
 */
static enum judgement judge_unknown(struct client *client, const struct frame *frame,
                                    const struct object_names *names, struct batch *batch,
                                    size_t *head)
{
	if (!statement_name_is_reserved(names->statement))
		return JUDGE_SEND; /* PostgreSQL reports that there is no such statement */
	if (!inject_scratch(client, batch, false))
		return JUDGE_MEMORY;
	replace_head(frame, names, bytes_text(SCRATCH_NAME), batch, head);
	return statements_note(client, frame->type == 'B' ? LEDGER_BIND : LEDGER_DESCRIBE,
	                       LEDGER_CLIENT, names_mention(client, names->statement, NULL),
	                       JUDGE_HEAD);
}

/* Whether the client was told the result columns that the statement has on its server. */
static bool knows_columns(struct client *client, const struct client_statement *entry)
{
	return entry->columns &&
	       server_statements_columns(&client->borrower.server->session.statements,
	                                 names_statement(entry)) == entry->columns;
}

/* Adds a Bind or Describe to the ledger. JUDGE_HEAD: it is noted. */
static enum judgement note_use(struct client *client, char type, struct client_statement *entry)
{
	if (type == 'D' && !(names_statement(entry)->is_typed && knows_columns(client, entry)))
		return statements_note(client, LEDGER_TYPES, LEDGER_CLIENT,
		                       names_describe(client, entry, true), JUDGE_HEAD);
	entry->use_count++; /* cannot overflow: the ledger's length is bounded */
	return statements_note(client, type == 'B' ? LEDGER_BIND : LEDGER_DESCRIBE, LEDGER_CLIENT,
	                       &entry->use, JUDGE_HEAD);
}

/*
 * The statement is a PREPARE, EXECUTE or the like itself. What it means by a name is found anew
 * with each use, so its text is used as the unnamed statement.
 */
static enum judgement use_unnamed(struct client *client, const struct frame *frame,
                                  const struct object_names *names,
                                  const struct client_statement *entry, struct batch *batch,
                                  size_t *head)
{
	bool is_bind = frame->type == 'B';
	enum judgement result = unnamed_lend(client, frame->type, names_statement(entry), batch);

	if (result == JUDGE_SEND && is_bind && client->sql)
		result = sql_bind(client, names->portal, "", batch);
	if (result > JUDGE_HEAD)
		return result;
	client->borrower.pool->stats.bind_count += is_bind;
	replace_head(frame, names, bytes_text(""), batch, head);
	if (result == JUDGE_SEND &&
	    !server_note(client->borrower.server, is_bind ? LEDGER_BIND : LEDGER_DESCRIBE))
		return JUDGE_MEMORY;
	return JUDGE_HEAD;
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
	struct bytes name;

	if (!inject_statement(client, batch, names_statement(entry), &name))
		return JUDGE_MEMORY;
	inject_named(batch, 'D', name);
	batch->waits_for = LEDGER_WAIT_EMPTY;
	return statements_note(client, LEDGER_TYPES, LEDGER_DROPPED,
	                       names_describe(client, entry, false), JUDGE_WAIT);
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
	return statements_refuse(client, frame->type, &err, batch);
}

enum judgement prepared_describe_portal(struct client *client, struct batch *batch)
{
	if (knows_columns(client, batch->bound))
		return JUDGE_SEND;
	return statements_note(client, LEDGER_TYPES, LEDGER_CLIENT,
	                       names_describe(client, batch->bound, true), JUDGE_HEAD);
}

enum judgement prepared_use(struct client *client, const struct frame *frame, struct bytes in,
                            const struct object_names *names, struct batch *batch, size_t *head)
{
	struct client_statement *entry = names_find(client, names->statement);
	unsigned int touches = 0;
	enum judgement result;
	struct bytes name;

	if (names_are_unsure(client, entry, batch))
		return JUDGE_WAIT;
	if (!entry) {
		client->borrower.pool->stats.bind_count += frame->type == 'B';
		return judge_unknown(client, frame, names, batch, head);
	}
	if (sql_is_lone(names_statement(entry)))
		return use_unnamed(client, frame, names, entry, batch, head);
	result = names_enter(client, entry, frame->type, batch);
	if (result == JUDGE_SEND && frame->type == 'B')
		result = check_columns(client, frame, in, names, entry, batch);
	if (result != JUDGE_SEND)
		return result;
	if (frame->type == 'B') {
		client->borrower.pool->stats.bind_count++;
		touches = session_relevant(
		    client, session_statement_touches(client, names_statement(entry)));
	}
	batch->is_query = false;
	result = statements_run(client, frame->type, touches,
	                        session_text_of(names_statement(entry)), batch);
	if (result != JUDGE_SEND)
		return result;
	if (!inject_statement(client, batch, names_statement(entry), &name))
		return JUDGE_MEMORY;
	if (frame->type == 'B') {
		batch->bound = entry;
		batch->bound_portal = names->portal;
	}
	replace_head(frame, names, name, batch, head);
	return note_use(client, frame->type, entry);
}

enum judgement prepared_close(struct client *client, const char *name, struct batch *batch)
{
	const struct client_statement *entry = names_find(client, name);
	bool is_exposed;

	if (names_are_unsure(client, entry, batch))
		return JUDGE_WAIT;
	if (!entry && !statement_name_is_reserved(name))
		return JUDGE_SEND;               /* it may be a name of SQL's PREPARE */
	is_exposed = entry && entry->is_exposed; /* then the server has it, too */
	return statements_note(client, is_exposed ? LEDGER_CLOSE : LEDGER_CLOSE_HERE, LEDGER_CLIENT,
	                       names_go(client, name), is_exposed ? JUDGE_HEAD : JUDGE_DROP);
}
