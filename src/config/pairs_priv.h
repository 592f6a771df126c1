/* SPDX-License-Identifier: ISC */
/*
 * The right side of a line in [databases] and [users]: `key=value key='a value'`.
 */
#ifndef PGWEIR_CONFIG_PAIRS_PRIV_H
#define PGWEIR_CONFIG_PAIRS_PRIV_H

#include "pgweir/base/err.h"

struct pairs {
	char *at;    /* set to the text, which is written into */
	char *key;   /* the pair taken last, inside the text; NULL before the first */
	char *value; /* never empty */
};

enum pairs_result {
	PAIRS_ONE, /* key and value are set */
	PAIRS_END,
	PAIRS_BAD /* *err says why; it never shows a value, or what may be the rest of one */
};

/*
 * Takes the next pair. A bare value ends at a blank; one in single quotes may
 * hold blanks, and a doubled quote is a quote. Behind a value in quotes the
 * line may end in a comment.
 */
enum pairs_result pairs_next(struct pairs *pairs, struct err *err);

#endif
