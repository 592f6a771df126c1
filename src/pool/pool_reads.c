/* SPDX-License-Identifier: ISC */
/*
 * Reads on standbys (route_reads). A user on a database has a pair of pools:
 *
 *                       +-- a read -->  the pool for reads      servers on standbys
 *   a borrower at rest -+
 *                       +-- else ---->  the pool for clients    servers on the primary
 *
 * A borrower becomes a member of the other pool before it asks for a server. While no standby can
 * be used, the pool for clients serves all. The pool for reads then tries to connect on its own.
 */
#include "pool_priv.h"
#include "server/server_priv.h"

/* Whether a borrower that asks now gets a server on a standby soon. */
static bool can_serve(struct pool *reads)
{
	if (pool_standby_has_idle(reads))
		return true;
	if (pool_has_host(reads) && (!reads->is_failing || pool_live_count(reads)))
		return true;
	pool_keep_trying(reads);
	return false;
}

static struct pool *pool_to_read(struct pool *pool)
{
	struct pool *reads = pools_twin(pool, POOL_FOR_READS);

	if (!reads)
		return NULL;
	if (can_serve(reads)) {
		reads->reads.routed++;
		return reads;
	}
	reads->reads.elsewhere++;
	return NULL;
}

void pool_route(struct borrower *borrower, bool is_read)
{
	struct pool *to = is_read ? pool_to_read(borrower->pool) : NULL;
	struct server *owned = borrower->owned;

	if (!to)
		to = pools_twin(borrower->pool, POOL_FOR_CLIENTS);
	if (!to || to == borrower->pool)
		return;
	borrower->owned = NULL; /* it stays the owner */
	pool_leave(borrower);
	pool_join(to, borrower);
	borrower->owned = owned;
}

void pool_reads_serve(struct pool *reads)
{
	struct borrower *borrower;
	struct pool *to;

	if (!reads->waiting_count || pool_is_held(reads) || can_serve(reads))
		return;
	to = pools_twin(reads, POOL_FOR_CLIENTS);
	while (to && (borrower = TAILQ_FIRST(&reads->waiting))) {
		reads->reads.elsewhere++;
		reads->reads.routed--;
		pool_move_borrower(borrower, to);
	}
}
