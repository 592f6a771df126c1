/* SPDX-License-Identifier: ISC */
/*
 * A client that brought a CancelRequest for another one. It is told nothing; its
 * connection stays open until the cancel has been delivered, so that it knows.
 */
#include "client_priv.h"

#include "pgweir/base/banned.h"

static void on_end(void *arg)
{
	struct client *client = arg;

	client->cancel = NULL;
	client_close(client, NULL);
}

void canceling_begin(struct client *client, struct bytes key)
{
	struct clients *clients = client->clients;
	struct client *target = NULL;
	struct err err;

	client_enter(client, CLIENT_CANCELING);
	timer_clear(&client->timer);
	stream_want(&client->stream, WANT_NOTHING);
	if (key.count == CLIENT_KEY_SIZE)
		HASH_FIND(key_hh, clients->by_key, key.at, key.count, target);
	if (!target) {
		client_close(client, "failed cancel request");
		return;
	}
	if (target->state == CLIENT_CONSOLE) {
		clients->with.door->cancel(target->console);
		client_close(client, NULL);
		return;
	}
	if (target->state == CLIENT_WAITING) {
		relay_cancel_waiting(target);
		client_close(client, NULL);
		return;
	}
	client->cancel = cancel_start(&target->borrower, on_end, client, &err);
	if (!client->cancel && client->state != CLIENT_CLOSED)
		client_close(client, err.text);
}
