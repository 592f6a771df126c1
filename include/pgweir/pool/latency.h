/* SPDX-License-Identifier: ISC */
/*
 * Latencies: how long waits, statements, transactions and logins took, as histograms since the
 * start and for the last minutes.
 *
 * Each loop counts without locks: a pool in its own `struct latency`, and all pools together in
 * `struct latency_all`, which the main thread empties each second. No timer turns the slices of a
 * pool: a pool at rest costs nothing.
 */
#ifndef PGWEIR_POOL_LATENCY_H
#define PGWEIR_POOL_LATENCY_H

#include <stdbool.h>

#include "pgweir/base/clock.h"
#include "pgweir/base/histogram.h"

enum latency_kind {
	LATENCY_WAIT,         /* for a server, 0 if one was idle; also as a newcomer */
	LATENCY_STATEMENT,    /* a batch, as stats.query_count has it; waiting included */
	LATENCY_XACT,         /* waiting included */
	LATENCY_SERVER_LOGIN, /* from the connection attempt to the first ReadyForQuery */
	LATENCY_CLIENT_LOGIN, /* from the accepted connection to the first ReadyForQuery */
	LATENCY_KINDS,
	/* Counts for both: a statement that was a whole transaction, as most are. */
	LATENCY_STATEMENT_XACT = LATENCY_KINDS,
	LATENCY_COUNTED
};

/*
 * The windows consist of slices: the one that has not ended, and the four before it. So `minute`
 * is 60 to 75 seconds long, and `ten_minutes` ten minutes to twelve and a half.
 */
enum latency_window { LATENCY_MINUTE, LATENCY_TEN_MINUTES, LATENCY_START, LATENCY_WINDOWS };

/* What all pools of a loop have counted since the main thread emptied it. */
struct latency_all {
	struct histogram kinds[LATENCY_COUNTED];
};

/* The slice that has not ended. */
struct latency_open {
	usec_t ends_at;
	uint64_t number;
	uint64_t sums[LATENCY_COUNTED], max[LATENCY_COUNTED];
	/* by bucket; NULL: none of this kind. A counter that is full ends the slice early. */
	uint16_t *counts[LATENCY_COUNTED];
};

/* What a pool has counted. Empty if zeroed. */
struct latency {
	struct latency_open *open; /* the first of its slices; NULL: nothing but no_waits */
	/* waits of no time, in the slice that has not ended: there is one for most statements */
	uint32_t no_waits;
};

/* The same as latency_note(), if that needs more than increments. */
void latency_note_slowly(struct latency *latency, struct latency_all *all, enum latency_kind kind,
                         usec_t time, usec_t now);

/* Counts one time. Without memory only `all` counts it. */
static inline void latency_note(struct latency *latency, struct latency_all *all,
                                enum latency_kind kind, usec_t time, usec_t now)
{
	struct latency_open *open = latency->open;
	uint64_t value = (uint64_t)time; /* a time below 0 is greater than all */
	unsigned int bucket = histogram_bucket(value);

	if (value > HISTOGRAM_VALUE_MAX || !open || now >= open->ends_at || !open->counts[kind] ||
	    open->counts[kind][bucket] == UINT16_MAX) {
		latency_note_slowly(latency, all, kind, time, now);
		return;
	}
	open->counts[kind][bucket]++;
	histogram_add(&all->kinds[kind], bucket, value);
	open->sums[kind] += value;
	if (value > open->max[kind])
		open->max[kind] = value;
}

/* Counts a wait of no time. */
static inline void latency_note_no_wait(struct latency *latency, struct latency_all *all)
{
	latency->no_waits++;
	all->kinds[LATENCY_WAIT].counts[0]++;
}

static inline bool latency_has_counted(const struct latency *latency)
{
	return latency->open || latency->no_waits;
}

/* Adds what `all` has counted, and empties it. */
void latency_drain(struct latency *latency, struct latency_all *all, usec_t now);

/* Adds what `all` has counted. */
void latency_all_sum(const struct latency_all *all, enum latency_kind kind, struct histogram *sum);

/* Adds what was counted in a window that ends `now`. */
void latency_sum(const struct latency *latency, enum latency_kind kind, enum latency_window window,
                 usec_t now, struct histogram *sum);

/* Adds everything that `from` has to `to`, and empties it. */
void latency_move(struct latency *to, struct latency *from, usec_t now);

/* Empties it. */
void latency_done(struct latency *latency);

#endif
