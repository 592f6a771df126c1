/* SPDX-License-Identifier: ISC */
/* A server without a borrower becomes idle or used, or is closed; and the limits of unused ones. */
#include "pool_priv.h"

#include <stdio.h>

#include "server/server_priv.h"

/* ---- unused pools: pool_idle_timeout ---- */

/* Clients of the pool that read on standbys need its credentials. */
static bool has_readers(const struct pool *pool)
{
	const struct pool *reads = NULL;

	if (pool->purpose == POOL_FOR_CLIENTS)
		reads = pools_find_twin(pool, POOL_FOR_READS);
	return reads && reads->member_count;
}

bool pool_is_empty(const struct pool *pool)
{
	return pool->member_count == 0 && pool->server_count == 0 && pool->listening_count == 0 &&
	       TAILQ_EMPTY(&pool->listenings) && TAILQ_EMPTY(&pool->servers[SERVER_CLOSING]) &&
	       pool->cancels.count == 0 && !has_readers(pool);
}

static void arm(struct pool *pool)
{
	if (pool->pools->is_closing || !pool_is_empty(pool))
		return;
	if (!pool_is_current(pool)) /* it gets no more clients */
		pools_sweep_later(pool->pools);
	pool->unused_since = pool_now(pool);
	database_arm_expiry(pool->database);
}

void pool_arm_expiry(struct pool *pool)
{
	struct pool *clients = NULL;

	if (pool->purpose == POOL_FOR_READS && !pool->member_count)
		clients = pools_find_twin(pool, POOL_FOR_CLIENTS);
	if (clients)
		arm(clients);
	arm(pool);
}

/* ---- home ---- */

void pool_close_server(struct server *server, enum close_reason reason)
{
	server_close_as(server, ERR_SERVER_LOST, reason);
}

enum close_reason pool_unfit(const struct server *server)
{
	if (pool_need(server) <= NEEDS_RESET)
		return CLOSE_NONE;
	return server_holds(server, HELD_SESSION) ? CLOSE_POOL_MODE_CHANGED : CLOSE_SESSION_STATE;
}

/* The minimum interval between two servers of a pool that are closed for server_lifetime. */
static usec_t life_spacing(const struct pool *pool)
{
	return pool->limits.size > 0 ? pool->limits.lifetime / pool->limits.size : 0;
}

static bool is_too_soon(const struct pool *pool, usec_t now)
{
	return pool->lifetime_close_at && now < pool->lifetime_close_at + life_spacing(pool);
}

static bool is_too_old(struct pool *pool, const struct server *server)
{
	usec_t now = pool_now(pool), lifetime = pool->limits.lifetime;

	if (lifetime <= 0)
		return true; /* server_lifetime = 0: a server is used once */
	if (now - server->connected_at < lifetime || is_too_soon(pool, now))
		return false;
	pool->lifetime_close_at = now;
	return true;
}

/* Whether any loop wants something of the server's pool or of its caps. */
static bool is_wanted(const struct server *server)
{
	const struct pool *pool = server->pool;

	return pool->share.tally->want_count ||
	       (pool->pools->with.broker->blocked_count && pool_is_claimed(server));
}

void pool_note_home(struct server *server)
{
	struct pool *pool = server->pool;
	bool is_awaited = pool->queues[BORROWER_WAITING].count ||
	                  pool->queues[BORROWER_NEWCOMER].count ||
	                  pool->queues[BORROWER_WAIT_DEDICATED].count;

	if (is_awaited || is_wanted(server))
		pool_wake(pool);
}

/* ---- the proof: HELD_STEP ---- */

static void on_proof_row(struct server *server, struct bytes row)
{
	if (server_is_mark(server, row))
		server_held_after(server, HELD_PROVEN);
}

static void on_proof_done(struct server *server)
{
	if (server_holds(server, HELD_STEP))
		server_close_with(server, ERR_PROTOCOL,
		                  "unexpected message from server: out of step");
}

/* false: none is needed. */
static bool begin_proof(struct server *server)
{
	bool is_needed = server_holds(server, HELD_STEP) && !server->close_reason &&
	                 !server_got_fatal(server) && ledger_is_certain(&server->wire.ledger);
	char text[sizeof("SELECT ''") + ENDING_MARK_SIZE];

	if (!is_needed) {
		server_held_after(server, HELD_PROVEN);
		return false;
	}
	if (!server_draw_mark(server)) {
		server_need_close(server, CLOSE_MEMORY);
		return false;
	}
	snprintf(text, sizeof(text), "SELECT '%s'", server->wire.ending.mark);
	if (server->state != SERVER_RESETTING)
		server_enter(server, SERVER_RESETTING);
	server_order(server, &(struct order){ .kind = ORDER_PROOF,
	                                      .where = SENT_AT_REST,
	                                      .text = text,
	                                      .on_row = on_proof_row,
	                                      .on_done = on_proof_done });
	return true;
}

/* Then it is to be checked before it is lent, or not lent for now. */
static bool is_used(const struct pool *pool, enum server_state from)
{
	const struct config *config = pool->pools->config;

	if (from == SERVER_CHECKING)
		return false;
	return (pool->is_over && pool_holds_back(pool)) ||
	       (config->server_check_delay == 0 && from != SERVER_LOGIN &&
	        config_check_query(config));
}

void pool_home(struct server *server)
{
	struct pool *pool = server->pool;
	bool is_new = server->state == SERVER_LOGIN;

	if (server_holds(server, HELD_CHANNELS | HELD_STEP) && begin_proof(server))
		return;
	server->used_at = pool_now(pool);
	if (server->close_reason) {
		pool_close_server(server, server->close_reason);
	} else if (server_got_fatal(server)) {
		pool_close_server(server, CLOSE_SERVER_ENDED);
	} else if (!ledger_is_certain(&server->wire.ledger)) {
		pool_close_server(server, CLOSE_COPY_OUT_OF_STEP);
	} else if (pool_unfit(server)) {
		pool_close_server(server, pool_unfit(server));
	} else if (server->lease.cancel_count) {
		server_enter(server, SERVER_CANCELED);
	} else if (pool_is_paused(pool)) {
		pool_close_server(server, CLOSE_PAUSED);
	} else if (!is_new && server->state != SERVER_CHECKING && is_too_old(pool, server)) {
		pool_close_server(server, CLOSE_SERVER_LIFETIME);
	} else if (pool->is_over && pool_has_over(pool)) {
		pool_close_server(server, CLOSE_POOL_SHRUNK);
	} else if (is_used(pool, server->state)) {
		server_enter(server, SERVER_IDLE);
		server_enter(server, SERVER_USED);
	} else {
		server_enter(server, SERVER_IDLE);
		if (pool_catalog_is_due(pool, server->used_at))
			pool_read_catalog(server);
	}
	if (server->lease.sequences.owner && pool_is_home(server->state))
		pool_await_no_more(server->lease.sequences.owner);
	pool_note_home(server);
}

/* ---- time limits ---- */

void pool_idle_due(struct timer *timer)
{
	struct server *server = container_of(timer, struct server, timer);
	const struct pool *pool = server->pool;
	bool is_used = pool->share.tally->client_count ||
	               (pool->database->entry && pool->database->entry->user);

	if (is_used && share_servers(&pool->share) <= (unsigned int)pool->limits.min_size) {
		timer_set(timer, pool->site.limits.idle, pool_now(pool));
		return;
	}
	pool_close_server(server, CLOSE_SERVER_IDLE_TIMEOUT);
}

void pool_life_due(struct timer *timer)
{
	struct server *server = container_of(timer, struct server, life);
	struct pool *pool = server->pool;
	usec_t now = pool_now(pool);

	if (!pool_is_home(server->state))
		return; /* pool_home() checks its age */
	if (is_too_soon(pool, now)) {
		timer_set(timer,
		          loop_timer_queue(pool_loop(pool), life_spacing(pool), pool_life_due),
		          pool->lifetime_close_at);
		return;
	}
	pool->lifetime_close_at = now;
	pool_close_server(server, CLOSE_SERVER_LIFETIME);
}
