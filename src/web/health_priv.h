/* SPDX-License-Identifier: ISC */
/*
 * Whether all loops turn: each gets a letter, and the last one to open its letter sends one back.
 */
#ifndef PGWEIR_WEB_HEALTH_PRIV_H
#define PGWEIR_WEB_HEALTH_PRIV_H

#include <stdatomic.h>

#include "pgweir/client/lanes.h"
#include "pgweir/loop/loop.h"

struct health_pulse {
	struct letter letter;
	struct loop *loop;
	struct health *health;
};

struct health {
	struct loop *web_loop;
	struct health_pulse *pulses;
	unsigned int count;
	atomic_uint missing_count; /* letters that have not been opened */
	struct letter back;
	bool is_asking;
	TAILQ_HEAD(, health_waiter) waiters;
};

/* The loops must take letters. false: no memory. */
bool health_init(struct health *health, const struct lanes *lanes, struct loop *web_loop);

/* No loop may run but the caller's. */
void health_done(struct health *health);

#endif
