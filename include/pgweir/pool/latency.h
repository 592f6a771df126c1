/* SPDX-License-Identifier: ISC */
/*
 * Latencies: how long waits, statements, transactions and logins took, as histograms since the
 * start and for the last minutes.
 *
 * Each loop counts without locks: a pool in its own `struct latency`, which is made when it first
 * counts, and all pools together in `struct latency_all`, which the main thread empties each
 * second. No timer turns the slices of a pool: a pool at rest costs nothing.
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
	LATENCY_KINDS
};

const char *latency_kind_name(enum latency_kind kind);

/*
 * The windows consist of slices: the one that has not ended, and the four before it. So `minute`
 * is 60 to 75 seconds long, and `ten_minutes` ten minutes to twelve and a half.
 */
enum latency_window { LATENCY_MINUTE, LATENCY_TEN_MINUTES, LATENCY_START, LATENCY_WINDOWS };

const char *latency_window_name(enum latency_window window);

/* What all pools of a loop have counted since the main thread emptied it. */
struct latency_all {
	struct histogram kinds[LATENCY_KINDS];
};

struct latency;

/* Counts one time. *latency NULL: it is made. Without memory only `all` counts it. */
void latency_note(struct latency **latency, struct latency_all *all, enum latency_kind kind,
                  usec_t time, usec_t now);

/* Adds what `all` has counted, and empties it. *latency NULL: it is made. */
void latency_drain(struct latency **latency, struct latency_all *all, usec_t now);

/* Adds what was counted in a window that ends `now`. latency NULL: nothing. */
void latency_sum(const struct latency *latency, enum latency_kind kind, enum latency_window window,
                 usec_t now, struct histogram *sum);

/* Adds everything that *from has to *to, and frees *from. Each may be NULL. */
void latency_move(struct latency **to, struct latency **from, usec_t now);

void latency_free(struct latency **latency);

/* Bytes of memory. */
size_t latency_memory(const struct latency *latency);

#endif
