/* SPDX-License-Identifier: ISC */
/*
 * Statements, each held once.
 */
#include "pgweir/pool/statements.h"

#include <stdio.h>
#include <stdlib.h>

#include "pgweir/pgwire/frame.h"

#include "pgweir/base/banned.h"

#define NAME_MAX_SIZE 32
#define TEXT_MAX ((size_t)1 << 29)
#define KEY_ROOM ((size_t)16 * 1024) /* that is kept for the next key */

static struct statement *make(struct statements *statements, struct bytes key, size_t scope_size,
                              unsigned long long number)
{
	char name[NAME_MAX_SIZE];
	size_t name_size = (size_t)snprintf(name, sizeof(name), STATEMENT_NAMES "%llu", number) + 1;
	size_t front = FRAME_HEADER_SIZE + name_size;
	size_t size = front + key.count - scope_size;
	struct statement *statement = calloc(1, sizeof(*statement) + size + scope_size);

	if (!statement)
		return NULL;
	statement->statements = statements;
	statement->name_size = name_size;
	statement->message_size = size;
	statement->scope_size = scope_size;
	statement->message[0] = 'P';
	store_be32(statement->message + 1, (uint32_t)(size - 1));
	memcpy(statement->message + FRAME_HEADER_SIZE, name, name_size);
	memcpy(statement->message + front, key.at, key.count);
	HASH_ADD_KEYPTR(hh, statements->table, statement->message + front, key.count, statement);
	return statement;
}

/* key: text and scope, the last scope_size bytes of it. */
static struct statement *find_or_make(struct statements *statements, struct bytes key,
                                      size_t scope_size, unsigned long long number)
{
	struct statement *statement;

	if (key.count > TEXT_MAX)
		return NULL;
	/* A text says itself where it ends, so equal keys have equal scopes. */
	HASH_FIND(hh, statements->table, key.at, key.count, statement);
	if (!statement)
		statement = make(statements, key, scope_size,
		                 number ? number : ++statements->last_number);
	return statement ? statement_hold(statement) : NULL;
}

/* The key is made of these, one behind the other. */
static struct statement *find_joined(struct statements *statements, struct bytes text,
                                     struct bytes types, struct bytes scope,
                                     unsigned long long number)
{
	struct statement *statement = NULL;
	struct buf *key = &statements->key;

	buf_add(key, text.at, text.count);
	buf_add(key, types.at, types.count);
	buf_add(key, scope.at, scope.count);
	if (buf_ok(key))
		statement = find_or_make(statements, buf_bytes(key), scope.count, number);
	buf_reuse(key, KEY_ROOM);
	if (!statements->table)
		buf_free(key);
	return statement;
}

struct statement *statement_numbered(struct statements *statements, struct bytes text,
                                     struct bytes scope, unsigned long long number)
{
	if (scope.count == 0)
		return find_or_make(statements, text, 0, number);
	return find_joined(statements, text, bytes_of("", 0), scope, number);
}

struct statement *statement_of(struct statements *statements, struct bytes text,
                               struct bytes scope)
{
	return statement_numbered(statements, text, scope, 0);
}

struct statement *statement_typed(const struct statement *statement, struct bytes types)
{
	struct bytes query = statement_text(statement);
	struct statement *typed;

	query.count = strnlen(query.at, query.count - 1) + 1;
	typed = find_joined(statement->statements, query, types, statement_scope(statement), 0);
	if (typed)
		typed->is_typed = true;
	return typed;
}

struct statement *statement_scoped(const struct statement *statement, struct bytes scope)
{
	struct statement *scoped =
	    statement_numbered(statement->statements, statement_text(statement), scope, 0);

	if (scoped && statement->is_typed)
		scoped->is_typed = true;
	return scoped;
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
	if (!statements->table)
		buf_free(&statements->key);
}

unsigned long long statement_number(const struct statement *statement)
{
	return strtoull(statement_name(statement).at + sizeof(STATEMENT_NAMES) - 1, NULL, 10);
}
