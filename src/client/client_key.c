/* SPDX-License-Identifier: ISC */
/*
 * Gives a client its cancel key: random bytes that no other client has. With peers, the key also
 * contains the id of this instance, and with several loops the number of the client's.
 */
#include "pgweir/auth/digest.h"
#include "pgweir/pgwire/startup.h"

#include "client_priv.h"

/* Copies random bytes from clients->random. */
static void draw(struct clients *clients, void *out, size_t count)
{
	if (clients->random_left < count) {
		digest_random(clients->random, sizeof(clients->random));
		clients->random_left = sizeof(clients->random);
	}
	clients->random_left -= count;
	memcpy(out, clients->random + clients->random_left, count);
	explicit_bzero(clients->random + clients->random_left, count);
}

bool client_key_give(struct client *client)
{
	struct clients *clients = client->clients;
	bool is_long = startup_agreed(client->login->minor) == PROTOCOL_3_2;
	unsigned char drawn[CANCEL_KEY_LONG_SIZE];
	struct bytes key = bytes_of(drawn, is_long ? CANCEL_KEY_LONG_SIZE : CANCEL_KEY_SIZE);
	bool is_added;

	do {
		draw(clients, drawn, key.count);
		drawn[0] &= 0x7f;
		if (clients->config->peer_id)
			cancel_key_sign(drawn, clients->config->peer_id);
		if (clients->with.loop_count > 1)
			cancel_key_set_loop(drawn, clients->with.loop_number,
			                    clients->with.loop_count);
	} while (cancel_keys_find(&clients->keys, key));
	is_added = cancel_keys_add(&clients->keys, client, key);
	explicit_bzero(drawn, sizeof(drawn));
	if (!is_added)
		client_refuse_for(client, CLOSE_MEMORY);
	return is_added;
}
