/* SPDX-License-Identifier: ISC */
/*
 * pool_size = auto: how many servers a pool may have, from what it has done with those it had.
 *
 * While clients wait, three times as many servers are tried; later a half; then smaller steps. In
 * a direction that was in vain the next trial comes the later the more this one has lost.
 * Throughput is servers / response time, as in TCP Vegas (Brakmo, Peterson: TCP Vegas: End to End
 * Congestion Avoidance on a Global Internet, 1995). But what the machine does changes it from
 * second to second by far more than a size does. So both sizes take turns, and only neighbouring
 * turns are compared, until the sum of the differences is clear beside the noise (Wald: Sequential
 * Tests of Statistical Hypotheses, 1945), which is known from neighbouring turns of one size. In
 * doubt the size stays. The shorter the turns, the less the machine does between two: a far worse
 * size is seen in one. But the first sample of a turn is left out, as in it the larger of two sizes
 * did 2 to 5 % too little beside the smaller one, and in the next ones no longer.
 *
 * No clock: the caller passes samples, about four a second. Zeroed: sizing_look() begins with the
 * least size.
 */
#ifndef PGWEIR_POOL_SIZING_H
#define PGWEIR_POOL_SIZING_H

#include <stdbool.h>
#include <stdint.h>

#include "pgweir/base/clock.h"

struct sizing_sample {
	usec_t span;          /* how long it is about */
	usec_t busy;          /* how long servers were lent then, added up */
	uint64_t done;        /* statements */
	unsigned int waiting; /* clients that wait now */
	bool is_full;         /* the pool has as many servers as it may */
};

struct sizing_bounds {
	unsigned int least, most; /* from 1 */
};

static inline unsigned int sizing_within(const struct sizing_bounds *bounds, unsigned int size)
{
	if (size < bounds->least)
		return bounds->least;
	return size > bounds->most ? bounds->most : size;
}

/* What was done in a few samples, with one size. */
struct sizing_turn {
	unsigned int size;
	struct sizing_sample sum;
	double throughput; /* 0: not known */
};

/* Sizes take turns: one of the first, two of the other, two of the first ... */
struct sizing_trial {
	unsigned int former, other; /* other: 0 without a trial */
	unsigned int pairs;
	usec_t lasted;
	double gain;   /* of the larger size, over all pairs */
	double wanted; /* servers, lately in turns of the size that is not in turn; 0: not known */
	/* microseconds for a statement, on average */
	double former_response, other_response;
};

/* Trials in one direction that were in vain, until the load changes. */
struct sizing_vain {
	usec_t pause; /* until the next one */
	unsigned int count;
	bool is_near; /* the next one takes a smaller step: the best size may lie in between */
};

struct sizing {
	unsigned int size;
	struct sizing_turn turn, turn_before;
	struct sizing_trial trial;
	double noise; /* what two turns of one size differ by, on average */
	unsigned int noise_count;
	double best_response; /* 0: not known */
	struct sizing_vain vain_more, vain_less;
	double wanted, wanted_then; /* servers, lately and at most in the last trial */
	double response_then;       /* with this size in the last trial; 0: not known */
};

/* The size, or the one that is tried. */
static inline unsigned int sizing_aim(const struct sizing *sizing)
{
	return sizing->trial.other ? sizing->trial.other : sizing->size;
}

/* Clients that wait, on average, if there are so many servers. */
static inline unsigned int sizing_waiting(double wanted, unsigned int size)
{
	unsigned int whole = wanted > size ? (unsigned int)(wanted - size) : 0;

	return whole + (wanted > size + whole);
}

/* The larger one of those that take turns. */
static inline unsigned int sizing_most(const struct sizing *sizing)
{
	unsigned int aim = sizing_aim(sizing);

	return sizing->trial.other && sizing->trial.former > aim ? sizing->trial.former : aim;
}

/* Why the size has changed. */
enum sizing_reason {
	SIZING_KEEPS,    /* it has not */
	SIZING_BOUNDED,  /* by its bounds */
	SIZING_WAITING,  /* clients wait: a trial */
	SIZING_NO_GAIN,  /* and the end of one: PostgreSQL took longer for each statement */
	SIZING_SLOW,     /* fewer may do as much: a trial */
	SIZING_LESS_DONE /* and the end of one */
};

/* One sample more; sizing->size is the size from now on. */
enum sizing_reason sizing_look(struct sizing *sizing, const struct sizing_bounds *bounds,
                               const struct sizing_sample *sample);

/* Forgets what was measured, but not the size: the pool could not work. */
void sizing_forget(struct sizing *sizing);

#endif
