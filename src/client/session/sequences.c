/* SPDX-License-Identifier: ISC */
/*
 * Values of sequences. The pool knows whose values a server may have: pool_sequences.c.
 *
 *   a statement that may call nextval(), or asks,
 *     where no foreign values can be       --> PostgreSQL answers
 *     where there may be such              --> DISCARD SEQUENCES ahead, then the same
 *
 * So within a transaction all values are those of the transaction, or older ones of this client; it
 * does not matter what precedes the question. If its own values are on a server that somebody else
 * has, a client waits for that, as long as it is between two transactions.
 *
 * Which server stays, and how long, is in session_priv.h.
 */
#include "session_priv.h"

#include <string.h>

#include "pgweir/base/container_of.h"
#include "pgweir/pgwire/sql_digest.h"
#include "pgweir/pgwire/sql_token.h"

#include "../batch_priv.h"

static bool may_ask(const struct client *client, unsigned int touches)
{
	return (touches & SQL_TOUCH_SEQUENCE) ||
	       ((touches & SQL_TOUCH_HIDDEN) &&
	        pool_sequences(&client->borrower) == CATALOG_SEQUENCES_CALLED);
}

/*
 * Ahead of the next message, in its protocol. But a Query of ours would end what messages without a
 * Sync have begun, and makes PostgreSQL forget the unnamed statement; without a Sync, a CREATE
 * DATABASE could not follow. One that is not answered yet, within the same batch, is enough. false:
 * no memory.
 */
static bool discard(struct client *client, unsigned int touches, struct batch *batch)
{
	static const char text[] = "DISCARD SEQUENCES";
	struct server *server = client->borrower.server;
	bool is_open = server->wire.ledger.is_open, is_query;

	if ((is_open && batch->is_query && !may_ask(client, touches)) ||
	    server->lease.sequences.discard == DISCARD_IN_BATCH)
		return true; /* then they stay foreign */
	is_query = !is_open && (batch->is_query || client->clients->ops->spare_unnamed(client));
	return batch_add_statements(
	    batch, server, is_query, bytes_of(text, sizeof(text)),
	    pool_discard_sequences(server, is_query ? DISCARD_SENT : DISCARD_IN_BATCH));
}

/*
 * What asks, behind the Sync of a batch in which they are discarded: that may be skipped. Or in a
 * block that may have failed, where it could not be done.
 */
bool sequences_must_wait(const struct client *client, unsigned int touches)
{
	const struct server *server = client->borrower.server;

	if (!may_ask(client, touches) || ledger_ends_wait(&server->wire.ledger, LEDGER_WAIT_READY))
		return false;
	return server->lease.sequences.discard == DISCARD_IN_BATCH ||
	       ((touches & SQL_TOUCH_SEQUENCE) && server->wire.status != 'I' &&
	        pool_has_foreign_values(server));
}

static void note_question(struct client *client, unsigned int touches)
{
	struct pool *pool = client->borrower.pool;

	client->asks_sequences = true;
	pool_ask_sequences(pool);
	if ((client->touched | touches) & SQL_TOUCH_WRITE)
		return;
	pool_sequences_note(pool, client->wrote, true);
	client->wrote = 0;
}

/* The text of a Parse is one statement. This one has no value to show, and allows no pipeline. */
static bool is_discard(struct bytes text)
{
	struct scanner scanner = { .rest = text };

	return sql_takes(&scanner, "discard");
}

bool sequences_use(struct client *client, unsigned int touches, struct bytes text,
                   struct batch *batch)
{
	struct borrower *borrower = &client->borrower;
	bool may_change = touches & (SQL_TOUCH_WRITE | SQL_TOUCH_HIDDEN), is_used;

	if (touches & SQL_TOUCH_FORGET)
		pool_forget_sequences(borrower);
	if (!batch->is_query && (touches & SQL_TOUCH_FORGET) && is_discard(text))
		return true;
	if (touches & SQL_TOUCH_SEQUENCE)
		note_question(client, touches);
	is_used = pool_sequences(borrower) != CATALOG_SEQUENCES_NONE;
	/* In a block that has failed nothing can be discarded. Behind its end nothing is answered.
	 */
	if (is_used && pool_has_foreign_values(borrower->server) &&
	    (server_is_in_failed_block(borrower->server)
	         ? (touches & SQL_TOUCH_SEQUENCE) && session_may_be_several(text)
	         : may_change || (touches & SQL_TOUCH_SEQUENCE)) &&
	    !discard(client, touches, batch))
		return false;
	if (is_used && may_change)
		pool_own_sequences(borrower);
	if (touches & SQL_TOUCH_SEQUENCE)
		server_rely_on_discard(borrower->server);
	if ((touches & SQL_TOUCH_WRITE) && borrower->pool->asks_sequences)
		client->wrote = pool_sequences_statement(sql_digest(text));
	return true;
}

static int score_of(const struct client *client)
{
	return pool_sequences_score(client->borrower.pool, client->wrote);
}

unsigned int sequences_pin(const struct client *client)
{
	bool may_ask = client->asks_sequences || score_of(client) > 0;

	/* A standby gives no values, and the next statement may be a write. */
	if (client->borrower.pool->purpose == POOL_FOR_READS)
		return 0;
	return may_ask && (client->touched & (SQL_TOUCH_WRITE | SQL_TOUCH_SEQUENCE))
	           ? SESSION_PIN_SEQUENCE
	           : 0;
}

static void on_hold_due(struct timer *timer);

static void hold(struct client *client)
{
	client_arm(client, SEQUENCES_HOLD, on_hold_due, client_now(client));
}

/* The server's last ReadyForQuery was when the client's transaction ended. */
static void on_hold_due(struct timer *timer)
{
	struct client *client = container_of(timer, struct client, timer);
	const struct pool *pool = client->borrower.pool;
	usec_t since = client_now(client) - client->borrower.server->used_at;
	bool is_wanted = pool->queues[BORROWER_WAITING].count || share_is_asked(&pool->share);
	usec_t limit = SEQUENCES_HOLD_MAX;

	if (is_wanted)
		limit =
		    client->wrote && score_of(client) >= 0 ? SEQUENCES_HOLD_WANTED : SEQUENCES_HOLD;
	if (since < limit) {
		hold(client);
		return;
	}
	if (is_wanted)
		pool_sequences_note(client->borrower.pool, client->wrote, false);
	client->session->pins = 0;
	client->borrower.ops->on_writable(&client->borrower); /* returns the server */
}

void sequences_idle_begin(struct client *client)
{
	if (!timer_is_set(&client->timer))
		hold(client);
}
