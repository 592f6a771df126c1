/* SPDX-License-Identifier: ISC */
/*
 * The form of a text: the same with 0 for each number, and '' for each string. It has the digest of
 * the text.
 *
 * It is made for texts that are easy to read. One with a comment, a dollar quote, quotes that do
 * not end or a string of the kind E'...' is its own form; so is one of less than 16 bytes. A number
 * with an exponent is left as it is.
 */
#ifndef PGWEIR_PGWIRE_SQL_FORM_PRIV_H
#define PGWEIR_PGWIRE_SQL_FORM_PRIV_H

#include "pgweir/base/bytes.h"

#define SQL_FORM_ROOM 32 /* that it needs behind its end */

/* Writes it; it is not longer than the text. Returns its size. */
size_t sql_form(struct bytes text, char *form);

#endif
