/* SPDX-License-Identifier: ISC */
/*
 * Recognises the statements that begin and end a transaction block, and SET TRANSACTION, if nothing
 * about them is in doubt: a single statement, in plain ASCII, of a form that PostgreSQL accepts.
 * And SET LOCAL, of any form, and texts that have nothing of all this, or that define relations
 * only. One SET of the session, statements on databases, and single statements.
 *
 * Source: PostgreSQL's manual, "BEGIN", "START TRANSACTION", "COMMIT", "ROLLBACK", "SET
 * TRANSACTION"; "SELECT", "INSERT", "Functions and Operators", "Lexical Structure", "Hot Standby",
 * "System Administration Functions", "Large Objects".
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

/*
 * Whether the statements of a text that begin with CREATE, ALTER or IMPORT define nothing but
 * tables, indexes, sequences and views. false also if that is in doubt.
 */
bool sql_defines_relations(struct bytes text);

/* ---- SET ---- */

#define SQL_SET_NAME_MAX 127
#define SQL_SET_VALUE_MAX 255

struct sql_set {
	char name[SQL_SET_NAME_MAX + 1]; /* in lower case: PostgreSQL's names have none */
	char value[SQL_SET_VALUE_MAX + 1];
};

/*
 * Whether a text is one SET of the session and nothing else, whose effect is certain if it
 * succeeds: the parameter then has this value, or the same in other words (0 and off). false for
 * parameters whose value depends on more than that (role, DateStyle, lists), for DEFAULT, and for
 * values that are not plain ASCII.
 */
bool sql_set_read(struct bytes text, struct sql_set *set);

/*
 * The parameter that a text sets which is one SET of the session and nothing else, also in the form
 * SET TIME ZONE, SET NAMES or SET SESSION AUTHORIZATION. false: the text is something else.
 */
bool sql_set_name(struct bytes text, char name[static SQL_SET_NAME_MAX + 1]);

/*
 * ---- databases ----
 *
 * Statements for which a database must have no sessions: DROP DATABASE, ALTER DATABASE ... RENAME
 * or SET TABLESPACE, CREATE DATABASE.
 */

#define SQL_DATABASE_SIZE 64 /* of a name in PostgreSQL, with its zero */

/*
 * Reads a whole text, without its terminating zero. *name: the database; of CREATE DATABASE, its
 * template. false: it is another statement, or there are several.
 */
bool sql_database(struct bytes text, char name[SQL_DATABASE_SIZE]);

/*
 * ---- items ----
 *
 * What the statements of a text say of libraries, channels and parameters. Names are those that
 * PostgreSQL reads: without quotes, in lower case if they had none.
 */

enum sql_item_kind {
	SQL_ITEM_LIBRARY,      /* LOAD 'name' */
	SQL_ITEM_LISTEN,       /* LISTEN name */
	SQL_ITEM_UNLISTEN,     /* UNLISTEN name */
	SQL_ITEM_UNLISTEN_ALL, /* UNLISTEN * */
	SQL_ITEM_UNSURE,       /* one of these whose name cannot be determined */
	SQL_ITEM_SET,          /* SET, also SET LOCAL: a parameter gets a value */
	SQL_ITEM_RESET,        /* it gets its default; RESET ALL has no name */
	SQL_ITEM_DISCARD,      /* DISCARD ALL, alone: with other statements it fails */
	SQL_ITEM_ROLLBACK,     /* ROLLBACK, ABORT, also to a savepoint */
	SQL_ITEM_OTHER         /* a statement that may depend on parameters */
};

struct sql_item {
	enum sql_item_kind kind;
	const char *name; /* "": none. Valid only in the callback */
	bool is_local;    /* by SET LOCAL */
};

/*
 * Whether a text is the same with and without standard_conforming_strings, which is not known here.
 */
bool sql_is_alike(struct bytes text);

/*
 * Calls found() for each item of a whole text, which has no terminating zero, in its order. false:
 * the text is not alike, and was read in both ways.
 */
bool sql_items(struct bytes text, void (*found)(void *context, const struct sql_item *item),
               void *context);

/*
 * ---- single statements ----
 *
 * A text that is one statement of those that read and write rows, and whether it only reads.
 */

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
