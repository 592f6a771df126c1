/* SPDX-License-Identifier: ISC */
/*
 * Budget: which part of the main thread's time goes to pieces of tables.
 *
 *   a piece of 1 ms is paid for after 5 ms     paid_at += 5 * 1 ms
 *   the next one may begin 5 ms before that    so small tables are made at once
 */
#ifndef PGWEIR_WEB_BUDGET_PRIV_H
#define PGWEIR_WEB_BUDGET_PRIV_H

#include "pgweir/base/clock.h"

#define BUDGET_SHARE 5                /* pieces may take one of so many parts of the time, */
#define BUDGET_AT_ONCE ((usec_t)5000) /* and all of this time's share at once */

/* A zeroed one is whole. */
struct budget {
	usec_t paid_at; /* when all pieces so far have had their share of the time */
};

/* When the next piece may be made; a time in the past: now. */
static inline usec_t budget_next_at(const struct budget *budget)
{
	return budget->paid_at - BUDGET_AT_ONCE;
}

/* A piece that was begun `now` has taken so much CPU time. What was not used is not kept. */
static inline void budget_spend(struct budget *budget, usec_t now, usec_t took)
{
	if (budget->paid_at < now)
		budget->paid_at = now;
	budget->paid_at += BUDGET_SHARE * took;
}

#endif
