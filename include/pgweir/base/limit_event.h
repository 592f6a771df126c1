/* SPDX-License-Identifier: ISC */
/*
 * The event that a limit was reached. While clients wait for a limit or are refused by it, that is
 * one event for all of them: it begins when the limit was not met for LIMIT_EVENT_PAUSE.
 */
#ifndef PGWEIR_BASE_LIMIT_EVENT_H
#define PGWEIR_BASE_LIMIT_EVENT_H

#include <stdbool.h>

#include "pgweir/base/clock.h"
#include "pgweir/base/log.h"

#define LIMIT_EVENT_PAUSE (60 * USEC_PER_SEC)
#define LIMIT_EVENT_KIND "limit"

/* When one limit of one object was met last, in all loops. Zeroed: never. */
struct limit_met {
	_Atomic usec_t last_at;
};

/* The limit is met now. true: this begins an event. */
bool limit_event_begins(struct limit_met *met, usec_t now);

struct limit_event {
	const char *limit;           /* the setting */
	int value;                   /* in force */
	const char *counted;         /* what it limits: "the servers" */
	const char *database, *user; /* whose; NULL: of all. Both: of a pool */
};

/* The limit is met now: logs and keeps a line, if this begins an event. */
void limit_event_note(struct limit_met *met, usec_t now, struct log *log,
                      const struct limit_event *event);

#endif
