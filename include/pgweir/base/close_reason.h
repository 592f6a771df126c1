/* SPDX-License-Identifier: ISC */
/*
 * How connections end: a table of reasons, and for each how often and when last.
 *
 * A reason is found by the words that are logged and told; what no row knows is
 * counted by its error's code. So there are as many rows as there are, whatever
 * a peer may say.
 */
#ifndef PGWEIR_BASE_CLOSE_REASON_H
#define PGWEIR_BASE_CLOSE_REASON_H

#include <stddef.h>
#include <stdint.h>

#include "pgweir/base/clock.h"
#include "pgweir/base/err.h"

#define CLOSE_REASONS_MAX 128
#define CLOSE_NAME_SIZE 64     /* longer names are cut */
#define CLOSE_MESSAGE_SIZE 256 /* longer messages too */

struct close_reason_row {
	const char *name; /* what happened, in a few words */
	bool is_error;    /* somebody may wish to do something about it */
};

struct close_count {
	uint64_t count;
	usec_t wall_last;
	char database[CLOSE_NAME_SIZE]; /* of the last one */
	char user[CLOSE_NAME_SIZE];
	char message[CLOSE_MESSAGE_SIZE]; /* in one line */
};

/* One end. */
struct close_told {
	enum err_code code; /* ERR_NONE unless an error is the reason */
	const char *words;  /* what is logged and told */
	const char *detail; /* and more of that; NULL: there is no more */
	const char *database, *user;
};

/* Zeroed at first. One for clients, one for servers. */
struct close_counts {
	struct close_count counts[CLOSE_REASONS_MAX];
};

/* Row `index`, from 0; NULL: that was all. */
const struct close_reason_row *close_reason_row(size_t index);

/* The row for these words; code: ERR_NONE unless an error is the reason. */
size_t close_reason_find(enum err_code code, const char *words);

void close_reason_note(struct close_counts *counts, const struct close_told *told);

#endif
