/* SPDX-License-Identifier: ISC */
/*
 * Statements: the texts that clients prepare by name, each held once however many
 * clients and servers know it. On every server a statement has the same name,
 * PGBOUNCER_<number>; a number is never given twice.
 */
#ifndef PGWEIR_POOL_STATEMENTS_H
#define PGWEIR_POOL_STATEMENTS_H

#include "pgweir/base/bytes.h"
#include "pgweir/base/table.h"

/* A name on servers that belongs to nothing: whatever needs it begins by closing it. */
#define SCRATCH_NAME "PGBOUNCER_0"

/* One text with its parameter types. Counted: whoever keeps one holds it. */
struct statement {
	struct statements *statements; /* it is one of */
	UT_hash_handle hh;             /* by what follows the name in its Parse message */
	size_t owner_count;
	size_t name_size;    /* bytes of its name on servers, zero included */
	bool is_written;     /* the process that takes over has been told of it */
	size_t message_size; /* bytes of the Parse message that makes a server know it */
	char message[];
};

/* All that live. At rest ({0}) it owns nothing; all must have been released. */
struct statements {
	struct statement *table;
	unsigned long long last_number;
};

/*
 * The statement of this text: what a Parse message has behind the name, query and
 * parameter types. The caller owns one more. NULL: no memory, or too long.
 */
struct statement *statement_of(struct statements *statements, struct bytes text);

/* The same; if it is not known yet it gets this number, which was never given here. 0: the next. */
struct statement *statement_numbered(struct statements *statements, struct bytes text,
                                     unsigned long long number);

struct statement *statement_hold(struct statement *statement);
void statement_release(struct statements *statements, struct statement **statement);

/* Its name on servers, without its zero. */
static inline struct bytes statement_name(const struct statement *statement)
{
	return bytes_of(statement->message + 5, statement->name_size - 1);
}

/* The number in that name. */
unsigned long long statement_number(const struct statement *statement);

#endif
