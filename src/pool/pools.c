/* SPDX-License-Identifier: ISC */
/* All pools: made, configured and freed; the administrator's commands; and servers by their hosts.
 */
#include "pgweir/pool/pools.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/base/text.h"

#include "pool_priv.h"
#include "server/server_priv.h"

/*
 * ---- settings ----
 *
 * Applies a new snapshot of the configuration: computes the settings of each pool, replaces servers
 * that would be connected differently now, and closes what has no entry any more.
 */

static void rearm_servers(struct pool *pool)
{
	for (int state = 0; state < SERVER_CLOSING; state++) {
		TAILQ_EACH (server, &pool->servers[state], place.node)
			server_rearm(server);
	}
}

/*
 * The mode may have changed: a client in session mode may leave any session state on its server,
 * and an idle server that was not reset after a session must not serve transactions of other
 * clients.
 */
static void judge_sessions(struct pool *pool)
{
	struct server *server, *next;

	TAILQ_FOREACH (server, &pool->servers[SERVER_LENT], place.node) {
		if (pool_rules_at(server)->mode == POOL_MODE_SESSION)
			server_hold(server, HELD_SESSION);
	}
	for (int state = SERVER_IDLE; state <= SERVER_USED; state++) {
		TAILQ_FOREACH_SAFE (server, &pool->servers[state], place.node, next) {
			if (pool_unfit(server))
				server_close_for(server, pool_unfit(server));
		}
	}
}

/*
 * Why a pool's servers must be replaced; CLOSE_NONE: they are kept. *keeps_hosts: only those of
 * some hosts, as the entries differ by nothing but their lists of hosts.
 */
static enum close_reason changed_by(const struct database *database,
                                    const struct config_database *after, const struct config *old,
                                    bool *keeps_hosts)
{
	const struct config *config = database->pools->config;
	const struct config_database *before = database->entry;
	struct config_database copy;
	const char *list, *former;
	struct bytes host;
	bool is_same_list;

	*keeps_hosts = false;
	if (!before || !after || !old)
		return CLOSE_ENTRY_CHANGED;
	copy = *before;
	copy.host = after->host;
	copy.hosts_from = after->hosts_from;
	if (!config_database_same_server(&copy, after, database->name))
		return CLOSE_ENTRY_CHANGED;
	list = config_hosts(config, after);
	former = config_hosts(old, before);
	is_same_list = strcmp(list, former) == 0;
	if (old->server_tls_sslmode != config->server_tls_sslmode ||
	    old->server_tls_negotiation != config->server_tls_negotiation)
		return is_same_list ? CLOSE_SERVER_TLS_CHANGED : CLOSE_ENTRY_CHANGED;
	if (is_same_list)
		return CLOSE_NONE;
	for (unsigned int i = 0; config_host_next(&former, &host); i++)
		*keeps_hosts |= config_host_number(list, config_hosts(old, before), i) >= 0;
	return CLOSE_ENTRY_CHANGED;
}

/* ---- hosts that were added or removed ---- */

/* Servers of hosts that are in both lists stay, under their new number. */
static void keep_hosts(struct pool *pool, const char *before)
{
	const char *list = config_hosts(pool->pools->config, pool->database->entry);
	struct server *server, *next;

	for (int state = 0; state < SERVER_CLOSING; state++) {
		TAILQ_FOREACH_SAFE (server, &pool->servers[state], place.node, next) {
			int number = config_host_number(list, before, server->place.host);

			server->place.host = number < 0 ? 0 : (unsigned int)number;
			if (number < 0)
				pool_leave_host(server, CLOSE_ENTRY_CHANGED);
		}
	}
}

static void configure_database(struct database *database, const struct config *old)
{
	struct pools *pools = database->pools;
	const struct config_database *after =
	    config_entry(pools->config, ENTRY_DATABASE, database->name);
	const struct config_database *before = database->entry;
	enum close_reason change;
	struct pool *pool, *next;
	bool keeps_hosts;
	struct err err;

	database->is_auto = !after;
	if (!after)
		after = config_database_auto(pools->config);
	change = changed_by(database, after, old, &keeps_hosts);
	database->entry = after;
	permit_set_limit(&database->cap.share, config_max_db_connections(pools->config, after),
	                 after ? after->guaranteed_servers : 0);
	if (change != CLOSE_NONE)
		share_forget_outages(&database->cap.share);
	/* If it comes back, it is a new one, also in a loop that has not forgotten it yet. */
	if (!after)
		database->is_paused = database->is_disabled = false;
	err_close(&err, CLOSE_DATABASE_REMOVED);
	HASH_ITER (hh, database->pool_table, pool, next) {
		if (!after) {
			pool_expel(pool, &err);
			pool_close_all(pool, CLOSE_DATABASE_REMOVED);
			pool_refuse(pool, BORROWER_WAITING, &err);
			pool->site.entry = NULL;
			continue;
		}
		pool_configure(pool);
		pool_reset_retry(pool); /* the cause of failures may have been fixed */
		rearm_servers(pool);
		judge_sessions(pool);
		cancel_queue_rearm(&pool->cancels);
		if (change != CLOSE_NONE)
			pool_forget_host(pool);
		if (keeps_hosts)
			keep_hosts(pool, config_hosts(old, before));
		else if (change != CLOSE_NONE)
			pool_recycle(pool, change);
		pool_shrink(pool);
	}
}

/* A pool of a forced user with min_pool_size exists without any client. */
static void add_standing_pool(struct database *database)
{
	const struct config_database *entry = database->entry;

	if (!database->is_auto && entry && entry->user &&
	    config_min_pool_size(database->pools->config, entry) > 0)
		pools_pool(database, entry->user);
}

static void add_entries(struct pools *pools)
{
	const struct config_database *entry = NULL;
	struct database *database;

	while ((entry = config_entry_next(pools->config, ENTRY_DATABASE, entry))) {
		TABLE_FIND_STR(hh, &pools->secret, pools->database_table, entry->name, database);
		if (!database)
			database = database_add(pools, entry->name, entry, false);
		if (database)
			add_standing_pool(database);
	}
}

void pools_serve_mode(struct pools *pools, enum pool_mode mode)
{
	if (pools->door_modes & 1u << mode)
		return;
	pools->door_modes |= 1u << mode;
	TAILQ_EACH (pool, &pools->list, node) {
		pool_configure(pool);
		judge_sessions(pool);
	}
}

static bool has_priorities(const struct config *config)
{
	const struct config_user *user = NULL;

	while ((user = config_entry_next(config, ENTRY_USER, user))) {
		if (user->priority != PRIORITY_NORMAL)
			return true;
	}
	return false;
}

void pools_configure(struct pools *pools, const struct config *config, struct users *users)
{
	const struct config *old = pools->config;
	struct users *old_users = pools->users;

	pools->config = config_ref(config);
	pools->door_modes |= config_listener_modes(config);
	pools->users = users_hold(users);
	pools->shared.config = pools->config;
	pools->changed_at = clock_now();
	pools->server_sockets = (struct socket_options){
		.tcp_keepalive = config->tcp_keepalive,
		.tcp_keepcnt = config->tcp_keepcnt,
		.tcp_keepidle = (int)(config->tcp_keepidle / USEC_PER_SEC),
		.tcp_keepintvl = (int)(config->tcp_keepintvl / USEC_PER_SEC),
		.tcp_user_timeout = (int)(config->tcp_user_timeout / USEC_PER_MS),
		.tcp_socket_buffer = (int)config->tcp_socket_buffer,
	};
	pools_set_caps(pools);
	pools->has_priorities = has_priorities(config);
	TAILQ_EACH (role, &pools->roles, node)
		role_configure(pools, role);
	TAILQ_EACH (database, &pools->databases, node)
		configure_database(database, old);
	add_entries(pools);
	if (pools->with.is_main) {
		host_watches_configure(pools);
		finders_configure(pools);
	}
	peer_pools_configure(pools);
	pools_sweep_later(pools);
	config_unref(&old);
	users_release(&old_users);
}

void pools_set_tls(struct pools *pools, struct tls_context *tls)
{
	struct tls_context *old = pools->shared.tls;

	pools->shared.tls = tls ? tls_context_ref(tls) : NULL;
	if (old != tls)
		pools_reconnect(pools, NULL);
	tls_context_unref(&old);
}

/* ---- begin and end ---- */

struct pools *pools_new(const struct server_shared *shared, const struct pools_with *with,
                        const struct config *config, struct users *users, struct err *err)
{
	struct pools *pools = err_calloc(sizeof(*pools), "out of memory", err);

	if (!pools)
		return NULL;
	if (!statements_init(&pools->statements, with->statement_names)) {
		err_set(err, ERR_INTERNAL, "the system provides no random numbers");
		free(pools);
		return NULL;
	}
	hash_key_draw(&pools->secret);
	pools->last_line_number = (uint64_t)1 << 32; /* pool_wait_first() counts downwards */
	pools->with = *with;
	pools->shared = *shared;
	pools->shared.closes = &pools->closes;
	pools->shared.order_message = &pools->order_message;
	pools->shared.sockets = &pools->server_sockets;
	broker_join(with->broker, &pools->member, shared->loop);
	if (!pool_cap_open(&pools->cap, pools, CAP_ALL, "")) {
		err_set(err, ERR_MEMORY, "out of memory");
		broker_leave(&pools->member);
		free(pools);
		return NULL;
	}
	pools->shared.tls = shared->tls ? tls_context_ref(shared->tls) : NULL;
	slab_init(&pools->server_slab, "server_cache", sizeof(struct server));
	slab_init(&pools->pool_slab, "pool_cache", sizeof(struct pool));
	slab_init(&pools->database_slab, "db_cache", sizeof(struct database));
	slab_init(&pools->role_slab, "user_cache", sizeof(struct role));
	cancels_init(pools);
	peer_pools_init(&pools->peers);
	TAILQ_INIT(&pools->databases);
	TAILQ_INIT(&pools->roles);
	TAILQ_INIT(&pools->list);
	TAILQ_INIT(&pools->queueing);
	TAILQ_INIT(&pools->sized);
	TAILQ_INIT(&pools->servers);
	TAILQ_INIT(&pools->walks);
	pools->sweep_task.run = pools_sweep;
	pools->serve = pool_serve;
	pools->server_ops = &pool_server_ops;
	pools_configure(pools, config, users);
	return pools;
}

void pools_free(struct pools **poolsp)
{
	struct pools *pools = *poolsp;
	struct server *server;

	if (!pools)
		return;
	*poolsp = NULL;
	pools->is_closing = true;
	host_watches_free(&pools->host_watches);
	finders_free(&pools->finders);
	TAILQ_EACH (pool, &pools->list, node)
		pool_close_all(pool, CLOSE_SERVER_SHUTDOWN);
	while ((server = TAILQ_FIRST(&pools->servers))) {
		if (server->state == SERVER_ENDING)
			server_forget(server);
		pool_remove_server(server);
	}
	TAILQ_EACH (pool, &pools->list, node)
		cancel_queue_drop(&pool->cancels);
	peer_pools_drop(pools);
	cancels_done(pools);
	peer_pools_done(pools);
	while (!TAILQ_EMPTY(&pools->databases))
		pools_forget_database(TAILQ_FIRST(&pools->databases));
	while (!TAILQ_EMPTY(&pools->roles))
		role_free(pools, TAILQ_FIRST(&pools->roles));
	loop_undefer(pools->shared.loop, &pools->sweep_task);
	timer_clear(&pools->sweep_timer);
	share_close(&pools->cap.share);
	buf_free(&pools->group_text);
	buf_free(&pools->order_text);
	buf_free(&pools->order_message);
	broker_leave(&pools->member);
	slab_done(&pools->server_slab);
	slab_done(&pools->pool_slab);
	slab_done(&pools->database_slab);
	slab_done(&pools->role_slab);
	sqlstates_done(&pools->sqlstates);
	sparse_sum_free(&pools->closes.of_none);
	config_unref(&pools->config);
	users_release(&pools->users);
	tls_context_unref(&pools->shared.tls);
	free(pools);
}

/* ---- the administrator's commands ---- */

/* Calls `act` for each pool of the database, or of all. */
static void each_pool(struct pools *pools, struct database *database,
                      void (*act)(struct pool *pool, enum close_reason reason),
                      enum close_reason reason)
{
	pools->changed_at = clock_now();
	TAILQ_EACH (pool, &pools->list, node) {
		if (!database || pool->database == database)
			act(pool, reason);
	}
}

static void note_hold(const struct pools *pools, struct hold *hold, const char *by)
{
	hold->since = loop_now(pools->shared.loop);
	text_copy(hold->by, sizeof(hold->by), by);
}

void pools_pause(struct pools *pools, struct database *database, const char *by)
{
	note_hold(pools, database ? &database->hold : &pools->hold, by);
	*(database ? &database->is_paused : &pools->is_paused) = true;
	each_pool(pools, database, pool_close_idle, CLOSE_PAUSED);
	host_watches_update(pools);
}

void pools_resume(struct pools *pools, struct database *database)
{
	*(database ? &database->is_paused : &pools->is_paused) = false;
	TAILQ_EACH (pool, &pools->list, node)
		pool_wake(pool);
	host_watches_update(pools);
}

void pools_reconnect(struct pools *pools, struct database *database)
{
	each_pool(pools, database, pool_recycle, CLOSE_RECONNECT);
}

static void kill_pool(struct pool *pool, enum close_reason reason)
{
	struct err err;

	err_close(&err, reason);
	pool_expel(pool, &err);
	pool_refuse(pool, BORROWER_WAITING, &err);
	pool_close_all(pool, reason);
	pool_forget_welcome(pool);
	pools_keep_stats(pool);
}

void pools_hold(struct pools *pools, struct database *database, const char *by)
{
	database->is_paused = true;
	note_hold(pools, &database->hold, by);
}

void pools_kill(struct pools *pools, struct database *database, const char *by)
{
	TAILQ_EACH (pool, &pools->list, node) {
		if (!database)
			pools_hold(pools, pool->database, by);
	}
	if (database)
		pools_hold(pools, database, by);
	each_pool(pools, database, kill_pool, CLOSE_DATABASE_REMOVED);
	host_watches_update(pools);
}

void pools_refuse_waiting(struct pools *pools, const struct err *err)
{
	pools->is_ending = true;
	TAILQ_EACH (pool, &pools->list, node)
		pool_refuse(pool, BORROWER_CONNECT_DEDICATED, err);
}

/*
 * ---- SUSPEND ----
 *
 * Each server is stopped between two messages.
 *
 *   idle, or lent     --> stopped: it may still send the rest of its current message
 *   runs an order    --> the order (reset, check, parameters) ends first
 *   logging in        --> closed: it can be launched again
 */

void pools_suspend(struct pools *pools, const char *by)
{
	struct server *server, *next;
	struct err err;

	note_hold(pools, &pools->hold, by);
	pools->suspend = SUSPEND_QUIESCING;
	err_close(&err, CLOSE_SUSPENDED);
	TAILQ_FOREACH_SAFE (server, &pools->servers, place.all_node, next) {
		if (pool_is_logging_in(server->state))
			server_close(server, &err);
	}
}

static bool quiesce_server(struct server *server)
{
	if (server->state == SERVER_ENDING)
		server_keep_not(server);
	if (!stream_is_open(&server->wire.stream) || server->state == SERVER_ENDING)
		return true; /* what it still sends is dropped */
	if (server->orders.running != ORDER_NONE)
		return false;
	if (!stream_is_halted(&server->wire.stream))
		stream_halt(&server->wire.stream, server->wire.frame_left);
	return server_is_quiescent(server);
}

bool pools_quiesce(struct pools *pools)
{
	bool is_done = true;

	TAILQ_EACH (server, &pools->servers, place.all_node)
		is_done &= quiesce_server(server);
	return is_done;
}

void pools_drop_busy(struct pools *pools, const struct err *err)
{
	struct server *server, *next;

	TAILQ_FOREACH_SAFE (server, &pools->servers, place.all_node, next) {
		if (stream_is_open(&server->wire.stream) && !server_is_quiescent(server))
			server_close(server, err);
	}
}

void pools_go_on(struct pools *pools)
{
	pools->suspend = SUSPEND_NONE;
	TAILQ_EACH (server, &pools->servers, place.all_node) {
		if (stream_is_open(&server->wire.stream) && stream_is_halted(&server->wire.stream))
			stream_go_on(&server->wire.stream);
	}
	TAILQ_EACH (pool, &pools->list, node)
		pool_wake(pool);
}

void pools_suspended(struct pools *pools) { pools->suspend = SUSPEND_DONE; }

/* ---- hosts ---- */

unsigned int pools_servers_at(const struct pools *pools, const char *database, unsigned int host,
                              const struct address *address)
{
	const struct database *found = pools_find_database((struct pools *)pools, database);
	unsigned int count = 0;

	for (const struct pool *pool = found ? found->pool_table : NULL; pool; pool = pool->hh.next)
		for (int state = SERVER_IDLE; state < SERVER_CLOSING; state++)
			TAILQ_EACH (server, &pool->servers[state], place.node)
				count +=
				    server->place.host == host &&
				    (!address || address_equal_host(&server->place.peer, address));
	return count;
}

unsigned int pools_busy_at(const struct pools *pools, const char *host)
{
	unsigned int count = 0;

	TAILQ_EACH (server, &pools->servers, place.all_node) {
		const struct hosts *hosts = server->site->hosts;

		count += !server->is_listening && pool_is_busy(server->state) &&
		         server->place.host < hosts->count &&
		         strcmp(hosts->list[server->place.host].name, host) == 0;
	}
	return count;
}

void pools_leave_hosts(struct pools *pools)
{
	TAILQ_EACH (pool, &pools->list, node)
		pool_hear_roster(pool);
}
