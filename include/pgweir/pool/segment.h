/* SPDX-License-Identifier: ISC */
/*
 * A segment: what a borrower has sent to a server up to a Sync, kept for the case
 * that the server refuses the first of it, and it is worth saying again.
 *
 * There is one room of a few KB for each server that was ever in that case, and
 * nothing is kept beyond the first answer.
 */
#ifndef PGWEIR_POOL_SEGMENT_H
#define PGWEIR_POOL_SEGMENT_H

#include <stdbool.h>
#include <stdlib.h>

#include "pgweir/base/bytes.h"

#define SEGMENT_MAX ((size_t)4 * 1024)

/* At rest ({0}) it owns nothing. */
struct segment {
	char *at;       /* SEGMENT_MAX bytes, once there was one */
	size_t count;   /* 0: nothing is kept */
	bool is_failed; /* it is said again when the server is ready */
};

static inline void segment_done(struct segment *segment)
{
	free(segment->at);
	*segment = (struct segment){ 0 };
}

static inline void segment_drop(struct segment *segment) { segment->count = 0; }

/* Keeps it, if it is small enough and there is memory. */
static inline void segment_keep(struct segment *segment, struct bytes bytes)
{
	if (bytes.count > SEGMENT_MAX)
		return;
	if (!segment->at)
		segment->at = malloc(SEGMENT_MAX);
	if (!segment->at)
		return;
	memcpy(segment->at, bytes.at, bytes.count);
	segment->count = bytes.count;
}

#endif
