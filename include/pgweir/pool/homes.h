/* SPDX-License-Identifier: ISC */
/*
 * Homes: the loops in which the clients of a pool are.
 *
 * A pool needs its servers in each loop in which it has clients. If it has few servers, they move
 * all the time, or each loop does little at a time; so such a pool is at home in few loops:
 *
 *   pool_size / servers_per_loop, rounded up, beginning with the first home
 *
 * While all of these are busy, one more is added, and so on; that is for clients that connect then.
 *
 * First homes are given in turn, when the first client of a pool connects, so each loop is the
 * first home of as many pools as the others. Pools whose names have the same hash share one.
 *
 * Any loop may call these functions at any time. They take no lock, and what a stranger sends
 * makes nothing grow.
 */
#ifndef PGWEIR_POOL_HOMES_H
#define PGWEIR_POOL_HOMES_H

#include <stdatomic.h>

#include "pgweir/base/hash.h"

#define HOMES_SLOTS 1024

struct homes {
	struct hash_key secret;
	unsigned int loop_count; /* 255 at most */
	atomic_uint given_count;
	_Atomic unsigned char
	    slots[HOMES_SLOTS]; /* by hash: number of the first home + 1; 0: none */
};

void homes_init(struct homes *homes, unsigned int loop_count);

/* In how many loops such a pool is at home. 0 for either number: no limit, so in all loops. */
unsigned int homes_count(const struct homes *homes, int pool_size, int servers_per_loop);

/* The first home of a pool. If it has none, it gets one. */
unsigned int homes_first(struct homes *homes, const char *database, const char *role);

/*
 * In how many loops a client may be placed: `count` from `first` on, and as many more as it takes
 * until one is not busy. busy: a bit for each loop, from the lowest.
 */
unsigned int homes_widen(const struct homes *homes, unsigned int first, unsigned int count,
                         uint64_t busy);

/* The pool has a client in this loop: that is its first home, unless it has one. */
void homes_note(struct homes *homes, const char *database, const char *role, unsigned int loop);

#endif
