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
#include <stdbool.h>

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

/* The client with this key, or any of them. NULL: none has it. */
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

/*
 * ---- what a key contains ----
 *
 * The part of a cancel key that says where the client is. For peers: which instance owns it, and
 * how often a request with the key may still be forwarded. Within an instance of several loops:
 * which loop.
 *
 *   byte 1      byte 2       byte 6                         last two bits of byte 7
 *   id, low     id, high     its rest by the loops: loop    TTL
 *
 * All other bits are random. Keys of protocol 3.2 are longer; their first bytes have the same
 * layout.
 *
 * The loop is the rest of a division, so N loops cost log2(N) random bits. A short key has 63 of
 * them (PostgreSQL's process ids are not negative), with a peer id 45; with 4 loops 61 and 43, with
 * 256 loops 55 and 37. And any number of loops finds a loop in any key: a process of N loops that
 * takes over a client puts it where cancel_key_loop() says for N.
 */

#define CANCEL_KEY_SIZE 8        /* bytes of our keys: process id and secret */
#define CANCEL_KEY_LONG_SIZE 36  /* for clients of protocol 3.2; as long as PostgreSQL's */
#define CANCEL_KEY_SIGNED_SIZE 8 /* a key needs so many bytes to contain id and TTL */
#define CANCEL_KEY_TTL_MAX 3     /* the TTL of a new key */
#define CANCEL_KEY_LOOPS_MAX 256 /* loops that a key can tell apart */

/* Writes the id of this instance and the full TTL into a key of random bytes. */
void cancel_key_sign(unsigned char key[CANCEL_KEY_SIGNED_SIZE], int peer_id);

/* 0: the key is too short to have one. In a key that was not signed the id is random. */
int cancel_key_peer(struct bytes key);

/* The TTL in a key of at least CANCEL_KEY_SIGNED_SIZE bytes. */
unsigned int cancel_key_ttl(struct bytes key);
void cancel_key_set_ttl(unsigned char key[CANCEL_KEY_SIGNED_SIZE], unsigned int ttl);

/*
 * The loop of the client with this key, one of `loops` (1 to CANCEL_KEY_LOOPS_MAX), numbered from
 * 0. A key that is too short leads to loop 0.
 */
unsigned int cancel_key_loop(struct bytes key, unsigned int loops);

/* Writes the number of the loop into a key of random bytes. With one loop nothing changes. */
void cancel_key_set_loop(unsigned char key[CANCEL_KEY_SIGNED_SIZE], unsigned int loop,
                         unsigned int loops);

#endif
