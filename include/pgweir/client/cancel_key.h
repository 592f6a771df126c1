/* SPDX-License-Identifier: ISC */
/*
 * What a cancel key says to peers: whose client it belongs to, and how often a
 * request with it may still be passed on.
 *
 *   byte 1      byte 2       last two bits of byte 7
 *   id, low     id, high     TTL
 *
 * All else is random. Keys of protocol 3.2 are longer; these bytes stand there as well.
 */
#ifndef PGWEIR_CLIENT_CANCEL_KEY_H
#define PGWEIR_CLIENT_CANCEL_KEY_H

#include <stdbool.h>

#include "pgweir/base/bytes.h"

#define CANCEL_KEY_SIZE 8        /* bytes of the keys that we hand out, process id and secret: */
#define CANCEL_KEY_LONG_SIZE 36  /* to clients of protocol 3.2, who get as many as from PostgreSQL \
	                          */
#define CANCEL_KEY_SIGNED_SIZE 8 /* bytes that a key needs to say it */
#define CANCEL_KEY_TTL_MAX 3     /* as it is handed out */

/* Writes an instance's id and the full TTL into a key of random bytes. */
void cancel_key_sign(unsigned char key[CANCEL_KEY_SIGNED_SIZE], int peer_id);

/* The id in it; 0: it is too short to have one. A key that nobody signed has a random one. */
int cancel_key_peer(struct bytes key);

/* For keys of CANCEL_KEY_SIGNED_SIZE bytes at least. */
unsigned int cancel_key_ttl(struct bytes key);
void cancel_key_set_ttl(unsigned char key[CANCEL_KEY_SIGNED_SIZE], unsigned int ttl);

#endif
