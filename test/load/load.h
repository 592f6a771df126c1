/* SPDX-License-Identifier: ISC */
/*
 * State shared by all clients of one load run. Created and owned by main.c; other files borrow it
 * for the whole run. Only one thread uses it (the canceller's threads never do).
 */
#ifndef TEST_LOAD_LOAD_H
#define TEST_LOAD_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "tally.h"

struct canceller;
struct event_base;

struct load_options {
	const char *conninfo; /* the pooler */
	const char
	    *verify_conninfo; /* where the table is created and compared, without the pooler */
	const char *only;     /* name of the only activity to run, or NULL */
	unsigned int clients;
	unsigned int seconds;
	unsigned int patience_seconds; /* a client without a result for this long has failed */
	uint64_t seed;
};

struct load {
	struct load_options options;
	struct event_base *base;
	struct canceller *canceller;
	struct tally tally;
	uint64_t random_state;
	unsigned int clients_left; /* clients that have not finished yet */
	bool is_ending;            /* time is up: clients finish their activity and stop */
};

/* A number in 0 .. limit-1, from the run's own seeded generator. limit is above 0. */
unsigned int load_random(struct load *load, unsigned int limit);

#endif
