/* SPDX-License-Identifier: ISC */
/*
 * Late BEGIN.
 *
 *   BEGIN     -->  "BEGIN", in a transaction      answered here, without a server
 *   UPDATE    -->  [Parse, Bind, Execute BEGIN] UPDATE            in one write
 *                  and SET LOCAL, ..., if a lost server had them already (resend.c)
 *   COMMIT    -->  COMMIT                         or answered here, if nothing came between
 *
 * Hard here: if the BEGIN fails at the server after all (a statement_timeout or a cancel at just
 * that moment), the statements after it must not be executed outside of a transaction. So BEGIN is
 * sent in the extended protocol without a Sync: after an error the server skips everything, and is
 * closed before it reads a Sync. For the same reason no BEGIN is answered here that a standby would
 * refuse: see sql_block.is_for_primary.
 *
 * The session must then have what a simple query leaves, and no more: no unnamed statement and no
 * unnamed portal. A Query itself drops the unnamed statement.
 */
#include "relay_priv.h"

#include "pgweir/config/entries.h"
#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/message.h"
#include "pgweir/pgwire/sql_token.h"

/* Each with the zero at the end of a literal. */
#define BIND_BODY "\0\0\0\0\0\0\0" /* no portal, no statement, no formats, no values */
#define EXECUTE_BODY "\0\0\0\0"    /* no portal, all rows */
#define CLOSE_SIZE 2               /* 'P' or 'S', no name */

/* What follows a text in the messages. */
static const struct {
	char no_types[2]; /* of the Parse */
	MESSAGE_FIXED(sizeof(BIND_BODY)) bind;
	MESSAGE_FIXED(sizeof(EXECUTE_BODY)) execute;
} behind = { { 0 },
	     MESSAGE_FIXED_INIT('B', sizeof(BIND_BODY), BIND_BODY),
	     MESSAGE_FIXED_INIT('E', sizeof(EXECUTE_BODY), EXECUTE_BODY) };

/* And what follows all of them. */
static const struct {
	MESSAGE_FIXED(CLOSE_SIZE) portal;
	MESSAGE_FIXED(CLOSE_SIZE) statement;
} ending = { MESSAGE_FIXED_INIT('C', CLOSE_SIZE, "P"), MESSAGE_FIXED_INIT('C', CLOSE_SIZE, "S") };

/* CommandComplete and ReadyForQuery. */
#define ANSWER_TYPE(tag)                             \
	const struct {                               \
		MESSAGE_FIXED(sizeof(tag)) complete; \
		MESSAGE_FIXED(1) ready;              \
	}
#define ANSWER(tag, status)                                                                   \
	{                                                                                     \
		(const char *)&(ANSWER_TYPE(tag)){ MESSAGE_FIXED_INIT('C', sizeof(tag), tag), \
			                           MESSAGE_FIXED_INIT('Z', 1, { status }) },  \
		    sizeof(ANSWER_TYPE(tag))                                                  \
	}

static const struct bytes answers[] = {
	[SQL_BLOCK_BEGIN] = ANSWER("BEGIN", 'T'),
	[SQL_BLOCK_START] = ANSWER("START TRANSACTION", 'T'),
	[SQL_BLOCK_COMMIT] = ANSWER("COMMIT", 'I'),
	[SQL_BLOCK_ROLLBACK] = ANSWER("ROLLBACK", 'I'),
};

static bool answer(struct client *client, enum sql_block_kind kind)
{
	return client_send(client, answers[kind]);
}

/* ---- time limits ---- */

static void on_idle_due(struct timer *timer)
{
	client_refuse_for(container_of(timer, struct client, timer), CLOSE_IDLE_TRANSACTION);
}

static void on_transaction_due(struct timer *timer)
{
	client_refuse_for(container_of(timer, struct client, timer), CLOSE_TRANSACTION_TIMEOUT);
}

void late_begin_arm(struct client *client)
{
	usec_t since = client->late->answered_at, idle, whole;
	struct config_times times;

	client_times(client, client->borrower.pool->role->entry, &times);
	idle = times.idle_transaction;
	whole = times.transaction;
	if (whole && (!idle || client->xact_at + whole < since + idle))
		client_arm(client, whole, on_transaction_due, client->xact_at);
	else if (idle)
		client_arm(client, idle, on_idle_due, since);
	else
		timer_clear(&client->timer);
}

/* ---- from the client ---- */

static void settle(struct ledger_change *change, bool is_done)
{
	struct late_begin *late = container_of(change, struct late_begin, change);

	if (is_done)
		server_set_in_transaction(late->server);
	slab_put(&late->clients->late_slab, late);
}

/* NULL: no memory. */
static struct late_begin *late_new(struct clients *clients, struct bytes texts)
{
	struct late_begin *late = slab_take(&clients->late_slab);

	if (!late)
		return NULL;
	late->change.settle = settle;
	late->clients = clients;
	late->answered_at = loop_now(clients->with.loop);
	memcpy(late->texts, texts.at, texts.count);
	late->size = (uint16_t)texts.count;
	return late;
}

/* Whether no server of the pool is a standby, according to their reports (since PostgreSQL 14). */
static bool has_primary(const struct pool *pool)
{
	const char *in_hot_standby =
	    pool->baseline ? params_find(pool->baseline, "in_hot_standby") : NULL;

	return in_hot_standby && strcmp(in_hot_standby, "off") == 0;
}

static enum judgement begin_late(struct client *client, const struct sql_block *block,
                                 struct bytes text)
{
	const struct pool *pool = client->borrower.pool;

	if (!client_rules(client)->late_begin || client->replication || pool->pools->is_ending ||
	    (block->is_for_primary && !has_primary(pool)))
		return JUDGE_SEND;
	client->late = late_new(client->clients, text);
	if (!client->late)
		return JUDGE_SEND;
	client->late->block = *block;
	if (!answer(client, block->kind))
		return JUDGE_END;
	client_enter(client, CLIENT_LATE);
	return JUDGE_DROP;
}

/* What all the texts say together. */
static struct sql_block read_texts(struct bytes texts)
{
	struct sql_block all = { 0 }, block;
	const char *text;

	while (bytes_take_text(&texts, &text)) {
		block = sql_block_read(bytes_text(text));
		if (!all.kind)
			all.kind = block.kind;
		all.is_for_primary |= block.is_for_primary;
		if (block.access != SQL_ACCESS_UNSAID)
			all.access = block.access;
	}
	return all;
}

bool late_begin_again(struct client *client, struct bytes texts)
{
	client->late = late_new(client->clients, texts);
	if (!client->late)
		return false;
	client->late->block = read_texts(texts);
	return true;
}

/* Nothing runs in it, so its modes do not matter. */
bool late_begin_in_vain(struct client *client, struct bytes text)
{
	static const char begin[] = "BEGIN";
	struct scanner scanner = { .rest = text };

	return client_rules(client)->mode != POOL_MODE_STATEMENT &&
	       (sql_takes(&scanner, "begin") || sql_takes(&scanner, "start")) &&
	       late_begin_again(client, bytes_of(begin, sizeof(begin)));
}

static enum judgement end_late(struct client *client, enum sql_block_kind kind)
{
	if (!answer(client, client->late->has_failed ? SQL_BLOCK_ROLLBACK : kind))
		return JUDGE_END;
	late_begin_forget(client);
	client_enter(client, CLIENT_IDLE);
	return JUDGE_DROP;
}

enum judgement late_begin_judge(struct client *client, const struct frame *frame, struct bytes in)
{
	struct sql_block block;
	struct bytes body;
	const char *text;

	if (frame->length <= FRAME_HEADER_SIZE ||
	    frame->length > FRAME_HEADER_SIZE + REPLAY_OPENING_MAX)
		return JUDGE_SEND;
	if (in.count < frame->length)
		return JUDGE_MORE;
	body = frame_body(in, frame);
	/*
	 * A client that does not read gets no reply here: its BEGIN is sent, which has
	 * back-pressure.
	 */
	if (fields_text(body, &text) != WIRE_OK || stream_unsent(&client->stream))
		return JUDGE_SEND;
	block = sql_block_read(bytes_of(body.at, body.count - 1));
	if (block.kind == SQL_BLOCK_COMMIT || block.kind == SQL_BLOCK_ROLLBACK)
		return client->late ? end_late(client, block.kind) : JUDGE_SEND;
	/*
	 * If the next statement is already here, a late BEGIN saves nothing, unless that statement
	 * is to say where the transaction runs.
	 */
	if (block.kind == SQL_BLOCK_OTHER || block.kind == SQL_BLOCK_SET || client->late ||
	    (in.count > frame->length && !client_rules(client)->route_reads))
		return JUDGE_SEND;
	return begin_late(client, &block, body);
}

/* ---- to the server ---- */

static bool note(struct server *server, enum ledger_kind kind, struct ledger_change *change)
{
	return server_note_change(server, kind, LEDGER_OURS, change);
}

/* Makes the transaction fail at the server, as it has failed here. */
static bool fail_again(struct server *server, struct batch *batch)
{
	MESSAGE_STATIC(query, 'Q', "ROLLBACK TO SAVEPOINT \"" STATEMENT_NAMES "LATE\"");

	batch_run(batch, MESSAGE_BYTES(query));
	return server_note_change(server, LEDGER_QUERY, LEDGER_OURS, NULL);
}

/* Adds Parse, Bind and Execute of a text, which has its zero. */
static bool send_text(struct batch *batch, struct bytes text, struct ledger_change *change)
{
	struct server *server = batch->server;
	char front[FRAME_HEADER_SIZE + 1] = { 'P' }; /* and an empty name */

	store_be32(front + 1, (uint32_t)(4 + 1 + text.count + sizeof(behind.no_types)));
	batch_copy(batch, bytes_of(front, sizeof(front)));
	batch_run(batch, text);
	batch_run(batch, bytes_of((const char *)&behind, sizeof(behind)));
	if (note(server, LEDGER_PARSE, NULL) && note(server, LEDGER_BIND, NULL))
		return note(server, LEDGER_EXECUTE, change);
	if (change)
		change->settle(change, false);
	return false;
}

static bool send_texts(struct batch *batch, struct late_begin *late)
{
	struct bytes rest = bytes_of(late->texts, late->size);
	const char *text;

	while (bytes_take_text(&rest, &text)) {
		bool is_last = rest.count == 0;

		if (!send_text(batch, bytes_of(text, strlen(text) + 1),
		               is_last ? &late->change : NULL)) {
			if (!is_last)
				settle(&late->change, false);
			return false;
		}
	}
	return true;
}

bool late_begin_send(struct client *client, char type, struct batch *batch)
{
	struct server *server = client->borrower.server;
	struct late_begin *late = client->late;
	bool has_failed = late->has_failed, is_query = type == 'Q';
	size_t size = is_query ? sizeof(ending.portal) : sizeof(ending);

	client->late = NULL;
	late->server = server;
	batch->server = server;
	if (!send_texts(batch, late))
		return false;
	batch_run(batch, bytes_of((const char *)&ending, size));
	return note(server, LEDGER_CLOSE, NULL) && (is_query || note(server, LEDGER_CLOSE, NULL)) &&
	       (!has_failed || fail_again(server, batch));
}

/* ---- the end ---- */

void late_begin_fail(struct client *client)
{
	client->late->has_failed = true;
	client->late->answered_at = client_now(client);
	if (client->state != CLIENT_LATE)
		client_enter(client, CLIENT_LATE);
	late_begin_arm(client);
}

void late_begin_forget(struct client *client)
{
	if (client->late)
		slab_give(&client->clients->late_slab, &client->late);
}
