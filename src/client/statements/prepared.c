/* SPDX-License-Identifier: ISC */
/*
 * Named prepared statements.
 *
 *   Parse "s1" <text>  -->  Parse "PGBOUNCER_7" <text>, or nothing if the server knows it
 *   Bind "" "s1" ...   -->  [Parse "PGBOUNCER_7"] Bind "" "PGBOUNCER_7" ...
 *   Close "s1"         -->  nothing: the statement stays for others
 *
 * Hard here: all this is decided when the client speaks, long before the server
 * answers. What is decided counts at once and is taken back by the ledger where
 * the server refuses or skips: so a name is there for the Bind behind its Parse,
 * and gone without a trace when the Parse fails. Behind a Sync that is not answered
 * yet it waits, as nobody can tell what will have failed. What we answer ourselves must
 * stand where the server's answer would: in the ledger, in its turn.
 *
 * Whatever is wrong with a name is said by PostgreSQL: an unknown name is sent as
 * it is, and a name that is taken is made to fail there, so that a transaction
 * fails exactly as it would without us.
 */
#include "prepared_priv.h"

#include <stdlib.h>

#include "pgweir/pgwire/fields.h"

#include "../client_priv.h"
#include "names_priv.h"
#include "sql_priv.h"
#include "whole_priv.h"

#include "pgweir/base/banned.h"

/* A statement's name on servers is short; a portal's name may be long. */
#define HEAD_MAX BATCH_SIZE

bool prepared_follows(const struct client *client)
{
	if (client_statement_count(client))
		return true;
	return !client->replication && client->borrower.pool->limits.mode != POOL_MODE_SESSION &&
	       client->clients->config->max_prepared_statements > 0;
}

/* ---- what is said to the server besides ---- */

bool prepared_note(struct server *server, enum ledger_kind kind, enum ledger_fate fate,
                   struct ledger_change *change)
{
	return server_note_change(server, kind, fate, change) != LEDGER_NO_MEMORY;
}

void prepared_batch_close(struct batch *batch, struct bytes name)
{
	char front[FRAME_HEADER_SIZE + 1] = { 'C', 0, 0, 0, 0, 'S' };

	store_be32(front + 1, (uint32_t)(4 + 1 + name.count + 1));
	batch_copy(batch, bytes_of(front, sizeof(front)));
	batch_copy(batch, bytes_of(name.at, name.count + 1));
}

/* The text lies in the statement, which a client's name or the server's entry keeps alive. */
static void batch_parse(struct client *client, struct batch *batch,
                        const struct statement *statement)
{
	batch_run(batch, bytes_of(statement->message, statement->message_size));
	client->borrower.pool->stats.server_parse_count++;
}

/* Makes room for one more statement on the server. */
static bool evict(struct client *client, struct batch *batch)
{
	struct server *server = client->borrower.server;
	int limit = client->clients->config->max_prepared_statements;
	struct statement *oldest;

	while ((oldest = server_statements_oldest(&server->statements,
	                                          limit > 0 ? (unsigned int)limit : 1))) {
		struct ledger_change *change;

		prepared_batch_close(batch, statement_name(oldest));
		change = server_statements_forget(&server->statements, oldest);
		if (!change || !prepared_note(server, LEDGER_CLOSE, LEDGER_INJECT, change))
			return false;
	}
	return true;
}

/* The server throws the statement away and learns it anew. */
static bool repeat(struct client *client, struct batch *batch, struct statement *statement)
{
	struct server *server = client->borrower.server;
	struct ledger_change *close, *parse;

	if (!server_statements_repeat(&server->statements, statement, &close, &parse))
		return false;
	prepared_batch_close(batch, statement_name(statement));
	batch_parse(client, batch, statement);
	if (!prepared_note(server, LEDGER_CLOSE, LEDGER_INJECT, close)) {
		parse->settle(parse, false);
		return false;
	}
	return prepared_note(server, LEDGER_PARSE, LEDGER_INJECT, parse);
}

bool prepared_inject(struct client *client, struct batch *batch, struct statement *statement,
                     struct bytes *name)
{
	struct server *server = client->borrower.server;
	struct ledger_change *change;

	if (name && server_statements_use_as(&server->statements, statement, name))
		return true;
	if (name)
		*name = statement_name(statement);
	if (server_statements_is_stale(&server->statements, statement))
		return repeat(client, batch, statement);
	if (server_statements_use(&server->statements, statement))
		return true;
	if (!evict(client, batch))
		return false;
	change = server_statements_learn(&server->statements, statement);
	if (!change)
		return false;
	batch_parse(client, batch, statement);
	return prepared_note(server, LEDGER_PARSE, LEDGER_INJECT, change);
}

/* ---- Parse ---- */

static void settle_refusal(struct ledger_change *change, bool is_done)
{
	(void)is_done;
	free(change);
}

struct refusal *prepared_refusal(const struct err *err)
{
	struct refusal *refusal = calloc(1, sizeof(*refusal));

	if (!refusal)
		return NULL;
	refusal->base.settle = settle_refusal;
	refusal->err = *err;
	return refusal;
}

/* It is a Parse of a text with a name of no letters, which no state of a server makes right. */
enum prepared_result prepared_refuse(struct client *client, const struct err *err,
                                     struct batch *batch)
{
	static const char parse[] = "P\0\0\0\035" SCRATCH_NAME "\0EXECUTE \"\"\0\0";
	struct refusal *refusal = prepared_refusal(err);

	_Static_assert(sizeof(parse) == 1 + 035, "the length in the message");
	if (!refusal)
		return PREPARED_END;
	batch_copy(batch, bytes_of(parse, sizeof(parse)));
	return prepared_note(client->borrower.server, LEDGER_PARSE, LEDGER_REPLACE, &refusal->base)
	           ? PREPARED_DROP
	           : PREPARED_END;
}

enum prepared_result prepared_refuse_long(struct client *client, const struct frame *frame,
                                          struct batch *batch)
{
	size_t most = client->clients->config->max_statement_size;
	struct err err;

	if (frame->type == 'P')
		err_set(&err, ERR_TOO_LONG,
		        "a prepared statement of %u bytes is longer than max_statement_size (%zu): "
		        "prepare it without a name, or raise the setting",
		        frame->length, most);
	else if (frame->type == 'Q')
		err_set(&err, ERR_TOO_LONG,
		        "PREPARE, EXECUTE or DEALLOCATE of %u bytes is longer than "
		        "max_statement_size (%zu): raise the setting",
		        frame->length, most);
	else
		err_set(&err, ERR_TOO_LONG,
		        "the name of a statement or a portal is longer than %zu bytes",
		        WHOLE_NAMES_MAX);
	return frame->type == 'Q' ? sql_refuse_query(client, &err, batch)
	                          : prepared_refuse(client, &err, batch);
}

/*
 * The name is taken. PostgreSQL says so only when nothing else is wrong with the
 * text, or with the transaction: so it is asked, under a name that goes at once.
 */
static enum prepared_result refuse_twice(struct client *client, const char *name, struct bytes text,
                                         struct batch *batch)
{
	static const char trial[] = SCRATCH_NAME;
	struct server *server = client->borrower.server;
	char front[FRAME_HEADER_SIZE] = { 'P' };
	struct err err;

	err_set(&err, ERR_STATEMENT_TWICE, "prepared statement \"%s\" already exists", name);
	store_be32(front + 1, (uint32_t)(4 + sizeof(trial) + text.count));
	prepared_batch_close(batch, bytes_of(trial, sizeof(trial) - 1));
	batch_copy(batch, bytes_of(front, sizeof(front)));
	batch_copy(batch, bytes_of(trial, sizeof(trial)));
	batch_run(batch, text);
	prepared_batch_close(batch, bytes_of(trial, sizeof(trial) - 1));
	if (!prepared_note(server, LEDGER_CLOSE, LEDGER_INJECT, NULL) ||
	    !prepared_note(server, LEDGER_PARSE, LEDGER_INJECT, NULL) ||
	    !prepared_note(server, LEDGER_CLOSE, LEDGER_INJECT, NULL))
		return PREPARED_END;
	return prepared_refuse(client, &err, batch);
}

/*
 * The server knows the text. If nothing can have changed we say so in its place;
 * else it is asked again: in a transaction that has failed it must refuse.
 */
static bool parse_known(struct client *client, const char *name, struct statement *statement,
                        struct batch *batch)
{
	struct server *server = client->borrower.server;
	struct ledger_change *close, *parse, *change;

	if (!server_statements_is_stale(&server->statements, statement) && server->status != 'E' &&
	    ledger_knows_status(&server->ledger)) {
		change = names_come(client, name, statement, NULL);
		return change && prepared_note(server, LEDGER_PARSE, LEDGER_ANSWER, change);
	}
	if (!server_statements_repeat(&server->statements, statement, &close, &parse))
		return false;
	prepared_batch_close(batch, statement_name(statement));
	if (!prepared_note(server, LEDGER_CLOSE, LEDGER_INJECT, close)) {
		parse->settle(parse, false);
		return false;
	}
	change = names_come(client, name, statement, parse);
	if (!change) {
		parse->settle(parse, false);
		return false;
	}
	batch_parse(client, batch, statement);
	return prepared_note(server, LEDGER_PARSE, LEDGER_FORWARD, change);
}

static bool parse_new(struct client *client, const char *name, struct statement *statement,
                      struct batch *batch)
{
	struct server *server = client->borrower.server;
	struct ledger_change *learned, *change;

	if (!evict(client, batch))
		return false;
	learned = server_statements_learn(&server->statements, statement);
	if (!learned)
		return false;
	change = names_come(client, name, statement, learned);
	if (!change) {
		learned->settle(learned, false);
		return false;
	}
	batch_parse(client, batch, statement);
	return prepared_note(server, LEDGER_PARSE, LEDGER_FORWARD, change);
}

static enum prepared_result judge_parse(struct client *client, const struct frame *frame,
                                        struct bytes in, struct batch *batch)
{
	struct bytes body, text, scope;
	struct parse_fields parse;
	struct statement *statement;
	struct err err;
	bool is_good, is_forgetting;

	if (in.count <= FRAME_HEADER_SIZE)
		return frame->length > FRAME_HEADER_SIZE ? PREPARED_MORE : PREPARED_PASS;
	if (in.at[FRAME_HEADER_SIZE] == 0)
		return unnamed_parse(client, frame, in, batch);
	if (in.count < frame->length)
		return PREPARED_MORE;
	body = frame_body(in, frame);
	if (fields_parse(body, &parse) != WIRE_OK)
		return PREPARED_PASS; /* PostgreSQL says what is wrong with it */
	if (sql_is_refused(parse.query, &err, &is_forgetting))
		return prepared_refuse(client, &err, batch);
	if (names_are_unsure(client))
		return PREPARED_WAIT;
	text = bytes_skip(body, strlen(parse.statement) + 1);
	if (!server_scope(client->borrower.server, &scope))
		return PREPARED_END;
	statement = statement_of(names_store(client), text, scope);
	if (!statement)
		return PREPARED_END;
	statement->is_forgetting = is_forgetting;
	if (!server_statements_is_sure(&client->borrower.server->statements, statement)) {
		statement_release(names_store(client), &statement);
		return PREPARED_WAIT;
	}
	client->borrower.pool->stats.client_parse_count++;
	if (names_find(client, parse.statement)) {
		statement_release(names_store(client), &statement);
		return refuse_twice(client, parse.statement, text, batch);
	}
	is_good = server_statements_use(&client->borrower.server->statements, statement)
	              ? parse_known(client, parse.statement, statement, batch)
	              : parse_new(client, parse.statement, statement, batch);
	statement_release(names_store(client), &statement); /* whoever knows it holds it */
	return is_good ? PREPARED_DROP : PREPARED_END;
}

/* ---- Bind, Describe, Close ---- */

/* A message whose statement's name is ours now: what stands before the rest. */
static enum prepared_result replace_head(const struct frame *frame,
                                         const struct object_names *names, struct bytes name,
                                         struct batch *batch, size_t *head)
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
	return PREPARED_HEAD;
}

bool prepared_is_ours(const char *name)
{
	return strncmp(name, STATEMENT_NAMES, sizeof(STATEMENT_NAMES) - 1) == 0;
}

/* None of the client's names. It may be SQL's PREPARE, but never what others have prepared. */
static enum prepared_result judge_unknown(struct client *client, const char *name,
                                          struct batch *batch)
{
	struct err err;

	if (!prepared_is_ours(name))
		return PREPARED_PASS; /* PostgreSQL says that there is no such statement */
	err_set(&err, ERR_STATEMENT_NAME, "prepared statement \"%s\" does not exist", name);
	return prepared_refuse(client, &err, batch);
}

/* Notes a Bind or a Describe. false: no memory. */
static bool note_use(struct client *client, char type, struct client_statement *entry)
{
	struct server *server = client->borrower.server;
	struct ledger_change *description;

	if (type == 'D' && !names_statement(entry)->is_typed) {
		description = names_describe(client, entry);
		return description &&
		       prepared_note(server, LEDGER_TYPES, LEDGER_FORWARD, description);
	}
	entry->use_count++; /* no more than there are entries in a ledger */
	return prepared_note(server, type == 'B' ? LEDGER_BIND : LEDGER_DESCRIBE, LEDGER_FORWARD,
	                     &entry->use);
}

static enum prepared_result judge_use(struct client *client, const struct frame *frame,
                                      const struct object_names *names, struct batch *batch,
                                      size_t *head)
{
	struct client_statement *entry = names_find(client, names->statement);
	struct bytes name;

	if ((!entry || !entry->is_confirmed) && names_are_unsure(client))
		return PREPARED_WAIT;
	if (entry && !names_enter_scope(client, entry))
		return PREPARED_END;
	if (entry && !server_statements_is_sure(&client->borrower.server->statements,
	                                        names_statement(entry)))
		return PREPARED_WAIT;
	if (frame->type == 'B')
		client->borrower.pool->stats.bind_count++;
	if (!entry)
		return judge_unknown(client, names->statement, batch);
	if (names_statement(entry)->is_forgetting) /* what comes behind must not rely on any */
		server_statements_distrust_sent(&client->borrower.server->statements);
	if (!prepared_inject(client, batch, names_statement(entry), &name) ||
	    !note_use(client, frame->type, entry))
		return PREPARED_END;
	return replace_head(frame, names, name, batch, head);
}

static enum prepared_result judge_close(struct client *client, const char *name)
{
	struct ledger_change *change;

	if (names_are_unsure(client))
		return PREPARED_WAIT;
	if (!names_find(client, name) && !prepared_is_ours(name))
		return PREPARED_PASS; /* it may be SQL's PREPARE */
	change = names_go(client, name);
	return change && prepared_note(client->borrower.server, LEDGER_CLOSE, LEDGER_ANSWER, change)
	           ? PREPARED_DROP
	           : PREPARED_END;
}

/* A Bind or Describe of the unnamed statement. */
static bool is_use_of_unnamed(const struct frame *frame, const struct object_names *names)
{
	return (frame->type == 'B' || frame->type == 'D') && names->statement &&
	       !*names->statement && names->target != 'P';
}

enum prepared_result prepared_judge(struct client *client, const struct frame *frame,
                                    struct bytes in, struct batch *batch, size_t *head)
{
	struct bytes have = bytes_skip(in, FRAME_HEADER_SIZE);
	size_t length = frame->length - FRAME_HEADER_SIZE;
	enum prepared_result result = PREPARED_PASS;
	struct object_names names;

	*head = 0;
	if (client->borrower.server->ledger.is_skipping)
		return PREPARED_PASS; /* the server will not even look at it */
	if (frame->type == 'P')
		return judge_parse(client, frame, in, batch);
	if (frame->type == 'Q')
		return sql_query(client, frame, in, batch);
	if (have.count > length)
		have.count = length;
	switch (fields_names(frame->type, have, length, &names)) {
	case WIRE_MORE:
		return PREPARED_MORE;
	case WIRE_BAD:
		return PREPARED_PASS; /* PostgreSQL says what is wrong with it */
	case WIRE_OK:
		break;
	}
	if (frame->type == 'E')
		return client->sql ? sql_execute(client, names.portal, batch) : PREPARED_PASS;
	if (frame->type == 'C' && names.statement && !*names.statement)
		unnamed_drop(client, batch);
	if (is_use_of_unnamed(frame, &names))
		result = unnamed_use(client, frame->type, batch);
	if (result == PREPARED_PASS && frame->type == 'B' && client->sql)
		result = sql_bind(client, names.portal, names.statement, batch);
	if (result != PREPARED_PASS)
		return result;
	if (!names.statement || !*names.statement || names.target == 'P')
		return PREPARED_PASS;
	if (!*names.statement && frame->type == 'C')
		return unnamed_drop(client, batch), PREPARED_PASS;
	if (!*names.statement)
		return unnamed_use(client, frame->type, batch);
	if (frame->type == 'C') /* more than a name is for PostgreSQL to refuse */
		return names.count == length ? judge_close(client, names.statement) : PREPARED_PASS;
	return judge_use(client, frame, &names, batch, head);
}

const char *prepared_text(const struct client *client, const char *name)
{
	const struct client_statement *entry = names_find(client, name);

	return entry ? statement_text(names_statement(entry)).at : NULL;
}
