/* SPDX-License-Identifier: ISC */
/*
 * Libraries, channels and parameters in the statements of a text.
 *
 * Hard here: a name may be known wrongly in ways that cannot be seen. What PostgreSQL makes of
 * capital letters outside of ASCII, of names of more than 63 bytes and of U&"..." depends on the
 * database or on more reading, so these are SQL_ITEM_UNSURE, and the server must be asked.
 */
#include "pgweir/pgwire/sql_items.h"

#include <string.h>

#include "pgweir/pgwire/sql_touch.h"

#include "sql_priv.h"

#define LIBRARY_MAX 1023 /* PostgreSQL's limit for a path */

struct walk {
	struct scanner scanner;
	void (*found)(void *context, const struct sql_item *item);
	void *context;
};

static void report(const struct walk *walk, enum sql_item_kind kind, const char *name,
                   bool is_local)
{
	walk->found(walk->context, &(struct sql_item){ kind, name, is_local });
}

/* ---- channels and libraries ---- */

static void read_channel(const struct walk *walk, enum sql_item_kind kind)
{
	struct token token = sql_peek(walk->scanner);
	bool is_odd = token.kind == TOKEN_WORD && !bytes_are_ascii(token.text);
	char name[SQL_NAME_MAX + 1];

	if (kind == SQL_ITEM_UNLISTEN && sql_token_is_sign(&token, '*'))
		report(walk, SQL_ITEM_UNLISTEN_ALL, "", false);
	else if (sql_is_name(&token) && !is_odd && sql_unquote_text(&token, name, sizeof(name)))
		report(walk, kind, name, false);
	else
		report(walk, SQL_ITEM_UNSURE, "", false);
}

static void read_library(struct walk *walk)
{
	struct token token = sql_token(&walk->scanner), after = sql_peek(walk->scanner);
	char name[LIBRARY_MAX + 1];

	if (sql_is_plain_string(&token) && sql_is_end(&after) &&
	    (token.text.at[0] == '$' || !sql_has_backslash(token.text)) &&
	    sql_unquote_text(&token, name, sizeof(name)))
		report(walk, SQL_ITEM_LIBRARY, name, false);
	else
		report(walk, SQL_ITEM_UNSURE, "", false);
}

/* ---- parameters ---- */

/* Behind RESET or SET. */
static void read_parameter(struct walk *walk, bool is_reset)
{
	struct scanner *scanner = &walk->scanner;
	const char *parameter;
	struct chain chain;
	struct token value;
	bool is_local, is_default;

	if (is_reset && sql_takes(scanner, "all")) {
		report(walk, SQL_ITEM_RESET, "", false);
		return;
	}
	is_local = !is_reset && sql_takes_scope(scanner, "local");
	parameter = sql_read_parameter(scanner, &chain);
	if (!parameter)
		return;
	if (!is_reset && !sql_takes(scanner, "to"))
		sql_takes_sign(scanner, '=');
	value = sql_peek(*scanner);
	is_default = is_reset || sql_is_end(&value) || sql_token_is(&value, "default") ||
	             (strcmp(parameter, "timezone") == 0 && sql_token_is(&value, "local"));
	/* SET x is a syntax error, but SET NAMES means the default. */
	if (is_reset || !sql_is_end(&value) || strcmp(parameter, "client_encoding") == 0)
		report(walk, is_default ? SQL_ITEM_RESET : SQL_ITEM_SET, parameter, is_local);
}

/* SELECT pg_advisory_unlock_all() belongs to the statements by which drivers reset a session. */
static bool is_unlock(struct scanner scanner)
{
	struct token end;

	if (!sql_takes(&scanner, "pg_advisory_unlock_all") || !sql_takes_sign(&scanner, '(') ||
	    !sql_takes_sign(&scanner, ')'))
		return false;
	end = sql_token(&scanner);
	return sql_is_end(&end);
}

/* A statement whose effect does not depend on parameters. */
static bool is_indifferent(const struct walk *walk, const struct token *first)
{
	static const char *const words[] = { "begin",   "close", "commit", "deallocate",
		                             "discard", "end",   "notify", "start" };

	return sql_token_is_one(first, words, sizeof(words) / sizeof(words[0])) ||
	       (sql_token_is(first, "select") && is_unlock(walk->scanner));
}

/* ---- statements ---- */

static void read_statement(struct walk *walk, const struct token *first)
{
	if (sql_token_is(first, "listen"))
		read_channel(walk, SQL_ITEM_LISTEN);
	else if (sql_token_is(first, "unlisten"))
		read_channel(walk, SQL_ITEM_UNLISTEN);
	else if (sql_token_is(first, "load"))
		read_library(walk);
	else if (sql_token_is(first, "reset") || sql_token_is(first, "set"))
		read_parameter(walk, sql_token_is(first, "reset"));
	else if (sql_token_is(first, "rollback") || sql_token_is(first, "abort"))
		report(walk, SQL_ITEM_ROLLBACK, "", false);
	else if (!is_indifferent(walk, first))
		report(walk, SQL_ITEM_OTHER, "", false);
}

static void walk_text(struct walk walk, struct bytes text, bool is_escaped)
{
	struct token token;

	walk.scanner = (struct scanner){ .rest = text, .is_escaped = is_escaped };
	token = sql_token(&walk.scanner);
	while (sql_token_is_sign(&token, ';'))
		token = sql_token(&walk.scanner);
	if (sql_token_is(&token, "discard")) {
		struct scanner ahead = walk.scanner;

		/* together with other statements it fails */
		if (sql_takes(&ahead, "all") && sql_is_last(&ahead, sql_token(&ahead)))
			report(&walk, SQL_ITEM_DISCARD, "", false);
	}
	for (; token.kind != TOKEN_END; token = sql_next_statement(&walk.scanner, token))
		read_statement(&walk, &token);
}

bool sql_is_alike(struct bytes text)
{
	struct scanner plain = { .rest = text }, escaped = { .rest = text, .is_escaped = true };
	struct token one, other;

	if (!sql_has_backslash(text))
		return true;
	do {
		one = sql_token(&plain);
		other = sql_token(&escaped);
		if (one.kind != other.kind || one.text.at != other.text.at ||
		    one.text.count != other.text.count)
			return false;
	} while (one.kind != TOKEN_END);
	return !sql_touch_is_unclear(text);
}

bool sql_items(struct bytes text, void (*found)(void *context, const struct sql_item *item),
               void *context)
{
	const struct walk walk = { .found = found, .context = context };
	bool is_alike = sql_is_alike(text);

	walk_text(walk, text, false);
	if (!is_alike)
		walk_text(walk, text, true);
	return is_alike;
}
