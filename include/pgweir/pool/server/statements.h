/* SPDX-License-Identifier: ISC */
/*
 * Statements: the texts that clients prepare by name, each held once however many
 * clients and servers know it. On every server a statement has the same name,
 * PGBOUNCER_<stem>_<number>; a number is never given twice. The stem is random,
 * one for each process, so that clients cannot guess the names of others' statements.
 *
 * The same text is another statement if the types of its parameters are given
 * differently, or if it is prepared in another scope: under parameters of the session
 * by which PostgreSQL reads it differently (text_scope.h).
 */
#ifndef PGWEIR_POOL_SERVER_STATEMENTS_H
#define PGWEIR_POOL_SERVER_STATEMENTS_H

#include "pgweir/base/buf.h"
#include "pgweir/base/table.h"

/* How all names of ours on servers begin; no client may use one that does. */
#define STATEMENT_NAMES "PGBOUNCER_"

/* A name on servers that belongs to nothing: whatever needs it begins by closing it. */
#define SCRATCH_NAME STATEMENT_NAMES "0"

static inline bool statement_name_is_reserved(const char *name)
{
	return strncmp(name, STATEMENT_NAMES, sizeof(STATEMENT_NAMES) - 1) == 0;
}

#define STATEMENT_STEM_MAX 16 /* bytes of a stem, its zero included */

/* One text with its parameter types. Counted: each owner holds it. */
struct statement {
	struct statements *statements; /* it is one of */
	UT_hash_handle hh;             /* by its text and its scope */
	size_t owner_count;
	size_t name_size;    /* bytes of its name on servers, zero included */
	bool is_written;     /* the process that takes over has been told of it */
	bool is_forgetting;  /* it throws all statements away: SQL_FORGET */
	bool is_typed;       /* a server has said that no parameter's type is left open */
	size_t message_size; /* bytes of the Parse message that makes a server know it */
	size_t scope_size;   /* bytes of the scope, which lies behind the message */
	char message[];
};

/* All that live. At rest ({0}) it owns nothing; all must have been released. */
struct statements {
	struct statement *table;
	struct hash_key secret; /* of the table */
	unsigned long long last_number;
	char stem[STATEMENT_STEM_MAX]; /* of names that are given; "": they have none */
	struct buf key;                /* the one that is looked for; empty between two calls */
};

/* Draws stem and secret. false: the system has no random numbers. */
bool statements_init(struct statements *statements);

/*
 * The statement of this text: what a Parse message has behind the name, query and
 * parameter types; scope: as text_scope.h has it. The caller owns one more. NULL: no memory, or
 * too long.
 */
struct statement *statement_of(struct statements *statements, struct bytes text,
                               struct bytes scope);

/* How a statement is called on servers. */
struct statement_name {
	const char *stem;          /* of letters and digits; "": none */
	unsigned long long number; /* was never given here */
};

/* The same; if it is not known yet it gets this name. */
struct statement *statement_named(struct statements *statements, struct bytes text,
                                  struct bytes scope, const struct statement_name *name);

/* Whether it has that very name. */
bool statement_is_called(const struct statement *statement, const struct statement_name *name);

/* The stem of its name. */
struct bytes statement_stem(const struct statement *statement);

/*
 * The same query in the same scope with these types: a count and that many, as Parse and
 * ParameterDescription have them. They are what a server has found all of them to be.
 */
struct statement *statement_typed(const struct statement *statement, struct bytes types);

/* The same text in another scope. */
struct statement *statement_scoped(const struct statement *statement, struct bytes scope);

struct statement *statement_hold(struct statement *statement);
void statement_release(struct statements *statements, struct statement **statement);

/* What its Parse message has behind the name. */
static inline struct bytes statement_text(const struct statement *statement)
{
	size_t front = 5 + statement->name_size;

	return bytes_of(statement->message + front, statement->message_size - front);
}

static inline struct bytes statement_scope(const struct statement *statement)
{
	return bytes_of(statement->message + statement->message_size, statement->scope_size);
}

/* Its name on servers, without its zero. */
static inline struct bytes statement_name(const struct statement *statement)
{
	return bytes_of(statement->message + 5, statement->name_size - 1);
}

/* The number in that name. */
unsigned long long statement_number(const struct statement *statement);

#endif
