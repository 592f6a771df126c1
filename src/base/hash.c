/* SPDX-License-Identifier: ISC */
/*
 * SipHash-1-3: one round per word and three rounds at the end, as used by the hash tables of
 * several languages. SipHash-2-4 costs twice as much for keys as short as ours.
 */
#include "pgweir/base/hash.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "pgweir/base/banned.h"

void hash_key_draw(struct hash_key *key)
{
	struct timespec now;
	ssize_t count;

	do {
		count = getrandom(key, sizeof(*key), 0);
	} while (count < 0 && errno == EINTR);
	if (count == (ssize_t)sizeof(*key))
		return;
	/*
	 * Linux always has getrandom(). Without it tables still work, and the clock is hard to
	 * guess.
	 */
	clock_gettime(CLOCK_REALTIME, &now);
	key->half[0] = (uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec;
	key->half[1] = (uint64_t)(uintptr_t)key;
}

static inline uint64_t rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }

static inline void rounds(uint64_t v[4], int count)
{
	while (count-- > 0) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] = rotate(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[2] = rotate(v[2], 32);
	}
}

/* Loads up to eight bytes; the first byte is the lowest. */
static inline uint64_t load(const unsigned char *at, size_t count)
{
	uint64_t word = 0;

	for (size_t i = 0; i < count; i++)
		word |= (uint64_t)at[i] << (8 * i);
	return word;
}

uint64_t hash_bytes(const struct hash_key *key, const void *bytes, size_t count)
{
	const unsigned char *at = bytes, *end = at + (count & ~(size_t)7);
	uint64_t v[4] = { key->half[0] ^ UINT64_C(0x736f6d6570736575),
		          key->half[1] ^ UINT64_C(0x646f72616e646f6d),
		          key->half[0] ^ UINT64_C(0x6c7967656e657261),
		          key->half[1] ^ UINT64_C(0x7465646279746573) };
	uint64_t word;

	for (; at != end; at += 8) {
		word = load(at, 8);
		v[3] ^= word;
		rounds(v, 1);
		v[0] ^= word;
	}
	word = load(at, count & 7) | (uint64_t)count << 56;
	v[3] ^= word;
	rounds(v, 1);
	v[0] ^= word;
	v[2] ^= 0xff;
	rounds(v, 3);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}
