/* SPDX-License-Identifier: ISC */
/*
 * The digest of an SQL text: one number for all texts that are the same statement with other
 * constants. What does not count:
 *
 *   - constants: strings, numbers with their sign, parameters ($1); NULL, TRUE, FALSE and DEFAULT
 *     after a sign, as in `= NULL` and `(DEFAULT`
 *   - white space, comments, a semicolon at an end of the text
 *   - the case of letters outside of quotes
 *   - in IN (...), ARRAY[...] and VALUES, all behind the first item
 *
 * "name" and name are different. A string that contains a backslash is read as with
 * standard_conforming_strings = on.
 *
 * The work is linear, and bounded by SQL_DIGEST_MAX. The digest is the same in all processes, as
 * [statements] names it. So a client can choose texts with the same digest: a table of digests
 * needs a hash with a key.
 */
#ifndef PGWEIR_PGWIRE_SQL_DIGEST_H
#define PGWEIR_PGWIRE_SQL_DIGEST_H

#include "pgweir/base/bytes.h"
#include "pgweir/base/text.h"

/* Bytes of a text that count. What follows them changes nothing. */
#define SQL_DIGEST_MAX ((size_t)64 * 1024)

uint64_t sql_digest(struct bytes text);

/*
 * Adds the statement without its constants, for log and console: a `?` for each, one space for
 * white space and comments, and `...` for further items of a list. Printable ASCII, with a `?` for
 * each other byte. A text in which the end of a string is not certain (a backslash in plain quotes)
 * ends there. Stops when `out` is full.
 */
void sql_digest_text(struct bytes text, struct strbuf *out);

/*
 * The same, with $1, $2 ... for the constants, as pg_stat_statements writes them. Parameters of the
 * text keep their numbers; those of constants follow the greatest.
 */
void sql_digest_query(struct bytes text, struct strbuf *out);

#endif
