/* SPDX-License-Identifier: ISC */
/*
 * A hash with a secret key, for tables whose keys a client or a server chooses: without the
 * key nobody can choose many that fall into one chain.
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

/* A key that nobody knows. */
void hash_key_draw(struct hash_key *key);

uint64_t hash_bytes(const struct hash_key *key, const void *bytes, size_t count);

#endif
