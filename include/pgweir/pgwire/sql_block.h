/* SPDX-License-Identifier: ISC */
/*
 * Recognises the statements that begin and end a transaction block, and SET TRANSACTION, if nothing
 * about them is in doubt: a single statement, in plain ASCII, of a form that PostgreSQL accepts.
 * And SET LOCAL, of any form, and texts that have nothing of all this.
 *
 * Source: PostgreSQL's manual, "BEGIN", "START TRANSACTION", "COMMIT", "ROLLBACK", "SET
 * TRANSACTION".
 */
#ifndef PGWEIR_PGWIRE_SQL_BLOCK_H
#define PGWEIR_PGWIRE_SQL_BLOCK_H

#include "pgweir/base/bytes.h"

enum sql_block_kind {
	SQL_BLOCK_OTHER,    /* none of these, or not certain */
	SQL_BLOCK_BEGIN,    /* BEGIN */
	SQL_BLOCK_START,    /* START TRANSACTION */
	SQL_BLOCK_COMMIT,   /* COMMIT, END; not AND CHAIN, not COMMIT PREPARED */
	SQL_BLOCK_ROLLBACK, /* ROLLBACK, ABORT; not AND CHAIN, not TO a savepoint */
	SQL_BLOCK_SET       /* SET TRANSACTION with modes */
};

/* What a statement says of the transaction: READ ONLY or READ WRITE. */
enum sql_access { SQL_ACCESS_UNSAID, SQL_ACCESS_READ_ONLY, SQL_ACCESS_READ_WRITE };

struct sql_block {
	enum sql_block_kind kind;
	bool is_for_primary; /* a standby would refuse it: READ WRITE, SERIALIZABLE */
	bool has_isolation;  /* it says ISOLATION LEVEL; else the session's default counts */
	enum sql_access access;
};

/* Reads a whole text, without its terminating zero. */
struct sql_block sql_block_read(struct bytes text);

/* Whether a whole text is a single SET LOCAL: it changes nothing that outlives its transaction. */
bool sql_is_set_local(struct bytes text);

/*
 * Whether no statement of a text begins or ends a transaction block, ends a prepared one, or sets
 * its modes. false also if that is in doubt.
 */
bool sql_is_no_block(struct bytes text);

#endif
