/* SPDX-License-Identifier: ISC */
/*
 * What a cancel key says to peers.
 */
#include "pgweir/client/key.h"

#include "pgweir/base/banned.h"

#define ID_LOW 1
#define ID_HIGH 2
#define TTL 7
#define TTL_MASK 3u

void key_sign(unsigned char key[KEY_SIGNED_SIZE], int peer_id)
{
	key[ID_LOW] = (unsigned char)(peer_id & 0xff);
	key[ID_HIGH] = (unsigned char)(peer_id >> 8);
	key_set_ttl(key, KEY_TTL_MAX);
}

int key_peer(struct bytes key)
{
	const unsigned char *at = (const unsigned char *)key.at;

	return key.count < KEY_SIGNED_SIZE ? 0 : at[ID_LOW] | at[ID_HIGH] << 8;
}

unsigned int key_ttl(struct bytes key) { return ((const unsigned char *)key.at)[TTL] & TTL_MASK; }

void key_set_ttl(unsigned char key[KEY_SIGNED_SIZE], unsigned int ttl)
{
	key[TTL] = (unsigned char)((key[TTL] & ~TTL_MASK) | (ttl & TTL_MASK));
}
