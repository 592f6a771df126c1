/* SPDX-License-Identifier: ISC */
/*
 * DRAIN for the listener and the service manager; client/drain.c disconnects the clients.
 *
 * Hard here: the order. The port is left to other instances before the first client is
 * disconnected, so that clients do not reconnect here. The DRAIN is marked as active before
 * the last connections are accepted, so that their logins are refused with a request to try
 * again.
 */
#include "daemon_priv.h"

#include "pgweir/base/banned.h"

void main_drain_begin(struct daemon *daemon, usec_t limit)
{
	struct lane *lane;

	lanes_hold(&daemon->lanes);
	LANES_EACH(lane, &daemon->lanes)
	drain_begin(lane->clients, limit);
	lanes_release(&daemon->lanes);
	listener_unlisten(daemon->listener);
	notify_send(&daemon->notify, "STATUS=draining");
}

void main_drain_end(struct daemon *daemon)
{
	struct lane *lane;

	if (!daemon->lanes.at[0].clients->drain.is_on)
		return;
	lanes_hold(&daemon->lanes);
	LANES_EACH(lane, &daemon->lanes)
	drain_end(lane->clients);
	lanes_release(&daemon->lanes);
	listener_relisten(daemon->listener);
	notify_send(&daemon->notify, "STATUS=ready");
}
