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

#include "pgweir/pgwire/message.h"

static void settle(struct ledger_change *change, bool is_done)
{
	struct unnamed *unnamed = container_of(change, struct unnamed, change);

	unnamed->open_count--;
	/* A later Parse that is still open replaces this one: its result counts. */
	if (is_done || unnamed->open_count)
		return;
	unnamed->has_text = false;
	unnamed->is_here = false;
}

/* NULL: no memory. */
static struct unnamed *get(struct client *client)
{
	if (client->unnamed)
		return client->unnamed;
	client->unnamed = calloc(1, sizeof(*client->unnamed));
	if (client->unnamed)
		client->unnamed->change.settle = settle;
	return client->unnamed;
}

/* The client's Parse is sent. false: no memory. */
static bool note_parse(struct client *client)
{
	struct server *server = client->borrower.server;
	struct unnamed *unnamed = client->unnamed;

	unnamed->is_here = true;
	unnamed->open_count++;
	unnamed->sync_epoch = server->wire.ledger.sync_epoch;
	return server_note_change(server, LEDGER_PARSE, LEDGER_CLIENT, &unnamed->change);
}

void unnamed_keep(struct client *client, struct batch *batch)
{
	struct unnamed *unnamed = client->unnamed;
	struct statement *statement =
	    statement_of(&client->clients->pools->statements, batch->unnamed, bytes_of("", 0));

	batch->unnamed = bytes_of(NULL, 0);
	names_drop(&unnamed->kept);
	unnamed->kept = statement ? names_make(bytes_text(""), statement) : NULL;
	unnamed->has_text = unnamed->kept;
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

enum judgement unnamed_parse(struct client *client, const struct frame *frame, struct bytes in,
                             struct batch *batch)
{
	struct bytes body = frame_received(in, frame);
	struct parse_fields parse;
	enum judgement result;

	if (!get(client))
		return JUDGE_MEMORY;
	unnamed_drop(client, batch);
	result = sql_parse(client, body, frame->length - FRAME_HEADER_SIZE, batch);
	if (result > JUDGE_HEAD)
		return result;
	client->unnamed->touches = batch->touches;
	if (!note_parse(client))
		return JUDGE_MEMORY;
	if (client->unnamed->is_here && (result == JUDGE_HEAD || frame->length <= WHOLE_TEXT_MAX) &&
	    fields_parse(body, &parse) == WIRE_OK)
		batch->unnamed = bytes_skip(body, 1);
	/* It is read again with each use; without memory there is none. */
	if (result == JUDGE_HEAD) {
		keep_now(client, batch);
		client->unnamed->is_here &= client->unnamed->has_text;
	}
	return JUDGE_HEAD; /* it is noted, and sent as it is */
}

/*
 * Injects a Parse of the kept text before the message that needs it, and before each further one:
 * it may be skipped behind an error. false: no memory.
 */
static bool inject(struct client *client, struct batch *batch)
{
	const struct statement *statement = names_statement(client->unnamed->kept);
	/* keep the zero of the empty name */
	struct bytes body = bytes_skip(statement_message(statement),
	                               FRAME_HEADER_SIZE + statement_name(statement).count);

	batch_header(batch, 'P', body.count);
	batch_run(batch, body);
	batch->is_borrowed = true;
	return server_note_change(client->borrower.server, LEDGER_PARSE, LEDGER_DROPPED, NULL);
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

/* Adds a Describe whose answer has the types. JUDGE_HEAD: it is noted. */
static enum judgement note_description(struct client *client, struct batch *batch)
{
	struct unnamed *unnamed = client->unnamed;

	keep_now(client, batch);
	if (!unnamed || !unnamed->has_text || names_statement(unnamed->kept)->is_typed)
		return JUDGE_SEND;
	return statements_note(client, LEDGER_TYPES, LEDGER_CLIENT,
	                       names_describe(client, unnamed->kept, true), JUDGE_HEAD);
}

struct bytes unnamed_known(const struct client *client)
{
	const struct unnamed *unnamed = client->unnamed;

	return unnamed && unnamed->has_text ? statement_query(names_statement(unnamed->kept))
	                                    : bytes_text("");
}

bool unnamed_is_sql(const struct client *client)
{
	const struct unnamed *unnamed = client->unnamed;

	return unnamed && unnamed->has_text && sql_is_lone(names_statement(unnamed->kept));
}

/* A Bind runs it. JUDGE_SEND: it may be sent. */
static enum judgement run(struct client *client, unsigned int touches, struct batch *batch)
{
	struct bytes text =
	    batch->unnamed.count ? bytes_text(batch->unnamed.at) : unnamed_known(client);
	enum judgement result = statements_run(client, 'B', touches, text, true, batch);

	if (result == JUDGE_SEND && (touches & SQL_TOUCH_EXECUTE))
		session_use_execute(client, NULL, text);
	return result;
}

enum judgement unnamed_use(struct client *client, char type, const char *portal,
                           struct batch *batch)
{
	struct unnamed *unnamed = client->unnamed;
	enum judgement result = JUDGE_SEND;
	unsigned int touches = 0;

	/* A Parse of an earlier Sync epoch is not answered: it may fail without this message. */
	if (unnamed && unnamed->open_count &&
	    unnamed->sync_epoch != client->borrower.server->wire.ledger.sync_epoch)
		return batch_wait(batch, LEDGER_WAIT_READY);
	batch->is_query = false;
	if (type == 'B' && unnamed)
		touches = session_relevant(client, unnamed->touches);
	if (unnamed_is_sql(client)) {
		result = sql_use(client, portal, names_statement(unnamed->kept), touches, batch);
		if (result != JUDGE_SEND)
			return result == JUDGE_HEAD ? JUDGE_SEND : result;
	}
	if (touches)
		result = run(client, touches, batch);
	if (result != JUDGE_SEND)
		return result;
	if (type == 'B')
		batch->unnamed = bytes_of(NULL, 0);
	if (unnamed && !unnamed->is_here && unnamed->has_text)
		result = inject(client, batch) ? JUDGE_SEND : JUDGE_MEMORY;
	else if (!unnamed || !unnamed->is_here)
		result = empty(client, batch) ? JUDGE_SEND : JUDGE_MEMORY;
	return type == 'D' && result == JUDGE_SEND ? note_description(client, batch) : result;
}

bool unnamed_lend(struct client *client, struct batch *batch)
{
	if (!get(client))
		return false;
	keep_now(client, batch);
	client->unnamed->is_here = false;
	return true;
}

void unnamed_drop(struct client *client, struct batch *batch)
{
	batch->unnamed = bytes_of(NULL, 0);
	if (!client->unnamed)
		return;
	client->unnamed->has_text = false;
	client->unnamed->is_here = false;
}

void statements_forget_unnamed(struct client *client, struct batch *batch)
{
	unnamed_drop(client, batch);
	sql_drop_portal(client);
}

void statements_leave(struct client *client)
{
	client->unnamed->is_here = false;
	sql_drop_portal(client);
}

bool statements_spare_unnamed(struct client *client)
{
	const struct unnamed *unnamed = client->unnamed;

	if (!statements_follow(client) || (unnamed && unnamed->is_here && !unnamed->has_text))
		return false;
	statements_leave_server(client);
	return true;
}

/* ---- hand-over to another process ---- */

/* The unnamed statement; no record if there is none. */
struct unnamed_record {
	bool has_text, is_here;
	uint64_t number; /* 0: no statement */
};

/*
 * Not written any more: older releases say by it that the unnamed statement is a PREPARE, EXECUTE
 * or DEALLOCATE, with another name on the server.
 */
struct sql_record {
	uint64_t kind; /* enum sql_kind */
	bool is_bound;
	char name[sizeof(((struct sql_statement *)0)->name)];
	uint64_t number;
};

static const struct record_field unnamed_fields[] = {
	RECORD_FIELD('X', struct unnamed_record, has_text),
	RECORD_FIELD('x', struct unnamed_record, is_here),
	RECORD_FIELD('y', struct unnamed_record, number),
};

const struct record_table unnamed_record_table =
    RECORD_TABLE("unnamed statement", unnamed_fields, NULL);

static const struct record_field sql_fields[] = {
	RECORD_FIELD('Q', struct sql_record, kind),
	RECORD_FIELD('b', struct sql_record, is_bound),
	RECORD_FIELD('q', struct sql_record, name),
	RECORD_FIELD('z', struct sql_record, number),
};

static bool is_sql_good(const void *values)
{
	const struct sql_record *record = values;

	return record->kind == SQL_PREPARE || record->kind == SQL_EXECUTE ||
	       record->kind == SQL_DEALLOCATE || record->kind == SQL_FORGET;
}

const struct record_table sql_record_table =
    RECORD_TABLE("unnamed statement in SQL", sql_fields, is_sql_good);

bool unnamed_write(const struct client *client, struct buf *record, struct channel *channel)
{
	const struct unnamed *unnamed = client->unnamed;
	struct statement *statement = unnamed->kept ? names_statement(unnamed->kept) : NULL;
	struct unnamed_record values = {
		.has_text = unnamed->has_text,
		/* older releases have another name in such a text there */
		.is_here = unnamed->is_here && !unnamed_is_sql(client),
		.number = statement ? statement_number(statement) : 0,
	};

	record_write(record, &unnamed_record_table, &values);
	return !statement || handover_write_statement(statement, statement->image, channel);
}

void unnamed_read(struct client *client, struct record *record, const struct pools_arrival *arrival)
{
	struct unnamed_record values;
	struct statement *statement;
	struct sql_record renamed;
	struct unnamed *unnamed;

	if (!record_has_table(record, &unnamed_record_table))
		return;
	record_read(record, &unnamed_record_table, &values);
	/* Of older releases: the server has the text with another name in it. */
	if (record_has_table(record, &sql_record_table)) {
		record_read(record, &sql_record_table, &renamed);
		values.is_here = false;
	}
	if (!client || !(unnamed = get(client)))
		return;
	statement =
	    handover_arrival_statement(arrival, client->clients->pools, values.number, NULL);
	unnamed->kept = statement ? names_make(bytes_text(""), statement) : NULL;
	/* a text that is not kept may touch anything */
	unnamed->touches =
	    statement ? session_statement_touches(client, statement) : SQL_TOUCH_HIDDEN;
	unnamed->has_text = values.has_text && unnamed->kept;
	unnamed->is_here = values.is_here && client->borrower.server;
	statement_release(&statement);
}

void unnamed_free(struct client *client)
{
	if (!client->unnamed)
		return;
	sql_drop_portal(client);
	names_drop(&client->unnamed->kept);
	free(client->unnamed);
	client->unnamed = NULL;
}
