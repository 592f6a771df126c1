/* SPDX-License-Identifier: ISC */
/* The administrator's commands on pools; and the servers of a loop by their hosts. */
#include "pgweir/pool/pools.h"

#include <string.h>

#include "pgweir/base/text.h"

#include "pool_priv.h"
#include "server/server_priv.h"

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

static void wake_pool(struct pool *pool, enum close_reason reason)
{
	(void)reason;
	pool_wake(pool);
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
	each_pool(pools, database, wake_pool, CLOSE_NONE);
	host_watches_update(pools);
	pools_changed(pools); /* a console that waits for the PAUSE must stop waiting */
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
	pools_changed(pools);
}

void pools_suspended(struct pools *pools)
{
	pools->suspend = SUSPEND_DONE;
	pools_changed(pools);
}

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
