/* SPDX-License-Identifier: ISC */
/*
 * Derivations, inside the module.
 */
#ifndef PGWEIR_AUTH_DERIVED_PRIV_H
#define PGWEIR_AUTH_DERIVED_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include "pgweir/auth/derived.h"
#include "pgweir/base/table.h"

enum outcome { OUTCOME_NONE, OUTCOME_KEYS, OUTCOME_FAILED };

struct derived {
	UT_hash_handle hh; /* while it is kept */
	unsigned char id[SHA256_SIZE];
	unsigned long reference_count;
	bool is_kept;
	char *user;             /* whose; NULL = nobody's */
	struct scram_keys keys; /* once there is an outcome */
	pthread_mutex_t lock;   /* held while the work is done */
	_Atomic enum outcome outcome;
	unsigned int iterations;
	size_t salt_count;
	unsigned char salt[];
};

/* One reference is the caller's. NULL: no memory. */
struct derived *derived_new(const unsigned char id[SHA256_SIZE], const char *user,
                            struct bytes salt, unsigned int iterations);

/* One more reference. */
struct derived *derived_hold(struct derived *derived);

#endif
