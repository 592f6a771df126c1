/* SPDX-License-Identifier: ISC */
/* Targets (a host, or one of its addresses) that could not be reached: one line for an outage. */
#ifndef PGWEIR_POOL_OUTAGES_H
#define PGWEIR_POOL_OUTAGES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "pgweir/base/clock.h"

#define OUTAGE_WHERE_SIZE 384 /* size of a text with a host name, an address and a port */

/* A target that fails now, or failed recently. */
struct outage {
	TAILQ_ENTRY(outage) node;
	usec_t since;          /* valid if is_bad: time of the first failure */
	usec_t said_at;        /* time of the last WARNING; 0: there was none */
	unsigned int failures; /* number since then, including this one */
	bool is_bad;           /* it has failed, and no connection has succeeded since */
	bool is_said;          /* a WARNING was written for this outage */
	char where[OUTAGE_WHERE_SIZE];
};

/* Part of a database's tally. */
struct outages {
	pthread_mutex_t lock;
	TAILQ_HEAD(outage_list, outage) list;
	atomic_uint count; /* 0: outages_over() has nothing to do. To be read without the lock */
};

void outages_init(struct outages *outages);
void outages_done(struct outages *outages);
void outages_clear(struct outages *outages);

/* A failure. true: a line is due; *due: a copy of the outage as it was before that line. */
bool outages_failed(struct outages *outages, const char *where, usec_t now, struct outage *due);

/* A connection has succeeded. true: a line is due; *lasted: the length of the outage. */
bool outages_over(struct outages *outages, const char *where, usec_t now, usec_t *lasted);

#endif
