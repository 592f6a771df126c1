/* SPDX-License-Identifier: ISC */
/*
 * DRAIN for the process: the listener, the service manager, the deadline and the log.
 * client/drain.c disconnects the clients of each lane.
 *
 * Hard here: the order. The port is left to other instances before the first client is
 * disconnected, so that clients do not reconnect here. The DRAIN is marked as active before
 * the last connections are accepted, so that their logins are refused with a request to try
 * again.
 */
#include <inttypes.h>

#include "pgweir/base/container_of.h"

#include "daemon_priv.h"

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
	timer_set(timer, loop_timer_queue(daemon->loop, REPORT_PERIOD, on_report),
	          loop_now(daemon->loop));
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
	return sum->is_done;
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
	listener_unlisten(daemon->listener);
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
	lanes_hold(&daemon->lanes);
	LANES_EACH(lane, &daemon->lanes)
	drain_end(lane->clients);
	lanes_release(&daemon->lanes);
	listener_relisten(daemon->listener);
	notify_send(&daemon->notify, "STATUS=ready");
}
