/* SPDX-License-Identifier: ISC */
/*
 * The part of a cancel key for peers: which instance owns the client, and how often a request with
 * it may still be forwarded.
 *
 *   byte 1      byte 2       last two bits of byte 7
 *   id, low     id, high     TTL
 *
 * All other bits are random. Keys of protocol 3.2 are longer; their first bytes have the same
 * layout.
 */
#ifndef PGWEIR_CLIENT_CANCEL_KEY_H
#define PGWEIR_CLIENT_CANCEL_KEY_H

#include <stdbool.h>

#include "pgweir/base/bytes.h"

#define CANCEL_KEY_SIZE 8        /* bytes of our keys: process id and secret */
#define CANCEL_KEY_LONG_SIZE 36  /* for clients of protocol 3.2; as long as PostgreSQL's */
#define CANCEL_KEY_SIGNED_SIZE 8 /* a key needs so many bytes to contain id and TTL */
#define CANCEL_KEY_TTL_MAX 3     /* the TTL of a new key */

/* Writes the id of this instance and the full TTL into a key of random bytes. */
void cancel_key_sign(unsigned char key[CANCEL_KEY_SIGNED_SIZE], int peer_id);

/*
 * The peer id in the key. 0: the key is too short to have one. In a key that was not signed the id
 * is random.
 */
int cancel_key_peer(struct bytes key);

/* The TTL in a key of at least CANCEL_KEY_SIGNED_SIZE bytes. */
unsigned int cancel_key_ttl(struct bytes key);
void cancel_key_set_ttl(unsigned char key[CANCEL_KEY_SIGNED_SIZE], unsigned int ttl);

#endif
