/* SPDX-License-Identifier: ISC */
/*
 * Names of libraries and channels in a text.
 *
 * Hard here: a name may be known wrongly in ways that cannot be seen. What PostgreSQL makes of
 * capital letters outside of ASCII, of names of more than 63 bytes and of U&"..." depends on the
 * database or on more reading, so these are SQL_ITEM_UNSURE, and the server must be asked.
 */
#include "pgweir/pgwire/sql_names.h"

#include <string.h>

#include "sql_priv.h"

#define LIBRARY_MAX 1023 /* PostgreSQL's limit for a path */

struct walk {
	struct scanner scanner;
	void (*found)(void *context, const struct sql_item *item);
	void *context;
	const char *last;   /* the last item: see are_alike() */
	unsigned int count; /* of these */
};

static void report(struct walk *walk, enum sql_item_kind kind, struct bytes name, const char *at)
{
	const struct sql_item item = { kind, name };

	walk->last = at;
	walk->count++;
	if (walk->found)
		walk->found(walk->context, &item);
}

/* Reports an item without a name, or one whose name is not certain. */
static void report_plain(struct walk *walk, enum sql_item_kind kind, const struct token *token)
{
	report(walk, kind, bytes_of("", 0), token->text.at);
}

static void read_channel(struct walk *walk, enum sql_item_kind kind)
{
	struct token token = sql_token(&walk->scanner);
	bool is_odd = token.escape || (token.kind == TOKEN_WORD && !bytes_are_ascii(token.text));
	char name[SQL_NAME_MAX];
	size_t size = SQL_CANNOT;

	if (sql_is_name(&token) && !is_odd)
		size = sql_unquote(&token, false, name, sizeof(name));
	if (kind == SQL_ITEM_UNLISTEN && sql_token_is_sign(&token, '*'))
		report_plain(walk, SQL_ITEM_UNLISTEN_ALL, &token);
	else if (size == 0 || size == SQL_CANNOT)
		report_plain(walk, SQL_ITEM_UNSURE, &token);
	else
		report(walk, kind, bytes_of(name, size), token.text.at);
}

static void read_library(struct walk *walk)
{
	struct token token = sql_token(&walk->scanner), after = sql_peek(walk->scanner);
	bool is_certain = sql_is_plain_string(&token) && sql_is_end(&after) &&
	                  (token.text.at[0] == '$' || !sql_has_backslash(token.text));
	char name[LIBRARY_MAX];
	size_t size = is_certain ? sql_unquote(&token, false, name, sizeof(name)) : 0;

	if (size && size != SQL_CANNOT)
		report(walk, SQL_ITEM_LIBRARY, bytes_of(name, size), token.text.at);
	else
		report_plain(walk, SQL_ITEM_UNSURE, &token);
}

/* PREPARE TRANSACTION has a string; PREPARE may have "transaction" as the name. */
static bool is_prepared(struct scanner scanner)
{
	return sql_takes(&scanner, "transaction") && sql_peek(scanner).kind == TOKEN_STRING;
}

static void read_statement(struct walk *walk, const struct token *first)
{
	struct scanner after = walk->scanner;

	if (sql_token_is(first, "listen"))
		read_channel(walk, SQL_ITEM_LISTEN);
	else if (sql_token_is(first, "unlisten"))
		read_channel(walk, SQL_ITEM_UNLISTEN);
	else if (sql_token_is(first, "load"))
		read_library(walk);
	else if (sql_token_is(first, "rollback") || sql_token_is(first, "abort") ||
	         (sql_token_is(first, "prepare") && is_prepared(after)))
		report_plain(walk, SQL_ITEM_ROLLBACK, first);
	else if (sql_token_is(first, "commit") || sql_token_is(first, "end"))
		report_plain(walk, SQL_ITEM_COMMIT, first);
	else if (sql_token_is(first, "discard") && sql_takes(&after, "all"))
		report_plain(walk, SQL_ITEM_UNLISTEN_ALL, first);
}

static void walk_text(struct walk *walk)
{
	struct token token = sql_token(&walk->scanner);

	for (; token.kind != TOKEN_END; token = sql_next_statement(&walk->scanner, token)) {
		if (token.kind == TOKEN_WORD)
			read_statement(walk, &token);
	}
}

/*
 * Whether a text has the same items with and without standard_conforming_strings, which is not
 * known here.
 */
static bool are_alike(struct bytes text)
{
	struct walk plain = { .scanner = { .rest = text } };
	struct walk escaped = { .scanner = { .rest = text, .is_escaped = true } };

	walk_text(&plain);
	walk_text(&escaped);
	return plain.count == escaped.count && plain.last == escaped.last;
}

void sql_items(struct bytes text, void (*found)(void *context, const struct sql_item *item),
               void *context)
{
	struct walk walk = { .scanner = { .rest = text }, .found = found, .context = context };

	if (sql_has_backslash(text) && !are_alike(text))
		found(context, &(struct sql_item){ SQL_ITEM_UNSURE, { "", 0 } });
	else
		walk_text(&walk);
}
