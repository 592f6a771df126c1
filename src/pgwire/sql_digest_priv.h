/* SPDX-License-Identifier: ISC */
/*
 * What the digest of a text and the text without its constants must agree on: two texts have one
 * digest if they are the same without their constants.
 */
#ifndef PGWEIR_PGWIRE_SQL_DIGEST_PRIV_H
#define PGWEIR_PGWIRE_SQL_DIGEST_PRIV_H

#define NESTS_MAX 24 /* deeper parentheses are signs like others */

enum nest_kind {
	NEST_PLAIN, /* parentheses or brackets that are not a list */
	NEST_LIST,  /* the items between them */
	NEST_ROWS   /* the rows after VALUES; these have parentheses of their own */
};

#endif
