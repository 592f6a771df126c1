/* SPDX-License-Identifier: ISC */
/*
 * Ledger of one client's writes. Each row that the client writes has a unique number, and the
 * ledger records how often it must be in the table at the end of the run. So lost and duplicate
 * statements are both detected.
 */
#ifndef TEST_LOAD_LEDGER_H
#define TEST_LOAD_LEDGER_H

#include <stddef.h>

enum write_state {
	WRITE_ABSENT,    /* rolled back, or never committed: 0 times */
	WRITE_IN_DOUBT,  /* no result, or not yet: 0 times or 1 */
	WRITE_COMMITTED, /* confirmed: exactly once */
	WRITE_FOUND      /* was committed, and has been found in the table */
};

/* Owned by its client; {0} is an empty one. */
struct ledger {
	unsigned char *states;
	size_t count;
	size_t room;
};

/* Allocates the next `count` numbers, in `state`; returns the first. Exits if out of memory. */
size_t ledger_take(struct ledger *ledger, size_t count, enum write_state state);

/* Numbers first .. first+count-1 are now known to be in `state`. */
void ledger_settle(struct ledger *ledger, size_t first, size_t count, enum write_state state);

/* How many numbers are in `state`. */
size_t ledger_count(const struct ledger *ledger, enum write_state state);

void ledger_done(struct ledger *ledger);

#endif
