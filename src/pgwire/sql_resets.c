/* SPDX-License-Identifier: ISC */
/*
 * Parameters that a text sets back.
 *
 * Hard here: what follows in the same text is executed before anybody can set a parameter to
 * another default. So the statements behind a RESET count too. And where a string with a backslash
 * ends depends on standard_conforming_strings, which is not known here: then nothing is certain.
 */
#include "pgweir/pgwire/sql_resets.h"

#include <string.h>

#include "sql_priv.h"

struct walk {
	struct scanner scanner;
	void (*found)(void *context, const struct sql_reset *reset);
	void *context;
	enum sql_resets result;
	unsigned int count; /* of statements */
	bool is_discard;    /* the only one is DISCARD ALL */
	bool is_local;      /* the current one is SET LOCAL */
};

static void note_reset(struct walk *walk, const char *name, bool is_set)
{
	const struct sql_reset reset = { .name = name,
		                         .is_set = is_set,
		                         .is_local = walk->is_local,
		                         .is_discard = walk->is_discard };

	walk->found(walk->context, &reset);
	if (!is_set && walk->result == SQL_RESETS_NONE)
		walk->result = SQL_RESETS_LAST;
}

/* Behind RESET or SET. */
static void read_parameter(struct walk *walk, bool is_reset)
{
	struct scanner *scanner = &walk->scanner;
	const char *parameter;
	struct chain chain;
	struct token value;
	bool is_default;

	if (is_reset && sql_takes(scanner, "all")) {
		note_reset(walk, NULL, false);
		return;
	}
	walk->is_local = !is_reset && sql_takes_scope(scanner, "local");
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
		note_reset(walk, parameter, !is_default);
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
		                             "discard", "end",   "listen", "notify",
		                             "reset",   "set",   "start",  "unlisten" };

	return sql_token_is_one(first, words, sizeof(words) / sizeof(words[0])) ||
	       (sql_token_is(first, "select") && is_unlock(walk->scanner));
}

static void read_statement(struct walk *walk, const struct token *first)
{
	static const char *const undoing[] = { "rollback", "abort" };

	walk->count++;
	walk->is_discard = false; /* with other statements it fails */
	walk->is_local = false;
	if (walk->result != SQL_RESETS_NONE && sql_token_is_one(first, undoing, 2))
		walk->result = SQL_RESETS_UNDONE;
	else if (walk->result == SQL_RESETS_LAST && !is_indifferent(walk, first))
		walk->result = SQL_RESETS_USED;
	if (sql_token_is(first, "reset") || sql_token_is(first, "set"))
		read_parameter(walk, sql_token_is(first, "reset"));
	else if (walk->count == 1 && sql_token_is(first, "discard"))
		walk->is_discard = sql_takes(&walk->scanner, "all");
}

static enum sql_resets walk_text(struct walk walk, struct bytes text, bool is_escaped)
{
	struct token token;

	walk.scanner = (struct scanner){ .rest = text, .is_escaped = is_escaped };
	token = sql_token(&walk.scanner);
	for (; token.kind != TOKEN_END; token = sql_next_statement(&walk.scanner, token)) {
		if (!sql_is_end(&token))
			read_statement(&walk, &token);
	}
	if (walk.is_discard)
		note_reset(&walk, NULL, false);
	return walk.result;
}

enum sql_resets sql_resets(struct bytes text,
                           void (*found)(void *context, const struct sql_reset *reset),
                           void *context)
{
	const struct walk walk = { .found = found, .context = context };
	enum sql_resets plain = walk_text(walk, text, false), escaped;

	if (!sql_has_backslash(text))
		return plain;
	escaped = walk_text(walk, text, true);
	return plain == SQL_RESETS_NONE && escaped == SQL_RESETS_NONE ? plain : SQL_RESETS_UNSURE;
}
