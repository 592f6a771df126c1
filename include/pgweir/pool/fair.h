/* SPDX-License-Identifier: ISC */
/*
 * Who of those that wait in a pool is served next, if it is not simply the first: fair_by, weight,
 * priority.
 *
 * Borrowers are in groups, each with a first come, first served queue of its own. A group has used
 * so much time of servers, divided by its weight; the one that has used least comes next. Who
 * begins anew has used as much as the least of those that wait, so that nobody saves up time. What
 * a borrower will use is not known before it returns its server: until then its group is charged
 * with what its borrowers have used on average.
 *
 * A group belongs to a class, and a higher class comes first. But of each class somebody is served
 * every FAIR_STARVED, if anybody waits; or, if that is too short for one statement each, in turn.
 *
 * A decision takes O(log n) of n groups. No clock: the caller passes the time.
 */
#ifndef PGWEIR_POOL_FAIR_H
#define PGWEIR_POOL_FAIR_H

#include <sys/queue.h>

#include "pgweir/base/bytes.h"
#include "pgweir/base/clock.h"
#include "pgweir/base/table.h"
#include "pgweir/config/config.h"

#define FAIR_STARVED USEC_PER_SEC
#define FAIR_GROUPS_MAX 1000 /* the others share one: strangers may choose an application_name */

struct fair;
struct borrower;

/* The group of a borrower. */
struct fair_who {
	struct bytes name;
	unsigned int weight;
	enum priority priority;
};

/* NULL: no memory. No borrower may wait or have a server when it is freed. */
struct fair *fair_new(void);
void fair_free(struct fair **fair);

/* A borrower begins to wait. false: no memory; it is in no group, and fair_next() misses it. */
bool fair_wait(struct fair *fair, struct borrower *borrower, const struct fair_who *who,
               bool is_first, usec_t now);

/* It waits no more. Safe if it does not. */
void fair_leave(struct fair *fair, const struct borrower *borrower);

/* Who is served next. NULL: nobody waits. */
struct borrower *fair_next(const struct fair *fair, usec_t now);

/* The newest of a group that has used much, of the lowest class. NULL: nobody waits. */
struct borrower *fair_last(const struct fair *fair);

/* A borrower that does not wait gets a server; it has used it for so long, and returns it. */
void fair_lend(struct fair *fair, struct borrower *borrower, const struct fair_who *who,
               usec_t now);
void fair_return(struct fair *fair, const struct borrower *borrower, usec_t used);

/* It has no server, does not wait, and may not come again. */
void fair_forget(struct fair *fair, const struct borrower *borrower);

/* What a group has; a key is a digit for its class, and its name. */
struct fair_sum {
	enum priority priority;
	unsigned int weight, waiting, served;
	usec_t used; /* since there is this group */
};

/* The first key behind this one, in the order of strcmp(). NULL: none. O(n) of n groups. */
const char *fair_key_after(const struct fair *fair, const char *key);

/* Adds what the group of this key has, if there is one. */
void fair_add_up(const struct fair *fair, const char *key, struct fair_sum *sum);

#endif
