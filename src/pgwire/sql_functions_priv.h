/* SPDX-License-Identifier: ISC */
/*
 * Functions that change what PostgreSQL keeps in a session.
 */
#ifndef PGWEIR_PGWIRE_SQL_FUNCTIONS_PRIV_H
#define PGWEIR_PGWIRE_SQL_FUNCTIONS_PRIV_H

#include "pgweir/base/bytes.h"

enum sql_third {
	SQL_THIRD_ANY,      /* the arguments change nothing */
	SQL_THIRD_IS_LOCAL, /* not touched if the third argument is `true`: set_config() */
	SQL_THIRD_TEMPORARY /* not touched without a third argument, or if it is `false` */
};

struct sql_function {
	const char *name;
	unsigned char size;
	unsigned char third; /* enum sql_third */
	unsigned int bits;   /* SQL_TOUCH_ */
};

#define SQL_FUNCTION_MIN 6  /* bytes of the shortest name */
#define SQL_FUNCTION_MAX 35 /* of the longest */

/*
 * Returns the function with this name, in upper or lower case; NULL: none of these. Bytes
 * outside of ASCII may mean an `i`: some locales have a capital letter of their own for it.
 */
const struct sql_function *sql_function(struct bytes name);

/* Whether a name may be one of these, by its last byte. */
static inline bool sql_function_may_end(char last)
{
	/* a b d e g k l n p t u y */
	const unsigned int ends = 1u << 1 | 1u << 2 | 1u << 4 | 1u << 5 | 1u << 7 | 1u << 11 |
	                          1u << 12 | 1u << 14 | 1u << 16 | 1u << 20 | 1u << 21 | 1u << 25;

	if (last & 0x40)
		return (ends >> (last & 0x1f) & 1) || (last & 0x80);
	return (last >= '2' && last <= '4') || last == '"' || (last & 0x80);
}

#endif
