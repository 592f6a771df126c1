/* SPDX-License-Identifier: ISC */
/*
 * All pools: made and freed.
 */
#include "pgweir/pool/pools.h"

#include <stdlib.h>

#include "host_watches_priv.h"
#include "pool_priv.h"
#include "server/server_priv.h"

struct pools *pools_new(const struct pools_with *with, const struct config *config,
                        struct users *users, struct err *err)
{
	struct pools *pools = calloc(1, sizeof(*pools));

	if (!pools) {
		err_set(err, ERR_MEMORY, "out of memory");
		return NULL;
	}
	if (!statements_init(&pools->statements, with->statement_names)) {
		err_set(err, ERR_INTERNAL, "the system provides no random numbers");
		free(pools);
		return NULL;
	}
	hash_key_draw(&pools->secret);
	pools->last_line_number = (uint64_t)1 << 32; /* pool_wait_first() counts downwards */
	pools->with = *with;
	broker_join(with->broker, &pools->member, with->loop);
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
		.closes = &pools->closes,
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
	TAILQ_INIT(&pools->queueing);
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
	struct pool *pool;

	if (!pools)
		return;
	*poolsp = NULL;
	pools->is_closing = true;
	host_watches_free(&pools->host_watches);
	TAILQ_FOREACH (pool, &pools->list, node)
		pool_close_all(pool, CLOSE_SERVER_SHUTDOWN);
	while ((server = TAILQ_FIRST(&pools->servers))) {
		if (server->state == SERVER_ENDING)
			server_forget(server);
		pool_remove_server(server);
	}
	TAILQ_FOREACH (pool, &pools->list, node)
		cancel_drop_all(pool);
	peer_pools_done(pools);
	while (!TAILQ_EMPTY(&pools->databases))
		pools_forget_database(TAILQ_FIRST(&pools->databases));
	while (!TAILQ_EMPTY(&pools->roles))
		role_free(pools, TAILQ_FIRST(&pools->roles));
	loop_undefer(pools->with.loop, &pools->sweep_task);
	buf_free(&pools->errand_text);
	buf_free(&pools->errand_message);
	broker_leave(&pools->member);
	slab_done(&pools->server_slab);
	slab_done(&pools->pool_slab);
	slab_done(&pools->database_slab);
	slab_done(&pools->role_slab);
	slab_done(&pools->cancel_slab);
	sqlstates_done(&pools->sqlstates);
	sparse_sum_free(&pools->closes.of_none);
	config_unref(&pools->config);
	users_release(&pools->users);
	tls_context_unref(&pools->tls);
	free(pools);
}
