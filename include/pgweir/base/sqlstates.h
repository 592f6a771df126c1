/* SPDX-License-Identifier: ISC */
/*
 * Counts of the errors that clients were sent, by SQLSTATE.
 *
 * Any client can raise an error with an SQLSTATE of its own making. So there is room for
 * SQLSTATES_MAX counts, far more than PostgreSQL's own errors need. Of what comes after those, our
 * own errors still have their counts, as they are few; PostgreSQL's classes have one each (57000),
 * and all else is counted together.
 */
#ifndef PGWEIR_BASE_SQLSTATES_H
#define PGWEIR_BASE_SQLSTATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pgweir/base/clock.h"

#define SQLSTATES_MAX 500
#define SQLSTATES_OTHER "other" /* no code has small letters */
#define SQLSTATE_SIZE 6
#define SQLSTATES_NAME_SIZE 64 /* longer names are truncated */

enum sqlstate_severity { SQLSTATE_ERROR, SQLSTATE_FATAL, SQLSTATE_PANIC };

/*
 * What is counted together: the SQLSTATE in the upper 40 bits, then who said it, then how severe
 * it was. Rows are in the order of keys, none of which is 0.
 */
typedef uint64_t sqlstate_key;

static inline bool sqlstate_is_ours(sqlstate_key key) { return key & 0x100; }

static inline enum sqlstate_severity sqlstate_severity(sqlstate_key key)
{
	return (enum sqlstate_severity)(key & 0xff);
}

struct sqlstate_count {
	sqlstate_key key;
	char sqlstate[SQLSTATE_SIZE]; /* or SQLSTATES_OTHER */
	uint64_t count;
	usec_t wall_last;
	/* of the last one */
	char database[SQLSTATES_NAME_SIZE], user[SQLSTATES_NAME_SIZE];
};

/* Empty if zeroed. */
struct sqlstates {
	uint64_t total;
	struct sqlstate_count *counts; /* in the order of their keys */
	size_t count, room;
};

/* An error that is sent to a client. The names may be NULL. */
struct sqlstate_said {
	const char *sqlstate, *severity;
	bool is_ours;
	const char *database, *user;
};

/* Counts an error. Without memory only the total counts it. */
void sqlstates_note(struct sqlstates *sqlstates, const struct sqlstate_said *said);

/* The count with the least key that is not less than this one. NULL: none. */
const struct sqlstate_count *sqlstates_from(const struct sqlstates *sqlstates, sqlstate_key key);

const char *sqlstates_severity_name(enum sqlstate_severity severity);

void sqlstates_done(struct sqlstates *sqlstates);

#endif
