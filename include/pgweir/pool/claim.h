/* SPDX-License-Identifier: ISC */
/*
 * Which pool gets the next server within a limit that pools share: weight, guaranteed_servers.
 *
 * Of the pools that want one, first come those whose database or user has fewer servers than it is
 * guaranteed; then those without any server; then the one that would have the fewest for its
 * weight; last those that want one for min_pool_size, which take none from others. Among equals:
 * first come, first served.
 *
 * A pool whose own clients wait gives up a server, too, for one that is so far behind. It has kept
 * that server for a CLAIM_TURN then, since each change costs a login. With fewer servers than pools
 * they take turns, which are longer for a greater weight.
 *
 * No clock: the caller passes the time.
 */
#ifndef PGWEIR_POOL_CLAIM_H
#define PGWEIR_POOL_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "pgweir/base/clock.h"

#define CLAIM_TURN USEC_PER_SEC
#define CLAIM_TURNS_MAX 10 /* of a pool with the only server that it has */
#define CLAIM_WEIGHT_MAX 1000

/* What a pool has, in all loops; and the owners that it counts for. */
struct claim_pool {
	unsigned int servers, weight;
	bool is_spare; /* nobody waits for the server that it wants */
	struct {
		unsigned int servers, guaranteed;
		const void *who; /* only compared */
	} owners[2];             /* its database, its user */
};

/* The claim of a pool that wants a server. */
struct claim {
	uint64_t rank;         /* claim_rank() */
	const void *owners[2]; /* as in struct claim_pool; NULL: not known */
};

/* The lower, the sooner. It changes only with numbers of servers. */
uint64_t claim_rank(const struct claim_pool *pool);

/* Whether a pool whose clients wait gives up a server, which it has had for so long. */
bool claim_takes(const struct claim *claim, const struct claim_pool *from, usec_t age);

#endif
