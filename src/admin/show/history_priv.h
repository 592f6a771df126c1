/* SPDX-License-Identifier: ISC */
/*
 * The history of the statistics: averages of what is counted for each database.
 *
 * Two snapshots are kept for each database, taken at the last tick and at the
 * one before; an average covers the time from the older one until now, so one to
 * two stats_periods.
 */
#ifndef PGWEIR_ADMIN_SHOW_HISTORY_PRIV_H
#define PGWEIR_ADMIN_SHOW_HISTORY_PRIV_H

#include "pgweir/base/clock.h"
#include "pgweir/pool/stats.h"

struct history;

/* NULL: no memory. */
struct history *history_new(usec_t now);
void history_free(struct history **history);

/* A tick begins: the newer snapshots become the older ones. */
void history_turn(struct history *history, usec_t now);

/* Within a tick: notes what has been counted under this name. */
void history_note(struct history *history, const char *name, const struct stats *counted);

/* A tick ends: names that were not noted are forgotten. */
void history_settle(struct history *history);

/*
 * Averages over the window until `now`: counts and bytes per second, times per
 * query, transaction and assignment. `counted` is what stands now under `name`.
 */
void history_average(const struct history *history, const char *name, const struct stats *counted,
                     usec_t now, struct stats *average);

/* The same between two counts. Nothing is ever less than nothing: pools may vanish. */
void history_average_between(const struct stats *before, const struct stats *after, usec_t time,
                             struct stats *average);

#endif
