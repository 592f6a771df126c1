/* SPDX-License-Identifier: ISC */
/*
 * How the login of a server ended, and what that means for the pool.
 *
 *   pool_login_done    the server can be lent
 *   pool_login_failed  another host, a later attempt, or waiting borrowers are refused
 */
#include "outage_priv.h"
#include "pool_priv.h"
#include "server/server_priv.h"

void pool_login_done(struct server *server)
{
	struct pool *pool = server->pool;

	outage_of_server_over(server);
	pools_note_time(pool, LATENCY_SERVER_LOGIN, server->connected_at,
	                loop_now(pool_loop(pool)));
	if (server->replication) {
		pool_dedicated_login_done(server);
		return;
	}
	if (server->is_listening) {
		listening_login_done(server);
		return;
	}
	if (pool->site.roster && pool->pools->config->host_check_borrow)
		cluster_lend_login(pool->pools->with.broker, share_cluster(&pool->share),
		                   pool->site.user, pool_credentials(pool));
	if (!pool->has_welcome)
		pool_learn_welcome(server);
	pool_note_success(server);
	pool_end_login(server);
	if (share_servers(&pool->share) < (unsigned int)pool->limits.min_size)
		share_wake_others(&pool->share); /* if their clients are all that is left */
	server->sequences = SEQUENCES_NONE;
	server_login_free(server);
	timer_set(&server->life, pool->site.limits.life, server->connected_at);
	pool_home(server);
	pool_wake(pool);
}

void pool_login_failed(struct server *server, const struct err *err)
{
	struct pool *pool = server->pool;

	bool is_ours = err->code == ERR_ADMIN_SHUTDOWN || pool_is_unfit(err);

	if (!is_ours) { /* else we closed it ourselves */
		pool->failed_at = loop_now(pool->pools->with.loop);
		outage_of_server(server, err);
	}
	if (server->replication) {
		pool_dedicated_login_failed(server, err);
		return;
	}
	if (server->is_listening) {
		listening_login_failed(server, err);
		return;
	}
	if (!is_ours) {
		pool_note_failure(server, err);
		pool_refuse_for_failure(pool);
	}
	if (pool_is_unfit(err))
		pool_note_answer(server);
	pool_wake(pool);
	pool_end_login(server);
}
