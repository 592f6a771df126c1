/* SPDX-License-Identifier: ISC */
/*
 * A snapshot comes into force: what each pool has to keep to is worked out anew,
 * what connects otherwise now is replaced, what is gone is closed.
 */
#include "pgweir/pool/pools.h"

#include "outage_priv.h"
#include "pool_priv.h"
#include "server/server_priv.h"

#include "pgweir/base/banned.h"

/* Even with server_login_retry = 0: a refusal comes faster than anything could have changed. */
#define RETRY_GAP_MIN (50 * USEC_PER_SEC / 1000)

static struct timer_queue *queue(const struct pool *pool, usec_t limit,
                                 void (*on_due)(struct timer *timer))
{
	return loop_timer_queue(pool->pools->with.loop, limit, on_due);
}

/* The entry's own password, or a forced user's secret from auth_file. */
static void configure_credentials(struct pool *pool)
{
	const struct config_database *entry = pool->database->entry;
	struct secret secret;

	/* Keys that were shown for another secret than that of today are nobody's. */
	if (pool->learnt_version != pool->role->secret_version)
		credentials_done(&pool->learnt);
	credentials_done(&pool->credentials);
	if (!entry->password || !*entry->password || !entry->user || pool->is_for_lookups)
		return;
	secret = secret_of(entry->password);
	credentials_from_secret(&pool->credentials, &secret);
}

static void configure_hosts(struct pool *pool)
{
	const struct config_database *entry = pool->database->entry;
	const char *list = entry->host ? entry->host : pool->pools->config->unix_socket_dir;

	if (!hosts_configure(&pool->site.hosts, list, entry->load_balance_hosts))
		log_error(&pool->log, "no memory for the list of hosts");
	pool_reset_retry(pool); /* what failed may have been mended */
}

void pool_configure(struct pool *pool)
{
	const struct config *config = pool->pools->config;
	const struct config_database *entry = pool->database->entry;
	const struct config_user *user = pool->role->entry;
	usec_t check = config->server_check_delay;

	if (config->server_idle_timeout && check >= config->server_idle_timeout)
		check = 0;
	pool->limits = (struct pool_limits){
		.mode = config_pool_mode(config, entry, user),
		.size = config_pool_size(config, entry, user),
		.reserve_size = config_reserve_pool_size(config, entry, user),
		.min_size = pool->is_for_lookups ? 0 : config_min_pool_size(config, entry),
		.reserve_after = config->reserve_pool_timeout,
		.lifetime = config_server_lifetime(config, entry),
	};
	pool->site.entry = entry;
	pool->site.limits = (struct server_limits){
		.connect = queue(pool, config->server_connect_timeout, server_connect_due),
		.idle = queue(pool, config->server_idle_timeout, pool_idle_due),
		.check = config_check_query(config) ? queue(pool, check, server_check_due) : NULL,
		.life = queue(pool, pool->limits.lifetime, pool_life_due),
		.query = queue(pool, config_query_timeout(config, user), server_query_due),
		.idle_transaction = queue(pool, config_idle_transaction_timeout(config, user),
		                          server_idle_transaction_due),
		.transaction =
		    queue(pool, config_transaction_timeout(config, user), server_transaction_due),
		.retry_gap = config->server_login_retry > RETRY_GAP_MIN ? config->server_login_retry
		                                                        : RETRY_GAP_MIN,
	};
	pool->limits.late_begin =
	    pool->limits.mode == POOL_MODE_TRANSACTION && config_late_begin(config, entry, user);
	configure_credentials(pool);
	pool_forget_greeting(pool); /* other parameters may be followed now */
	configure_hosts(pool);
	pool_wake(pool);
}

static void rearm_servers(struct pool *pool)
{
	struct server *server;

	for (int state = 0; state < SERVER_CLOSING; state++) {
		TAILQ_FOREACH (server, &pool->servers[state], node)
			server_rearm(server);
	}
}

/*
 * The mode may have changed: a client in session mode may leave anything on its server, and an
 * idle server as a session has left it must not serve other clients' transactions.
 */
static void judge_sessions(struct pool *pool)
{
	static const enum server_state resting[] = { SERVER_IDLE, SERVER_USED };
	struct server *server, *next;
	struct err err;

	if (pool->limits.mode == POOL_MODE_SESSION) {
		TAILQ_FOREACH (server, &pool->servers[SERVER_LENT], node)
			server->has_session = true;
		return;
	}
	err_set(&err, ERR_SERVER_LOST, SERVER_LEFT_OVER);
	for (size_t i = 0; i < sizeof(resting) / sizeof(resting[0]); i++) {
		for (server = TAILQ_FIRST(&pool->servers[resting[i]]); server; server = next) {
			next = TAILQ_NEXT(server, node);
			if (pool_is_left_over(server))
				server_close(server, &err);
		}
	}
}

/* Used and idle servers above the size go, the longest unused first. */
static void shrink(struct pool *pool)
{
	unsigned int most = pool_limits_most(&pool->limits);
	struct server *server;
	struct err err;

	err_set(&err, ERR_SERVER_LOST, "too many servers in the pool");
	while (pool->limits.size > 0 && pool->server_count > most &&
	       ((server = TAILQ_FIRST(&pool->servers[SERVER_USED])) ||
	        (server = TAILQ_LAST(&pool->servers[SERVER_IDLE], server_list))))
		server_close(server, &err);
}

/* Whether servers are encrypted under the same conditions. */
static bool is_same_tls(const struct config *one, const struct config *other)
{
	return one->server_tls_sslmode == other->server_tls_sslmode &&
	       one->server_tls_negotiation == other->server_tls_negotiation;
}

static void configure_database(struct database *database, const struct config *old)
{
	struct pools *pools = database->pools;
	const struct config_database *before = database->entry;
	const struct config_database *after = config_database_find(pools->config, database->name);
	bool is_same;
	struct pool *pool, *next;
	struct err err;

	database->is_auto = !after;
	if (!after)
		after = config_database_auto(pools->config);
	is_same = before && after && old && is_same_tls(old, pools->config) &&
	          config_database_same_server(before, after, database->name);
	database->entry = after;
	database->server_limit = config_max_db_connections(pools->config, after);
	if (!is_same)
		outages_done(&database->outages);
	err_set(&err, ERR_ADMIN_SHUTDOWN, "database removed");
	HASH_ITER (hh, database->pool_table, pool, next) {
		if (!after) {
			pool_expel(pool, &err);
			pool_close_all(pool, err.text);
			pool_refuse(pool, &err);
			pool->site.entry = NULL;
			continue;
		}
		pool_configure(pool);
		rearm_servers(pool);
		judge_sessions(pool);
		cancel_rearm_waiting(pool);
		pool_rearm(pool);
		if (!is_same)
			pool_recycle(pool, "database configuration changed");
		shrink(pool);
		if (!pool_is_current(pool))
			pools_sweep_later(pools);
	}
	if (!after)
		pools_sweep_later(pools);
	else
		database_rearm(database);
}

/* A forced user's pool of a least size needs no client to be there. */
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

	while ((entry = config_database_next(pools->config, entry))) {
		TABLE_FIND_STR(hh, &pools->secret, pools->database_table, entry->name, database);
		if (!database)
			database = database_add(pools, entry->name, entry, false);
		if (database)
			add_standing_pool(database);
	}
}

void pools_configure(struct pools *pools, const struct config *config, struct users *users)
{
	const struct config *old = pools->config;
	struct users *old_users = pools->users;
	struct database *database;
	struct role *role;

	pools->config = config_ref(config);
	pools->users = users_hold(users);
	pools->shared.config = pools->config;
	pools->pool_expiry =
	    loop_timer_queue(pools->with.loop, config->pool_idle_timeout, pools_pool_expired);
	pools->database_expiry =
	    loop_timer_queue(pools->with.loop, config->autodb_idle_timeout, pools_database_expired);
	pools->server_sockets = (struct socket_options){
		.tcp_keepalive = config->tcp_keepalive,
		.tcp_keepcnt = config->tcp_keepcnt,
		.tcp_keepidle = (int)(config->tcp_keepidle / USEC_PER_SEC),
		.tcp_keepintvl = (int)(config->tcp_keepintvl / USEC_PER_SEC),
		.tcp_user_timeout = (int)(config->tcp_user_timeout / USEC_PER_MS),
		.tcp_socket_buffer = (int)config->tcp_socket_buffer,
	};
	TAILQ_FOREACH (role, &pools->roles, node)
		role_configure(pools, role);
	TAILQ_FOREACH (database, &pools->databases, node)
		configure_database(database, old);
	add_entries(pools);
	peer_pools_configure(pools);
	config_unref(&old);
	users_release(&old_users);
}

void pools_set_tls(struct pools *pools, struct tls_context *tls)
{
	struct tls_context *old = pools->tls;

	pools->tls = pools->shared.tls = tls ? tls_context_ref(tls) : NULL;
	if (old != tls)
		pools_reconnect(pools, NULL);
	tls_context_unref(&old);
}
