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
#include "pgweir/pgwire/message.h"
#include "pgweir/pgwire/sql_token.h"

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

bool late_begin_again(struct client *client, struct bytes texts)
{
	struct clients *clients = client->clients;
	struct late_begin *late = client->late = slab_take(&clients->late_slab);

	if (!late)
		return false;
	late->answered_at = client_now(client);
	memcpy(late->texts, texts.at, texts.count);
	late->size = (uint16_t)texts.count;
	return true;
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
	    (block->is_for_primary && !has_primary(pool)) || !late_begin_again(client, text))
		return JUDGE_SEND;
	if (!client_send(client, answers[block->kind]))
		return JUDGE_END;
	client_enter(client, CLIENT_LATE);
	return JUDGE_DROP;
}

struct sql_block late_begin_read(struct bytes texts)
{
	struct sql_block all = { 0 }, block;

	for (const char *text; bytes_take_text(&texts, &text);) {
		block = sql_block_read(bytes_text(text));
		all.is_for_primary |= block.is_for_primary;
		all.has_isolation |= block.has_isolation;
		if (block.access != SQL_ACCESS_UNSAID)
			all.access = block.access;
	}
	return all;
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
	if (block.kind == SQL_BLOCK_COMMIT || block.kind == SQL_BLOCK_ROLLBACK) {
		if (!client->late)
			return JUDGE_SEND;
		if (client->late->has_failed)
			block.kind = SQL_BLOCK_ROLLBACK;
		if (!client_send(client, answers[block.kind]))
			return JUDGE_END;
		late_begin_forget(client);
		client_enter(client, CLIENT_IDLE);
		return JUDGE_DROP;
	}
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

static bool note(struct server *server, enum ledger_kind kind)
{
	return server_note_change(server, kind, LEDGER_OURS, NULL);
}

/* Adds Parse, Bind and Execute of a text. */
static bool send_text(struct batch *batch, const char *text, bool is_last)
{
	/* no portal, no statement, no formats, no values */
	MESSAGE_STATIC(bind, 'B', "\0\0\0\0\0\0\0");
	MESSAGE_STATIC(execute, 'E', "\0\0\0\0"); /* no portal, all rows */
	struct server *server = batch->server;
	struct bytes whole = bytes_of(text, strlen(text) + 1);

	batch_header(batch, 'P', 1 + whole.count + 2);
	batch_copy(batch, bytes_of("", 1)); /* no name */
	batch_copy(batch, whole);
	batch_copy(batch, bytes_of("\0", 2)); /* no types */
	batch_copy(batch, MESSAGE_BYTES(bind));
	batch_copy(batch, MESSAGE_BYTES(execute));
	return note(server, LEDGER_PARSE) && note(server, LEDGER_BIND) &&
	       (is_last ? server_note_begin(server) : note(server, LEDGER_EXECUTE));
}

bool late_begin_send(struct client *client, char type, struct batch *batch)
{
	struct server *server = client->borrower.server;
	struct late_begin *late = client->late;
	struct bytes texts = bytes_of(late->texts, late->size), rest = texts;
	bool has_failed = late->has_failed, is_query = type == 'Q';
	/* A transaction that has failed here would not have failed at another server. */
	bool is_good = has_failed || resend_open(client, texts);
	MESSAGE_STATIC(close_portal, 'C', "P");
	MESSAGE_STATIC(close_statement, 'C', "S");
	/* Makes the transaction fail at the server, as it has failed here. */
	MESSAGE_STATIC(failing, 'Q', "ROLLBACK TO SAVEPOINT \"" STATEMENT_NAMES "LATE\"");

	batch->server = server;
	for (const char *text; is_good && bytes_take_text(&rest, &text);) {
		if (text != texts.at)
			session_change_scope(server, sql_touch(bytes_text(text)));
		is_good = send_text(batch, text, rest.count == 0);
	}
	late_begin_forget(client);
	if (!is_good)
		return false;
	batch_copy(batch, MESSAGE_BYTES(close_portal));
	if (!is_query)
		batch_copy(batch, MESSAGE_BYTES(close_statement));
	if (has_failed)
		batch_run(batch, MESSAGE_BYTES(failing));
	return note(server, LEDGER_CLOSE) && (is_query || note(server, LEDGER_CLOSE)) &&
	       (!has_failed || note(server, LEDGER_QUERY));
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
