/* SPDX-License-Identifier: ISC */
/*
 * The unnamed statement, when each transaction may be on another server. Drivers that first
 * ask for a description need the statement on two of them:
 *
 *   Parse "" <text>, Describe, Sync   on one server
 *   [Parse "" <text>] Bind ...        on another: it has another client's, or none
 *
 * Hard here: most drivers send Parse and Bind together, which must cost nothing. So a text
 * is kept only if it is still not bound at the end of the received bytes. A Bind must not
 * find another client's statement on the server. And the parameters must have the same
 * types on every server as in the description that the client got.
 */
#include "statements_priv.h"

#include <stdlib.h>

#include "pgweir/base/text.h"
#include "pgweir/pgwire/message.h"

#include "../client_records_priv.h"
#include "../session/listening_priv.h"

static void settle(struct ledger_change *change, bool is_done)
{
	struct unnamed *unnamed = container_of(change, struct unnamed, change);

	unnamed->open_count--;
	/* A later Parse that is still open replaces this one: its result counts. */
	if (is_done || unnamed->open_count)
		return;
	unnamed->own.has_text = false;
	unnamed->own.is_here = false;
}

/*
 * An injected Parse was answered. The client's own Parse succeeded earlier, so its text
 * stays valid.
 */
static void settle_repeat(struct ledger_change *change, bool is_done)
{
	struct unnamed *unnamed = container_of(change, struct unnamed, repeat);

	unnamed->open_count--;
	if (!is_done && unnamed->open_count == 0)
		unnamed->own.is_here = false;
}

/* NULL: no memory. */
static struct unnamed *get(struct client *client)
{
	if (client->unnamed)
		return client->unnamed;
	client->unnamed = calloc(1, sizeof(*client->unnamed));
	if (client->unnamed) {
		client->unnamed->change.settle = settle;
		client->unnamed->repeat.settle = settle_repeat;
	}
	return client->unnamed;
}

/* Adds a Parse to the ledger. is_renamed: its text has another name of a statement. */
static bool note_parse(struct client *client, enum ledger_fate fate, bool is_renamed)
{
	struct server *server = client->borrower.server;
	struct unnamed *unnamed = client->unnamed;
	struct ledger_change *change = fate == LEDGER_DROPPED ? &unnamed->repeat : &unnamed->change;

	unnamed->own.is_here = true;
	unnamed->open_count++;
	unnamed->sync_epoch = server->wire.ledger.sync_epoch;
	if (is_renamed)
		change = server_renamed(change, &unnamed->own.sql->renaming);
	return change && server_note_change(server, LEDGER_PARSE, fate, change);
}

enum judgement unnamed_parse(struct client *client, const struct frame *frame, struct bytes in,
                             struct batch *batch)
{
	size_t length = frame->length - FRAME_HEADER_SIZE;
	struct bytes body = frame_received(in, frame);
	struct parse_fields parse;
	enum judgement result;

	if (!get(client))
		return JUDGE_MEMORY;
	result = sql_parse(client, body, length, batch);
	if (result > JUDGE_DROP)
		return result;
	unnamed_drop(client, batch);
	if (result == JUDGE_DROP)
		return result;
	client->unnamed->own.touches = batch->touches;
	if (!note_parse(client, LEDGER_CLIENT, result == JUDGE_HEAD))
		return JUDGE_MEMORY;
	if (client->unnamed->own.is_here && frame->length <= WHOLE_TEXT_MAX &&
	    fields_parse(body, &parse) == WIRE_OK)
		batch->unnamed = bytes_skip(body, 1);
	/*
	 * JUDGE_HEAD of sql_parse(): the whole Parse is in the batch already, so nothing of the
	 * frame is forwarded. JUDGE_SEND: the frame is forwarded unchanged, but it is noted, so
	 * JUDGE_HEAD (with *head 0).
	 */
	return result == JUDGE_HEAD ? JUDGE_DROP : JUDGE_HEAD;
}

/*
 * Injects a Parse of the kept text before the message that needs it. JUDGE_SEND: it
 * has been noted.
 */
static enum judgement inject(struct client *client, struct batch *batch)
{
	const struct statement *statement = names_statement(client->unnamed->own.kept);
	/* keep the zero of the empty name */
	struct bytes body = bytes_skip(statement_message(statement),
	                               FRAME_HEADER_SIZE + statement_name(statement).count);
	enum judgement result = sql_parse(client, body, body.count, batch);
	char front[FRAME_HEADER_SIZE] = { 'P' };

	if (result == JUDGE_DROP)
		return JUDGE_SEND; /* the server skips what follows the refusal */
	if (result == JUDGE_SEND) {
		store_be32(front + 1, (uint32_t)(4 + body.count));
		batch_copy(batch, bytes_of(front, sizeof(front)));
		batch_run(batch, body);
		result = JUDGE_HEAD;
	}
	if (result != JUDGE_HEAD)
		return result;
	batch->is_borrowed = true;
	return note_parse(client, LEDGER_DROPPED, false) ? JUDGE_SEND : JUDGE_MEMORY;
}

/*
 * Closes the unnamed statement on the server, because it is another client's. PostgreSQL
 * then reports that there is none.
 */
static bool empty(struct client *client, struct batch *batch)
{
	MESSAGE_STATIC(message, 'C', "S");

	batch_copy(batch, MESSAGE_BYTES(message));
	return server_note_change(client->borrower.server, LEDGER_CLOSE, LEDGER_DROPPED, NULL);
}

void unnamed_keep(struct client *client, struct batch *batch)
{
	struct unnamed_own *own = &client->unnamed->own;
	struct statement *statement =
	    statement_of(names_store(client), batch->unnamed, bytes_of("", 0));

	batch->unnamed = bytes_of(NULL, 0);
	names_drop(&own->kept);
	own->kept = statement ? names_make(bytes_text(""), statement) : NULL;
	own->has_text = own->kept;
	statement_release(&statement);
}

/* The same before that. */
static void keep_now(struct client *client, struct batch *batch)
{
	if (batch->unnamed.count && batch->is_borrowed)
		batch_send(batch);
	if (batch->unnamed.count)
		unnamed_keep(client, batch);
}

/* Adds a Describe whose answer has the types. JUDGE_HEAD: it is noted. */
static enum judgement note_description(struct client *client, struct batch *batch)
{
	struct unnamed *unnamed = client->unnamed;

	keep_now(client, batch);
	if (!unnamed || !unnamed->own.has_text || names_statement(unnamed->own.kept)->is_typed)
		return JUDGE_SEND;
	return statements_note(client, LEDGER_TYPES, LEDGER_CLIENT,
	                       names_describe(client, unnamed->own.kept, true), JUDGE_HEAD);
}

struct bytes unnamed_known(const struct client *client)
{
	const struct unnamed *unnamed = client->unnamed;

	return unnamed && unnamed->own.has_text
	           ? statement_query(names_statement(unnamed->own.kept))
	           : bytes_text("");
}

/* What it EXECUTEs. NULL: nothing, or that is not known. */
static struct statement *executed_by(const struct client *client)
{
	const struct unnamed *unnamed = client->unnamed;
	const struct sql_unnamed *sql = unnamed_sql(client);

	if (!unnamed->own.is_here && unnamed->own.has_text)
		return statements_executed(client, unnamed_known(client));
	return sql && sql->kind == SQL_EXECUTE ? sql->statement : NULL;
}

/* A Bind runs it, and what it EXECUTEs. JUDGE_SEND: it may be sent. */
static enum judgement run(struct client *client, unsigned int touches, struct bytes text,
                          struct batch *batch)
{
	struct statement *executed = executed_by(client);
	const struct sql_unnamed *sql = unnamed_sql(client);
	enum judgement result;

	if (executed) {
		unsigned int inside = session_statement_touches(client, executed);

		result =
		    statements_run(client, 'B', inside, statement_query(executed), true, batch);
		if (result != JUDGE_SEND)
			return result;
	}
	result = statements_run(client, 'B', touches, text, true, batch);
	if (result == JUDGE_SEND && (touches & SQL_TOUCH_EXECUTE) &&
	    (executed || !sql || sql->statement))
		session_use_execute(client, executed, text);
	return result;
}

enum judgement unnamed_use(struct client *client, char type, struct batch *batch)
{
	struct unnamed *unnamed = client->unnamed;
	enum judgement result = JUDGE_SEND;

	/* A Parse of an earlier Sync epoch is not answered: it may fail without this message. */
	if (unnamed && unnamed->open_count &&
	    unnamed->sync_epoch != client->borrower.server->wire.ledger.sync_epoch)
		return batch_wait(batch, LEDGER_WAIT_READY);
	batch->is_query = false;
	if (type == 'B' && unnamed) {
		unsigned int touches = session_relevant(client, unnamed->own.touches);

		if (touches)
			result = run(client, touches,
			             batch->unnamed.count ? bytes_text(batch->unnamed.at)
			                                  : unnamed_known(client),
			             batch);
	}
	if (result != JUDGE_SEND)
		return result;
	if (type == 'B')
		batch->unnamed = bytes_of(NULL, 0);
	if (unnamed && !unnamed->own.is_here && unnamed->own.has_text)
		result = inject(client, batch);
	else if (!unnamed || !unnamed->own.is_here)
		result = empty(client, batch) ? JUDGE_SEND : JUDGE_MEMORY;
	return type == 'D' && result == JUDGE_SEND ? note_description(client, batch) : result;
}

enum judgement unnamed_lend(struct client *client, char type, struct statement *statement,
                            struct batch *batch)
{
	struct unnamed *unnamed = get(client);
	struct unnamed_own lent = { .touches = session_statement_touches(client, statement) }, own;
	enum judgement result;
	bool is_lent;

	if (!unnamed)
		return JUDGE_MEMORY;
	keep_now(client, batch);
	own = unnamed->own;
	lent.kept = names_make(bytes_text(""), statement);
	lent.has_text = lent.kept;
	unnamed->own = lent;
	result = lent.kept ? unnamed_use(client, type, batch) : JUDGE_MEMORY;
	is_lent = result <= JUDGE_DROP;
	/* The text of the client's own is judged again when it is prepared again. */
	sql_drop(is_lent ? &own.sql : &unnamed->own.sql);
	if (is_lent)
		own.sql = unnamed->own.sql;
	own.is_here &= !is_lent;
	names_drop(&unnamed->own.kept);
	unnamed->own = own;
	return result;
}

void unnamed_drop(struct client *client, struct batch *batch)
{
	batch->unnamed = bytes_of(NULL, 0);
	if (!client->unnamed)
		return;
	client->unnamed->own.has_text = false;
	client->unnamed->own.is_here = false;
}

void statements_forget_unnamed(struct client *client, struct batch *batch)
{
	unnamed_drop(client, batch);
	if (client->unnamed)
		sql_drop(&client->unnamed->own.sql);
}

void statements_leave(struct client *client)
{
	struct unnamed_own *own = &client->unnamed->own;

	own->is_here = false;
	if (own->sql)
		own->sql->is_bound = false; /* its portals are gone */
}

bool statements_spare_unnamed(struct client *client)
{
	const struct unnamed *unnamed = client->unnamed;

	if (!statements_follow(client) ||
	    (unnamed && unnamed->own.is_here && !unnamed->own.has_text))
		return false;
	statements_leave_server(client);
	return true;
}

/* ---- hand-over to another process ---- */

static uint64_t number_of(const struct statement *statement)
{
	return statement ? statement_number(statement) : 0;
}

static bool write_statement(struct statement *statement, struct channel *channel)
{
	return !statement || handover_write_statement(statement, statement->image, channel);
}

static bool write_sql(const struct sql_unnamed *sql, struct buf *record, struct channel *channel)
{
	struct sql_record values = {
		.kind = sql->kind,
		.is_bound = sql->is_bound,
		.number = number_of(sql->statement),
	};

	text_copy(values.name, sizeof(values.name), sql->name);
	record_write(record, &sql_record_table, &values);
	return write_statement(sql->statement, channel);
}

bool unnamed_write(const struct client *client, struct buf *record, struct channel *channel)
{
	const struct unnamed_own *own = &client->unnamed->own;
	struct statement *statement = own->kept ? names_statement(own->kept) : NULL;
	struct unnamed_record values = {
		.has_text = own->has_text,
		.is_here = own->is_here,
		.number = number_of(statement),
	};

	record_write(record, &unnamed_record_table, &values);
	return write_statement(statement, channel) &&
	       (!own->sql || write_sql(own->sql, record, channel));
}

static void read_sql(struct client *client, struct record *record,
                     const struct pools_arrival *arrival)
{
	struct statement *statement;
	struct sql_record values;

	record_read(record, &sql_record_table, &values);
	if (!client || record->is_bad || !get(client))
		return;
	statement =
	    handover_arrival_statement(arrival, client->clients->pools, values.number, NULL);
	if (sql_remember(client, (enum sql_kind)values.kind, values.name, statement))
		client->unnamed->own.sql->is_bound = values.is_bound && client->borrower.server;
	statement_release(&statement);
}

static void read_own(struct client *client, struct record *record,
                     const struct pools_arrival *arrival)
{
	struct statement *statement;
	struct unnamed_record values;
	struct unnamed_own *own;

	record_read(record, &unnamed_record_table, &values);
	if (!client || !get(client))
		return;
	own = &client->unnamed->own;
	statement =
	    handover_arrival_statement(arrival, client->clients->pools, values.number, NULL);
	own->kept = statement ? names_make(bytes_text(""), statement) : NULL;
	/* a text that is not kept may touch anything */
	own->touches = statement ? session_statement_touches(client, statement) : SQL_TOUCH_HIDDEN;
	own->has_text = values.has_text && own->kept;
	own->is_here = values.is_here && client->borrower.server;
	statement_release(&statement);
}

void unnamed_read(struct client *client, struct record *record, const struct pools_arrival *arrival)
{
	if (record_has_table(record, &unnamed_record_table))
		read_own(client, record, arrival);
	if (record_has_table(record, &sql_record_table))
		read_sql(client, record, arrival);
}

void unnamed_free(struct client *client)
{
	if (!client->unnamed)
		return;
	sql_drop(&client->unnamed->own.sql);
	names_drop(&client->unnamed->own.kept);
	free(client->unnamed);
	client->unnamed = NULL;
}
