/* SPDX-License-Identifier: ISC */
/*
 * Late BEGIN.
 *
 *   BEGIN     -->  "BEGIN", in a transaction      answered here, without a server
 *   UPDATE    -->  [Parse, Bind, Execute BEGIN] UPDATE            in one write
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
#include "late_begin_priv.h"

#include "pgweir/base/container_of.h"
#include "pgweir/config/entries.h"
#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/message.h"

#include "../client_priv.h"

#include "pgweir/base/banned.h"

/* Bytes of a text with its zero; a longer BEGIN is sent without delay. */
#define TEXT_MAX REPLAY_BEGIN_MAX

#define BIND_BODY "\0\0\0\0\0\0\0\0" /* no portal, no statement, no formats, no values */
#define EXECUTE_BODY "\0\0\0\0\0"    /* no portal, all rows */
#define CLOSE_SIZE 2                 /* 'P' or 'S', no name */

/* What follows the text in the messages. */
static const struct {
	char no_types[2]; /* of the Parse */
	MESSAGE_FIXED(sizeof(BIND_BODY) - 1) bind;
	MESSAGE_FIXED(sizeof(EXECUTE_BODY) - 1) execute;
	MESSAGE_FIXED(CLOSE_SIZE) close_portal;
	MESSAGE_FIXED(CLOSE_SIZE) close_statement;
} behind = { { 0 },
	     MESSAGE_FIXED_INIT('B', sizeof(BIND_BODY) - 1, BIND_BODY),
	     MESSAGE_FIXED_INIT('E', sizeof(EXECUTE_BODY) - 1, EXECUTE_BODY),
	     MESSAGE_FIXED_INIT('C', CLOSE_SIZE, "P"),
	     MESSAGE_FIXED_INIT('C', CLOSE_SIZE, "S") };

struct late_begin {
	struct ledger_change change; /* of its Execute: owned by the ledger once that is noted */
	struct clients *clients;
	struct server *server; /* valid once the ledger owns the change */
	usec_t answered_at;
	struct sql_block block;
	uint16_t size;
	bool has_failed; /* the statement after it was refused here */
	char messages[FRAME_HEADER_SIZE + 1 + TEXT_MAX + sizeof(behind)];
};

/* CommandComplete and ReadyForQuery. */
#define ANSWER_TYPE(tag)                             \
	const struct {                               \
		MESSAGE_FIXED(sizeof(tag)) complete; \
		MESSAGE_FIXED(1) ready;              \
	}
#define ANSWER(tag, status)                                                                   \
	{                                                                                     \
		(const char *)&(ANSWER_TYPE(tag)){ MESSAGE_FIXED_INIT('C', sizeof(tag), tag), \
			                           MESSAGE_FIXED_INIT('Z', 1, status) },      \
		    sizeof(ANSWER_TYPE(tag))                                                  \
	}

static const struct bytes answers[] = {
	[SQL_BLOCK_BEGIN] = ANSWER("BEGIN", "T"),
	[SQL_BLOCK_START] = ANSWER("START TRANSACTION", "T"),
	[SQL_BLOCK_COMMIT] = ANSWER("COMMIT", "I"),
	[SQL_BLOCK_ROLLBACK] = ANSWER("ROLLBACK", "I"),
};

const struct sql_block *late_begin_block(const struct client *client)
{
	return &client->late->block;
}

struct bytes late_begin_text(const struct client *client)
{
	const struct late_begin *late = client->late;

	return bytes_of(late->messages + FRAME_HEADER_SIZE + 1,
	                (size_t)late->size - FRAME_HEADER_SIZE - 1 - sizeof(behind));
}

size_t late_begin_size(void) { return sizeof(struct late_begin); }

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
	const struct config *config = client->clients->config;
	const struct config_user *user = client->borrower.pool->role->entry;
	struct loop *loop = client->clients->with.loop;
	usec_t idle = config_idle_transaction_timeout(config, user);
	usec_t whole = config_transaction_timeout(config, user);
	usec_t since = client->late->answered_at;

	if (whole && (!idle || client->xact_at + whole < since + idle))
		timer_set(&client->timer, loop_timer_queue(loop, whole, on_transaction_due),
		          client->xact_at);
	else if (idle)
		timer_set(&client->timer, loop_timer_queue(loop, idle, on_idle_due), since);
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

/* Makes the messages to be sent. NULL: no memory. */
static struct late_begin *late_new(struct clients *clients, struct bytes text)
{
	struct late_begin *late = slab_take(&clients->late_slab);
	char *at;

	if (!late)
		return NULL;
	late->change.settle = settle;
	late->clients = clients;
	late->answered_at = loop_now(clients->with.loop);
	at = late->messages;
	*at = 'P';
	store_be32(at + 1, (uint32_t)(4 + 1 + text.count + 2));
	at += FRAME_HEADER_SIZE + 1; /* the name is empty */
	memcpy(at, text.at, text.count);
	memcpy(at + text.count, &behind, sizeof(behind));
	late->size = (uint16_t)(FRAME_HEADER_SIZE + 1 + text.count + sizeof(behind));
	return late;
}

/* Whether no server of the pool is a standby, according to their reports (since PostgreSQL 14). */
static bool has_primary(const struct pool *pool)
{
	const char *in_hot_standby =
	    pool->baseline ? params_find(pool->baseline, "in_hot_standby") : NULL;

	return in_hot_standby && strcmp(in_hot_standby, "off") == 0;
}

static enum late_result begin_late(struct client *client, const struct sql_block *block,
                                   struct bytes text)
{
	const struct pool *pool = client->borrower.pool;

	if (!pool->limits.late_begin || client->replication || pool->pools->is_ending ||
	    (block->is_for_primary && !has_primary(pool)))
		return LATE_PASS;
	client->late = late_new(client->clients, text);
	if (!client->late)
		return LATE_PASS;
	client->late->block = *block;
	if (!answer(client, block->kind))
		return LATE_GONE;
	client_enter(client, CLIENT_LATE);
	return LATE_BEGUN;
}

bool late_begin_again(struct client *client, struct bytes text)
{
	client->late = late_new(client->clients, text);
	if (!client->late)
		return false;
	client->late->block = sql_block_read(bytes_of(text.at, text.count - 1));
	return true;
}

static enum late_result end_late(struct client *client, enum sql_block_kind kind)
{
	if (!answer(client, client->late->has_failed ? SQL_BLOCK_ROLLBACK : kind))
		return LATE_GONE;
	late_begin_forget(client);
	client_enter(client, CLIENT_IDLE);
	return LATE_ENDED;
}

enum late_result late_begin_judge(struct client *client, const struct frame *frame, struct bytes in)
{
	struct sql_block block;
	struct bytes body;
	const char *text;

	if (frame->length <= FRAME_HEADER_SIZE || frame->length > FRAME_HEADER_SIZE + TEXT_MAX)
		return LATE_PASS;
	if (in.count < frame->length)
		return LATE_MORE;
	body = frame_body(in, frame);
	/*
	 * A client that does not read gets no reply here: its BEGIN is sent, which has
	 * back-pressure.
	 */
	if (fields_text(body, &text) != WIRE_OK || stream_unsent(&client->stream))
		return LATE_PASS;
	block = sql_block_read(bytes_of(body.at, body.count - 1));
	if (block.kind == SQL_BLOCK_COMMIT || block.kind == SQL_BLOCK_ROLLBACK)
		return client->late ? end_late(client, block.kind) : LATE_PASS;
	/*
	 * If the next statement is already here, a late BEGIN saves nothing, unless that statement
	 * is to say where the transaction runs.
	 */
	if (block.kind == SQL_BLOCK_OTHER || block.kind == SQL_BLOCK_SET || client->late ||
	    (in.count > frame->length && !client->borrower.pool->limits.route_reads))
		return LATE_PASS;
	return begin_late(client, &block, body);
}

/* ---- to the server ---- */

static bool note(struct server *server, enum ledger_kind kind, struct ledger_change *change)
{
	return server_note_change(server, kind, LEDGER_BEGIN, change) == LEDGER_SENT;
}

/* Makes the transaction fail at the server, as it has failed here. */
static bool fail_again(struct server *server, struct batch *batch)
{
	MESSAGE_STATIC(query, 'Q', "ROLLBACK TO SAVEPOINT \"" STATEMENT_NAMES "LATE\"");

	batch_run(batch, MESSAGE_BYTES(query));
	return server_note_change(server, LEDGER_QUERY, LEDGER_IGNORE, NULL) == LEDGER_SENT;
}

bool late_begin_send(struct client *client, char type, struct batch *batch)
{
	struct server *server = client->borrower.server;
	struct late_begin *late = client->late;
	bool has_failed = late->has_failed, is_query = type == 'Q';

	client->late = NULL;
	late->server = server;
	batch->server = server;
	batch_run(batch,
	          bytes_of(late->messages,
	                   (size_t)late->size - (is_query ? sizeof(behind.close_statement) : 0)));
	if (!note(server, LEDGER_PARSE, NULL) || !note(server, LEDGER_BIND, NULL)) {
		settle(&late->change, false);
		return false;
	}
	return note(server, LEDGER_EXECUTE, &late->change) && note(server, LEDGER_CLOSE, NULL) &&
	       (is_query || note(server, LEDGER_CLOSE, NULL)) &&
	       (!has_failed || fail_again(server, batch));
}

/* ---- the end ---- */

void late_begin_fail(struct client *client)
{
	client->late->has_failed = true;
	client->late->answered_at = loop_now(client->clients->with.loop);
	client_enter(client, CLIENT_LATE);
	late_begin_arm(client);
}

void late_begin_forget(struct client *client)
{
	if (client->late)
		slab_give(&client->clients->late_slab, &client->late);
}
