/* SPDX-License-Identifier: ISC */
/*
 * Heartbeat: says at intervals that all loops of a process turn. If one of them does not, it says
 * nothing, until that loop turns again.
 */
#ifndef PGWEIR_LOOP_HEARTBEAT_H
#define PGWEIR_LOOP_HEARTBEAT_H

#include "pgweir/loop/loop.h"

struct heartbeat;

struct heartbeat_with {
	struct loop *const *loops; /* the first is the caller's; borrowed, and must outlive it */
	unsigned int count;
	usec_t interval;
	void (*beat)(void *arg); /* called by the first loop, and once by heartbeat_new() */
	void *arg;
};

/* With several loops, they must take letters. NULL: *err says why. */
struct heartbeat *heartbeat_new(const struct heartbeat_with *with, struct err *err);

/* Only the first loop may run. */
void heartbeat_free(struct heartbeat **heartbeat);

#endif
