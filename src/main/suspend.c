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

#include "pgweir/base/banned.h"

#define LOOK_PERIOD (USEC_PER_SEC / 50)

static void finish_suspend(struct daemon *daemon)
{
	listener_pause(daemon->listener);
	log_info(&daemon->logger, "suspended");
	pools_suspended(daemon->pools);
}

static bool is_late(const struct daemon *daemon)
{
	usec_t limit = daemon->config->suspend_timeout;

	return limit && loop_now(daemon->loop) - daemon->suspended_at >= limit;
}

static void drop_undrained(struct daemon *daemon)
{
	struct err err;

	err_close(&err, CLOSE_SUSPEND_TIMEOUT);
	clients_drop_busy(daemon->clients, &err);
	pools_drop_busy(daemon->pools, &err);
}

static void look(struct timer *timer)
{
	struct daemon *daemon = container_of(timer, struct daemon, suspend);
	bool is_done = pools_quiesce(daemon->pools);

	is_done &= clients_quiesce(daemon->clients);
	if (!is_done && is_late(daemon)) {
		drop_undrained(daemon);
		is_done = true;
	}
	if (is_done)
		finish_suspend(daemon);
	else
		timer_set(timer, loop_timer_queue(daemon->loop, LOOK_PERIOD, look),
		          loop_now(daemon->loop));
}

void suspend_begin(struct daemon *daemon, const char *by)
{
	daemon->suspended_at = loop_now(daemon->loop);
	pools_suspend(daemon->pools, by);
	look(&daemon->suspend);
}

void suspend_end(struct daemon *daemon)
{
	timer_clear(&daemon->suspend);
	if (daemon->pools->suspend == SUSPEND_NONE)
		return;
	log_info(&daemon->logger, "SUSPEND ended");
	listener_resume(daemon->listener);
	pools_go_on(daemon->pools);
	clients_go_on(daemon->clients);
}
