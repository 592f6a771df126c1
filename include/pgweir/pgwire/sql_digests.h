/* SPDX-License-Identifier: ISC */
/*
 * Digests that are remembered by the exact text: applications repeat BEGIN, COMMIT, and statements
 * with parameters without any change. To find one costs a tenth of reading the text again.
 *
 * Fixed memory, of about 12 KB. A digest is forgotten when another text needs its place.
 */
#ifndef PGWEIR_PGWIRE_SQL_DIGESTS_H
#define PGWEIR_PGWIRE_SQL_DIGESTS_H

#include "pgweir/pgwire/sql_digest.h"

struct sql_digests;

/* The key is borrowed. NULL: no memory. */
struct sql_digests *sql_digests_new(const struct sql_digest_key *key);

/* Sets the pointer to NULL. */
void sql_digests_free(struct sql_digests **digestsp);

/* The same as sql_digest() with that key. */
uint64_t sql_digests_get(struct sql_digests *digests, struct bytes text);

#endif
