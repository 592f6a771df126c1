/* SPDX-License-Identifier: ISC */
/*
 * Ledger of one client's writes. Each row that the client writes has a number, used once, and
 * the ledger says how often it must be found in the table when the run is over. So a lost
 * statement and a doubled one are both seen.
 */
#ifndef TEST_LOAD_LEDGER_H
#define TEST_LOAD_LEDGER_H

#include <stddef.h>

enum write_state {
	WRITE_ABSENT,    /* rolled back, or never committed: 0 times */
	WRITE_IN_DOUBT,  /* its answer did not come, or not yet: 0 times or 1 */
	WRITE_COMMITTED, /* confirmed: exactly once */
	WRITE_FOUND      /* was committed, and has been found in the table */
};

/* Owned by its client; {0} is an empty one. */
struct ledger {
	unsigned char *states;
	size_t count;
	size_t room;
};

/* Takes the next `count` numbers, in `state`; returns the first. Out of memory ends the program. */
size_t ledger_take(struct ledger *ledger, size_t count, enum write_state state);

/* Numbers first .. first+count-1 are now known to be in `state`. */
void ledger_settle(struct ledger *ledger, size_t first, size_t count, enum write_state state);

/* How many numbers are in `state`. */
size_t ledger_count(const struct ledger *ledger, enum write_state state);

void ledger_done(struct ledger *ledger);

#endif
