/* SPDX-License-Identifier: ISC */
/*
 * A keyed hash, for tables whose keys are chosen by clients or servers. Without the secret key
 * nobody can choose keys that all fall into one bucket.
 *
 * Source: SipHash-1-3, by J.-P. Aumasson and D. J. Bernstein.
 */
#ifndef PGWEIR_BASE_HASH_H
#define PGWEIR_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

struct hash_key {
	uint64_t half[2];
};

void hash_key_draw(struct hash_key *key);

uint64_t hash_bytes(const struct hash_key *key, const void *bytes, size_t count);

/*
 * The same algorithm for what comes word by word. The caller decides how a series of words ends:
 * no series should be the beginning of another one. A copy of a stream can be continued like it.
 */
struct hash_stream {
	uint64_t v[4];
};

static inline uint64_t hash_rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }

static inline void hash_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = hash_rotate(v[1], 13) ^ v[0];
	v[3] = hash_rotate(v[3], 16) ^ v[2];
	v[0] = hash_rotate(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = hash_rotate(v[1], 17) ^ v[2];
	v[3] = hash_rotate(v[3], 21) ^ v[0];
	v[2] = hash_rotate(v[2], 32);
}

static inline struct hash_stream hash_begin(const struct hash_key *key)
{
	return (struct hash_stream){ { key->half[0] ^ UINT64_C(0x736f6d6570736575),
		                       key->half[1] ^ UINT64_C(0x646f72616e646f6d),
		                       key->half[0] ^ UINT64_C(0x6c7967656e657261),
		                       key->half[1] ^ UINT64_C(0x7465646279746573) } };
}

static inline void hash_add(struct hash_stream *stream, uint64_t word)
{
	stream->v[3] ^= word;
	hash_round(stream->v);
	stream->v[0] ^= word;
}

/* Leaves the stream as it is. */
static inline uint64_t hash_end(const struct hash_stream *stream)
{
	uint64_t v[4] = { stream->v[0], stream->v[1], stream->v[2] ^ 0xff, stream->v[3] };

	hash_round(v);
	hash_round(v);
	hash_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

#endif
