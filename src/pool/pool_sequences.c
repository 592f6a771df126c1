/* SPDX-License-Identifier: ISC */
/*
 * Values of sequences. currval() and lastval() give what nextval() gave last in the same session,
 * which is the server's: of a former borrower, or of this one long ago. So each server knows whose
 * values may be there:
 *
 *   the same borrower again, without another server between    --> still its own
 *   any other change                                           --> foreign
 *
 * Both get a new number, their *pairing*, when a server goes to another borrower than before. So
 * it is the same in both until one of them has had another.
 *
 * Only where a client has asked, foreign values are forgotten: DISCARD SEQUENCES ahead of the new
 * borrower's first message.
 *
 * A question comes directly behind the statement that called nextval(), or not at all. Which of the
 * two is mostly true is learnt for each statement, so that servers are kept where it helps. A
 * server that was kept in vain costs the others more than an error costs a client, so it counts
 * more. Statements share a few numbers: if two have the same, a server is kept in vain now and
 * then.
 *
 * Hard here: a borrower that comes back after it has had another server may find values of its own
 * that are out of date. They are as wrong as those of others.
 */
#include "pool_priv.h"

#include <stdlib.h>

#include "server/server_priv.h"

#include "pgweir/base/banned.h"

#define SCORE_MAX 4
#define SCORE_IN_VAIN 4

void pool_guard_sequences(struct pool *pool)
{
	if (pool->guards_sequences)
		return;
	share_guard_sequences(&pool->share);
	pool_hear_guard(pool);
}

void pool_hear_guard(struct pool *pool)
{
	if (!pool->guards_sequences)
		pool->guards_sequences =
		    share_guards_sequences(&pool->share, &pool->sequence_scores);
}

uint16_t pool_sequences_statement(uint64_t digest)
{
	return (uint16_t)(digest % POOL_SEQUENCES_STATEMENTS + 1);
}

int pool_sequences_score(const struct pool *pool, uint16_t statement)
{
	return statement && pool->sequence_scores
	           ? atomic_load_explicit(&pool->sequence_scores[statement - 1],
	                                  memory_order_relaxed)
	           : 0;
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
	/* Another loop may do the same at this moment: then one of the two does not count. */
	atomic_store_explicit(&pool->sequence_scores[statement - 1], (signed char)score,
	                      memory_order_relaxed);
}

void pool_sequences_forget(struct server *server)
{
	if (!server || !server->last_borrower)
		return;
	server->last_borrower->last_server = NULL;
	server->last_borrower = NULL;
}

void pool_sequences_lend(struct server *server, struct borrower *borrower)
{
	bool is_again = borrower->pairing && server->pairing == borrower->pairing;

	pool_sequences_forget(server);
	pool_sequences_forget(borrower->last_server);
	borrower->has_moved = !is_again && borrower->pairing;
	if (is_again)
		return;
	if (server->doubt != DOUBT_NONE)
		server->doubt = DOUBT_FOREIGN;
	server->pairing = borrower->pairing = ++server->pool->pools->last_pairing;
	server->sequences = server->sequences == SEQUENCES_NONE ? SEQUENCES_OWN : SEQUENCES_FOREIGN;
}

void pool_sequences_return(struct server *server, struct borrower *borrower)
{
	const struct pool *pool = server->pool;

	/* Back to its last server, a borrower needs no cleaning. */
	if (!pool->guards_sequences &&
	    (server->doubt == DOUBT_NONE || pool->pools->config->server_round_robin))
		return;
	server->last_borrower = borrower;
	borrower->last_server = server;
}

bool pool_sequences_are_due(const struct server *server)
{
	const struct pool *pool = server->pool;

	return server->sequences == SEQUENCES_FOREIGN && pool->limits.mode != POOL_MODE_SESSION;
}

bool pool_discard_sequences(struct borrower *borrower)
{
	struct server *server = borrower->server;

	if (server->status != 'I' || server->errand != ERRAND_NONE ||
	    !ledger_is_empty(&server->ledger) || server->prefix.count)
		return false;
	borrower->has_moved = true; /* its own values will be gone */
	server_discard_begin(server);
	return server_errand_ahead(server, DISCARD_SEQUENCES);
}

void pool_use_sequences(struct borrower *borrower)
{
	borrower->server->relies_on_discard = borrower->server->is_discarding;
}
