/* SPDX-License-Identifier: ISC */
/*
 * The statements that begin and end a transaction block, recognised where nothing about
 * them is in doubt: one statement alone, in plain ASCII, of a form that PostgreSQL takes.
 *
 * Source: PostgreSQL's manual, "BEGIN", "START TRANSACTION", "COMMIT", "ROLLBACK".
 */
#ifndef PGWEIR_PGWIRE_SQL_BLOCK_H
#define PGWEIR_PGWIRE_SQL_BLOCK_H

#include "pgweir/base/bytes.h"

enum sql_block_kind {
	SQL_BLOCK_OTHER,   /* none of these, or not for certain */
	SQL_BLOCK_BEGIN,   /* BEGIN */
	SQL_BLOCK_START,   /* START TRANSACTION */
	SQL_BLOCK_COMMIT,  /* COMMIT, END; never AND CHAIN, nor COMMIT PREPARED */
	SQL_BLOCK_ROLLBACK /* ROLLBACK, ABORT; the same, and never TO a savepoint */
};

struct sql_block {
	enum sql_block_kind kind;
	bool is_for_primary; /* a standby would refuse it: READ WRITE, SERIALIZABLE */
};

/* Reads a whole text, without its zero. */
struct sql_block sql_block_read(struct bytes text);

#endif
