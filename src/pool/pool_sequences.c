/* SPDX-License-Identifier: ISC */
/*
 * Values of sequences. currval() and lastval() give what nextval() gave last in the same session,
 * which is the server's. So a server may have an *owner*, the borrower whose values are there, and
 * a borrower owns one server: where it may have called nextval() last.
 *
 *   the owner asks                         --> it gets this server, or waits for it
 *   another one may call nextval(), or asks --> DISCARD SEQUENCES ahead, in the same write
 *   another one does neither               --> the values stay where they are
 *
 * What a transaction may do is seen in its texts, or not: the catalog says which. Where any text
 * may call nextval(), each borrower may have, and DISCARD SEQUENCES goes ahead of its first
 * message. Where there are no sequences, nothing is sent. There, and as long as nobody has asked
 * where the catalog is not read, only pairings say whose the values are:
 *
 *   the same borrower again, without another server between    --> still its own
 *   any other change                                           --> foreign
 *
 * Both get a new number, their *pairing*, when a server goes to another borrower than before. So
 * it is the same in both until one of them has had another. Session state of which nobody knows
 * (HELD_UNKNOWN) belongs to a pairing, too, and a server in doubt gets its last borrower as
 * owner, as that needs no cleaning there.
 *
 * A question comes directly behind the statement that called nextval(), or not at all. Which of the
 * two is mostly true is learnt for each statement, so that servers are kept where it helps. A
 * server that was kept in vain costs the others more than an error costs a client, so it counts
 * more. Statements share a few numbers: if two have the same, a server is kept in vain now and
 * then.
 */
#include "pool_priv.h"

#include <stdlib.h>

#include "server/server_priv.h"

#define STATEMENTS 1024
#define SCORE_MAX 4
#define SCORE_IN_VAIN 4

/* ---- owners ---- */

void pool_disown(struct server *server)
{
	struct borrower *owner = server ? server->lease.sequences.owner : NULL;

	if (!owner)
		return;
	server->lease.sequences.owner = NULL;
	owner->owned = NULL;
	server->lease.sequences.state = SEQUENCES_FOREIGN;
	pool_await_no_more(owner);
}

static void own(struct server *server, struct borrower *borrower)
{
	if (server->lease.sequences.owner == borrower)
		return;
	pool_disown(server);
	pool_disown(borrower->owned);
	server->lease.sequences.owner = borrower;
	server->lease.sequences.used_at = 0;
	borrower->owned = server;
}

bool pool_has_foreign_values(const struct server *server)
{
	const struct borrower *borrower = server->lease.borrower;

	switch (server->lease.sequences.state) {
	case SEQUENCES_NONE:
		return false;
	case SEQUENCES_OWN:
		return server->lease.sequences.owner
		           ? server->lease.sequences.owner != borrower
		           : server->lease.sequences.pairing != borrower->pairing;
	default:
		return true;
	}
}

static void own_values(struct server *server, struct borrower *borrower)
{
	bool is_foreign = pool_has_foreign_values(server);

	own(server, borrower);
	server->lease.sequences.state = is_foreign ? SEQUENCES_FOREIGN : SEQUENCES_OWN;
}

void pool_own_sequences(struct borrower *borrower)
{
	struct server *server = borrower->server;

	own_values(server, borrower);
	server->lease.sequences.used_at = pool_now(borrower->pool);
}

void pool_forget_sequences(struct borrower *borrower)
{
	pool_disown(borrower->owned);
	if (borrower->server)
		borrower->server->lease.sequences.state = SEQUENCES_FOREIGN;
}

static void settle_discard(struct ledger_change *change, bool is_done)
{
	server_discard_end(container_of(change, struct server, lease.sequences.change), is_done);
}

struct ledger_change *pool_discard_sequences(struct server *server, enum server_discard how)
{
	pool_disown(server);
	server->lease.sequences.discard = how;
	server->lease.sequences.state = SEQUENCES_OWN;
	server->lease.sequences.change = (struct ledger_change){ .settle = settle_discard };
	return &server->lease.sequences.change;
}

void pool_keep_sequences(struct borrower *borrower)
{
	if (borrower->server->lease.sequences.owner != borrower)
		pool_disown(borrower->server);
}

void pool_sequences_lend(struct server *server, struct borrower *borrower)
{
	server_held_after(server, HELD_LENT);
	server->lease.sequences.pairing = borrower->pairing = ++server->pool->pools->last_pairing;
	if (server->lease.sequences.owner && pool_sequences(borrower) == CATALOG_SEQUENCES_NONE)
		pool_disown(server);
	if (!server->lease.sequences.owner)
		server->lease.sequences.state = server->lease.sequences.state == SEQUENCES_NONE
		                                    ? SEQUENCES_OWN
		                                    : SEQUENCES_FOREIGN;
}

void pool_sequences_return(struct server *server, struct borrower *borrower)
{
	const struct pool *pool = server->pool;

	server_held_after(server, HELD_RETURNED);
	if (pool_sequences(borrower) == CATALOG_SEQUENCES_CALLED)
		own_values(server, borrower);
	/* Back to its last server, a borrower needs no cleaning. */
	else if (server_holds(server, HELD_DOUBT) && !pool->pools->config->server_round_robin &&
	         (!borrower->owned || borrower->owned->pool == pool))
		own(server, borrower);
}

/* ---- the server of an owner ---- */

void pool_await_no_more(struct borrower *borrower)
{
	if (borrower->state != BORROWER_WAIT_OWN)
		return;
	pool_wait_move(borrower, BORROWER_WAITING);
	pool_wait_first(borrower, borrower->waiting_since);
	pool_wake(borrower->pool);
}

bool pool_is_kept(const struct server *server, const struct borrower *borrower)
{
	return server->lease.sequences.owner && server->lease.sequences.owner != borrower &&
	       server->lease.sequences.used_at &&
	       pool_now(server->pool) - server->lease.sequences.used_at < SEQUENCES_KEPT;
}

/* ---- scores of statements ---- */

void pool_ask_sequences(struct pool *pool)
{
	/* Without a catalog, it begins with the first question. */
	if (!pool->asks_sequences) {
		pool->asks_sequences = true;
		pool_catalog_settle(pool);
	}
	if (!pool->sequence_scores)
		pool->sequence_scores = calloc(STATEMENTS, sizeof(*pool->sequence_scores));
}

uint16_t pool_sequences_statement(uint64_t digest) { return (uint16_t)(digest % STATEMENTS + 1); }

int pool_sequences_score(const struct pool *pool, uint16_t statement)
{
	return statement && pool->sequence_scores ? pool->sequence_scores[statement - 1] : 0;
}

void pool_sequences_note(struct pool *pool, uint16_t statement, bool is_followed)
{
	int score = pool_sequences_score(pool, statement) + (is_followed ? 1 : -SCORE_IN_VAIN);

	if (!statement || !pool->sequence_scores)
		return;
	if (score > SCORE_MAX)
		score = SCORE_MAX;
	if (score < -SCORE_MAX)
		score = -SCORE_MAX;
	pool->sequence_scores[statement - 1] = (signed char)score;
}
