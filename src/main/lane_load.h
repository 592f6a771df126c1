/* SPDX-License-Identifier: ISC */
/*
 * Which lanes are busy: those that have used most of a processor since the last look. Any lane may
 * ask; the clocks of the threads are read a few times in a second at most.
 */
#ifndef PGWEIR_MAIN_LANE_LOAD_H
#define PGWEIR_MAIN_LANE_LOAD_H

#include "pgweir/client/lanes.h"

struct lane_load {
	atomic_flag is_looking; /* guards looked_at and cpu */
	usec_t looked_at;
	usec_t cpu[LANES_MAX]; /* at that time */
	_Atomic uint64_t busy; /* a bit for each lane, from the lowest */
};

_Static_assert(LANES_MAX <= 64, "struct lane_load has a bit for each");

/* What is looked at, for tests another one than loop_cpu(). */
struct lane_clocks {
	unsigned int count; /* of lanes */
	/* processor time that the lane has used so far; from any thread */
	usec_t (*cpu)(const void *arg, unsigned int number);
	const void *arg;
};

/* The lanes have used no processor time yet. */
void lane_load_init(struct lane_load *load, usec_t now);

/* A bit for each busy lane. */
uint64_t lane_load_busy(struct lane_load *load, const struct lane_clocks *clocks, usec_t now);

#endif
