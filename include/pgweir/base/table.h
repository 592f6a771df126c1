/* SPDX-License-Identifier: ISC */
/*
 * Hash tables: uthash, with a hash function that compiles without warnings everywhere. Include
 * this header instead of uthash.h.
 *
 * If clients, servers or strangers choose the keys, use TABLE_FIND and TABLE_ADD with a secret
 * key of the table's owner. HASH_FIND and its relatives are for our own keys (addresses,
 * numbers, names from our files). Never mix both for one table.
 *
 * If there is no memory to add something, the process ends with a line on stderr, unless a file
 * defines HASH_NONFATAL_OOM before: then nothing is added, and its hh.tbl is NULL.
 */
#ifndef PGWEIR_BASE_TABLE_H
#define PGWEIR_BASE_TABLE_H

#ifndef HASH_FUNCTION
#define HASH_FUNCTION HASH_OAT
#endif

/* Without memory uthash would call exit(), while other threads still run. */
#define uthash_fatal(message) table_fatal()
void table_fatal(void) __attribute__((noreturn));

#include <string.h>
#include <uthash.h>

#include "pgweir/base/hash.h"

#define TABLE_HASH(secret, at, size) ((unsigned int)hash_bytes((secret), (at), (size)))

/* secret: a struct hash_key. */
#define TABLE_FIND(hh, secret, head, at, size, found) \
	HASH_FIND_BYHASHVALUE(hh, head, at, size, TABLE_HASH(secret, at, size), found)

/* The key is in `added` and must not change. */
#define TABLE_ADD(hh, secret, head, at, size, added) \
	HASH_ADD_KEYPTR_BYHASHVALUE(hh, head, at, size, TABLE_HASH(secret, at, size), added)

/* What is found, or NULL. The second one is for a table without a secret. */
#define TABLE_GET(hh, secret, head, at, size)                        \
	({                                                           \
		__typeof__(*(head)) *table_found;                    \
		TABLE_FIND(hh, secret, head, at, size, table_found); \
		table_found;                                         \
	})
#define TABLE_GET_OWN(hh, head, at, size)                   \
	({                                                  \
		__typeof__(*(head)) *table_found;           \
		HASH_FIND(hh, head, at, size, table_found); \
		table_found;                                \
	})

/* The same for a text, without its terminating zero. */
#define TABLE_FIND_STR(hh, secret, head, text, found) \
	TABLE_FIND(hh, secret, head, text, strlen(text), found)
#define TABLE_ADD_STR(hh, secret, head, text, added) \
	TABLE_ADD(hh, secret, head, text, strlen(text), added)

#endif
