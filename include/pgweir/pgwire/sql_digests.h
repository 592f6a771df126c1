/* SPDX-License-Identifier: ISC */
/*
 * Digests that are remembered by the form of the text, which is the text without its constants:
 * applications repeat BEGIN, COMMIT and statements with parameters without any change, and others
 * with another number or string each time. To find one costs half of reading the text again, or
 * less.
 *
 * Fixed memory, of about 14 KB. A digest is forgotten when another form needs its place.
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
