/* SPDX-License-Identifier: ISC */
/* A pool's turn: borrowers that belong to another pool move, then those that wait are served. */
#include "pool_priv.h"

#include "server/server_priv.h"

/*
 * ---- borrowers that move ----
 *
 * A reload has given the database another forced user, or its first one. All members of a pool
 * without a server move to that user's pool. Members with a server move when they return the
 * server.
 */

static void pool_move_borrower(struct borrower *borrower, struct pool *to)
{
	enum borrower_state state = borrower->state;
	struct err err;
	bool is_good = true;

	pool_leave(borrower);
	pool_join(to, borrower);
	if (state == BORROWER_WAITING || state == BORROWER_WAIT_PLACE || state == BORROWER_WAIT_OWN)
		is_good = pool_ask(borrower, &err);
	else if (state == BORROWER_NEWCOMER && to->has_welcome)
		borrower->ops->on_welcome(borrower);
	else if (state == BORROWER_NEWCOMER)
		is_good = pool_await_welcome(borrower, &err);
	if (!is_good)
		borrower->ops->on_refused(borrower, &err);
}

/* Moves all members without a server to the pool they belong to. For a pool that is not current. */
static void pool_move_members(struct pool *pool)
{
	const struct config_database *entry = pool->database->entry;
	struct pool *to = entry ? pools_pool(pool->database, entry->user) : NULL;
	struct borrower *borrower, *next;

	if (!to)
		return; /* the database is being removed, or there is no memory: no change */
	/* Waiting borrowers keep their order. */
	for (enum borrower_state state = BORROWER_NEWCOMER; state <= BORROWER_WAITING; state++) {
		while ((borrower = pool_first(pool, state)))
			pool_move_borrower(borrower, to);
	}
	TAILQ_FOREACH_SAFE (borrower, &pool->members, node, next) {
		if (borrower->state == BORROWER_RESTING)
			pool_move_borrower(borrower, to);
	}
	pool_arm_expiry(pool);
}

/*
 * ---- reads ----
 *
 * Reads on standbys (route_reads). A user on a database has a pair of pools:
 *
 *                       +-- a read -->  the pool for reads      servers on standbys
 *   a borrower at rest -+
 *                       +-- else ---->  the pool for clients    servers on the primary
 *
 * A borrower becomes a member of the other pool before it asks for a server. While no standby can
 * be used, the pool for clients serves all. The pool for reads then tries to connect on its own.
 */

/* The servers of a standby that is too far behind stay: it may have caught up soon. */
static bool has_idle(const struct pool *reads)
{
	if (!reads->limits.has_lag_limit)
		return reads->server_counts[SERVER_IDLE];
	TAILQ_EACH (server, &reads->servers[SERVER_IDLE], place.node) {
		if (!pool_is_behind(server))
			return true;
	}
	return false;
}

/* Whether a borrower that asks now gets a server on a standby soon. */
static bool can_serve(struct pool *reads)
{
	if (has_idle(reads) || pool_has_host(reads))
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

/* In a pool for reads: if no standby can be used, its waiting borrowers go to the primary. */
static void pool_reads_serve(struct pool *reads)
{
	struct borrower *borrower;
	struct pool *to;

	if (!reads->queues[BORROWER_WAITING].count || pool_is_held(reads) || can_serve(reads))
		return;
	to = pools_twin(reads, POOL_FOR_CLIENTS);
	while (to && (borrower = pool_first(reads, BORROWER_WAITING))) {
		reads->reads.elsewhere++;
		reads->reads.routed--;
		pool_move_borrower(borrower, to);
	}
}

/*
 * ---- a turn ----
 *
 * A pool's turn: all events that may allow a borrower to be served wake the pool, and at the end of
 * the turn of the loop the pool serves its wait queues. Also the table of functions that servers
 * call.
 */

static struct borrower *next_to_serve(struct pool *pool)
{
	struct borrower *head = pool_first(pool, BORROWER_WAITING), *next;

	if (head && pool_is_choosy(pool))
		return pool_standby_next(pool);
	next = head && pool->fair ? fair_next(pool->fair, pool_now(pool)) : NULL;
	return next ? next : head;
}

/* The next one to be checked. What a borrower waits for is not held back from it. */
static struct server *used_server(struct pool *pool)
{
	const struct borrower *next;

	if (!pool->server_counts[SERVER_USED])
		return NULL;
	next = next_to_serve(pool);
	if (next && pool_waits_for_own(next) && next->owned->state == SERVER_USED)
		return next->owned;
	return pool_may_check(pool) ? TAILQ_LAST(&pool->servers[SERVER_USED], server_list) : NULL;
}

static void check_used(struct pool *pool)
{
	const char *query = config_check_query(pool->pools->config);
	struct server *server;

	while (pool->server_counts[SERVER_CHECKING] < pool->queues[BORROWER_WAITING].count &&
	       (server = used_server(pool))) {
		server_enter(server, SERVER_CHECKING);
		if (server->close_reason)
			pool_close_server(server, server->close_reason);
		else if (query)
			server_order(server, &(struct order){ .kind = ORDER_CHECK, .text = query });
		else
			pool_home(server); /* the check query was removed from the settings */
	}
}

static void welcome_newcomers(struct pool *pool)
{
	struct borrower *borrower;

	if (!pool->has_welcome)
		pool_find_welcome(pool);
	while (pool->has_welcome && (borrower = pool_first(pool, BORROWER_NEWCOMER))) {
		pool_give_up(borrower);
		borrower->ops->on_welcome(borrower);
	}
}

void pool_serve(struct task *task)
{
	struct pool *pool = container_of(task, struct pool, serve_task);
	struct borrower *borrower;
	struct server *server;

	if (pool->pools->is_closing)
		return;
	if (!pool_is_current(pool))
		pool_move_members(pool);
	pool_hear_news(pool);
	pool_hear_roster(pool);
	pool->block.is_refused = false;
	if (pool->purpose == POOL_FOR_READS)
		pool_reads_serve(pool);
	welcome_newcomers(pool);
	pool_give_places(pool);
	if (pool->hasty_count)
		pool_turn_hasty_away(pool);
	pool_grow_listening(pool);
	if (!pool_is_held(pool))
		pool_dedicated_grow(pool);
	/* First: the pool's loops could pass the server on among them, and no other pool get it. */
	if (pool->server_counts[SERVER_IDLE] &&
	    (pool->queues[BORROWER_WAITING].count || pool->share.tally->want_count))
		pool_yield(pool);
	if (!pool_is_held(pool))
		pool_trade_first(pool);
	if (pool->shed.phase == SHED_REFUSES)
		pool_shed_late(pool);
	while (!pool_is_held(pool) && (borrower = next_to_serve(pool)) &&
	       (server = pool_idle_server(borrower))) {
		pool_give_up(borrower);
		pool_lend(server, borrower);
		if (pool->limits.shed.target)
			shed_serve(&pool->shed, &pool->limits.shed, pool_now(pool));
		borrower->ops->on_lent(borrower);
	}
	if (pool->limits.shed.target)
		pool_shed(pool);
	cancel_serve(pool);
	if (!pool_is_held(pool)) {
		check_used(pool);
		pool_grow(pool);
	}
	pool_trade(pool);
	pool_pass_on(pool);
	pool_make_way(pool);
}

/* ---- what servers call ---- */

static void release_server(struct server *server)
{
	struct pool *pool = server->pool;

	if (server->is_listening)
		listening_count_stuck(pool);
	pool_uncount_login(server); /* pool_login_failed() wakes the other loops */
	pools_give_permit(pool->pools, server);
	if (share_servers(&pool->share) < (unsigned int)pool->limits.min_size)
		share_wake_others(&pool->share); /* clients there keep min_pool_size */
}

static void count_close_needed(struct server *server)
{
	int change = server->close_reason ? 1 : -1;

	server->pool->database->close_needed_count += (unsigned int)change;
	server->pool->pools->close_needed_count += (unsigned int)change;
}

static bool may_probe(const struct server *server) { return !pool_is_full(server->pool); }

static void count_probe(struct server *server, int change)
{
	server->pool->probe_count += (unsigned int)change;
	if (change < 0)
		return;
	pool_end_login(server);
	pool_wake(server->pool); /* waiting borrowers need another server */
}

static const struct credentials *credentials_of(const struct server *server)
{
	return pool_credentials(server->pool);
}

const struct server_ops pool_server_ops = {
	.on_state = pool_file_server,
	.on_released = release_server,
	.on_close_needed = count_close_needed,
	.on_report = pool_note_report,
	.on_login_done = pool_login_done,
	.on_login_failed = pool_login_failed,
	.on_home = pool_home,
	.how_it_ends = server_ending,
	.on_ending = pool_begin_ending,
	.on_borrower_lost = pool_lost_server,
	.on_address_removed = pool_address_removed,
	.on_definition = pool_definition_seen,
	.on_probe = count_probe,
	.may_probe = may_probe,
	.may_connect = pool_may_connect,
	.on_slots = pool_note_slots,
	.credentials = credentials_of,
	.tell_secret = pool_tell_secret,
	.on_free = pool_remove_server,
};
