/* SPDX-License-Identifier: ISC */
/*
 * Finds clients by their cancel keys. The table has chains, linked through the clients, so an idle
 * client costs little more than one pointer here. A chain has at most CANCEL_KEYS_CHAIN clients on
 * average.
 *
 * A short key is stored in its client, a long key (protocol 3.2) in a slab of the table.
 */
#ifndef PGWEIR_CLIENT_CANCEL_KEYS_H
#define PGWEIR_CLIENT_CANCEL_KEYS_H

#include <stdatomic.h>

#include "pgweir/base/bytes.h"
#include "pgweir/base/slab.h"

#define CANCEL_KEYS_CHAIN 4

struct client;

struct cancel_keys {
	struct client **chains; /* linked through client->key_next */
	size_t chain_count;     /* a power of two */
	size_t count;           /* clients in the table */
	struct slab long_slab;
	unsigned int loop_number;
	struct cancel_keys_shared *shared; /* NULL: there is one loop */
};

/* What all loops of a process have in common: clients whose keys lead to another loop. */
struct cancel_keys_shared {
	unsigned int loop_count;
	atomic_uint stray_count;
};

/* false: no memory; cancel_keys_done() may be called all the same. */
bool cancel_keys_init(struct cancel_keys *keys);

/* The table must be empty. */
void cancel_keys_done(struct cancel_keys *keys);

/*
 * The client with this key. If several clients have the same key: any of them. NULL: none has it.
 */
struct client *cancel_keys_find(const struct cancel_keys *keys, struct bytes key);

/*
 * Gives the client this key and adds it to the table. The client must have no key. `key` has
 * CANCEL_KEY_SIZE or CANCEL_KEY_LONG_SIZE bytes and is copied. false: no memory; the client still
 * has no key.
 */
bool cancel_keys_add(struct cancel_keys *keys, struct client *client, struct bytes key);

/*
 * The next loop to ask for the client of a key that this loop does not know: first the one to which
 * the key leads (has_asked: another loop was asked before), then, if any client has a key that
 * leads to another loop, all others in turn. The number of this loop: there is none.
 */
unsigned int cancel_keys_next_loop(const struct cancel_keys *keys, struct bytes key,
                                   bool has_asked);

/* Removes the client and its key. Does nothing if it has no key. */
void cancel_keys_remove(struct cancel_keys *keys, struct client *client);

#endif
