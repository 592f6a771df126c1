/* SPDX-License-Identifier: ISC */
/*
 * Recognises a text that is one statement of those that read and write rows, and whether it only
 * reads.
 *
 * Source: PostgreSQL's manual, "SELECT", "INSERT", "Functions and Operators", "Lexical Structure",
 * "Hot Standby", "System Administration Functions", "Large Objects".
 */
#ifndef PGWEIR_PGWIRE_SQL_SINGLE_H
#define PGWEIR_PGWIRE_SQL_SINGLE_H

#include "pgweir/base/bytes.h"

enum sql_single {
	SQL_SINGLE_NOT, /* another statement, several, or not certain */
	/*
	 * SELECT, INSERT, UPDATE, DELETE, MERGE, VALUES, TABLE or WITH. Outside of a transaction
	 * block none of them leaves a transaction open, and none waits for data of the client.
	 */
	SQL_SINGLE_ANY,
	/*
	 * SELECT, VALUES, TABLE or WITH that changes no rows, locks none, makes no table, and
	 * calls only well-known functions that read. What views, operators and types call inside
	 * cannot be seen.
	 */
	SQL_SINGLE_READ
};

/*
 * Reads a whole text, without its terminating zero. `functions`: more of them that only read, in
 * lower case, without a schema, each with a zero after it. Its time is linear in the size of the
 * text.
 */
enum sql_single sql_single(struct bytes text, struct bytes functions);

/*
 * Whether a text has a call of another function than those well-known ones. Not seen are calls in
 * attribute notation, and what views, operators, types and triggers call.
 */
bool sql_calls_unknown(struct bytes text);

/*
 * Whether a whole text is for the primary: a read-only transaction may run it there, but a standby
 * refuses it, or it means something else there. Transaction ids, snapshots for others, the WAL,
 * replication slots, large objects, locks of tables, maintenance. What changes the session is in
 * sql_touch.h, and so are advisory locks.
 *
 * It may say so too often: of a function's name in a string, too. Its time is linear in the size of
 * the text.
 */
bool sql_is_for_primary(struct bytes text);

#endif
