/* SPDX-License-Identifier: ISC */
/*
 * The right side of a line in [databases] and [users]: `key=value key='a value'`.
 */
#ifndef PGWEIR_CONFIG_PAIRS_PRIV_H
#define PGWEIR_CONFIG_PAIRS_PRIV_H

#include "pgweir/base/err.h"

struct pairs {
	char *at;    /* set it to the text, which will be modified */
	char *key;   /* the current pair, inside the text; NULL before the first */
	char *value; /* never empty */
};

enum pairs_result {
	PAIRS_ONE, /* key and value are valid */
	PAIRS_END,
	PAIRS_BAD /* *err says why; it never shows a value, nor what may be the rest of one */
};

/*
 * Parses the next pair. An unquoted value ends at a blank. A value in single quotes may contain
 * blanks, and a doubled quote means one quote. A comment may follow a quoted value.
 */
enum pairs_result pairs_next(struct pairs *pairs, struct err *err);

#endif
