/* SPDX-License-Identifier: ISC */
/*
 * Finds clients by their cancel keys.
 *
 * Our keys are random, so some of their bytes serve as the hash. The bytes with id and TTL for
 * peers (cancel_keys.h) are left out. In the one with the loop, some bits may be the same for all
 * keys, so it is mixed with another.
 *
 * Clients that were taken over together with what they share keep together, and their keys too: one
 * may lead to another loop.
 */
#include "pgweir/client/cancel_keys.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/client/client.h"

/* ---- what a key contains ---- */

#define ID_LOW 1
#define ID_HIGH 2
#define LOOP 6
#define TTL 7
#define TTL_MASK 3u

void cancel_key_sign(unsigned char key[CANCEL_KEY_SIGNED_SIZE], int peer_id)
{
	key[ID_LOW] = (unsigned char)(peer_id & 0xff);
	key[ID_HIGH] = (unsigned char)(peer_id >> 8);
	cancel_key_set_ttl(key, CANCEL_KEY_TTL_MAX);
}

int cancel_key_peer(struct bytes key)
{
	const unsigned char *at = (const unsigned char *)key.at;

	return key.count < CANCEL_KEY_SIGNED_SIZE ? 0 : at[ID_LOW] | at[ID_HIGH] << 8;
}

unsigned int cancel_key_ttl(struct bytes key)
{
	return ((const unsigned char *)key.at)[TTL] & TTL_MASK;
}

void cancel_key_set_ttl(unsigned char key[CANCEL_KEY_SIGNED_SIZE], unsigned int ttl)
{
	key[TTL] = (unsigned char)((key[TTL] & ~TTL_MASK) | (ttl & TTL_MASK));
}

unsigned int cancel_key_loop(struct bytes key, unsigned int loops)
{
	return key.count < CANCEL_KEY_SIGNED_SIZE ? 0 : (unsigned char)key.at[LOOP] % loops;
}

void cancel_key_set_loop(unsigned char key[CANCEL_KEY_SIGNED_SIZE], unsigned int loop,
                         unsigned int loops)
{
	unsigned int byte = key[LOOP] - key[LOOP] % loops + loop;

	assert(loop < loops && loops <= CANCEL_KEY_LOOPS_MAX);
	key[LOOP] = (unsigned char)(byte > 255 ? byte - loops : byte);
}

#define CHAINS_FIRST 64
#define HASH_AT 3 /* after the id, and before the TTL */

bool cancel_keys_init(struct cancel_keys *keys)
{
	*keys = (struct cancel_keys){ .chain_count = CHAINS_FIRST };
	slab_init(&keys->long_slab, "long_key_cache", CANCEL_KEY_LONG_SIZE);
	keys->chains = calloc(keys->chain_count, sizeof(struct client *));
	return keys->chains != NULL;
}

void cancel_keys_done(struct cancel_keys *keys)
{
	assert(keys->count == 0);
	free(keys->chains);
	keys->chains = NULL;
	slab_done(&keys->long_slab);
}

static struct client **chain_of(const struct cancel_keys *keys, struct bytes key)
{
	uint32_t hash;

	memcpy(&hash, key.at + HASH_AT, sizeof(hash));
	hash ^= hash >> 16;
	return &keys->chains[hash & (keys->chain_count - 1)];
}

struct bytes client_key(const struct client *client)
{
	return bytes_of(client->key_size > CANCEL_KEY_SIZE ? client->long_key : client->key,
	                client->key_size);
}

struct client *cancel_keys_find(const struct cancel_keys *keys, struct bytes key)
{
	struct client *client;

	if (key.count < CANCEL_KEY_SIZE)
		return NULL;
	client = *chain_of(keys, key);
	while (client && !bytes_equal_secret(client_key(client), key))
		client = client->key_next;
	return client;
}

static void link_in(struct cancel_keys *keys, struct client *client)
{
	struct client **chain = chain_of(keys, client_key(client));

	client->key_next = *chain;
	*chain = client;
}

/* Without memory the chains only become longer. */
static void grow(struct cancel_keys *keys)
{
	size_t old_count = keys->chain_count;
	struct client **old = keys->chains;
	struct client **chains = calloc(2 * old_count, sizeof(struct client *));

	if (!chains)
		return;
	keys->chains = chains;
	keys->chain_count = 2 * old_count;
	for (size_t i = 0; i < old_count; i++) {
		struct client *client, *next;

		for (client = old[i]; client; client = next) {
			next = client->key_next;
			link_in(keys, client);
		}
	}
	free(old);
}

static void count_stray(struct cancel_keys *keys, struct bytes key, unsigned int change)
{
	struct cancel_keys_shared *shared = keys->shared;

	if (shared && cancel_key_loop(key, shared->loop_count) != keys->loop_number)
		atomic_fetch_add_explicit(&shared->stray_count, change, memory_order_relaxed);
}

unsigned int cancel_keys_next_loop(const struct cancel_keys *keys, struct bytes key, bool has_asked)
{
	const struct cancel_keys_shared *shared = keys->shared;
	unsigned int first, next;

	if (!shared)
		return keys->loop_number;
	first = cancel_key_loop(key, shared->loop_count);
	if (!has_asked && first != keys->loop_number)
		return first;
	next = (keys->loop_number + 1) % shared->loop_count;
	if (next == first || !atomic_load_explicit(&shared->stray_count, memory_order_relaxed))
		return keys->loop_number;
	return next;
}

bool cancel_keys_add(struct cancel_keys *keys, struct client *client, struct bytes key)
{
	bool is_long = key.count > CANCEL_KEY_SIZE;

	assert(!client->key_size &&
	       (key.count == CANCEL_KEY_SIZE || key.count == CANCEL_KEY_LONG_SIZE));
	if (is_long) {
		client->long_key = slab_take(&keys->long_slab);
		if (!client->long_key)
			return false;
	}
	memcpy(is_long ? client->long_key : client->key, key.at, key.count);
	client->key_size = (uint8_t)key.count;
	if (keys->count++ >= CANCEL_KEYS_CHAIN * keys->chain_count)
		grow(keys);
	link_in(keys, client);
	count_stray(keys, client_key(client), 1);
	return true;
}

void cancel_keys_remove(struct cancel_keys *keys, struct client *client)
{
	struct client **at;

	if (!client->key_size)
		return;
	at = chain_of(keys, client_key(client));
	while (*at != client)
		at = &(*at)->key_next;
	*at = client->key_next;
	count_stray(keys, client_key(client), -1U);
	if (client->key_size > CANCEL_KEY_SIZE)
		slab_put(&keys->long_slab, client->long_key);
	explicit_bzero(client->key, sizeof(client->key));
	client->key_next = NULL;
	client->key_size = 0;
	keys->count--;
}
