/* SPDX-License-Identifier: ISC */
/*
 * What digests share: the sum of a block, and what the digest of a text and the text without its
 * constants must agree on. (Two texts have one digest if they are the same without their
 * constants.)
 */
#ifndef PGWEIR_PGWIRE_SQL_DIGEST_PRIV_H
#define PGWEIR_PGWIRE_SQL_DIGEST_PRIV_H

#include <endian.h>

#include "pgweir/pgwire/sql_digest.h"

#define NESTS_MAX 24 /* deeper parentheses are signs like others */

enum nest_kind {
	NEST_PLAIN, /* parentheses or brackets that are not a list */
	NEST_LIST,  /* the items between them */
	NEST_ROWS   /* the rows after VALUES; these have parentheses of their own */
};

/* What is hashed at a time: pairs of words. */
#define SQL_BLOCK_SIZE ((size_t)SQL_DIGEST_WORDS * sizeof(uint64_t))
#define SQL_PAIR_SIZE (2 * sizeof(uint64_t))

static inline unsigned __int128 sql_product(const uint64_t keys[2], uint64_t first, uint64_t second)
{
	return (unsigned __int128)(le64toh(first) + keys[0]) * (le64toh(second) + keys[1]);
}

/* Of each pair of words. `count` is a multiple of SQL_PAIR_SIZE. */
static inline unsigned __int128 sql_sum(const uint64_t *keys, const char *at, size_t count)
{
	unsigned __int128 sum = 0;
	uint64_t words[2];

	for (size_t i = 0; i < count; i += sizeof(words), keys += 2) {
		memcpy(words, at + i, sizeof(words));
		sum += sql_product(keys, words[0], words[1]);
	}
	return sum;
}

#endif
