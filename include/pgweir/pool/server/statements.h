/* SPDX-License-Identifier: ISC */
/*
 * Statements: the texts that clients prepare by name. Each is stored once for all clients and
 * servers of a loop. A statement has the same name on every server of the process,
 * PGBOUNCER_<stem>_<number>: the number is a keyed hash of what it consists of, so all loops give
 * it the same name without asking each other, and a server may move from loop to loop with its
 * statements. Stem and key are random, so that clients cannot guess the names of other clients'
 * statements, nor choose texts with the same number.
 *
 * The same text is a different statement with other parameter types, or in another scope: with
 * other session parameters that change how PostgreSQL reads the text (params.h).
 *
 * Two statements with the same number are told apart everywhere here, because the content counts
 * and not the name. If one of them is prepared on a server, PostgreSQL refuses the other one there
 * (42P05). One pair in 2^64 is such a pair.
 */
#ifndef PGWEIR_POOL_SERVER_STATEMENTS_H
#define PGWEIR_POOL_SERVER_STATEMENTS_H

#include "pgweir/base/buf.h"
#include "pgweir/base/clock.h"
#include "pgweir/base/table.h"
#include "pgweir/pgwire/sql_names.h"

/* The prefix of all our names on servers; clients must not use it. */
#define STATEMENT_NAMES "PGBOUNCER_"

/* A name on servers for temporary use: each user of the name closes it first. */
#define SCRATCH_NAME STATEMENT_NAMES "0"

static inline bool statement_name_is_reserved(const char *name)
{
	return strncmp(name, STATEMENT_NAMES, sizeof(STATEMENT_NAMES) - 1) == 0;
}

#define STATEMENT_STEM_MAX 16 /* size of a stem, including its zero */

/* From what names are made: the same for all loops of a process. */
struct statement_names {
	struct hash_key key;
	char stem[STATEMENT_STEM_MAX]; /* "": names have no stem */
};

/* Makes random ones. false: the system has no random numbers. */
bool statement_names_draw(struct statement_names *names);

/*
 * What a statement consists of. Immutable, and shared by all loops that have the statement: counted
 * atomically.
 */
struct statement_image {
	_Atomic unsigned int owner_count;
	uint32_t touches;    /* session state that it may touch: enum sql_touch */
	uint64_t hash;       /* of text and scope */
	size_t name_size;    /* size of its name on servers, including the zero */
	size_t message_size; /* size of the Parse message that prepares it on a server */
	size_t scope_size;   /* size of the scope, which follows the message */
	char message[];
};

struct statement_image *statement_image_hold(struct statement_image *image);
void statement_image_release(struct statement_image **image);

/* A text with its parameter types. Reference counted. */
struct statement {
	struct statements *statements; /* where it is stored */
	struct statement_image *image; /* one reference */
	UT_hash_handle hh;             /* by its text and its scope */
	struct statement *next_name;   /* a ring: the stored one and its aliases */
	size_t owner_count;
	uint32_t touches;        /* image->touches */
	uint64_t digest;         /* of its text, for those who track it; 0: not known yet */
	struct sql_names *names; /* that it may set; NULL: not read yet */
	bool is_alias;           /* not stored: another one with this text and scope is */
	bool is_written;         /* the process that takes over has got its record */
	bool is_forgetting;      /* the text deallocates all statements: SQL_FORGET */
	bool is_typed;           /* a server has found that all parameter types are specified */
};

/* All existing statements of a loop. A zeroed one owns nothing; all must have been released. */
struct statements {
	struct statement *table;
	struct statement_names names;
	/* mixed into the hash: names show it, and nobody should know who shares a bucket */
	uint64_t salt;
	/* of processes before this one, which may have numbered statements: for the hand-over */
	unsigned long long last_number;
	struct buf key; /* the key being searched; empty between two calls */
};

/* names: of the process; NULL: draws its own. false: the system has no random numbers. */
bool statements_init(struct statements *statements, struct statement_names *names);

/*
 * The statement with this text, which is what follows the name in a Parse message (query and
 * parameter types), and this scope (params.h). Made if necessary. The caller gets a reference.
 * NULL: no memory, or too long.
 */
struct statement *statement_of(struct statements *statements, struct bytes text,
                               struct bytes scope);

/* The name of a statement on servers, if another process has given it. */
struct statement_name {
	const char *stem; /* of letters and digits; "": none */
	unsigned long long number;
};

/* The same, but a new statement gets this name. */
struct statement *statement_named(struct statements *statements, struct bytes text,
                                  struct bytes scope, const struct statement_name *name);

/*
 * The same, but with exactly this name, for servers that have it so. If another name is stored for
 * that text, the result is an alias: no client gets it while the other one is stored. Text, scope
 * and name belong to one statement of the loop, so that servers and clients have the same one.
 */
struct statement *statement_called(struct statements *statements, struct bytes text,
                                   struct bytes scope, const struct statement_name *name);

/* As statement_called(), for a statement of another loop. */
struct statement *statement_of_image(struct statements *statements, struct statement_image *image);

/* The stem of the statement's name. */
struct bytes statement_stem(const struct statement *statement);

/*
 * The same query in the same scope with these types: a count and that many, as in Parse and
 * ParameterDescription. A server has resolved all of them. The caller gets a reference. NULL: no
 * memory.
 */
struct statement *statement_typed(struct statement *statement, struct bytes types);

/* The same text in another scope. */
struct statement *statement_scoped(const struct statement *statement, struct bytes scope);

struct statement *statement_hold(struct statement *statement);
void statement_release(struct statements *statements, struct statement **statement);

/* Its Parse message. */
static inline struct bytes statement_message(const struct statement *statement)
{
	return bytes_of(statement->image->message, statement->image->message_size);
}

/* What follows the name in its Parse message. */
static inline struct bytes statement_text(const struct statement *statement)
{
	return bytes_skip(statement_message(statement), 5 + statement->image->name_size);
}

static inline struct bytes statement_scope(const struct statement *statement)
{
	const struct statement_image *image = statement->image;

	return bytes_of(image->message + image->message_size, image->scope_size);
}

/* Its name on servers, without the zero. */
static inline struct bytes statement_name(const struct statement *statement)
{
	return bytes_of(statement->image->message + 5, statement->image->name_size - 1);
}

/* The number in its name. */
unsigned long long statement_number(const struct statement *statement);

#endif
