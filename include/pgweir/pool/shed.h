/* SPDX-License-Identifier: ISC */
/*
 * When a wait queue is too long, and how long it may be then.
 *
 * When: as CoDel decides it (RFC 8289). A queue that is long for a moment is good, as it absorbs a
 * burst; one whose first has waited longer than the target for a whole interval stands, and only
 * makes all of its members wait. It ends when for an interval the first has not waited so long,
 * and nobody had to be refused.
 *
 * How long: CoDel drops some packets, and their senders slow down; clients of a database do not. So
 * the queue is cut to what was served in a time of the target lately: the last one in it then waits
 * about as long as the target. If the servers become slower, those in front wait longer: one that
 * has waited half as long again is not served any more ("controlled delay" in Ben Maurer, "Fail at
 * Scale", ACM Queue 13, 2015).
 *
 * No clock: the caller passes the time. Zeroed: the queue is short.
 */
#ifndef PGWEIR_POOL_SHED_H
#define PGWEIR_POOL_SHED_H

#include <stdbool.h>

#include "pgweir/base/clock.h"

struct shed_rule {
	usec_t target;   /* queue_target; 0 = nothing is shed */
	usec_t interval; /* queue_interval */
};

enum shed_phase {
	SHED_RESTS,
	SHED_REFUSES, /* the queue stands */
	SHED_IS_HELD  /* by PAUSE or SUSPEND: it is not looked at */
};

struct shed {
	enum shed_phase phase;
	usec_t began_at;  /* a wait before that does not count */
	usec_t turned_at; /* since when SHED_RESTS or SHED_REFUSES would be right instead, or 0 */
	usec_t refused_at;
	usec_t window_at; /* windows of an interval, in which is counted who is served */
	unsigned int served, served_before;
};

/* Those that wait in one loop. */
struct shed_queue {
	unsigned int waiting;
	unsigned int least; /* so many may always wait */
	usec_t wait;        /* the first has waited so long */
	usec_t now;
};

/* The first has waited so long now; 0: nobody waits. To be called often enough. */
void shed_look(struct shed *shed, const struct shed_rule *rule, usec_t now, usec_t wait);

/* One was served. */
void shed_serve(struct shed *shed, const struct shed_rule *rule, usec_t now);

/* One was refused, as there was no room. */
static inline void shed_refuse(struct shed *shed, usec_t now) { shed->refused_at = now; }

/*
 * Whether the newest is to be refused. Not while the first has waited less than half of the target:
 * the queue may be another one than that which stood, as after a pause.
 */
bool shed_refuses(const struct shed *shed, const struct shed_rule *rule,
                  const struct shed_queue *queue);

/* Whether the first is to be refused. */
bool shed_is_late(const struct shed *shed, const struct shed_rule *rule,
                  const struct shed_queue *queue);

#endif
