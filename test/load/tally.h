/* SPDX-License-Identifier: ISC */
/* What was done and what went wrong: plain counters, and the report of each wrong answer. */
#ifndef TEST_LOAD_TALLY_H
#define TEST_LOAD_TALLY_H

#include <stdint.h>

enum tally_kind {
	TALLY_STATEMENTS, /* statements sent */
	TALLY_PREPARED,   /* named statements sent to be prepared */
	TALLY_ROWS,       /* rows checked, COPY lines included */
	TALLY_ERRORS,     /* expected errors */
	TALLY_NOTICES,    /* expected notices */
	TALLY_WRITES,     /* rows written and confirmed */
	TALLY_DOUBTS,     /* rows whose statement was interrupted */
	TALLY_CONNECTS,   /* logins done */
	TALLY_VANISHED,   /* connections left abruptly */
	TALLY_CANCELS,    /* cancel requests sent */
	TALLY_CANCELLED,  /* statements that a cancel ended */
	TALLY_SILENT,     /* clients without a result in time; counted as wrong results too */
	TALLY_WRONG,      /* wrong results */
	TALLY_KINDS
};

struct tally {
	uint64_t counts[TALLY_KINDS];
};

void tally_add(struct tally *tally, enum tally_kind kind, uint64_t count);

/* Counts a wrong result and prints the first twenty. */
void tally_wrong(struct tally *tally, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* One line per counter on standard output. */
void tally_print(const struct tally *tally);

#endif
