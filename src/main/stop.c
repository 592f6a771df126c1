/* SPDX-License-Identifier: ISC */
/*
 * Shutdown: by signal, from the console, or by the process that has taken over from this
 * one.
 */
#include "stop.h"

#include "pgweir/base/container_of.h"

#include "daemon_priv.h"

static bool lane_stop_is_due(const struct daemon *daemon, const struct lane *lane)
{
	if (daemon->shutdown == SHUTDOWN_SERVERS)
		return lane->pools->server_count == lane->pools->listening_count;
	if (lane->pools->ending_count)
		return false; /* for 10 s at most */
	/* Consoles and unfinished logins do not delay a shutdown that has a deadline. */
	return (lane->clients->count == 0 && lane->arriving_count == 0) ||
	       (daemon->is_draining_to_end && lane->clients->drain.is_done);
}

/*
 * From here on new clients are refused. Connections in letters to a lane have no id yet, and
 * count as clients that have connected before: they are waited for.
 */
static void stop_admitting(struct daemon *daemon)
{
	bool is_anyone_arriving = false;
	struct lane *lane;
	uint64_t id;

	LANES_EACH(lane, &daemon->lanes)
	is_anyone_arriving |= lane->arriving_count > 0;
	if (is_anyone_arriving || daemon->lanes.at[0].clients->shutdown_id != UINT64_MAX)
		return;
	id = broker_next_id(daemon->broker);
	LANES_EACH(lane, &daemon->lanes)
	lane->clients->shutdown_id = id;
}

static bool stop_is_due(struct pools_watch *watch)
{
	struct daemon *daemon = container_of(watch, struct daemon, watch);
	const struct lane *lane;
	bool is_due = true;

	if (daemon->shutdown == SHUTDOWN_SERVERS && broker_is_moving(daemon->broker))
		return false;
	lanes_hold(&daemon->lanes);
	stop_admitting(daemon);
	LANES_EACH(lane, &daemon->lanes)
	is_due &= lane_stop_is_due(daemon, lane);
	lanes_release(&daemon->lanes);
	return is_due;
}

static void on_stop_due(struct pools_watch *watch)
{
	struct daemon *daemon = container_of(watch, struct daemon, watch);

	log_kept(&daemon->logger, LOG_LEVEL_INFO, "shutdown", "%s, shutting down",
	         daemon->shutdown == SHUTDOWN_SERVERS ? "all server connections are closed"
	                                              : "all clients have disconnected");
	daemon->shutdown = SHUTDOWN_NONE;
	loop_stop(daemon->loop);
}

void stop_watching(struct daemon *daemon)
{
	timer_clear(&daemon->announced);
	if (daemon->shutdown == SHUTDOWN_SERVERS || daemon->shutdown == SHUTDOWN_CLIENTS)
		watches_stop(&daemon->watches, &daemon->watch);
	daemon->shutdown = SHUTDOWN_NONE;
}

/*
 * SHUTDOWN_CLIENTS waits for all clients that have connected before, even if their login is
 * not complete, or if the kernel still has the connection in the backlog. SHUTDOWN_SERVERS
 * waits for no client.
 */
static void stop_accepting(struct daemon *daemon, enum shutdown_state how)
{
	bool is_first = !daemon->lanes.at[0].clients->is_shutting_down;
	struct lane *lane;

	LANES_EACH(lane, &daemon->lanes)
	{
		struct clients *clients = lane->clients;

		clients->is_shutting_down = true;
		clients->shutdown_id = how == SHUTDOWN_SERVERS ? 0
		                       : is_first              ? UINT64_MAX
		                                               : clients->shutdown_id;
	}
	listener_close_tcp(daemon->listener);
	stop_admitting(daemon);
}

static void stop_gracefully(struct daemon *daemon, enum shutdown_state how)
{
	struct lane *lane;
	struct err err;

	lanes_hold(&daemon->lanes);
	stop_watching(daemon);
	suspend_end(daemon); /* a suspended client could never disconnect */
	daemon->shutdown = how;
	stop_accepting(daemon, how);
	takeover_stop(daemon->takeover, how == SHUTDOWN_SERVERS ? SHUTDOWN_WAIT_FOR_SERVERS
	                                                        : SHUTDOWN_WAIT_FOR_CLIENTS);
	if (how == SHUTDOWN_SERVERS) {
		err_close(&err, CLOSE_SERVER_SHUTDOWN);
		LANES_EACH(lane, &daemon->lanes)
		{
			pools_pause(lane->pools, NULL, "shutdown");
			pools_refuse_waiting(lane->pools, &err);
		}
	}
	daemon->watch = (struct pools_watch){ .is_done = stop_is_due, .on_done = on_stop_due };
	watches_start(&daemon->watches, &daemon->watch);
	lanes_release(&daemon->lanes);
}

void stop_daemon(struct daemon *daemon, enum shutdown_kind kind)
{
	if (kind == SHUTDOWN_NOW)
		loop_stop(daemon->loop);
	else
		stop_gracefully(daemon, kind == SHUTDOWN_WAIT_FOR_SERVERS ? SHUTDOWN_SERVERS
		                                                          : SHUTDOWN_CLIENTS);
}
