/* SPDX-License-Identifier: ISC */
/*
 * Statements: the texts that clients prepare by name. Each is stored once for all clients and
 * servers. A statement has the same name on every server, PGBOUNCER_<stem>_<number>; a number is
 * never used twice. The stem is random, one for each process, so that clients cannot guess the
 * names of other clients' statements.
 *
 * The same text is a different statement with other parameter types, or in another scope: with
 * other session parameters that change how PostgreSQL reads the text (text_scope.h).
 */
#ifndef PGWEIR_POOL_SERVER_STATEMENTS_H
#define PGWEIR_POOL_SERVER_STATEMENTS_H

#include "pgweir/base/buf.h"
#include "pgweir/base/table.h"

/* The prefix of all our names on servers; clients must not use it. */
#define STATEMENT_NAMES "PGBOUNCER_"

/* A name on servers for temporary use: each user of the name closes it first. */
#define SCRATCH_NAME STATEMENT_NAMES "0"

static inline bool statement_name_is_reserved(const char *name)
{
	return strncmp(name, STATEMENT_NAMES, sizeof(STATEMENT_NAMES) - 1) == 0;
}

#define STATEMENT_STEM_MAX 16 /* size of a stem, including its zero */

/* A text with its parameter types. Reference counted. */
struct statement {
	struct statements *statements; /* where it is stored */
	UT_hash_handle hh;             /* by its text and its scope */
	size_t owner_count;
	size_t name_size;    /* size of its name on servers, including the zero */
	uint32_t touches;    /* session state that it may touch: enum sql_touch */
	bool is_written;     /* the process that takes over has got its record */
	bool is_forgetting;  /* the text deallocates all statements: SQL_FORGET */
	bool is_typed;       /* a server has found that all parameter types are specified */
	size_t message_size; /* size of the Parse message that prepares it on a server */
	size_t scope_size;   /* size of the scope, which follows the message */
	char message[];
};

/* All existing statements. A zeroed one owns nothing; all statements must have been released. */
struct statements {
	struct statement *table;
	struct hash_key secret; /* hash key of the table */
	unsigned long long last_number;
	char stem[STATEMENT_STEM_MAX]; /* of new names; "": names have no stem */
	struct buf key;                /* the key being searched; empty between two calls */
};

/* Generates the stem and the hash key. false: the system has no random numbers. */
bool statements_init(struct statements *statements);

/*
 * The statement with this text, which is what follows the name in a Parse message (query and
 * parameter types), and this scope (text_scope.h). Made if necessary. The caller gets a reference.
 * NULL: no memory, or too long.
 */
struct statement *statement_of(struct statements *statements, struct bytes text,
                               struct bytes scope);

/* The name of a statement on servers. */
struct statement_name {
	const char *stem;          /* of letters and digits; "": none */
	unsigned long long number; /* not used here before */
};

/* The same, but a new statement gets this name. */
struct statement *statement_named(struct statements *statements, struct bytes text,
                                  struct bytes scope, const struct statement_name *name);

/* Whether the statement has exactly this name. */
bool statement_is_called(const struct statement *statement, const struct statement_name *name);

/* The stem of the statement's name. */
struct bytes statement_stem(const struct statement *statement);

/*
 * The same query in the same scope with these types: a count and that many, as in Parse and
 * ParameterDescription. A server has resolved all of them. The caller gets a reference. NULL: no
 * memory.
 */
struct statement *statement_typed(const struct statement *statement, struct bytes types);

/* The same text in another scope. */
struct statement *statement_scoped(const struct statement *statement, struct bytes scope);

struct statement *statement_hold(struct statement *statement);
void statement_release(struct statements *statements, struct statement **statement);

/* What follows the name in its Parse message. */
static inline struct bytes statement_text(const struct statement *statement)
{
	size_t front = 5 + statement->name_size;

	return bytes_of(statement->message + front, statement->message_size - front);
}

static inline struct bytes statement_scope(const struct statement *statement)
{
	return bytes_of(statement->message + statement->message_size, statement->scope_size);
}

/* Its name on servers, without the zero. */
static inline struct bytes statement_name(const struct statement *statement)
{
	return bytes_of(statement->message + 5, statement->name_size - 1);
}

/* The number in its name. */
unsigned long long statement_number(const struct statement *statement);

#endif
