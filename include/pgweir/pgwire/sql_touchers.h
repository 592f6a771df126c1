/* SPDX-License-Identifier: ISC */
/*
 * Names of functions and relations that may touch the session, as the database or the settings say,
 * and which of them a text has. The answer may say too much, but never too little.
 *
 * A function is named before a parenthesis, or behind a point, which is another notation for a
 * call. A relation, or a word that begins a statement, may be anywhere.
 */
#ifndef PGWEIR_PGWIRE_SQL_TOUCHERS_H
#define PGWEIR_PGWIRE_SQL_TOUCHERS_H

#include "pgweir/base/buf.h"
#include "pgweir/base/hash.h"

struct sql_toucher {
	uint32_t name;      /* where it begins in `names` */
	uint32_t next;      /* of the same slot, from 1; 0: none */
	unsigned int bits;  /* enum sql_touch */
	unsigned int all;   /* of the first one of a name: the bits of all that compare equal */
	unsigned char kind; /* for the owner */
	bool is_called;     /* a function */
};

/* A zeroed one is empty. */
struct sql_touchers {
	struct sql_toucher *list;
	uint32_t *slots; /* of a hash table: the first of a chain, from 1; 0: none */
	size_t count, slot_count;
	struct hash_key key;   /* who makes functions chooses names */
	struct buf names;      /* name\0name\0 */
	unsigned int odd_bits; /* of names that a text may spell in a way that is not looked for */
};

/*
 * Adds a name without its schema. `name` may have any bytes; a '?' stands for any. false: no
 * memory, and the set must not be used.
 */
bool sql_touchers_add(struct sql_touchers *set, struct bytes name, const struct sql_toucher *what);

void sql_touchers_free(struct sql_touchers *set);

static inline const char *sql_touchers_name(const struct sql_touchers *set, size_t at)
{
	return set->names.at + set->list[at].name;
}

/*
 * The bits of all names that a whole text has, without its terminating zero. Its time is linear in
 * the size of the text. first: the first of them; NULL: not wanted. It is NULL if none is named.
 */
unsigned int sql_touchers_in(const struct sql_touchers *set, struct bytes text,
                             const struct sql_toucher **first);

#endif
