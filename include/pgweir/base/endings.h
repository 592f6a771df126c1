/* SPDX-License-Identifier: ISC */
/*
 * How connections end: a table of reasons, and for each how often and when last.
 *
 * A reason is found by the words that are logged and told; what no row knows is
 * counted by its error's code. So there are as many rows as there are, whatever
 * a peer may say.
 */
#ifndef PGWEIR_BASE_ENDINGS_H
#define PGWEIR_BASE_ENDINGS_H

#include <stddef.h>
#include <stdint.h>

#include "pgweir/base/clock.h"
#include "pgweir/base/err.h"

#define ENDINGS_MAX 128
#define ENDING_NAME_SIZE 64     /* longer names are cut */
#define ENDING_MESSAGE_SIZE 256 /* longer messages too */

struct ending {
	const char *name; /* what happened, in a few words */
	bool is_error;    /* somebody may wish to do something about it */
};

struct ending_count {
	uint64_t count;
	usec_t wall_last;
	char database[ENDING_NAME_SIZE]; /* of the last one */
	char user[ENDING_NAME_SIZE];
	char message[ENDING_MESSAGE_SIZE]; /* in one line */
};

/* One end. */
struct ending_told {
	enum err_code code; /* ERR_NONE unless an error is the reason */
	const char *words;  /* what is logged and told */
	const char *detail; /* and more of that; NULL: there is no more */
	const char *database, *user;
};

/* Zeroed at first. One for clients, one for servers. */
struct endings {
	struct ending_count counts[ENDINGS_MAX];
};

/* Row `index`, from 0; NULL: that was all. */
const struct ending *ending_at(size_t index);

/* The row for these words; code: ERR_NONE unless an error is the reason. */
size_t ending_find(enum err_code code, const char *words);

void endings_note(struct endings *endings, const struct ending_told *told);

#endif
