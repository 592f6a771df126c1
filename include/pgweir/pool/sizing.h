/* SPDX-License-Identifier: ISC */
/*
 * pool_size = auto: how many servers a pool may have, from what it has done with those it had.
 *
 * While clients wait, half as many servers more are tried, or two: one more would gain too
 * little to differ from chance. While most servers are idle, nothing is tried. What a trial has brought
 * follows from the response time before and after, as in TCP Vegas (Brakmo, Peterson: TCP Vegas:
 * End to End Congestion Avoidance on a Global Internet, 1995): with all servers at work, throughput
 * is servers / response time. If it has not grown, the size is the former one again. And when the
 * response time is twice the best that was seen, a third less is tried, and kept if as much is
 * done.
 *
 * Unlike Vegas, nothing follows from the best response time alone: a pool's statements change, and
 * long ones are no congestion. Only what a change of size brings tells.
 *
 * No clock: the caller passes samples, about one a second. Zeroed: sizing_look() begins with the
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

enum sizing_phase {
	SIZING_RESTS,
	SIZING_TRIES_MORE,
	SIZING_TRIES_LESS,
};

/* When a trial in vain may be repeated: twice as late each time. In samples. */
struct sizing_pause {
	unsigned int left, length;
};

struct sizing {
	unsigned int size;
	enum sizing_phase phase;
	/* what was done with this size lately, and in how many samples */
	struct sizing_sample sum;
	unsigned int samples;
	/* before the trial: microseconds for a statement (0: not known), servers at work */
	unsigned int former_size;
	double former_response, former_busy;
	double best_response; /* 0: not known */
	struct sizing_pause more, less;
	/* when more servers were last tried in vain */
	double vain_response;
	unsigned int vain_waiting;
};

/* Why the size has changed. */
enum sizing_reason {
	SIZING_KEEPS,   /* it has not */
	SIZING_BOUNDED, /* by its bounds */
	SIZING_WAITING, /* clients wait: a trial */
	SIZING_NO_GAIN, /* and the end of one: PostgreSQL took longer for each statement */
	SIZING_SLOW, /* PostgreSQL takes longer than it did with fewer servers at work: a trial */
	SIZING_LESS_DONE /* and the end of one */
};

/* One sample more; sizing->size is the size from now on. */
enum sizing_reason sizing_look(struct sizing *sizing, const struct sizing_bounds *bounds,
                               const struct sizing_sample *sample);

/* Forgets what was measured, but not the size: the pool could not work. */
void sizing_forget(struct sizing *sizing);

#endif
