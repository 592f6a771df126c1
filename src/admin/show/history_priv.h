/* SPDX-License-Identifier: ISC */
/*
 * The history of the statistics: averages for each database.
 *
 * Two snapshots of the counters are kept for each database, taken at the last tick and at
 * the one before. An average covers the time from the older snapshot until now, which is
 * one to two stats_periods.
 */
#ifndef PGWEIR_ADMIN_SHOW_HISTORY_PRIV_H
#define PGWEIR_ADMIN_SHOW_HISTORY_PRIV_H

#include "pgweir/base/clock.h"
#include "pgweir/client/lanes.h"
#include "pgweir/pool/stats.h"

struct history;

/* NULL: no memory. */
struct history *history_new(usec_t now);
void history_free(struct history **history);

/* Begins a tick: the newer snapshots become the older ones. */
void history_turn(struct history *history, usec_t now);

/* Within a tick: stores the counters under this name. */
void history_note(struct history *history, const char *name, const struct stats *counted);

/* Ends a tick: removes names that were not noted in it. */
void history_settle(struct history *history);

/*
 * Averages over the window until `now`: counts and bytes per second; times per query, per
 * transaction and per assignment of a server. `counted` has the current counters of `name`.
 */
void history_average(const struct history *history, const char *name, const struct stats *counted,
                     usec_t now, struct stats *average);

/*
 * Averages between two sets of counters. A difference below zero counts as zero: counters
 * decrease when pools are freed.
 */
void history_average_between(const struct stats *before, const struct stats *after, usec_t time,
                             struct stats *average);

/*
 * ---- timeline ----
 *
 * The timeline: what all pools together did in each second of the last five minutes, and in each
 * minute of the last hour. It has a fixed size.
 */

struct timeline;

/* A second or a minute. Counts are of that time, the other numbers are those at its end. */
struct timeline_slot {
	usec_t wall_at, at; /* its end */
	int64_t xacts, queries, errors, received, sent, logins;
	int64_t wait_p99, statement_p50, statement_p95, statement_p99, xact_p99;
	int64_t cl_active, cl_waiting, sv_active, sv_idle;
	int64_t maxwait; /* of a minute: the longest of its seconds */
};

/* NULL: no memory. */
struct timeline *timeline_new(usec_t now);
void timeline_free(struct timeline **timeline);

/* Each second, while the lanes are held, and before their latencies are emptied. */
void timeline_tick(struct timeline *timeline, const struct lanes *lanes, usec_t now);

enum timeline_resolution { TIMELINE_SECONDS, TIMELINE_MINUTES, TIMELINE_RESOLUTIONS };

/*
 * The slot with this number, counted from 0 since the start; or, if it has gone, the oldest one
 * there is: *number is that of the slot. NULL: it has not ended.
 */
const struct timeline_slot *timeline_find(const struct timeline *timeline,
                                          enum timeline_resolution resolution, uint64_t *number);

#endif
