/* SPDX-License-Identifier: ISC */
/*
 * The id and the TTL in a cancel key, for peers.
 */
#include "pgweir/client/cancel_key.h"

#include "pgweir/base/banned.h"

#define ID_LOW 1
#define ID_HIGH 2
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
