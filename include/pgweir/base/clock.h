/* SPDX-License-Identifier: ISC */
/*
 * Time: microseconds of the monotonic clock. The wall clock is used only for what people read
 * (log lines, SHOW).
 */
#ifndef PGWEIR_BASE_CLOCK_H
#define PGWEIR_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Microseconds: a point in time of the monotonic clock, or a duration. */
typedef int64_t usec_t;

#define USEC_PER_MS INT64_C(1000)
#define USEC_PER_SEC INT64_C(1000000)

/* Reads the monotonic clock. In the loop use loop_now(), which reads it once per turn. */
static inline usec_t clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * USEC_PER_SEC + now.tv_nsec / 1000;
}

/* Microseconds since 1970 by the wall clock. */
static inline usec_t wall_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * USEC_PER_SEC + now.tv_nsec / 1000;
}

#endif
