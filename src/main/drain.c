/* SPDX-License-Identifier: ISC */
/*
 * DRAIN, as far as the listener is concerned; clients are client/emptying.c.
 *
 * Hard here: the order. The port is left to its other instances before the first client is
 * sent away, so that nobody comes back to us; and it is known that we drain before the last
 * ones are let in, so that these are told to try again, and not let in and put out.
 */
#include "daemon_priv.h"

#include "pgweir/base/banned.h"

void main_drain_begin(struct daemon *daemon, usec_t limit)
{
	drain_begin(daemon->clients, limit);
	listener_unlisten(daemon->listener);
	notify_send(&daemon->notify, "STATUS=draining");
}

void main_drain_end(struct daemon *daemon)
{
	if (!daemon->clients->drain.is_on)
		return;
	drain_end(daemon->clients);
	listener_step_back(daemon->listener);
	notify_send(&daemon->notify, "STATUS=ready");
}
