/* SPDX-License-Identifier: ISC */
/*
 * What the files of a roster have in common. Those who call these functions have the lock.
 */
#ifndef PGWEIR_POOL_SERVER_ROSTER_PRIV_H
#define PGWEIR_POOL_SERVER_ROSTER_PRIV_H

#include "pgweir/pool/server/roster.h"

static inline void roster_lock(struct roster *roster) { pthread_mutex_lock(&roster->lock); }

static inline void roster_unlock(struct roster *roster) { pthread_mutex_unlock(&roster->lock); }

/* ---- rows: roster_rows.c ---- */

struct roster_row *roster_find_row(const struct roster *roster, const struct roster_at *at);

/* The row, made if necessary. NULL: no memory, or no such host. */
struct roster_row *roster_row_of(struct roster *roster, const struct roster_at *at);

/* Notes an event for the log. NULL: nobody wants it, or there are too many. */
struct roster_change *roster_add_change(struct roster_changes *changes, enum roster_event event,
                                        const struct roster_row *row);

/* Other hosts may fit now: the pools must look. */
void roster_bump(struct roster *roster, struct roster_changes *changes);

/* ---- lag ---- */

/* The primary has written so far. */
void roster_add_sample(struct roster *roster, uint64_t position, usec_t now);

/* The row has the answer to the role question. */
void roster_set_lag(const struct roster *roster, struct roster_row *row, usec_t now);

/* What of a row has changed, as far as limits are concerned. */
void roster_look_at_limits(struct roster *roster, const struct roster_row *row,
                           const struct roster_row *before, struct roster_changes *changes);

#endif
