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

#include "../client_records_priv.h"
#include "../session/listening_priv.h"

struct unnamed {
	struct ledger_change change;   /* of each open Parse of the client */
	struct ledger_change repeat;   /* of each open Parse that was injected */
	uint32_t open_count;           /* number of open changes, both kinds */
	uint32_t sync_epoch;           /* Sync epoch of the last Parse */
	struct client_statement *kept; /* the text that was kept; NULL: none */
	unsigned int touches;          /* of the last Parse: enum sql_touch */
	bool has_text;                 /* `kept` is the client's current one */
	/* the server has the client's statement, or will report why not */
	bool is_here;
};

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

/*
 * An injected Parse was answered. The client's own Parse succeeded earlier, so its text
 * stays valid.
 */
static void settle_repeat(struct ledger_change *change, bool is_done)
{
	struct unnamed *unnamed = container_of(change, struct unnamed, repeat);

	unnamed->open_count--;
	if (!is_done && unnamed->open_count == 0)
		unnamed->is_here = false;
}

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

	unnamed->is_here = true;
	unnamed->open_count++;
	unnamed->sync_epoch = server->wire.ledger.sync_epoch;
	if (is_renamed)
		change = server_renamed(change, &client->sql->renaming);
	return change && server_note_change(server, LEDGER_PARSE, fate, change);
}

enum judgement unnamed_parse(struct client *client, const struct frame *frame, struct bytes in,
                             struct batch *batch)
{
	size_t length = frame->length - FRAME_HEADER_SIZE;
	struct bytes body = frame_received(in, frame);
	struct parse_fields parse;
	enum judgement result;

	if (body.count < length && frame->length <= UNNAMED_KEPT_MAX)
		return JUDGE_MORE;
	if (!get(client))
		return JUDGE_MEMORY;
	result = sql_parse(client, body, length, batch);
	if (result > JUDGE_DROP)
		return result;
	unnamed_drop(client, batch);
	if (result == JUDGE_DROP)
		return result;
	client->unnamed->touches = batch->touches;
	if (!note_parse(client, LEDGER_CLIENT, result == JUDGE_HEAD))
		return JUDGE_MEMORY;
	if (client->unnamed->is_here && frame->length <= UNNAMED_KEPT_MAX &&
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
	const struct statement *statement = names_statement(client->unnamed->kept);
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
	struct unnamed *unnamed = client->unnamed;
	struct statement *statement =
	    statement_of(names_store(client), batch->unnamed, bytes_of("", 0));

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

/* The text of the last Parse: from this batch, or if it is kept; else empty. */
static struct bytes unnamed_text(const struct unnamed *unnamed, const struct batch *batch)
{
	if (batch->unnamed.count)
		return bytes_text(batch->unnamed.at);
	return unnamed->has_text ? statement_query(names_statement(unnamed->kept)) : bytes_text("");
}

/* What it EXECUTEs. NULL: nothing, or that is not known. */
static struct statement *executed_by(const struct client *client, const struct unnamed *unnamed)
{
	if (unnamed && !unnamed->is_here && unnamed->has_text)
		return statements_executed(client, statement_query(names_statement(unnamed->kept)));
	return client->sql && client->sql->kind == SQL_EXECUTE ? client->sql->statement : NULL;
}

/* A Bind runs it, and what it EXECUTEs. JUDGE_SEND: it may be sent. */
static enum judgement run(struct client *client, unsigned int touches, struct bytes text,
                          struct batch *batch)
{
	struct statement *executed = executed_by(client, client->unnamed);
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
	    (executed || !client->sql || client->sql->statement))
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
		unsigned int touches = session_relevant(client, unnamed->touches);

		if (touches)
			result = run(client, touches, unnamed_text(unnamed, batch), batch);
	}
	if (result != JUDGE_SEND)
		return result;
	if (type == 'B')
		batch->unnamed = bytes_of(NULL, 0);
	if (unnamed && !unnamed->is_here && unnamed->has_text)
		result = inject(client, batch);
	else if (!unnamed || !unnamed->is_here)
		result = empty(client, batch) ? JUDGE_SEND : JUDGE_MEMORY;
	return type == 'D' && result == JUDGE_SEND ? note_description(client, batch) : result;
}

/* The text of the client's own statement is judged anew when it is prepared again. */
static void drop_sql(struct client *client, struct sql_unnamed *own, bool is_lent)
{
	struct sql_unnamed *kept = is_lent ? client->sql : own;

	client->sql = is_lent ? own : client->sql;
	sql_forget(client);
	client->sql = kept;
}

enum judgement unnamed_lend(struct client *client, char type, struct statement *statement,
                            struct batch *batch)
{
	struct unnamed *unnamed = get(client);
	struct sql_unnamed *sql = client->sql;
	enum judgement result;
	struct unnamed own;

	if (!unnamed)
		return JUDGE_MEMORY;
	keep_now(client, batch);
	own = *unnamed;
	unnamed->kept = names_make(bytes_text(""), statement);
	unnamed->has_text = unnamed->kept;
	unnamed->is_here = false;
	unnamed->touches = session_statement_touches(client, statement);
	client->sql = NULL;
	result = unnamed->kept ? unnamed_use(client, type, batch) : JUDGE_MEMORY;
	drop_sql(client, sql, result <= JUDGE_DROP);
	names_drop(&unnamed->kept);
	unnamed->kept = own.kept;
	unnamed->has_text = own.has_text;
	unnamed->is_here = own.is_here && result > JUDGE_DROP;
	unnamed->touches = own.touches;
	return result;
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
	sql_forget(client);
}

void statements_leave(struct client *client)
{
	if (client->unnamed)
		client->unnamed->is_here = false;
	if (client->sql)
		client->sql->is_bound = false; /* its portals are gone */
}

bool statements_spare_unnamed(struct client *client)
{
	const struct unnamed *unnamed = client->unnamed;

	if (!statements_follow(client) || (unnamed && unnamed->is_here && !unnamed->has_text))
		return false;
	statements_leave(client);
	return true;
}

struct bytes unnamed_known(const struct client *client)
{
	const struct unnamed *unnamed = client->unnamed;

	return unnamed && unnamed->has_text ? statement_query(names_statement(unnamed->kept))
	                                    : bytes_text("");
}

unsigned int unnamed_touches(const struct client *client)
{
	return client->unnamed ? client->unnamed->touches : 0;
}

bool unnamed_write(const struct client *client, struct buf *record, struct channel *channel)
{
	const struct unnamed *unnamed = client->unnamed;
	struct statement *statement = unnamed->kept ? names_statement(unnamed->kept) : NULL;
	struct unnamed_record values = {
		.has_text = unnamed->has_text,
		.is_here = unnamed->is_here,
		.number = statement ? statement_number(statement) : 0,
	};
	record_write(record, &unnamed_record_table, &values);
	return !statement || handover_write_statement(statement, statement->image, channel);
}

void unnamed_read(struct client *client, struct record *record, const struct pools_arrival *arrival)
{
	struct statement *statement;
	struct unnamed_record values;

	record_read(record, &unnamed_record_table, &values);
	if (!client || !get(client))
		return;
	statement =
	    handover_arrival_statement(arrival, client->clients->pools, values.number, NULL);
	client->unnamed->kept = statement ? names_make(bytes_text(""), statement) : NULL;
	/* a text that is not kept may touch anything */
	client->unnamed->touches =
	    statement ? session_statement_touches(client, statement) : SQL_TOUCH_HIDDEN;
	client->unnamed->has_text = values.has_text && client->unnamed->kept;
	client->unnamed->is_here = values.is_here && client->borrower.server;
	statement_release(&statement);
}

void unnamed_free(struct client *client)
{
	if (!client->unnamed)
		return;
	names_drop(&client->unnamed->kept);
	free(client->unnamed);
	client->unnamed = NULL;
}
