/* SPDX-License-Identifier: ISC */
/*
 * Finds out from a text whether its statements may change what PostgreSQL keeps in a session:
 * parameters, channels, temporary objects, locks, ... The answer may say too much, but never too
 * little. What functions and DO blocks do inside cannot be seen in the text that calls them.
 *
 * Source: PostgreSQL's manual, "SQL Commands", "Functions and Operators", "Lexical Structure".
 */
#ifndef PGWEIR_PGWIRE_SQL_TOUCH_H
#define PGWEIR_PGWIRE_SQL_TOUCH_H

#include "pgweir/base/buf.h"
#include "pgweir/base/hash.h"

enum sql_touch {
	SQL_TOUCH_PARAMS = 1 << 0,     /* SET, RESET, set_config() of the session, DISCARD ALL */
	SQL_TOUCH_DEFAULT = 1 << 1,    /* a parameter may get its default; by SET LOCAL if alone */
	SQL_TOUCH_LIBRARY = 1 << 2,    /* LOAD */
	SQL_TOUCH_LISTEN = 1 << 3,     /* LISTEN */
	SQL_TOUCH_UNLISTEN = 1 << 4,   /* UNLISTEN, DISCARD ALL */
	SQL_TOUCH_NOTIFY = 1 << 5,     /* NOTIFY, pg_notify() */
	SQL_TOUCH_CURSOR = 1 << 6,     /* DECLARE ... WITH HOLD */
	SQL_TOUCH_TEMP = 1 << 7,       /* CREATE TEMP, INTO TEMP, pg_temp; not ON COMMIT DROP */
	SQL_TOUCH_LOCK = 1 << 8,       /* advisory locks of the session */
	SQL_TOUCH_SEQUENCE = 1 << 9,   /* currval(), lastval() */
	SQL_TOUCH_EXTENSION = 1 << 10, /* dblink_connect() and others that cannot be asked for */
	SQL_TOUCH_HIDDEN = 1 << 11,    /* DO, CALL, U&"name", ...: may do any of these */
	SQL_TOUCH_EXECUTE = 1 << 12,   /* EXECUTE: the prepared statement's own bits count too */
	SQL_TOUCH_RELEASE = 1 << 13,   /* CLOSE, DROP, DISCARD, pg_advisory_unlock(), ... */
	SQL_TOUCH_WRITE = 1 << 14,     /* may call nextval(): INSERT, UPDATE, COPY, ... */
	SQL_TOUCH_CREATE = 1 << 15,    /* CREATE, SELECT INTO: temporary if search_path says so */
	SQL_TOUCH_FORGET = 1 << 16,    /* DISCARD ALL, DISCARD SEQUENCES: drops sequence values */
	SQL_TOUCH_PREPARE = 1 << 17,   /* PREPARE */
	SQL_TOUCH_XACT_LOCK = 1 << 18, /* advisory locks of the transaction: nothing is left */
	SQL_TOUCH_DATABASE = 1 << 19,  /* DROP DATABASE and the like: sql_block.h */
	SQL_TOUCH_LOCAL = 1 << 20,     /* SET LOCAL, set_config() of the transaction */
	SQL_TOUCH_SCOPE = 1 << 21,     /* it may change how statements are read */
	SQL_TOUCH_REPORTED = 1 << 23   /* the same, by a parameter that PostgreSQL reports */
};

/*
 * Parameters of which PostgreSQL reads no statement in another way: those with a dot, and these, by
 * the end, by the beginning, or by all of their names. Any other may change what a Parse means.
 */
/* clang-format off */
#define SQL_PLAIN_ENDS(X) X("cost") X("limit") X("mem") X("timeout")
#define SQL_PLAIN_BEGINNINGS(X) \
	X("default_transaction") X("effective") X("enable") X("geqo") X("jit") X("log") X("max") \
	X("min") X("track") X("transaction")
#define SQL_PLAIN_NAMES(X) \
	X("application_name") X("check_function_bodies") X("client_min_messages") \
	X("constraint_exclusion") X("default_tablespace") X("jit") X("plan_cache_mode") \
	X("row_security") X("session_replication_role") X("synchronous_commit") \
	X("temp_tablespaces") X("transaction")
/* clang-format on */

/* SQL_TOUCH_SCOPE or SQL_TOUCH_REPORTED of a parameter, in whatever letters; 0: none. */
unsigned int sql_parameter_touches(const char *name);

/* The server may have to stay with the client. */
#define SQL_TOUCH_PINS (SQL_TOUCH_CURSOR | SQL_TOUCH_TEMP | SQL_TOUCH_LOCK | SQL_TOUCH_EXTENSION)

/* The text may name a prepared statement, or run what does. */
#define SQL_TOUCH_BY_NAME \
	(SQL_TOUCH_EXECUTE | SQL_TOUCH_PREPARE | SQL_TOUCH_RELEASE | SQL_TOUCH_HIDDEN)

/*
 * Returns the SQL_TOUCH_ bits of a whole text, without its terminating zero, in any of PostgreSQL's
 * encodings. Where the end of a quoted text depends on the encoding, quotes and comments are not
 * followed, and words in them count too. Its time is linear in the size of the text.
 */
unsigned int sql_touch(struct bytes text);

/* Whether the end of a quoted text may be another than it seems, because of its encoding. */
bool sql_touch_is_unclear(struct bytes text);

/*
 * ---- touchers ----
 *
 * Names of functions and relations that may touch the session, as the database or the settings say,
 * and which of them a text has. The answer may say too much, but never too little.
 *
 * A function is named before a parenthesis, or behind a point, which is another notation for a
 * call. A relation, or a word that begins a statement, may be anywhere.
 */

struct sql_toucher {
	uint32_t name;      /* where it begins in `names` */
	unsigned int bits;  /* enum sql_touch */
	unsigned char kind; /* for the owner */
	bool is_called;     /* a function */
};

/* A zeroed one is empty. */
struct sql_touchers {
	struct sql_toucher *list;
	size_t count, capacity;
	struct sql_touchers_same *table;
	struct hash_key key;   /* who makes functions chooses names */
	struct buf names;      /* name\0name\0 */
	unsigned int odd_bits; /* of names that a text may spell in a way that is not looked for */
};

/*
 * Adds a name without its schema. `name` may have any bytes; a '?' stands for any. false: no
 * memory, and the set must not be used.
 */
bool sql_touchers_add(struct sql_touchers *set, struct bytes name, const struct sql_toucher *what);

void sql_touchers_free(struct sql_touchers *set);

static inline const char *sql_touchers_name(const struct sql_touchers *set, size_t at)
{
	return set->names.at + set->list[at].name;
}

/*
 * The bits of all names that a whole text has, without its terminating zero. Its time is linear in
 * the size of the text. first: the first of them; NULL: not wanted. It is NULL if none is named.
 */
unsigned int sql_touchers_in(const struct sql_touchers *set, struct bytes text,
                             const struct sql_toucher **first);

#endif
