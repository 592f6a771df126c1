/* SPDX-License-Identifier: ISC */
/*
 * Clients by their cancel keys. Each client lies in a chain of the table, so that one at rest
 * costs little more than a pointer here; chains grow to KEYS_CHAIN clients each in the mean.
 *
 * A short key lies in its client; a long one, of protocol 3.2, in a cache of the table's.
 */
#ifndef PGWEIR_CLIENT_KEYS_H
#define PGWEIR_CLIENT_KEYS_H

#include "pgweir/base/bytes.h"
#include "pgweir/base/slab.h"

#define KEYS_CHAIN 4

struct client;

struct keys {
	struct client **chains; /* through client->key_next */
	size_t chain_count;     /* a power of two */
	size_t count;           /* clients */
	struct slab long_slab;
};

/* false: no memory; keys_done() may be called all the same. */
bool keys_init(struct keys *keys);

/* No client may be in it any more. */
void keys_done(struct keys *keys);

/* NULL: none has this key. Should several have it: any of them. */
struct client *keys_find(const struct keys *keys, struct bytes key);

/*
 * The client has this key (of KEY_SIZE or KEY_LONG_SIZE bytes, which are copied) from now on.
 * It had none. false: no memory, and it still has none.
 */
bool keys_add(struct keys *keys, struct client *client, struct bytes key);

/* It has none any more. Safe when it had none. */
void keys_remove(struct keys *keys, struct client *client);

#endif
