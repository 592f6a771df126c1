/* SPDX-License-Identifier: ISC */
/*
 * Names of placeholders that a text may set. A placeholder is a parameter like app.user that no
 * extension defines. PostgreSQL lists them nowhere: each must be asked for by its name.
 *
 * A set of names is bounded. What does not fit, and what cannot be determined from a text, makes
 * it unknown what else may be set.
 */
#ifndef PGWEIR_PGWIRE_SQL_NAMES_H
#define PGWEIR_PGWIRE_SQL_NAMES_H

#include "pgweir/base/buf.h"

#define SQL_NAMES_MAX 1000             /* names in one set */
#define SQL_NAMES_SIZE_MAX 16384       /* bytes of these */
#define SQL_PLACEHOLDER_MAX 127        /* bytes of a name that can be asked for */
#define SQL_PARAMETERS_ALL UINT64_C(1) /* in place of 1 << n: each value of a Bind */
#define SQL_PARAMETER_LAST 63

enum sql_name {
	SQL_NAME_OTHER,       /* PostgreSQL does not accept it as the name of a placeholder */
	SQL_NAME_PLACEHOLDER, /* it can be asked for by this name */
	SQL_NAME_UNKNOWN      /* it may be one, but is not ASCII, or too long */
};

/* A zeroed one is empty. */
struct sql_names {
	struct buf list;        /* name\0name\0, in the order in which they were found */
	uint16_t *order;        /* where each begins, in the order of the names */
	size_t capacity;        /* of `order` */
	uint16_t count;         /* of the names */
	bool is_unknown;        /* the text may set others */
	bool is_unclear;        /* so it may in an encoding of which a byte may look like a quote */
	uint64_t parameters;    /* 1 << n: the value of $n is a name; or SQL_PARAMETERS_ALL */
	uint64_t compare_count; /* comparisons so far, for tests */
};

enum sql_name sql_name_judge(struct bytes name);

/* Adds a name if it is one. Blanks at its end are no part of it. */
void sql_names_add(struct sql_names *names, struct bytes name);

/* Adds all names of another set, its parameters, and whether it is unknown. */
void sql_names_merge(struct sql_names *names, const struct sql_names *others);

/*
 * Adds the names that a text may set, which has no terminating zero. is_inside: it may call
 * functions that set what its strings say, or is a DO block. Its time is linear in its size.
 */
void sql_names_read(struct sql_names *names, struct bytes text, bool is_inside);

void sql_names_free(struct sql_names *names);

#endif
