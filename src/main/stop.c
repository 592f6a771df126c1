/* SPDX-License-Identifier: ISC */
/*
 * How work comes to rest, and ends: SUSPEND, DRAIN, shutdown.
 */
#include "daemon_priv.h"

#include <inttypes.h>
#include <stddef.h>

#include "pgweir/base/container_of.h"

/*
 * ---- SUSPEND: all connections come to rest between two messages, and stay at rest ----
 *
 *   NONE --> QUIESCING --[all at rest, or suspend_timeout]--> DONE --> NONE
 *
 * Hard here: only its peer decides when a message ends, so all connections are looked at again and
 * again. During QUIESCING new ones are accepted, because a cancel request may be needed to complete
 * it. In DONE they wait in the backlog.
 */

#define LOOK_PERIOD (USEC_PER_SEC / 50)

static void finish_suspend(struct daemon *daemon)
{
	struct lane *lane;

	doors_do(&daemon->doors, listener_pause);
	log_kept(&daemon->logger, LOG_LEVEL_INFO, "suspend", "suspended");
	LANES_EACH(lane, &daemon->lanes)
	pools_suspended(lane->pools);
}

static bool is_late(const struct daemon *daemon)
{
	usec_t limit = daemon->config->suspend_timeout;

	return limit && loop_now(daemon->loop) - daemon->suspended_at >= limit;
}

static void drop_undrained(struct daemon *daemon)
{
	struct lane *lane;
	struct err err;

	err_close(&err, CLOSE_SUSPEND_TIMEOUT);
	LANES_EACH(lane, &daemon->lanes)
	{
		clients_drop_busy(lane->clients, &err);
		pools_drop_busy(lane->pools, &err);
	}
}

static void look(struct timer *timer)
{
	struct daemon *daemon = container_of(timer, struct daemon, suspend);
	struct lane *lane;
	bool is_done = true;

	lanes_hold(&daemon->lanes);
	LANES_EACH(lane, &daemon->lanes)
	{
		is_done &= pools_quiesce(lane->pools);
		is_done &= clients_quiesce(lane->clients);
	}
	is_done &= !broker_is_moving(daemon->broker);
	if (!is_done && is_late(daemon)) {
		drop_undrained(daemon);
		is_done = true;
	}
	if (is_done)
		finish_suspend(daemon);
	else
		timer_begin(timer, daemon->loop, LOOK_PERIOD, look);
	lanes_release(&daemon->lanes);
}

void suspend_begin(struct daemon *daemon, const char *by)
{
	struct lane *lane;

	daemon->suspended_at = loop_now(daemon->loop);
	lanes_hold(&daemon->lanes);
	LANES_EACH(lane, &daemon->lanes)
	pools_suspend(lane->pools, by);
	look(&daemon->suspend);
	lanes_release(&daemon->lanes);
}

void suspend_end(struct daemon *daemon)
{
	struct lane *lane;

	timer_clear(&daemon->suspend);
	if (daemon->lanes.at[0].pools->suspend == SUSPEND_NONE)
		return;
	log_kept(&daemon->logger, LOG_LEVEL_INFO, "suspend", "SUSPEND ended");
	doors_do(&daemon->doors, listener_resume);
	LANES_HELD(lane, &daemon->lanes)
	{
		pools_go_on(lane->pools);
		clients_go_on(lane->clients);
	}
}

/*
 * ---- DRAIN; client/clients_stop.c disconnects the clients of each lane ----
 *
 * Hard here: the order. The port is left to other instances before the first client is
 * disconnected, so that clients do not reconnect here. The DRAIN is marked as active before the
 * last connections are accepted, so that their logins are refused with a request to try again.
 */

#define REPORT_PERIOD (10 * USEC_PER_SEC)

static void report(const struct daemon *daemon)
{
	struct drain_progress sum;
	char text[256];

	lanes_drain(&daemon->lanes, &sum);
	drain_describe(&sum, text, sizeof(text));
	log_info(&daemon->logger, "%s", text);
}

static void on_report(struct timer *timer)
{
	struct daemon *daemon = container_of(timer, struct daemon, drain.report);

	report(daemon);
	timer_begin(timer, daemon->loop, REPORT_PERIOD, on_report);
}

static void on_deadline(struct timer *timer)
{
	struct daemon *daemon = container_of(timer, struct daemon, drain.deadline);
	struct drain_progress sum;
	struct lane *lane;

	lanes_hold(&daemon->lanes);
	lanes_drain(&daemon->lanes, &sum);
	log_kept(&daemon->logger, LOG_LEVEL_WARNING, "drain",
	         "the deadline of DRAIN has passed: closing the %u clients left",
	         sum.left - sum.leaving);
	LANES_EACH(lane, &daemon->lanes)
	drain_overrun(lane->clients);
	lanes_release(&daemon->lanes);
}

/* ---- the last client ---- */

static bool is_drained(const struct daemon *daemon, struct drain_progress *sum)
{
	lanes_drain(&daemon->lanes, sum);
	return sum->is_on && !sum->left;
}

static bool watch_is_done(struct pools_watch *watch)
{
	struct drain_progress sum;

	return is_drained(container_of(watch, struct daemon, drain.watch), &sum);
}

static void on_drained(struct pools_watch *watch)
{
	struct daemon *daemon = container_of(watch, struct daemon, drain.watch);
	struct drain_progress sum;

	lanes_drain(&daemon->lanes, &sum);
	daemon->drain.is_watched = false;
	timer_clear(&daemon->drain.report);
	timer_clear(&daemon->drain.deadline);
	log_kept(&daemon->logger, LOG_LEVEL_INFO, "drain",
	         "drained: no client is left; %" PRIu64 " closed between transactions, %" PRIu64
	         " at the deadline",
	         sum.closed, sum.cut);
}

static void watch_clients(struct daemon *daemon)
{
	if (daemon->drain.is_watched)
		return;
	daemon->drain.is_watched = true;
	daemon->drain.watch =
	    (struct pools_watch){ .is_done = watch_is_done, .on_done = on_drained };
	watches_start(&daemon->watches, &daemon->drain.watch);
}

void main_drain_stop(struct daemon *daemon)
{
	timer_clear(&daemon->drain.report);
	timer_clear(&daemon->drain.deadline);
	if (daemon->drain.is_watched)
		watches_stop(&daemon->watches, &daemon->drain.watch);
	daemon->drain.is_watched = false;
}

/* ---- begin and end ---- */

void main_drain_clients(struct daemon *daemon, usec_t limit)
{
	usec_t now = loop_now(daemon->loop);
	struct timer_queue *at_deadline = limit && limit != DRAIN_NO_LIMIT
	                                      ? loop_timer_queue(daemon->loop, limit, on_deadline)
	                                      : NULL;
	struct lane *lane;

	lanes_hold(&daemon->lanes);
	LANES_EACH(lane, &daemon->lanes)
	drain_begin(lane->clients, limit);
	report(daemon);
	lanes_release(&daemon->lanes);
	timer_set(&daemon->drain.report, loop_timer_queue(daemon->loop, REPORT_PERIOD, on_report),
	          now);
	timer_set(&daemon->drain.deadline, at_deadline, now);
	watch_clients(daemon);
}

void main_drain_begin(struct daemon *daemon, usec_t limit)
{
	main_drain_clients(daemon, limit);
	doors_do(&daemon->doors, listener_unlisten);
	notify_send(&daemon->notify, "STATUS=draining");
}

void main_drain_end(struct daemon *daemon)
{
	struct drain_progress sum;
	struct lane *lane;

	if (!daemon->lanes.at[0].clients->drain.is_on)
		return;
	log_kept(&daemon->logger, LOG_LEVEL_INFO, "drain", "DRAIN %s, accepting clients",
	         is_drained(daemon, &sum) ? "ended" : "canceled");
	main_drain_stop(daemon);
	LANES_HELD(lane, &daemon->lanes)
	drain_end(lane->clients);
	doors_do(&daemon->doors, listener_relisten);
	notify_send(&daemon->notify, "STATUS=ready");
}

/* ---- shutdown ---- */

static bool lane_stop_is_due(const struct daemon *daemon, const struct lane *lane)
{
	if (daemon->shutdown == SHUTDOWN_SERVERS)
		return lane->pools->server_count == lane->pools->listening_count;
	if (lane->pools->ending_count)
		return false; /* for 10 s at most */
	/* Consoles and unfinished logins do not delay a shutdown that has a deadline. */
	return (lane->clients->count == 0 && lane->arriving_count == 0) ||
	       (daemon->is_draining_to_end && drain_is_done(lane->clients));
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

/* SHUTDOWN_CLIENTS waits for all that have connected before, those in the backlog too. */
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
	doors_do(&daemon->doors, listener_close_tcp);
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
