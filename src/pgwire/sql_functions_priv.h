/* SPDX-License-Identifier: ISC */
/*
 * Functions that change what PostgreSQL keeps in a session.
 */
#ifndef PGWEIR_PGWIRE_SQL_FUNCTIONS_PRIV_H
#define PGWEIR_PGWIRE_SQL_FUNCTIONS_PRIV_H

#include "sql_words_priv.h"

enum sql_third {
	SQL_THIRD_ANY,      /* the arguments change nothing */
	SQL_THIRD_IS_LOCAL, /* not touched if the third argument is `true`: set_config() */
	SQL_THIRD_TEMPORARY /* not touched without a third argument, or if it is `false` */
};

struct sql_function {
	struct sql_word name;
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

#define SQL_LETTER(letter) (1u << ((letter)&31))

/* Whether a name may be one of these, by its first two letters in any case. */
static inline bool sql_function_may_begin(char first, char second)
{
	static const unsigned int seconds[32] = {
		['c' & 31] = SQL_LETTER('u') | SQL_LETTER('r') | SQL_LETTER('o'),
		['d' & 31] = SQL_LETTER('b'),
		['l' & 31] = SQL_LETTER('a'),
		['n' & 31] = SQL_LETTER('e'),
		['p' & 31] = SQL_LETTER('g'),
		['q' & 31] = SQL_LETTER('u'),
		['s' & 31] = SQL_LETTER('e'),
		['t' & 31] = SQL_LETTER('s'),
		['x' & 31] = SQL_LETTER('p'),
	};

	return seconds[first & 31] & SQL_LETTER(second);
}

/* Whether a name may be one of these, by its last two bytes. */
static inline bool sql_function_may_end(char before, char last)
{
	before |= 0x20; /* '_' becomes 0x7f */
	switch (last | 0x20) {
	case 'a':
		return before == 'm';
	case 'b':
		return before == 'a';
	case 'd':
		return before == 'e';
	case 'e':
		return before == 't' || before == 'l';
	case 'g':
		return before == 'i' || (before & 0x80);
	case 'k':
		return before == 'c';
	case 'l':
		return before == 'a' || before == 'm' || before == 'l';
	case 'n':
		return before == 'o';
	case 'p':
		return before == 'u' || before == 'o';
	case 't':
		return before == 'i' || before == 'c' || before == 'e' || before == 'o' ||
		       before == 'r' || before == 'a' || (before & 0x80);
	case 'u':
		return before == 0x7f;
	case 'y':
		return before == 'f' || before == 'b';
	case '2':
	case '3':
	case '4':
		return before == 'b';
	default:
		return false;
	}
}

#endif
