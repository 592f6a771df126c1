/* SPDX-License-Identifier: ISC */
/*
 * Clients by their cancel keys. Each client lies in a chain of the table, so that one at rest
 * costs little more than a pointer here; chains grow to CANCEL_KEYS_CHAIN clients each in the mean.
 *
 * A short key lies in its client; a long one, of protocol 3.2, in a cache of the table's.
 */
#ifndef PGWEIR_CLIENT_CANCEL_KEYS_H
#define PGWEIR_CLIENT_CANCEL_KEYS_H

#include "pgweir/base/bytes.h"
#include "pgweir/base/slab.h"

#define CANCEL_KEYS_CHAIN 4

struct client;

struct cancel_keys {
	struct client **chains; /* through client->key_next */
	size_t chain_count;     /* a power of two */
	size_t count;           /* clients */
	struct slab long_slab;
};

/* false: no memory; cancel_keys_done() may be called all the same. */
bool cancel_keys_init(struct cancel_keys *keys);

/* No client may be in it any more. */
void cancel_keys_done(struct cancel_keys *keys);

/* NULL: none has this key. Should several have it: any of them. */
struct client *cancel_keys_find(const struct cancel_keys *keys, struct bytes key);

/*
 * The client has this key (of CANCEL_KEY_SIZE or CANCEL_KEY_LONG_SIZE bytes, which are copied) from
 * now on. It had none. false: no memory, and it still has none.
 */
bool cancel_keys_add(struct cancel_keys *keys, struct client *client, struct bytes key);

/* It has none any more. Safe when it had none. */
void cancel_keys_remove(struct cancel_keys *keys, struct client *client);

#endif
