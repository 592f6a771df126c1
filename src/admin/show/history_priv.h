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

#endif
