/* SPDX-License-Identifier: ISC */
/*
 * Values of sequences. currval() and lastval() give what nextval() gave last in the same session,
 * which is the server's: of a former borrower, or of this one long ago. So each server knows whose
 * values may be there:
 *
 *   the same borrower again, without another server between    --> still its own
 *   any other change                                           --> foreign
 *
 * Only where a client has asked, foreign values are forgotten: DISCARD SEQUENCES ahead of the new
 * borrower's first message.
 *
 * Hard here: a borrower that comes back after it has had another server may find values of its own
 * that are out of date. They are as wrong as those of others.
 */
#include "pool_priv.h"

#include "server/server_priv.h"

#include "pgweir/base/banned.h"

void pool_guard_sequences(struct pool *pool) { pool->guards_sequences = true; }

void pool_sequences_forget(struct server *server)
{
	if (!server || !server->last_borrower)
		return;
	server->last_borrower->last_server = NULL;
	server->last_borrower = NULL;
}

void pool_sequences_lend(struct server *server, struct borrower *borrower)
{
	bool is_again =
	    server->last_borrower_id == borrower->id && borrower->last_server_id == server->id;

	pool_sequences_forget(server);
	pool_sequences_forget(borrower->last_server);
	borrower->has_moved = !is_again && borrower->last_server_id != 0;
	if (is_again)
		return;
	server->last_borrower_id = borrower->id;
	borrower->last_server_id = server->id;
	server->sequences = server->sequences == SEQUENCES_NONE ? SEQUENCES_OWN : SEQUENCES_FOREIGN;
}

void pool_sequences_return(struct server *server, struct borrower *borrower)
{
	if (!server->pool->guards_sequences)
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
