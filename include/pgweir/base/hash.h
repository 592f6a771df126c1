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

/* Makes a random key. */
void hash_key_draw(struct hash_key *key);

uint64_t hash_bytes(const struct hash_key *key, const void *bytes, size_t count);

#endif
