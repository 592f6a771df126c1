/* SPDX-License-Identifier: ISC */
/*
 * SUSPEND: all connections come to rest between two messages, and stay at rest.
 *
 *   NONE --> QUIESCING --[all at rest, or suspend_timeout]--> DONE --> NONE
 *
 * Hard here: a connection may be in the middle of a message of any length, and only its
 * peer decides when the message ends. So all connections are looked at again and again. The
 * cost grows with their number, but only while connections are brought to rest.
 *
 * During QUIESCING new connections are accepted, because a cancel request may be needed to
 * complete it. In DONE they wait in the backlog.
 */
#include <stddef.h>

#include "pgweir/base/container_of.h"

#include "daemon_priv.h"

#define LOOK_PERIOD (USEC_PER_SEC / 50)

static void finish_suspend(struct daemon *daemon)
{
	struct lane *lane;

	listener_pause(daemon->listener);
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
		timer_set(timer, loop_timer_queue(daemon->loop, LOOK_PERIOD, look),
		          loop_now(daemon->loop));
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
	listener_resume(daemon->listener);
	lanes_hold(&daemon->lanes);
	LANES_EACH(lane, &daemon->lanes)
	{
		pools_go_on(lane->pools);
		clients_go_on(lane->clients);
	}
	lanes_release(&daemon->lanes);
}
