/* SPDX-License-Identifier: ISC */
/*
 * Recognises PREPARE, EXECUTE, DEALLOCATE and DISCARD ALL in SQL texts, with a small scanner
 * for words, quotes, comments and parentheses; there is no SQL parser. The result is the
 * position of the statement's name, or that it cannot be determined. All other statements are
 * SQL_OTHER.
 *
 * Source: PostgreSQL's manual, "Lexical Structure", "PREPARE", "EXECUTE", "DEALLOCATE",
 * "DISCARD".
 */
#ifndef PGWEIR_PGWIRE_SQL_H
#define PGWEIR_PGWIRE_SQL_H

#include "pgweir/pgwire/frame.h"

#define SQL_NAME_MAX 63 /* bytes of an identifier; PostgreSQL truncates longer ones */

enum sql_kind {
	SQL_OTHER,      /* none of these, or PostgreSQL will report an error */
	SQL_PREPARE,    /* PREPARE name [(types)] AS body */
	SQL_EXECUTE,    /* EXECUTE name, also after EXPLAIN and CREATE TABLE AS */
	SQL_DEALLOCATE, /* DEALLOCATE name; not ALL */
	SQL_UNSURE,     /* one of these, but its effect is not certain */
	SQL_FORGET      /* DEALLOCATE ALL, DISCARD ALL: drops all statements */
};

struct sql_statement {
	enum sql_kind kind;
	const char *reason;          /* SQL_UNSURE: why; a static text */
	struct bytes token;          /* the name as written in the text */
	char name[SQL_NAME_MAX + 1]; /* the name as PostgreSQL reads it */
	struct bytes body;           /* PREPARE: the text of the prepared statement */
};

/*
 * Decides by its first word whether a text may be one of these. `have` is the part that has
 * arrived, perhaps with the terminating zero. WIRE_OK: call sql_read(). WIRE_BAD: it is SQL_OTHER.
 * WIRE_MORE: too little has arrived, or the whole text has no word.
 */
enum wire_result sql_glance(struct bytes have);

/*
 * Most texts need only their first two letters: SELECT, INSERT, COMMIT, ... false: call
 * sql_glance().
 */
static inline bool sql_is_other(struct bytes have)
{
	char first, second;

	if (have.count < 2)
		return false;
	first = (char)(have.at[0] | 0x20);
	second = (char)(have.at[1] | 0x20);
	if (first == 'c')
		return second == 'o'; /* COMMIT, COPY; not CREATE TABLE ... AS EXECUTE */
	return first >= 'a' && first <= 'z' && first != 'p' && first != 'e' && first != 'd';
}

/* Reads a whole text, without its terminating zero. The result points into the text. */
void sql_read(struct bytes text, struct sql_statement *statement);

/* What kind of statement a whole text is. */
enum sql_kind sql_kind_of(struct bytes text);

#endif
