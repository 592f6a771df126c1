/* SPDX-License-Identifier: ISC */
/*
 * Makes lanes: see pgweir/client/lanes.h.
 */
#ifndef PGWEIR_MAIN_LANE_H
#define PGWEIR_MAIN_LANE_H

#include "pgweir/client/lanes.h"

struct daemon;

/* Makes lane->loop and what needs nothing but the loop. false: *err has the reason. */
bool lane_make_ground(struct daemon *daemon, struct lane *lane, struct err *err);

bool lane_make_pools(struct daemon *daemon, struct lane *lane, struct err *err);

/* The console must exist. */
bool lane_make_clients(struct daemon *daemon, struct lane *lane, struct err *err);

/* Closes all clients. */
void lane_close(struct lane *lane);

/* Frees everything else but the loop. The helper threads must have ended. */
void lane_free(struct lane *lane);

/* A connection was accepted: gives it to the lane that has fewest. Takes ownership of the socket.
 */
void lane_deal(struct daemon *daemon, int fd, const struct address *peer);

/*
 * ---- lane_load ----
 *
 * Which lanes are busy: those that have used most of a processor since the last look. Any lane may
 * ask; the clocks of the threads are read a few times in a second at most.
 */

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

/* ---- processors ---- */

/*
 * The number of processors that this process may run on, limited by the quota of its
 * control group and the groups above it, rounded up. At least 1. root: the folder that
 * contains /proc and /sys; "" except in tests.
 */
unsigned int processors_count(const char *root);

#endif
