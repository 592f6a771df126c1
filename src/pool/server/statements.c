/* SPDX-License-Identifier: ISC */
/*
 * Statements; each is stored once.
 */
#include "pgweir/pool/server/statements.h"

#include <stdio.h>
#include <stdlib.h>

#include "pgweir/auth/digest.h"
#include "pgweir/pgwire/frame.h"
#include "pgweir/pgwire/sql_touch.h"

#include "pgweir/base/banned.h"

#define NAME_MAX_SIZE 64
#define STEM_SIZE 12 /* letters of 5 bits each */
#define TEXT_MAX ((size_t)1 << 29)
#define KEY_CAPACITY ((size_t)16 * 1024) /* bytes of the key buffer that are kept */

/* Writes the name on servers. Returns its size including the zero. */
static size_t write_name(char *out, size_t size, const struct statement_name *name)
{
	return (size_t)snprintf(out, size, STATEMENT_NAMES "%s%s%llu", name->stem,
	                        *name->stem ? "_" : "", name->number) +
	       1;
}

static struct statement *make(struct statements *statements, struct bytes key, size_t scope_size,
                              const struct statement_name *given)
{
	char name[NAME_MAX_SIZE];
	size_t name_size = write_name(name, sizeof(name), given);
	size_t front = FRAME_HEADER_SIZE + name_size;
	size_t size = front + key.count - scope_size;
	struct statement *statement = calloc(1, sizeof(*statement) + size + scope_size);

	if (!statement)
		return NULL;
	statement->statements = statements;
	statement->name_size = name_size;
	statement->message_size = size;
	statement->scope_size = scope_size;
	statement->touches = sql_touch(bytes_of(key.at, strnlen(key.at, key.count)));
	statement->message[0] = 'P';
	store_be32(statement->message + 1, (uint32_t)(size - 1));
	memcpy(statement->message + FRAME_HEADER_SIZE, name, name_size);
	memcpy(statement->message + front, key.at, key.count);
	TABLE_ADD(hh, &statements->secret, statements->table, statement->message + front, key.count,
	          statement);
	return statement;
}

/* key: the text followed by the scope, which has scope_size bytes. */
static struct statement *find_or_make(struct statements *statements, struct bytes key,
                                      size_t scope_size, const struct statement_name *name)
{
	struct statement *statement;
	struct statement_name next = { statements->stem, 0 };

	if (key.count > TEXT_MAX)
		return NULL;
	/* The format of the text shows where it ends, so equal keys have equal scopes. */
	TABLE_FIND(hh, &statements->secret, statements->table, key.at, key.count, statement);
	if (!statement && !name) {
		next.number = ++statements->last_number;
		name = &next;
	}
	if (!statement)
		statement = make(statements, key, scope_size, name);
	return statement ? statement_hold(statement) : NULL;
}

/* Finds the statement whose key is these parts, joined. */
static struct statement *find_joined(struct statements *statements, struct bytes text,
                                     struct bytes types, struct bytes scope,
                                     const struct statement_name *name)
{
	struct statement *statement = NULL;
	struct buf *key = &statements->key;

	buf_add(key, text.at, text.count);
	buf_add(key, types.at, types.count);
	buf_add(key, scope.at, scope.count);
	if (buf_ok(key))
		statement = find_or_make(statements, buf_bytes(key), scope.count, name);
	buf_reuse(key, KEY_CAPACITY);
	if (!statements->table)
		buf_free(key);
	return statement;
}

struct statement *statement_named(struct statements *statements, struct bytes text,
                                  struct bytes scope, const struct statement_name *name)
{
	if (scope.count == 0)
		return find_or_make(statements, text, 0, name);
	return find_joined(statements, text, bytes_of("", 0), scope, name);
}

struct statement *statement_of(struct statements *statements, struct bytes text, struct bytes scope)
{
	return statement_named(statements, text, scope, NULL);
}

struct statement *statement_typed(const struct statement *statement, struct bytes types)
{
	struct bytes query = statement_text(statement);
	struct statement *typed;

	query.count = strnlen(query.at, query.count - 1) + 1;
	typed = find_joined(statement->statements, query, types, statement_scope(statement), NULL);
	if (typed)
		typed->is_typed = true;
	return typed;
}

struct statement *statement_scoped(const struct statement *statement, struct bytes scope)
{
	struct statement *scoped =
	    statement_named(statement->statements, statement_text(statement), scope, NULL);

	if (scoped) {
		scoped->is_typed |= statement->is_typed;
		scoped->is_forgetting = statement->is_forgetting;
	}
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
	return strtoull(strrchr(statement_name(statement).at, '_') + 1, NULL, 10);
}

struct bytes statement_stem(const struct statement *statement)
{
	const char *at = statement_name(statement).at + sizeof(STATEMENT_NAMES) - 1;
	const char *end = strrchr(at, '_');

	return bytes_of(at, end ? (size_t)(end - at) : 0);
}

bool statement_is_called(const struct statement *statement, const struct statement_name *name)
{
	char called[NAME_MAX_SIZE];
	size_t size = write_name(called, sizeof(called), name);

	return bytes_equal(statement_name(statement), bytes_of(called, size - 1));
}

bool statements_init(struct statements *statements)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
	unsigned char random[STEM_SIZE];

	hash_key_draw(&statements->secret);
	_Static_assert(STEM_SIZE < STATEMENT_STEM_MAX, "its zero has room");
	if (!digest_random(random, sizeof(random)))
		return false;
	for (size_t i = 0; i < STEM_SIZE; i++)
		statements->stem[i] = letters[random[i] % 32];
	return true;
}
