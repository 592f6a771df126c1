/* SPDX-License-Identifier: ISC */
/*
 * SQL's own PREPARE, EXECUTE, DEALLOCATE and DISCARD ALL, recognised by a small scanner: words,
 * quotes, comments and parentheses, no parser. It says where the statement's name
 * stands, or that it cannot tell; anything else is not its business.
 *
 * Source: PostgreSQL's manual, "Lexical Structure", "PREPARE", "EXECUTE", "DEALLOCATE", "DISCARD".
 */
#ifndef PGWEIR_PGWIRE_SQL_H
#define PGWEIR_PGWIRE_SQL_H

#include "pgweir/pgwire/frame.h"

#define SQL_NAME_MAX 63 /* bytes of an identifier; PostgreSQL cuts longer ones */
#define SQL_TYPES_MAX 100

enum sql_kind {
	SQL_OTHER,      /* none of these, or PostgreSQL will find it wrong */
	SQL_PREPARE,    /* PREPARE name [(types)] AS body */
	SQL_EXECUTE,    /* EXECUTE name, also behind EXPLAIN and CREATE TABLE AS */
	SQL_DEALLOCATE, /* DEALLOCATE name; not ALL */
	SQL_UNSURE,     /* one of these, but what it does is not certain */
	SQL_FORGET      /* DEALLOCATE ALL, DISCARD ALL: all statements go */
};

struct sql_statement {
	enum sql_kind kind;
	const char *reason;          /* SQL_UNSURE: why; static */
	struct bytes token;          /* the name as it stands in the text */
	char name[SQL_NAME_MAX + 1]; /* and as PostgreSQL understands it */
	struct bytes body;           /* PREPARE: what is prepared */
	uint16_t type_count;         /* PREPARE: the parameters' types */
	uint32_t types[SQL_TYPES_MAX];
};

/*
 * Whether a text may be one of these, by its first word: `have` is what has come
 * of it. WIRE_OK: it must be read; WIRE_BAD: it need not; WIRE_MORE: too little has come.
 */
enum wire_result sql_glance(struct bytes have, bool is_whole);

/*
 * Most texts are told by their first letters: SELECT, INSERT, COMMIT, ... false: ask
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
		return second == 'o'; /* COMMIT, COPY, but CREATE TABLE ... AS EXECUTE */
	return first >= 'a' && first <= 'z' && first != 'p' && first != 'e' && first != 'd';
}

/* Reads a whole text, without its zero. What it finds points into the text. */
void sql_read(struct bytes text, struct sql_statement *statement);

#endif
