/* SPDX-License-Identifier: ISC */
/*
 * Digests by text.
 *
 *   text --> identity, 128 bits --> entry: the same identity, and the digest
 *
 * The identity of a short text is a sum of products, and the text's size (see sql_digest.c); that
 * of a longer one is the hash of such sums. Without the key nobody finds two texts of one identity.
 */
#include "pgweir/pgwire/sql_digests.h"

#include <assert.h>
#include <stdlib.h>

#include "sql_digest_priv.h"

#include "pgweir/base/banned.h"

#define ENTRIES 512 /* a power of two */

/* Texts with constants do not come again. If a trial finds few, there is none for a while. */
#define TRIAL 64
#define TRIAL_FINDS 8
#define PAUSE 1024

struct identity {
	uint64_t low, high;
};

struct entry {
	struct identity identity;
	uint64_t digest; /* 0: none */
};

struct sql_digests {
	const struct sql_digest_key *key;
	unsigned int looked_count, found_count; /* in this trial */
	unsigned int pause_count;               /* texts that are not looked for */
	struct entry entries[ENTRIES];
};

static_assert((ENTRIES & (ENTRIES - 1)) == 0, "the low bits of an identity are a place");

static inline uint32_t load_32(const char *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static inline uint64_t load_64(const char *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

/* The last bytes, at most a pair of words. They may overlap: their number counts, too. */
static inline void load_last(struct bytes last, uint64_t words[2])
{
	words[0] = words[1] = 0;
	if (last.count >= sizeof(uint64_t)) {
		words[0] = load_64(last.at);
		words[1] = load_64(last.at + last.count - sizeof(uint64_t));
	} else if (last.count >= sizeof(uint32_t)) {
		words[0] = load_32(last.at);
		words[1] = load_32(last.at + last.count - sizeof(uint32_t));
	} else if (last.count) {
		words[0] = (unsigned char)last.at[0];
		words[1] = (uint64_t)(unsigned char)last.at[last.count / 2] << 8 |
		           (unsigned char)last.at[last.count - 1];
	}
}

/* Of a block, or of less. */
static inline struct identity identity_of_block(const struct sql_digest_key *key,
                                                struct bytes block)
{
	size_t pairs = block.count ? (block.count - 1) / SQL_PAIR_SIZE * SQL_PAIR_SIZE : 0;
	unsigned __int128 sum = sql_sum(key->words, block.at, pairs);
	const uint64_t *keys = key->words + pairs / sizeof(uint64_t);
	uint64_t last[2];

	load_last(bytes_skip(block, pairs), last);
	sum += sql_product(keys, last[0], last[1]) + block.count;
	return (struct identity){ (uint64_t)sum, (uint64_t)(sum >> 64) };
}

static struct identity identity_of_blocks(const struct sql_digest_key *key, struct bytes text)
{
	struct hash_stream stream = hash_begin(&key->secret);
	size_t count = text.count;

	while (text.count) {
		size_t size = text.count < SQL_BLOCK_SIZE ? text.count : SQL_BLOCK_SIZE;
		struct identity block = identity_of_block(key, bytes_of(text.at, size));

		hash_add(&stream, block.low);
		hash_add(&stream, block.high);
		text = bytes_skip(text, size);
	}
	return (struct identity){ hash_end(&stream), count };
}

struct sql_digests *sql_digests_new(const struct sql_digest_key *key)
{
	struct sql_digests *digests = calloc(1, sizeof(*digests));

	if (digests)
		digests->key = key;
	return digests;
}

void sql_digests_free(struct sql_digests **digestsp)
{
	free(*digestsp);
	*digestsp = NULL;
}

static inline bool is_pause(struct sql_digests *digests)
{
	return digests->pause_count && digests->pause_count--;
}

static inline void count(struct sql_digests *digests, bool is_known)
{
	digests->found_count += is_known;
	if (++digests->looked_count < TRIAL)
		return;
	if (digests->found_count < TRIAL_FINDS)
		digests->pause_count = PAUSE;
	digests->looked_count = digests->found_count = 0;
}

uint64_t sql_digests_get(struct sql_digests *digests, struct bytes text)
{
	const struct sql_digest_key *key = digests->key;
	struct identity identity;
	struct entry *entry;
	bool is_known;

	if (text.count > SQL_DIGEST_MAX || is_pause(digests))
		return sql_digest(key, text);
	identity = text.count <= SQL_BLOCK_SIZE ? identity_of_block(key, text)
	                                        : identity_of_blocks(key, text);
	entry = &digests->entries[identity.low & (ENTRIES - 1)];
	is_known = entry->digest && entry->identity.low == identity.low &&
	           entry->identity.high == identity.high;
	count(digests, is_known);
	if (!is_known)
		*entry = (struct entry){ identity, sql_digest(key, text) };
	return entry->digest;
}
