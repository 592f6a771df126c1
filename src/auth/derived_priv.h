/* SPDX-License-Identifier: ISC */
/*
 * Derivations, internal to the module.
 */
#ifndef PGWEIR_AUTH_DERIVED_PRIV_H
#define PGWEIR_AUTH_DERIVED_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include "pgweir/auth/derived.h"
#include "pgweir/base/table.h"

enum outcome { OUTCOME_NONE, OUTCOME_KEYS, OUTCOME_FAILED };

struct derived {
	UT_hash_handle hh; /* while it is cached */
	unsigned char id[SHA256_SIZE];
	atomic_size_t reference_count;
	bool is_kept;           /* guarded by the cache's lock, like hh */
	char *user;             /* owner, for verifiers_trim(); NULL = nobody */
	struct scram_keys keys; /* valid once there is an outcome */
	pthread_mutex_t lock;   /* held during the derivation */
	_Atomic enum outcome outcome;
	unsigned int iterations;
	size_t salt_count;
	unsigned char salt[];
};

/* Returns a derivation that is not done yet; the caller owns one reference. NULL: no memory. */
struct derived *derived_new(const unsigned char id[SHA256_SIZE], const char *user,
                            struct bytes salt, unsigned int iterations);

/* Adds a reference. */
struct derived *derived_hold(struct derived *derived);

#endif
