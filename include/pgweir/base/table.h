/* SPDX-License-Identifier: ISC */
/*
 * Hash tables: uthash, with a hash function that every compiler takes without a
 * warning. Include this instead of uthash.h.
 *
 * Where a client, a server or a stranger chooses the keys, TABLE_FIND and TABLE_ADD are to be
 * used, with a secret of the table's owner; HASH_FIND and its kin are for keys of our own
 * (addresses, numbers, names out of our files). A table is of the one kind or of the other.
 */
#ifndef PGWEIR_BASE_TABLE_H
#define PGWEIR_BASE_TABLE_H

#ifndef HASH_FUNCTION
#define HASH_FUNCTION HASH_OAT
#endif
#include <string.h>

#include <uthash.h>

#include "pgweir/base/hash.h"

#define TABLE_HASH(secret, at, size) ((unsigned int)hash_bytes((secret), (at), (size)))

/* secret: a struct hash_key. */
#define TABLE_FIND(hh, secret, head, at, size, found) \
	HASH_FIND_BYHASHVALUE(hh, head, at, size, TABLE_HASH(secret, at, size), found)

/* The key lies in what is added, and stays as it is. */
#define TABLE_ADD(hh, secret, head, at, size, added) \
	HASH_ADD_KEYPTR_BYHASHVALUE(hh, head, at, size, TABLE_HASH(secret, at, size), added)

/* The same for a text, without its zero. */
#define TABLE_FIND_STR(hh, secret, head, text, found) \
	TABLE_FIND(hh, secret, head, text, strlen(text), found)
#define TABLE_ADD_STR(hh, secret, head, text, added) \
	TABLE_ADD(hh, secret, head, text, strlen(text), added)

#endif
