/* SPDX-License-Identifier: ISC */
/*
 * Dedicated servers, for replication: such a session cannot be shared.
 *
 *   pool_ask_dedicated --> WAIT_DEDICATED --> CONNECT_DEDICATED (its server logs in) --> SERVED
 *                             ^                   |
 *                             +-------------------+  could not be reached, or not yet
 *
 * Such a server counts in all limits, but never serves the wait queue. If PostgreSQL refuses its
 * login, only this borrower gets the error; the rest of the pool is not affected.
 *
 * Hard here: fairness. In a full and busy pool no server is idle long enough to be evicted. So a
 * borrower that has waited longer than all borrowers in the wait queue for servers gets the slot of
 * the next server that is returned: that server is closed.
 */
#include <assert.h>

#include "pool_priv.h"
#include "server/server_priv.h"

bool pool_ask_dedicated(struct borrower *borrower, struct server_wish *wish, struct err *err)
{
	if (borrower->pool->pools->is_ending)
		return err_close(err, CLOSE_SERVER_SHUTDOWN);
	if (pool_turns_away(borrower->pool, borrower, err))
		return false;
	if (borrower->pool->limits.guards_queue && !pool_admits(borrower->pool, err))
		return false;
	pool_stand(borrower, BORROWER_WAIT_DEDICATED);
	borrower->wish = wish;
	return true;
}

/* ---- launching ---- */

static void expect_server(struct server *server, struct borrower *borrower)
{
	server->replication = borrower->wish->replication;
	server->pool->dedicated_count++;
	server->lease.expected_by = borrower;
	borrower->wish->expected = server;
	pool_wait_move(borrower, BORROWER_CONNECT_DEDICATED, false);
}

/* Whether the borrower has waited longer than all that wait for any server. */
static bool is_eldest(const struct pool *pool, const struct borrower *borrower)
{
	const struct borrower *other = pool_first(pool, BORROWER_WAITING);

	return !other || borrower->waiting_since <= other->waiting_since;
}

/* Login errors of other borrowers say nothing about this one. */
static bool may_try(struct pool *pool)
{
	return pool_may_try(pool) ||
	       (pool->is_failing && !pool_is_unreachable(pool) && pool_seek_host(pool));
}

/* Makes space in the pool: without the reserve, but an idle server may be closed. */
static bool has_space_for(struct pool *pool, const struct borrower *borrower)
{
	struct server *server;

	if (!pool_is_full(pool))
		return is_eldest(pool, borrower) || pool_missing(pool) == 0;
	if (!is_eldest(pool, borrower) || share_leaving(&pool->share))
		return false;
	server = TAILQ_FIRST(&pool->servers[SERVER_USED]);
	if (!server)
		server = TAILQ_LAST(&pool->servers[SERVER_IDLE], server_list);
	if (!server)
		return false;
	server_close_for(server, CLOSE_EVICTED_POOL);
	return !pool_is_full(pool);
}

static bool launch_for(struct borrower *borrower)
{
	struct server *server = pool_add_server(borrower->pool, false);

	if (!server)
		return false;
	expect_server(server, borrower);
	return server_launch(server);
}

void pool_dedicated_grow(struct pool *pool)
{
	struct borrower *borrower;

	while ((borrower = pool_first(pool, BORROWER_WAIT_DEDICATED)) && pool_may_login(pool) &&
	       may_try(pool) && has_space_for(pool, borrower) &&
	       pool_take_permit(pool, pool_size_most(pool), EVICT_ANY)) {
		if (!launch_for(borrower))
			return;
	}
}

/* ---- outcome ---- */

void pool_dedicated_login_done(struct server *server)
{
	struct pool *pool = server->pool;
	struct borrower *borrower = pool_wait_again(server);

	assert(borrower); /* else the server would have been closed */
	if (!pool->is_failing || pool_is_unreachable(pool)) {
		pool_note_success(server);
	}
	server_login_free(server);
	pool_give_up(borrower);
	pool_lend(server, borrower);
	server->lease.request_at = 0;
	pool_wake(pool);
	borrower->ops->on_lent(borrower);
}

void pool_dedicated_login_failed(struct server *server, const struct err *err)
{
	struct pool *pool = server->pool;
	struct borrower *borrower = pool_wait_again(server);
	bool is_ours = err->code == ERR_ADMIN_SHUTDOWN || pool_is_unfit(err);

	pool_wake(pool);
	if (!is_ours && pool_is_worth_waiting(err)) {
		pool_note_failure(server, err);
	} else if (!is_ours && borrower) {
		pool_give_up(borrower);
		borrower->ops->on_refused(borrower, err);
	}
}

void pool_dedicated_refuse(struct pool *pool, const struct err *err)
{
	struct borrower *borrower;

	while ((borrower = pool_first(pool, BORROWER_WAIT_DEDICATED)) ||
	       (borrower = pool_first(pool, BORROWER_CONNECT_DEDICATED))) {
		pool_give_up(borrower);
		borrower->ops->on_refused(borrower, err);
	}
}
