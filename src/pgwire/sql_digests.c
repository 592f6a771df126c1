/* SPDX-License-Identifier: ISC */
/*
 * Digests by form.
 *
 *   text --> form, without its constants --> identity, 128 bits --> entry: the same identity, and
 *                                                                   the digest
 *
 * The identity of a short form is a sum of products, and the form's size (see sql_digest.c); that
 * of a longer one is the hash of such sums. Without the key nobody finds two forms of one identity.
 */
#include "pgweir/pgwire/sql_digests.h"

#include <assert.h>
#include <stdlib.h>

#include "sql_digest_priv.h"
#include "sql_form_priv.h"

#include "pgweir/base/banned.h"

#define ENTRIES 512   /* a power of two */
#define TEXT_MAX 2048 /* bytes of a text that is looked for */

/* Some texts do not come again in any form. If a trial finds few, there is none for a while. */
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
	char form[TEXT_MAX + SQL_FORM_ROOM];    /* of the text that is looked for */
	struct entry entries[ENTRIES];
};

static_assert((ENTRIES & (ENTRIES - 1)) == 0, "the low bits of an identity are a place");

/* Of a block, or of less, with zeros behind it. */
static inline struct identity identity_of_block(const struct sql_digest_key *key,
                                                struct bytes block)
{
	size_t pairs = (block.count + SQL_PAIR_SIZE - 1) & ~(SQL_PAIR_SIZE - 1);
	unsigned __int128 sum = sql_sum(key->words, block.at, pairs) + block.count;

	return (struct identity){ (uint64_t)sum, (uint64_t)(sum >> 64) };
}

__attribute__((noinline)) static struct identity
identity_of_blocks(const struct sql_digest_key *key, struct bytes form)
{
	struct hash_stream stream = hash_begin(&key->secret);
	size_t count = form.count;

	while (form.count) {
		size_t size = form.count < SQL_BLOCK_SIZE ? form.count : SQL_BLOCK_SIZE;
		struct identity block = identity_of_block(key, bytes_of(form.at, size));

		hash_add(&stream, block.low);
		hash_add(&stream, block.high);
		form = bytes_skip(form, size);
	}
	return (struct identity){ hash_end(&stream), count };
}

/* Of the text's form. */
static inline struct identity identity_of(struct sql_digests *digests, struct bytes text)
{
	char *form = digests->form;
	size_t size = sql_form(text, form);

	memset(form + size, 0, SQL_PAIR_SIZE);
	return size <= SQL_BLOCK_SIZE ? identity_of_block(digests->key, bytes_of(form, size))
	                              : identity_of_blocks(digests->key, bytes_of(form, size));
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
	struct identity identity;
	struct entry *entry;
	bool is_known;

	if (text.count > TEXT_MAX || is_pause(digests))
		return sql_digest(digests->key, text);
	identity = identity_of(digests, text);
	entry = &digests->entries[identity.low & (ENTRIES - 1)];
	is_known = entry->digest && entry->identity.low == identity.low &&
	           entry->identity.high == identity.high;
	count(digests, is_known);
	if (!is_known)
		*entry = (struct entry){ identity, sql_digest(digests->key, text) };
	return entry->digest;
}
