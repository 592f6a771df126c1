/* SPDX-License-Identifier: ISC */
/*
 * All pools: finding them, making them, forgetting them.
 */
#include "pgweir/pool/pools.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "pgweir/base/text.h"

#include "pool_priv.h"
#include "server/server_priv.h"

#include "pgweir/base/banned.h"

uint64_t pools_next_id(struct pools *pools) { return ++pools->last_id; }

/* ---- watches ---- */

void pools_changed(struct pools *pools)
{
	if (!TAILQ_EMPTY(&pools->watches))
		loop_defer(pools->with.loop, &pools->watch_task);
}

void pools_ask_watches(struct task *task)
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

/* ---- pools ---- */

static void tell_who(const struct logger *logger, struct log_who *who)
{
	const struct pool *pool =
	    (const struct pool *)((const char *)logger - offsetof(struct pool, log));

	who->kind = "pool";
	who->database = pool->database->name;
	who->user = pool->role->name;
}

/* Two addresses that nobody else has: one user may have two pools on one database. */
const void *pools_file_by(const struct role *role, bool is_for_lookups)
{
	if (!role)
		return NULL;
	return is_for_lookups ? (const void *)&role->credentials : role;
}

static struct pool *add_pool(struct database *database, struct role *role, bool is_for_lookups)
{
	struct pools *pools = database->pools;
	struct pool *pool = slab_take(&pools->pool_slab);

	if (!pool)
		return NULL;
	pool->pools = pools;
	pool->database = database;
	pool->role = role;
	pool->is_for_lookups = is_for_lookups;
	pool->filed_by = pools_file_by(role, is_for_lookups);
	pool->log = (struct logger){ pools->with.log, tell_who };
	pool->baseline = pool->greeting_for = params_none(pools->with.params);
	pool->serve_task.run = pools->serve;
	pool->site = (struct server_site){
		.shared = &pools->shared,
		.ops = pools->server_ops,
		.database = database->name,
		.user = role->name,
		.client_bytes = &pool->stats.client_bytes,
		.server_bytes = &pool->stats.server_bytes,
	};
	for (int state = 0; state < SERVER_STATES; state++)
		TAILQ_INIT(&pool->servers[state]);
	TAILQ_INIT(&pool->members);
	TAILQ_INIT(&pool->waiting);
	TAILQ_INIT(&pool->newcomers);
	TAILQ_INIT(&pool->wait_dedicated);
	TAILQ_INIT(&pool->connect_dedicated);
	TAILQ_INIT(&pool->cancels_waiting);
	TAILQ_INIT(&pool->cancels_active);
	HASH_ADD_PTR(database->pool_table, filed_by, pool);
	TAILQ_INSERT_TAIL(&pools->list, pool, node);
	database->pool_count++;
	role->pool_count++;
	pools->pool_count++;
	pool_configure(pool);
	return pool;
}

struct pool *pools_find_pool(struct pools *pools, const char *database_name, const char *role_name)
{
	struct database *database;
	struct role *role;
	struct pool *pool = NULL;
	const void *filed_by;

	TABLE_FIND_STR(hh, &pools->secret, pools->database_table, database_name, database);
	TABLE_FIND_STR(hh, &pools->secret, pools->role_table, role_name, role);
	if (!database || !role)
		return NULL;
	filed_by = pools_file_by(role, false);
	HASH_FIND_PTR(database->pool_table, &filed_by, pool);
	return pool;
}

struct pool *pools_exact_pool(struct database *database, const char *user, bool is_for_lookups)
{
	struct role *role = pools_role(database->pools, user);
	const void *filed_by = pools_file_by(role, is_for_lookups);
	struct pool *pool;

	if (!role)
		return NULL;
	HASH_FIND_PTR(database->pool_table, &filed_by, pool);
	return pool ? pool : add_pool(database, role, is_for_lookups);
}

struct pool *pools_pool(struct database *database, const char *user)
{
	return pools_exact_pool(database, database->entry->user ? database->entry->user : user,
	                        false);
}

struct pool *pools_lookup_pool(struct database *database, const char *user)
{
	return pools_exact_pool(database, user, true);
}

const struct pool *pools_lookup_sibling(const struct pool *pool)
{
	const void *filed_by = pools_file_by(pool->role, !pool->is_for_lookups);
	const struct pool *sibling;

	HASH_FIND_PTR(pool->database->pool_table, &filed_by, sibling);
	return sibling;
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
	credentials_done(&pool->learnt);
	hosts_done(&pool->site.hosts);
	HASH_DEL(pool->database->pool_table, pool);
	TAILQ_REMOVE(&pools->list, pool, node);
	pool->database->pool_count--;
	pools->pool_count--;
	pool->role->pool_count--;
	role_forget_unused(pools, pool->role);
	slab_put(&pools->pool_slab, pool);
}

void pools_pool_expired(struct timer *timer)
{
	struct pool *pool = (struct pool *)((char *)timer - offsetof(struct pool, rest));

	if (!pool_is_empty(pool))
		return;
	log_info(&pool->log, "cleaning up idle pool %s/%s", pool->database->name, pool->role->name);
	pools_forget_pool(pool);
}

bool pool_is_empty(const struct pool *pool)
{
	return pool->member_count == 0 && pool->server_count == 0 &&
	       TAILQ_EMPTY(&pool->servers[SERVER_CLOSING]) && pool->cancel_count == 0;
}

static struct timer_queue *expiry_of(const struct pool *pool)
{
	const struct config_database *entry = pool->database->entry;

	if (entry && entry->user && pool->limits.min_size)
		return NULL; /* it keeps servers without clients */
	return pool->pools->pool_expiry;
}

void pool_rearm(struct pool *pool)
{
	if (pool_is_empty(pool))
		timer_change(&pool->rest, expiry_of(pool));
}

void pool_arm_expiry(struct pool *pool)
{
	struct pools *pools = pool->pools;
	const struct config_database *entry = pool->database->entry;

	if (pools->is_closing || !pool_is_empty(pool))
		return;
	if (!entry && pool->database->client_count == 0 && pool->database->server_count == 0) {
		pools_sweep_later(pools); /* the entry is gone from the configuration */
		return;
	}
	if (entry && !pool_is_current(pool))
		pools_sweep_later(pools); /* nobody will come to it */
	timer_set(&pool->rest, expiry_of(pool), loop_now(pools->with.loop));
	database_arm_expiry(pool->database);
}

/* ---- all of them ---- */

struct pools *pools_new(const struct pools_with *with, const struct config *config,
                        struct users *users, struct err *err)
{
	struct pools *pools = calloc(1, sizeof(*pools));

	if (!pools) {
		err_set(err, ERR_MEMORY, "out of memory");
		return NULL;
	}
	if (!statements_init(&pools->statements)) {
		err_set(err, ERR_INTERNAL, "the system has no random numbers");
		free(pools);
		return NULL;
	}
	hash_key_draw(&pools->secret);
	pools->with = *with;
	pools->shared = (struct server_shared){
		.loop = with->loop,
		.log = with->log,
		.streams = with->streams,
		.resolver = with->resolver,
		.workers = with->workers,
		.slow_workers = with->slow_workers,
		.verifiers = with->verifiers,
		.params = with->params,
		.statements = &pools->statements,
		.endings = &pools->endings,
		.errand_message = &pools->errand_message,
		.sockets = &pools->server_sockets,
		.tls = with->tls,
	};
	pools->tls = with->tls ? tls_context_ref(with->tls) : NULL;
	slab_init(&pools->server_slab, "server_cache", sizeof(struct server));
	slab_init(&pools->pool_slab, "pool_cache", sizeof(struct pool));
	slab_init(&pools->database_slab, "db_cache", sizeof(struct database));
	slab_init(&pools->role_slab, "user_cache", sizeof(struct role));
	slab_init(&pools->cancel_slab, "cancel_cache", sizeof(struct cancel));
	peer_pools_init(&pools->peers);
	TAILQ_INIT(&pools->databases);
	TAILQ_INIT(&pools->roles);
	TAILQ_INIT(&pools->list);
	TAILQ_INIT(&pools->servers);
	TAILQ_INIT(&pools->watches);
	TAILQ_INIT(&pools->walks);
	pools->watch_task.run = pools_ask_watches;
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
	struct pool *pool;

	if (!pools)
		return;
	*poolsp = NULL;
	pools->is_closing = true;
	TAILQ_FOREACH (pool, &pools->list, node)
		pool_close_all(pool, "server shutting down");
	while ((server = TAILQ_FIRST(&pools->servers)))
		pool_remove_server(server);
	TAILQ_FOREACH (pool, &pools->list, node)
		cancel_drop_all(pool);
	peer_pools_done(pools);
	while (!TAILQ_EMPTY(&pools->databases))
		pools_forget_database(TAILQ_FIRST(&pools->databases));
	while (!TAILQ_EMPTY(&pools->roles))
		role_free(pools, TAILQ_FIRST(&pools->roles));
	loop_undefer(pools->with.loop, &pools->watch_task);
	loop_undefer(pools->with.loop, &pools->sweep_task);
	buf_free(&pools->errand_text);
	buf_free(&pools->errand_message);
	slab_done(&pools->server_slab);
	slab_done(&pools->pool_slab);
	slab_done(&pools->database_slab);
	slab_done(&pools->role_slab);
	slab_done(&pools->cancel_slab);
	config_unref(&pools->config);
	users_release(&pools->users);
	tls_context_unref(&pools->tls);
	free(pools);
}
