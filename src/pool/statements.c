/* SPDX-License-Identifier: ISC */
/*
 * Statements, each held once.
 */
#include "pgweir/pool/statements.h"

#include <stdio.h>
#include <stdlib.h>

#include "pgweir/pgwire/frame.h"

#include "pgweir/base/banned.h"

#define NAME_PREFIX "PGBOUNCER_"
#define NAME_MAX_SIZE 32
#define TEXT_MAX ((size_t)1 << 29)

static struct statement *make(struct statements *statements, struct bytes text,
                              unsigned long long number)
{
	char name[NAME_MAX_SIZE];
	size_t name_size = (size_t)snprintf(name, sizeof(name), NAME_PREFIX "%llu", number) + 1;
	size_t size = FRAME_HEADER_SIZE + name_size + text.count;
	struct statement *statement = calloc(1, sizeof(*statement) + size);

	if (!statement)
		return NULL;
	statement->statements = statements;
	statement->name_size = name_size;
	statement->message_size = size;
	statement->message[0] = 'P';
	store_be32(statement->message + 1, (uint32_t)(size - 1));
	memcpy(statement->message + FRAME_HEADER_SIZE, name, name_size);
	memcpy(statement->message + FRAME_HEADER_SIZE + name_size, text.at, text.count);
	HASH_ADD_KEYPTR(hh, statements->table, statement->message + FRAME_HEADER_SIZE + name_size,
	                text.count, statement);
	return statement;
}

struct statement *statement_numbered(struct statements *statements, struct bytes text,
                                     unsigned long long number)
{
	struct statement *statement;

	if (text.count > TEXT_MAX)
		return NULL;
	HASH_FIND(hh, statements->table, text.at, text.count, statement);
	if (!statement)
		statement = make(statements, text, number ? number : ++statements->last_number);
	return statement ? statement_hold(statement) : NULL;
}

struct statement *statement_of(struct statements *statements, struct bytes text)
{
	return statement_numbered(statements, text, 0);
}

struct statement *statement_hold(struct statement *statement)
{
	statement->owner_count++;
	return statement;
}

void statement_release(struct statements *statements, struct statement **statementp)
{
	struct statement *statement = *statementp;

	*statementp = NULL;
	if (!statement || --statement->owner_count)
		return;
	HASH_DEL(statements->table, statement);
	free(statement);
}

unsigned long long statement_number(const struct statement *statement)
{
	return strtoull(statement_name(statement).at + sizeof(NAME_PREFIX) - 1, NULL, 10);
}
