/* SPDX-License-Identifier: ISC */
/*
 * The id and the TTL in a cancel key, for peers, and the number of the loop.
 */
#include "pgweir/client/cancel_key.h"

#include <assert.h>

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
