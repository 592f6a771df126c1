/* SPDX-License-Identifier: ISC */
/*
 * SUSPEND for servers: each is stopped between two messages.
 *
 *   idle, or lent     --> stopped: it may still send the rest of its current message
 *   runs an errand    --> the errand (reset, check, parameters) ends first
 *   logging in        --> closed: it can be launched again
 */
#include "pgweir/base/text.h"

#include "pool_priv.h"
#include "server/server_priv.h"

static bool is_logging_in(const struct server *server)
{
	return server->state == SERVER_CONNECTING || server->state == SERVER_LOGIN;
}

void pools_suspend(struct pools *pools, const char *by)
{
	pools->hold.since = loop_now(pools->with.loop);
	text_copy(pools->hold.by, sizeof(pools->hold.by), by);
	struct server *server, *next;
	struct err err;

	pools->suspend = SUSPEND_QUIESCING;
	err_close(&err, CLOSE_SUSPENDED);
	for (server = TAILQ_FIRST(&pools->servers); server; server = next) {
		next = TAILQ_NEXT(server, all_node);
		if (is_logging_in(server))
			server_close(server, &err);
	}
}

static bool quiesce_server(struct server *server)
{
	if (!stream_is_open(&server->stream) || server->state == SERVER_ENDING)
		return true; /* what it still sends is dropped */
	if (server->errand != ERRAND_NONE)
		return false;
	if (!stream_is_halted(&server->stream))
		stream_halt(&server->stream, server->frame_left);
	return server_is_quiescent(server);
}

bool pools_quiesce(struct pools *pools)
{
	struct server *server;
	bool is_done = true;

	TAILQ_FOREACH (server, &pools->servers, all_node)
		is_done &= quiesce_server(server);
	return is_done;
}

void pools_drop_busy(struct pools *pools, const struct err *err)
{
	struct server *server, *next;

	for (server = TAILQ_FIRST(&pools->servers); server; server = next) {
		next = TAILQ_NEXT(server, all_node);
		if (stream_is_open(&server->stream) && !server_is_quiescent(server))
			server_close(server, err);
	}
}

void pools_go_on(struct pools *pools)
{
	struct server *server;
	struct pool *pool;

	pools->suspend = SUSPEND_NONE;
	TAILQ_FOREACH (server, &pools->servers, all_node) {
		if (stream_is_open(&server->stream) && stream_is_halted(&server->stream))
			stream_go_on(&server->stream);
	}
	TAILQ_FOREACH (pool, &pools->list, node)
		pool_wake(pool);
	pools_changed(pools);
}

void pools_suspended(struct pools *pools)
{
	pools->suspend = SUSPEND_DONE;
	pools_changed(pools);
}
