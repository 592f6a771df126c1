/* SPDX-License-Identifier: ISC */
/*
 * What sql_digest() is compared with: two texts have the same digest if they have it here, too.
 */
#ifndef PGWEIR_TEST_SQL_DIGEST_REFERENCE_H
#define PGWEIR_TEST_SQL_DIGEST_REFERENCE_H

#include "pgweir/base/bytes.h"
#include "pgweir/base/hash.h"

uint64_t sql_digest_reference(const struct hash_key *key, struct bytes text);

#endif
