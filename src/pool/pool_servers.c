/* SPDX-License-Identifier: ISC */
/*
 * A pool's servers: added, moved between the lists of states, counted, removed, and closed for
 * administrators.
 *
 *   server_enter --> pool_file_server      one list for each state, and the counts
 *
 * Hard here: a server counts for its pool, its database, its role and all pools, from its launch
 * until it is closed, and all limits rely on these counts. And closing a server removes it from the
 * list that is being walked.
 */
#include "pgweir/pool/pool.h"

#include "pool_priv.h"
#include "server/server_priv.h"

/* ---- lists and counts ---- */

static void count_busy(const struct server *server, int change)
{
	struct pool *pool = server->pool;

	/* A listening connection is always lent, and PAUSE does not wait for it. */
	if (server->is_listening)
		return;
	pool->database->busy_count += (unsigned int)change;
	pool->pools->busy_count += (unsigned int)change;
}

static void count_server(const struct server *server, int change)
{
	struct pool *pool = server->pool;

	*(server->is_listening ? &pool->listening_count : &pool->server_count) +=
	    (unsigned int)change;
	pool->pools->listening_count += server->is_listening ? (unsigned int)change : 0;
	pool->database->server_count += (unsigned int)change;
	pool->pools->server_count += (unsigned int)change;
}

/* The only function that moves a server to the list of its state. */
void pool_file_server(struct server *server, enum server_state from)
{
	struct pool *pool = server->pool;
	enum server_state to = server->state;
	bool goes_last = pool->pools->config->server_round_robin || to != SERVER_IDLE;

	TAILQ_REMOVE(&pool->servers[from], server, place.node);
	pool->server_counts[from]--;
	if (goes_last)
		TAILQ_INSERT_TAIL(&pool->servers[to], server, place.node);
	else
		TAILQ_INSERT_HEAD(&pool->servers[to], server, place.node);
	pool->server_counts[to]++;
	pool->pools->ending_count += (to == SERVER_ENDING) - (from == SERVER_ENDING);
	if (server->wire.ending.how == ENDING_LEAVES)
		permit_count_leaving(&server->place.permit, to == SERVER_ENDING ? 1 : -1);
	if (pool_is_home(from) != pool_is_home(to)) {
		pool->pools->home_count += pool_is_home(to) ? 1 : -1u;
		/* in the order of their return: the first one is evicted first */
		(pool_is_home(to) ? pool_file_idle : pool_unfile_idle)(server);
	}
	if (pool_is_busy(from) != pool_is_busy(to))
		count_busy(server, pool_is_busy(to) ? 1 : -1);
	if (pool_is_logging_in(from) && !pool_is_logging_in(to) && server->is_listening)
		pool->listening_login_count--;
	if (to != SERVER_CLOSING)
		return;
	count_server(server, -1);
	pool->dedicated_count -= server->replication != REPLICATION_NONE;
	pool->site.library_count -= server_holds(server, HELD_LIBRARY);
	server_need_close(server, CLOSE_NONE);
	cancel_forget_server(server);
	pool_wake(pool);
}

/* ---- adding and removing ---- */

struct server *pool_add_server(struct pool *pool, bool is_listening, struct permit *permit)
{
	struct pools *pools = pool->pools;
	struct server *server = slab_take(&pools->server_slab);

	if (!server) {
		permit_give(permit, &pools->member);
		return NULL;
	}
	server_init(server, &pool->site, pool, pools_next_id(pools));
	server->is_listening = is_listening;
	pool_pass_permit(server, permit);
	pool->listening_login_count += is_listening;
	TAILQ_INSERT_TAIL(&pools->servers, server, place.all_node);
	TAILQ_INSERT_TAIL(&pool->servers[SERVER_CONNECTING], server, place.node);
	pool->server_counts[SERVER_CONNECTING]++;
	count_server(server, 1);
	return server;
}

void pool_remove_server(struct server *server)
{
	struct pool *pool = server->pool;
	struct pools *pools = pool->pools;

	pool_end_catalog(server);
	if (server->lease.vacancy)
		vacancy_forget(server);
	TAILQ_EACH (walk, &pools->walks, node) {
		if (walk->next_server == server)
			walk->next_server = TAILQ_NEXT(server, place.all_node);
	}
	pool_disown(server);
	loop_undefer(pools->shared.loop, &server->free_task);
	TAILQ_REMOVE(&pools->servers, server, place.all_node);
	TAILQ_REMOVE(&pool->servers[SERVER_CLOSING], server, place.node);
	pool->server_counts[SERVER_CLOSING]--;
	slab_put(&pools->server_slab, server);
	pool_arm_expiry(pool);
}

/* ---- for administrators ---- */

/* Calls `act` for each server from this state to that one; it may close the server. */
static void each_in(struct pool *pool, enum server_state from, enum server_state to,
                    void (*act)(struct server *server, enum close_reason reason),
                    enum close_reason reason)
{
	struct server *server, *next;

	for (enum server_state state = from; state <= to; state++) {
		TAILQ_FOREACH_SAFE (server, &pool->servers[state], place.node, next)
			act(server, reason);
	}
}

static void close_by_admin(struct server *server, enum close_reason reason)
{
	server_close_as(server, ERR_ADMIN_SHUTDOWN, reason);
}

/* A dedicated server is never returned: it is closed or replaced at once. */
static void need_close(struct server *server, enum close_reason reason)
{
	server_need_close(server, reason);
	if (server->is_listening && server->state == SERVER_LENT)
		listening_replace(server);
	else if (server_is_dedicated(server))
		close_by_admin(server, reason);
}

void pool_close_idle(struct pool *pool, enum close_reason reason)
{
	each_in(pool, SERVER_CONNECTING, SERVER_USED, close_by_admin, reason);
}

/* With server_fast_close, a session between two transactions loses its server, too. */
static void fast_close(struct server *server, enum close_reason reason)
{
	if (pool_rules_at(server)->mode == POOL_MODE_SESSION && !server->is_listening &&
	    server_is_between_transactions(server))
		close_by_admin(server, reason);
}

void pool_recycle(struct pool *pool, enum close_reason reason)
{
	pool_close_idle(pool, reason);
	each_in(pool, SERVER_CHECKING, SERVER_ENDING, need_close, reason);
	if (pool->pools->config->server_fast_close)
		each_in(pool, SERVER_LENT, SERVER_LENT, fast_close, reason);
	pool_forget_welcome(pool);
	pool_reset_retry(pool);
	pool_wake(pool);
}

void pool_close_all(struct pool *pool, enum close_reason reason)
{
	each_in(pool, SERVER_CONNECTING, SERVER_ENDING, close_by_admin, reason);
}

/* ---- hosts and addresses ---- */

void pool_leave_host(struct server *server, enum close_reason reason)
{
	need_close(server, reason);
	if (pool_is_logging_in(server->state) || pool_is_home(server->state))
		close_by_admin(server, reason);
	/* else pool_home() closes it */
}

void pool_address_removed(struct server *server)
{
	pool_leave_host(server, CLOSE_ADDRESS_REMOVED);
	if (server->state == SERVER_LENT && server->pool->pools->config->server_fast_close)
		fast_close(server, CLOSE_ADDRESS_REMOVED);
}
