/* SPDX-License-Identifier: ISC */
/*
 * Reads which parameters of the session a text sets back to their defaults: RESET, SET ... TO
 * DEFAULT, SET TIME ZONE LOCAL, the same with SET LOCAL, and DISCARD ALL if it is the only
 * statement.
 */
#ifndef PGWEIR_PGWIRE_SQL_RESETS_H
#define PGWEIR_PGWIRE_SQL_RESETS_H

#include "pgweir/base/bytes.h"

struct sql_reset {
	const char *name; /* in lower case; NULL: all parameters */
	bool is_set;      /* it is not set back, but gets a value */
	bool is_local;    /* by SET LOCAL */
	bool is_discard;  /* by DISCARD ALL */
};

enum sql_resets {
	SQL_RESETS_NONE,
	SQL_RESETS_LAST,   /* what follows in the same text does not depend on parameters */
	SQL_RESETS_USED,   /* statements follow that may depend on them */
	SQL_RESETS_UNDONE, /* ROLLBACK or the like follows: it is not known what is set back */
	SQL_RESETS_UNSURE  /* it may depend on standard_conforming_strings */
};

/*
 * Calls found() for each parameter that is set back or set, in the order of the text. A text with
 * backslashes is read with both values of standard_conforming_strings, and found() is called for
 * what both have found.
 */
enum sql_resets sql_resets(struct bytes text,
                           void (*found)(void *context, const struct sql_reset *reset),
                           void *context);

#endif
