/* SPDX-License-Identifier: ISC */
/*
 * Values of sequences. The pool knows whose values a server may give: pool_sequences.c.
 *
 *   only the client's, since it got the server     --> PostgreSQL answers
 *   foreign ones, between two transactions         --> DISCARD SEQUENCES ahead, then the same
 *   foreign ones, within a transaction             --> refused: the client's own are among them,
 *                                                      and PostgreSQL does not say which they are
 *
 * Which server stays, and how long, is in sequences_priv.h.
 *
 * After a change of the server the client's values are not there. A statement that does nothing
 * but ask for them is refused at once, since our error says what to do; in all other cases
 * PostgreSQL finds that there is no value.
 */
#include "sequences_priv.h"

#include "pgweir/base/container_of.h"
#include "pgweir/pgwire/sql_digest.h"

#include "pgweir/base/banned.h"

/* is_first: the server was lent before anybody had asked, so nothing was forgotten. */
static bool refuse_sequences(bool is_first, struct err *err)
{
	err_set(err, ERR_STATE,
	        "currval() and lastval() have no value here: this client's server has changed, or "
	        "had other clients before");
	return err_hint(err, is_first ? "Use INSERT ... RETURNING, or repeat the transaction: "
	                                "before it, no client of this pool had called them."
	                              : "Use INSERT ... RETURNING, or call them in the "
	                                "transaction that called nextval(), or directly after it.");
}

/* Whether nothing before in this transaction can have called nextval(). */
static bool is_at_begin(const struct client *client)
{
	const struct server *server = client->borrower.server;

	return server->used_at <= server->lent_at &&
	       !(client->touched & (SQL_TOUCH_WRITE | SQL_TOUCH_HIDDEN));
}

void sequences_note_write(struct client *client, struct bytes text)
{
	if (client->borrower.pool->guards_sequences)
		client->wrote =
		    pool_sequences_statement(sql_digest(client->clients->with.digest_key, text));
}

bool sequences_use(struct client *client, unsigned int touches, bool is_run, struct err *err)
{
	struct borrower *borrower = &client->borrower;
	bool is_first = !borrower->pool->guards_sequences;

	client->asks_sequences = true;
	pool_guard_sequences(borrower->pool);
	if (borrower->server->sequences == SEQUENCES_FOREIGN && !pool_discard_sequences(borrower))
		return !is_run || refuse_sequences(true, err);
	if (!is_run)
		return true;
	if (!((client->touched | touches) & SQL_TOUCH_WRITE)) {
		pool_sequences_note(borrower->pool, client->wrote, true);
		client->wrote = 0;
	}
	if (borrower->has_moved && !(touches & SQL_TOUCH_WRITE) && is_at_begin(client))
		return refuse_sequences(is_first, err);
	pool_use_sequences(borrower);
	return true;
}

bool sequences_are_due(const struct client *client)
{
	const struct borrower *borrower = &client->borrower;

	return borrower->pool->guards_sequences && borrower->server->sequences == SEQUENCES_FOREIGN;
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
	struct loop *loop = client->clients->with.loop;

	timer_set(&client->timer, loop_timer_queue(loop, SEQUENCES_HOLD, on_hold_due),
	          loop_now(loop));
}

static usec_t limit_if_wanted(const struct client *client)
{
	return client->wrote && score_of(client) >= 0 ? SEQUENCES_HOLD_WANTED : SEQUENCES_HOLD;
}

/* The server's last ReadyForQuery was when the client's transaction ended. */
static void on_hold_due(struct timer *timer)
{
	struct client *client = container_of(timer, struct client, timer);
	const struct pool *pool = client->borrower.pool;
	usec_t since = loop_now(client->clients->with.loop) - client->borrower.server->used_at;
	bool is_wanted = pool->waiting_count || share_is_asked(&pool->share);
	usec_t limit = is_wanted ? limit_if_wanted(client) : SEQUENCES_HOLD_MAX;

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
