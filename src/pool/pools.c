/* SPDX-License-Identifier: ISC */
/*
 * All pools: finding them, making them, forgetting them.
 */
#include "pgweir/pool/pools.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "pgweir/base/text.h"

#include "pool_priv.h"
#include "server_priv.h"

#include "pgweir/base/banned.h"

/* Names that are followed in any case, in the order of the welcome. */
static const char *const tracked[] = { "DateStyle", "client_encoding", "TimeZone",
	                               "standard_conforming_strings", "application_name" };
#define TRACKED_COUNT (sizeof(tracked) / sizeof(tracked[0]))

const char *pools_tracked_at(const struct pools *pools, size_t index)
{
	const struct config_list *extra = &pools->config->track_extra_parameters;

	if (index < TRACKED_COUNT)
		return tracked[index];
	return index - TRACKED_COUNT < extra->count ? extra->names[index - TRACKED_COUNT] : NULL;
}

const char *pools_tracked(const struct pools *pools, const char *name)
{
	const char *known;

	for (size_t i = 0; (known = pools_tracked_at(pools, i)); i++) {
		if (strcasecmp(known, name) == 0)
			return known;
	}
	return NULL;
}

uint64_t pools_next_id(struct pools *pools) { return ++pools->last_id; }

/* ---- watches ---- */

void pools_changed(struct pools *pools)
{
	if (!TAILQ_EMPTY(&pools->watches))
		loop_defer(pools->with.loop, &pools->watch_task);
}

static void ask_watches(struct task *task)
{
	struct pools *pools = (struct pools *)((char *)task - offsetof(struct pools, watch_task));
	struct pools_watch *watch = TAILQ_FIRST(&pools->watches);

	while (watch) {
		struct pools_watch *next = TAILQ_NEXT(watch, node);

		if (watch->is_done(watch)) {
			TAILQ_REMOVE(&pools->watches, watch, node);
			watch->on_done(watch);
		}
		watch = next;
	}
}

void pools_watch_start(struct pools *pools, struct pools_watch *watch)
{
	TAILQ_INSERT_TAIL(&pools->watches, watch, node);
	pools_changed(pools);
}

void pools_watch_stop(struct pools *pools, struct pools_watch *watch)
{
	TAILQ_REMOVE(&pools->watches, watch, node);
}

/* ---- walks ---- */

void pools_walk_start(struct pools *pools, struct pools_walk *walk)
{
	walk->next_pool = TAILQ_FIRST(&pools->list);
	walk->next_database = TAILQ_FIRST(&pools->databases);
	walk->next_server = TAILQ_FIRST(&pools->servers);
	TAILQ_INSERT_TAIL(&pools->walks, walk, node);
}

void pools_walk_stop(struct pools *pools, struct pools_walk *walk)
{
	TAILQ_REMOVE(&pools->walks, walk, node);
}

#define WALKS_SKIP(pools, field, object, entry)                             \
	do {                                                                \
		struct pools_walk *walk_;                                   \
		TAILQ_FOREACH (walk_, &(pools)->walks, node) {              \
			if (walk_->field == (object))                       \
				walk_->field = TAILQ_NEXT((object), entry); \
		}                                                           \
	} while (0)

/* ---- servers ---- */

struct server *pools_add_server(struct pool *pool)
{
	struct pools *pools = pool->pools;
	struct server *server = slab_take(&pools->server_slab);

	if (!server)
		return NULL;
	server->pool = pool;
	server->id = pools_next_id(pools);
	server->params = server->baseline = params_none(pools->with.params);
	TAILQ_INSERT_TAIL(&pools->servers, server, all_node);
	TAILQ_INSERT_TAIL(&pool->servers[SERVER_CONNECTING], server, node);
	pool->server_counts[SERVER_CONNECTING]++;
	pool_count_server(pool);
	return server;
}

void pools_remove_server(struct server *server)
{
	struct pool *pool = server->pool;
	struct pools *pools = pool->pools;

	WALKS_SKIP(pools, next_server, server, all_node);
	loop_undefer(pools->with.loop, &server->free_task);
	TAILQ_REMOVE(&pools->servers, server, all_node);
	TAILQ_REMOVE(&pool->servers[SERVER_CLOSING], server, node);
	pool->server_counts[SERVER_CLOSING]--;
	slab_put(&pools->server_slab, server);
	pool_rest_if_empty(pool);
}

/* ---- accounts ---- */

static void configure_account(struct pools *pools, struct account *account)
{
	const struct user *user = users_find(pools->users, account->name);

	account->entry = config_user_find(pools->config, account->name);
	account->server_limit = config_max_user_connections(pools->config, account->entry);
	if (user && user->secret.kind == SECRET_SCRAM &&
	    account->credentials.kind == CREDENTIALS_KEYS && account->secret &&
	    strcmp(account->secret, user->secret.text) == 0)
		return; /* the keys that a client showed are as good as they were */
	credentials_done(&account->credentials);
	free(account->secret);
	account->secret = user ? strdup(user->secret.text) : NULL;
	if (user)
		credentials_from_secret(&account->credentials, &user->secret);
}

struct account *pools_account(struct pools *pools, const char *name)
{
	struct account *account;

	HASH_FIND_STR(pools->account_table, name, account);
	if (account)
		return account;
	account = slab_take(&pools->account_slab);
	if (!account)
		return NULL;
	text_copy(account->name, sizeof(account->name), name);
	TAILQ_INIT(&account->blocked);
	TAILQ_INIT(&account->idle);
	configure_account(pools, account);
	HASH_ADD_STR(pools->account_table, name, account);
	TAILQ_INSERT_TAIL(&pools->accounts, account, node);
	return account;
}

void pools_learn(struct pools *pools, struct account *account, const struct credentials *shown)
{
	struct pool *pool;

	if (account->credentials.kind == CREDENTIALS_PLAIN && account->secret)
		return; /* auth_file knows better */
	if (credentials_equal(&account->credentials, shown))
		return;
	credentials_done(&account->credentials);
	credentials_copy(&account->credentials, shown);
	/* Where the old ones did not let us in, these may. */
	TAILQ_FOREACH (pool, &pools->list, node) {
		if (pool->account == account && pool->is_failing) {
			pool->is_failing = false;
			pool_wake(pool);
		}
	}
}

static void free_account(struct pools *pools, struct account *account)
{
	HASH_DEL(pools->account_table, account);
	TAILQ_REMOVE(&pools->accounts, account, node);
	credentials_done(&account->credentials);
	if (account->secret)
		explicit_bzero(account->secret, strlen(account->secret));
	free(account->secret);
	slab_put(&pools->account_slab, account);
}

static void forget_unused(struct pools *pools, struct account *account)
{
	if (!account->client_count && !account->pool_count && !account->entry && !account->secret)
		free_account(pools, account);
}

void pools_enter_account(struct account *account) { account->client_count++; }

void pools_leave_account(struct pools *pools, struct account **accountp)
{
	struct account *account = *accountp;

	*accountp = NULL;
	account->client_count--;
	forget_unused(pools, account);
}

/* ---- databases ---- */

static void on_database_rest(struct timer *timer);

static void rest_database(struct database *database)
{
	struct pools *pools = database->pools;

	if (!database->is_auto || database->client_count || database->server_count)
		return;
	timer_set(&database->rest,
	          loop_line(pools->with.loop, pools->config->autodb_idle_timeout, on_database_rest),
	          loop_now(pools->with.loop));
}

void database_count_client(struct database *database, int change)
{
	database->client_count += (unsigned int)change;
	if (change > 0)
		timer_clear(&database->rest);
	else
		rest_database(database);
}

static struct database *add_database(struct pools *pools, const char *name,
                                     const struct config_database *entry, bool is_auto)
{
	struct database *database = slab_take(&pools->database_slab);

	if (!database)
		return NULL;
	text_copy(database->name, sizeof(database->name), name);
	database->pools = pools;
	database->entry = entry;
	database->is_auto = is_auto;
	database->server_limit = config_max_db_connections(pools->config, entry);
	TAILQ_INIT(&database->blocked);
	TAILQ_INIT(&database->idle);
	HASH_ADD_STR(pools->database_table, name, database);
	TAILQ_INSERT_TAIL(&pools->databases, database, node);
	pools->database_count++;
	return database;
}

/* Its pools must have neither members nor servers. */
static void free_database(struct database *database)
{
	struct pools *pools = database->pools;
	struct pool *pool, *next;

	HASH_ITER (hh, database->pool_table, pool, next)
		pools_forget_pool(pool);
	WALKS_SKIP(pools, next_database, database, node);
	stats_add(&pools->gone, &database->gone);
	timer_clear(&database->rest);
	HASH_DEL(pools->database_table, database);
	TAILQ_REMOVE(&pools->databases, database, node);
	pools->database_count--;
	slab_put(&pools->database_slab, database);
}

static void on_database_rest(struct timer *timer)
{
	struct database *database =
	    (struct database *)((char *)timer - offsetof(struct database, rest));

	if (database->client_count || database->server_count || database->is_paused ||
	    database->is_disabled)
		return;
	free_database(database);
}

struct database *pools_find_database(struct pools *pools, const char *name)
{
	struct database *database;

	HASH_FIND_STR(pools->database_table, name, database);
	return database && database->entry ? database : NULL;
}

struct database *pools_database(struct pools *pools, const char *name)
{
	struct database *database = pools_find_database(pools, name);
	const struct config_database *star = config_database_auto(pools->config);
	struct logger log = { pools->with.log, NULL };

	if (database || !star || strlen(name) > CONFIG_DATABASE_NAME_MAX)
		return database;
	HASH_FIND_STR(pools->database_table, name, database);
	if (database)
		return NULL; /* its old clients and servers are still leaving */
	log_info(&log, "registered new auto-database: %s", name);
	database = add_database(pools, name, star, true);
	if (database)
		rest_database(database);
	return database;
}

/* ---- pools ---- */

static void pool_prefix(const struct logger *logger, char *out, size_t size)
{
	const struct pool *pool =
	    (const struct pool *)((const char *)logger - offsetof(struct pool, log));

	snprintf(out, size, "%s/%s ", pool->database->name, pool->account->name);
}

static struct pool *add_pool(struct database *database, struct account *account)
{
	struct pools *pools = database->pools;
	struct pool *pool = slab_take(&pools->pool_slab);

	if (!pool)
		return NULL;
	pool->pools = pools;
	pool->database = database;
	pool->account = account;
	pool->log = (struct logger){ pools->with.log, pool_prefix };
	pool->baseline = pool->greeting_for = params_none(pools->with.params);
	pool->serve_task.run = pool_serve;
	for (int state = 0; state < SERVER_STATES; state++)
		TAILQ_INIT(&pool->servers[state]);
	TAILQ_INIT(&pool->members);
	TAILQ_INIT(&pool->waiting);
	TAILQ_INIT(&pool->newcomers);
	TAILQ_INIT(&pool->cancels_waiting);
	TAILQ_INIT(&pool->cancels_active);
	HASH_ADD_PTR(database->pool_table, account, pool);
	TAILQ_INSERT_TAIL(&pools->list, pool, node);
	database->pool_count++;
	account->pool_count++;
	pools->pool_count++;
	pool_configure(pool);
	return pool;
}

struct pool *pools_pool(struct database *database, const char *user)
{
	const char *name = database->entry->user ? database->entry->user : user;
	struct account *account = pools_account(database->pools, name);
	struct pool *pool;

	if (!account)
		return NULL;
	HASH_FIND_PTR(database->pool_table, &account, pool);
	return pool ? pool : add_pool(database, account);
}

void pools_keep_stats(struct pool *pool)
{
	stats_add(&pool->database->gone, &pool->stats);
	pool->database->has_gone = true;
	pool->stats = (struct stats){ 0 };
}

void pools_forget_pool(struct pool *pool)
{
	struct pools *pools = pool->pools;

	assert(pool->member_count == 0 && TAILQ_EMPTY(&pool->servers[SERVER_CLOSING]));
	assert(pool->server_count == 0);
	WALKS_SKIP(pools, next_pool, pool, node);
	pools_keep_stats(pool);
	pool_leave_blocked(pool);
	timer_clear(&pool->retry);
	timer_clear(&pool->reserve);
	timer_clear(&pool->rest);
	loop_undefer(pools->with.loop, &pool->serve_task);
	params_release(pools->with.params, &pool->baseline);
	buf_free(&pool->welcome);
	pool_forget_greeting(pool);
	credentials_done(&pool->credentials);
	HASH_DEL(pool->database->pool_table, pool);
	TAILQ_REMOVE(&pools->list, pool, node);
	pool->database->pool_count--;
	pools->pool_count--;
	pool->account->pool_count--;
	forget_unused(pools, pool->account);
	slab_put(&pools->pool_slab, pool);
}

static bool is_empty(const struct pool *pool)
{
	return pool->member_count == 0 && pool->server_count == 0 &&
	       TAILQ_EMPTY(&pool->servers[SERVER_CLOSING]) && TAILQ_EMPTY(&pool->cancels_waiting) &&
	       TAILQ_EMPTY(&pool->cancels_active);
}

static void on_pool_rest(struct timer *timer)
{
	struct pool *pool = (struct pool *)((char *)timer - offsetof(struct pool, rest));

	if (is_empty(pool))
		pools_forget_pool(pool);
}

void pool_rest_if_empty(struct pool *pool)
{
	struct pools *pools = pool->pools;
	const struct config_database *entry = pool->database->entry;

	if (pools->is_closing || !is_empty(pool))
		return;
	if (!entry && pool->database->client_count == 0 && pool->database->server_count == 0) {
		pools_sweep_later(pools); /* the entry is gone from the configuration */
		return;
	}
	if (!entry || !entry->user || !pool->limits.min_size)
		timer_set(
		    &pool->rest,
		    loop_line(pools->with.loop, pools->config->pool_idle_timeout, on_pool_rest),
		    loop_now(pools->with.loop));
	rest_database(pool->database);
}

/* ---- databases that went with a reload ---- */

static bool is_gone(const struct database *database)
{
	struct pool *pool, *next;

	if (database->entry || database->client_count || database->server_count)
		return false;
	HASH_ITER (hh, database->pool_table, pool, next) {
		if (!is_empty(pool))
			return false;
	}
	return true;
}

static void sweep(struct task *task)
{
	struct pools *pools = (struct pools *)((char *)task - offsetof(struct pools, sweep_task));
	struct database *database = TAILQ_FIRST(&pools->databases);

	while (database) {
		struct database *next = TAILQ_NEXT(database, node);

		if (is_gone(database))
			free_database(database);
		database = next;
	}
}

void pools_sweep_later(struct pools *pools) { loop_defer(pools->with.loop, &pools->sweep_task); }

/* ---- all of them ---- */

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
		HASH_FIND_STR(pools->database_table, entry->name, database);
		if (!database)
			database = add_database(pools, entry->name, entry, false);
		if (database)
			add_standing_pool(database);
	}
}

struct pools *pools_new(const struct pools_with *with, const struct config *config,
                        struct users *users, struct err *err)
{
	struct pools *pools = calloc(1, sizeof(*pools));

	if (!pools) {
		err_set(err, ERR_MEMORY, "out of memory");
		return NULL;
	}
	pools->with = *with;
	slab_init(&pools->server_slab, "server_cache", sizeof(struct server));
	slab_init(&pools->pool_slab, "pool_cache", sizeof(struct pool));
	slab_init(&pools->database_slab, "db_cache", sizeof(struct database));
	slab_init(&pools->account_slab, "user_cache", sizeof(struct account));
	slab_init(&pools->cancel_slab, "cancel_cache", sizeof(struct cancel));
	TAILQ_INIT(&pools->databases);
	TAILQ_INIT(&pools->accounts);
	TAILQ_INIT(&pools->list);
	TAILQ_INIT(&pools->servers);
	TAILQ_INIT(&pools->watches);
	TAILQ_INIT(&pools->walks);
	pools->watch_task.run = ask_watches;
	pools->sweep_task.run = sweep;
	pools_configure(pools, config, users);
	return pools;
}

void pools_free(struct pools **poolsp)
{
	struct pools *pools = *poolsp;
	struct server *server;
	struct pool *pool;

	if (!pools)
		return;
	*poolsp = NULL;
	pools->is_closing = true;
	TAILQ_FOREACH (pool, &pools->list, node)
		pool_close_all(pool, "server shutting down");
	while ((server = TAILQ_FIRST(&pools->servers)))
		pools_remove_server(server);
	TAILQ_FOREACH (pool, &pools->list, node)
		cancel_drop_all(pool);
	while (!TAILQ_EMPTY(&pools->databases))
		free_database(TAILQ_FIRST(&pools->databases));
	while (!TAILQ_EMPTY(&pools->accounts))
		free_account(pools, TAILQ_FIRST(&pools->accounts));
	loop_undefer(pools->with.loop, &pools->watch_task);
	loop_undefer(pools->with.loop, &pools->sweep_task);
	slab_done(&pools->server_slab);
	slab_done(&pools->pool_slab);
	slab_done(&pools->database_slab);
	slab_done(&pools->account_slab);
	slab_done(&pools->cancel_slab);
	config_unref(&pools->config);
	users_release(&pools->users);
	free(pools);
}

/* ---- configuration ---- */

static struct timer_line *line(const struct pool *pool, usec_t limit,
                               void (*on_due)(struct timer *timer))
{
	return loop_line(pool->pools->with.loop, limit, on_due);
}

/* The entry's own password, or a forced user's secret from auth_file. */
static void configure_credentials(struct pool *pool)
{
	const struct config_database *entry = pool->database->entry;
	struct secret secret;

	credentials_done(&pool->credentials);
	if (!entry->password || !*entry->password || !entry->user)
		return;
	secret = secret_of(entry->password);
	credentials_from_secret(&pool->credentials, &secret);
}

void pool_configure(struct pool *pool)
{
	const struct config *config = pool->pools->config;
	const struct config_database *entry = pool->database->entry;
	const struct config_user *user = pool->account->entry;
	usec_t check = config->server_check_delay;

	if (config->server_idle_timeout && check >= config->server_idle_timeout)
		check = 0;
	pool->limits = (struct pool_limits){
		.mode = config_pool_mode(config, entry, user),
		.size = config_pool_size(config, entry, user),
		.reserve_size = config_reserve_pool_size(config, entry, user),
		.min_size = config_min_pool_size(config, entry),
		.reserve_after = config->reserve_pool_timeout,
		.lifetime = config_server_lifetime(config, entry),
		.idle = line(pool, config->server_idle_timeout, server_idle_due),
		.check = config_check_query(config) ? line(pool, check, server_check_due) : NULL,
		.query = line(pool, config_query_timeout(config, user), server_query_due),
		.idle_transaction = line(pool, config_idle_transaction_timeout(config, user),
		                         server_idle_transaction_due),
		.transaction =
		    line(pool, config_transaction_timeout(config, user), server_transaction_due),
		.connect = line(pool, config->server_connect_timeout, server_connect_due),
	};
	configure_credentials(pool);
	pool_forget_greeting(pool); /* other parameters may be followed now */
	pool->is_failing = false;   /* what failed may have been mended */
	pool_wake(pool);
}

static void rearm_servers(struct pool *pool)
{
	struct server *server;

	for (int state = 0; state < SERVER_CLOSING; state++) {
		TAILQ_FOREACH(server, &pool->servers[state], node)
		server_rearm(server);
	}
}

/* Used and idle servers above the size go, the longest unused first. */
static void shrink(struct pool *pool)
{
	unsigned int most = (unsigned int)(pool->limits.size + pool->limits.reserve_size);
	struct server *server;
	struct err err;

	err_set(&err, ERR_SERVER_LOST, "too many servers in the pool");
	while (pool->limits.size > 0 && pool->server_count > most &&
	       ((server = TAILQ_FIRST(&pool->servers[SERVER_USED])) ||
	        (server = TAILQ_LAST(&pool->servers[SERVER_IDLE], server_list))))
		server_close(server, &err);
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
	is_same =
	    before && after && old && config_database_same_server(before, after, database->name);
	database->entry = after;
	database->server_limit = config_max_db_connections(pools->config, after);
	err_set(&err, ERR_ADMIN_SHUTDOWN, "database removed");
	HASH_ITER (hh, database->pool_table, pool, next) {
		if (!after) {
			pool_expel(pool, &err);
			pool_close_all(pool, err.text);
			pool_refuse(pool, &err);
			continue;
		}
		pool_configure(pool);
		rearm_servers(pool);
		if (!is_same)
			pool_recycle(pool, "database configuration changed");
		shrink(pool);
	}
	if (!after)
		pools_sweep_later(pools);
	else
		rest_database(database);
}

void pools_configure(struct pools *pools, const struct config *config, struct users *users)
{
	const struct config *old = pools->config;
	struct users *old_users = pools->users;
	struct database *database;
	struct account *account;

	pools->config = config_ref(config);
	pools->users = users_hold(users);
	pools->server_sockets = (struct socket_options){
		.tcp_keepalive = config->tcp_keepalive,
		.tcp_keepcnt = config->tcp_keepcnt,
		.tcp_keepidle = (int)(config->tcp_keepidle / USEC_PER_SEC),
		.tcp_keepintvl = (int)(config->tcp_keepintvl / USEC_PER_SEC),
		.tcp_user_timeout = (int)(config->tcp_user_timeout / USEC_PER_MS),
		.tcp_socket_buffer = (int)config->tcp_socket_buffer,
	};
	TAILQ_FOREACH (account, &pools->accounts, node)
		configure_account(pools, account);
	TAILQ_FOREACH (database, &pools->databases, node)
		configure_database(database, old);
	add_entries(pools);
	config_unref(&old);
	users_release(&old_users);
}
