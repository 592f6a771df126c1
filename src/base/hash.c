/* SPDX-License-Identifier: ISC */
/*
 * SipHash-1-3: one round per word and three rounds at the end, as used by the hash tables of
 * several languages. SipHash-2-4 costs twice as much for keys as short as ours.
 */
#include "pgweir/base/table.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void hash_key_draw(struct hash_key *key)
{
	struct timespec now;

	if (getentropy(key, sizeof(*key)) == 0)
		return;
	/* Linux always has it. Without it tables still work, and the clock is hard to guess. */
	clock_gettime(CLOCK_REALTIME, &now);
	key->half[0] = (uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec;
	key->half[1] = (uint64_t)(uintptr_t)key;
}

uint64_t hash_bytes(const struct hash_key *key, const void *bytes, size_t count)
{
	const unsigned char *at = bytes, *end = at + (count & ~(size_t)7);
	struct hash_stream stream = hash_begin(key);
	uint64_t word;

	for (; at != end; at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		hash_add(&stream, le64toh(word));
	}
	/* Less than eight bytes are left; the first is the lowest. */
	word = (uint64_t)count << 56;
	for (size_t i = 0; i < (count & 7); i++)
		word |= (uint64_t)at[i] << (8 * i);
	hash_add(&stream, word);
	return hash_end(&stream);
}

void table_fatal(void)
{
	fputs("pgweir: no memory for a hash table\n", stderr);
	abort();
}
