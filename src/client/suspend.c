/* SPDX-License-Identifier: ISC */
/*
 * SUSPEND for clients: each is stopped between two messages, except console clients, which issue
 * RESUME.
 *
 * A client that connects during SUSPEND may send a CancelRequest, which may end what the SUSPEND
 * waits for. Any other startup packet is not read until RESUME: suspend_holds().
 */
#include "client_priv.h"

static bool is_dedicated(const struct client *client)
{
	switch (client->state) {
	case CLIENT_CONSOLE:
	case CLIENT_CANCELING:
	case CLIENT_ROUTING:
	case CLIENT_LINGERING:
	case CLIENT_CLOSED:
		return true;
	default:
		return false;
	}
}

static bool is_drained(const struct client *client)
{
	const struct server *server = client->borrower.server;

	if (!stream_is_halted(&client->stream))
		return false;
	if (server && !server_is_quiescent(server))
		return false;
	return client->stream.tls ||
	       (client->frame_left == 0 && stream_unsent(&client->stream) == 0);
}

bool clients_quiesce(struct clients *clients)
{
	struct client *client;
	bool is_done = true;

	TAILQ_FOREACH (client, &clients->list, node) {
		if (is_dedicated(client) || client->state == CLIENT_STARTUP)
			continue;
		if (!stream_is_halted(&client->stream))
			stream_halt(&client->stream, client->frame_left);
		is_done &= is_drained(client);
	}
	return is_done;
}

void clients_drop_busy(struct clients *clients, const struct err *err)
{
	struct clients_walk walk;
	struct client *client;

	clients_walk_start(clients, &walk);
	while ((client = walk.next)) {
		walk.next = TAILQ_NEXT(client, node);
		if (!is_dedicated(client) && client->state != CLIENT_STARTUP && !is_drained(client))
			client_fatal(client, err);
	}
	clients_walk_stop(clients, &walk);
}

void clients_go_on(struct clients *clients)
{
	struct clients_walk walk;
	struct client *client;

	clients_walk_start(clients, &walk);
	while ((client = walk.next)) {
		walk.next = TAILQ_NEXT(client, node);
		if (!stream_is_open(&client->stream) || !stream_is_halted(&client->stream))
			continue;
		stream_go_on(&client->stream);
		if (client->state == CLIENT_STARTUP)
			client_judge_kept(client);
	}
	clients_walk_stop(clients, &walk);
}

bool suspend_holds(struct client *client)
{
	if (client->clients->with.pools->suspend == SUSPEND_NONE)
		return false;
	stream_halt(&client->stream, 0);
	return true;
}
