/* SPDX-License-Identifier: ISC */
/*
 * Parameters that a text sets back.
 *
 * Hard here: what follows in the same text is executed before anybody can set a parameter to
 * another default. So the statements behind a RESET count too.
 */
#include "pgweir/pgwire/sql_resets.h"

#include <stddef.h>

#include "sql_priv.h"

#include "pgweir/base/banned.h"

struct walk {
	struct scanner scanner;
	struct token token; /* the current one */
	void (*found)(void *context, const struct sql_reset *reset);
	void *context;
	enum sql_resets result;
	unsigned int count; /* of statements */
	bool is_discard;    /* the only one is DISCARD ALL */
};

static bool is_end(const struct token *token)
{
	return token->kind == TOKEN_END || sql_token_is_sign(token, ';');
}

static void next(struct walk *walk) { walk->token = sql_token(&walk->scanner); }

static bool takes(struct walk *walk, const char *word)
{
	if (!sql_token_is(&walk->token, word))
		return false;
	next(walk);
	return true;
}

static void report(struct walk *walk, const char *name, bool is_set)
{
	walk->found(walk->context, &(struct sql_reset){ name, is_set, walk->is_discard });
	if (!is_set && walk->result == SQL_RESETS_NONE)
		walk->result = SQL_RESETS_LAST;
}

/* Reads a name with all its parts. false: it cannot be determined, or is too long. */
static bool read_name(struct walk *walk, char out[static SQL_RESETS_NAME_MAX + 1])
{
	size_t used = 0;

	for (;;) {
		struct bytes text = walk->token.text;
		bool is_quoted = walk->token.kind == TOKEN_QUOTED;

		if (walk->token.kind != TOKEN_WORD && !is_quoted)
			return false;
		for (size_t i = is_quoted; i + is_quoted < text.count; i++) {
			char c = text.at[i];

			if (used == SQL_RESETS_NAME_MAX || c == '"')
				return false;
			out[used++] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
		}
		next(walk);
		if (!sql_token_is_sign(&walk->token, '.') || used == SQL_RESETS_NAME_MAX)
			break;
		out[used++] = '.';
		next(walk);
	}
	out[used] = 0;
	return true;
}

/* The name of a parameter, or words that mean one. NULL: it cannot be determined. */
static const char *read_parameter(struct walk *walk, char out[static SQL_RESETS_NAME_MAX + 1])
{
	if (takes(walk, "time"))
		return takes(walk, "zone") ? "timezone" : NULL;
	if (takes(walk, "names"))
		return "client_encoding";
	if (takes(walk, "transaction"))
		return takes(walk, "isolation") ? "transaction_isolation" : NULL;
	if (sql_token_is(&walk->token, "session")) {
		struct walk ahead = *walk;

		next(&ahead);
		if (takes(&ahead, "authorization")) {
			*walk = ahead;
			return "session_authorization";
		}
	}
	return read_name(walk, out) ? out : NULL;
}

static void read_reset(struct walk *walk)
{
	char name[SQL_RESETS_NAME_MAX + 1];
	const char *parameter;

	if (takes(walk, "all")) {
		report(walk, NULL, false);
		return;
	}
	parameter = read_parameter(walk, name);
	if (parameter)
		report(walk, parameter, false);
}

/* SESSION or LOCAL in front of a name, which may also be a name itself. */
static bool skip_scope(struct walk *walk, const char *word)
{
	struct walk ahead = *walk;

	if (!takes(&ahead, word) ||
	    (ahead.token.kind != TOKEN_WORD && ahead.token.kind != TOKEN_QUOTED) ||
	    sql_token_is(&ahead.token, "to") || sql_token_is(&ahead.token, "authorization"))
		return false;
	*walk = ahead;
	return true;
}

static void read_set(struct walk *walk)
{
	char name[SQL_RESETS_NAME_MAX + 1];
	const char *parameter;
	bool is_zone, is_names, is_default;

	if (skip_scope(walk, "local"))
		return;
	skip_scope(walk, "session");
	is_zone = sql_token_is(&walk->token, "time");
	is_names = sql_token_is(&walk->token, "names"); /* without a value: the default */
	parameter = read_parameter(walk, name);
	if (!parameter)
		return;
	if (!takes(walk, "to") && sql_token_is_sign(&walk->token, '='))
		next(walk);
	if (is_end(&walk->token) && !is_names)
		return; /* a syntax error */
	is_default = sql_token_is(&walk->token, "default") || is_end(&walk->token) ||
	             (is_zone && sql_token_is(&walk->token, "local"));
	report(walk, parameter, !is_default);
}

/* SELECT pg_advisory_unlock_all() belongs to the statements by which drivers reset a session. */
static bool is_unlock(struct walk *walk)
{
	struct walk ahead = *walk;

	next(&ahead);
	if (!takes(&ahead, "pg_advisory_unlock_all") || !sql_token_is_sign(&ahead.token, '('))
		return false;
	next(&ahead);
	if (!sql_token_is_sign(&ahead.token, ')'))
		return false;
	next(&ahead);
	return is_end(&ahead.token);
}

/* Statements whose effect does not depend on parameters. */
static bool is_indifferent(struct walk *walk)
{
	static const char *const words[] = { "begin",   "close", "commit", "deallocate",
		                             "discard", "end",   "listen", "notify",
		                             "reset",   "set",   "start",  "unlisten" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (sql_token_is(&walk->token, words[i]))
			return true;
	}
	return sql_token_is(&walk->token, "select") && is_unlock(walk);
}

static bool is_undoing(const struct walk *walk)
{
	return sql_token_is(&walk->token, "rollback") || sql_token_is(&walk->token, "abort");
}

static void read_statement(struct walk *walk)
{
	walk->count++;
	walk->is_discard = false; /* with other statements it fails */
	if (walk->result != SQL_RESETS_NONE && is_undoing(walk))
		walk->result = SQL_RESETS_UNDONE;
	else if (walk->result == SQL_RESETS_LAST && !is_indifferent(walk))
		walk->result = SQL_RESETS_USED;
	if (takes(walk, "reset"))
		read_reset(walk);
	else if (takes(walk, "set"))
		read_set(walk);
	else if (walk->count == 1 && takes(walk, "discard") && takes(walk, "all"))
		walk->is_discard = true;
}

enum sql_resets sql_resets(struct bytes text,
                           void (*found)(void *context, const struct sql_reset *reset),
                           void *context)
{
	struct walk walk = { .scanner = { .rest = text }, .found = found, .context = context };

	next(&walk);
	while (walk.token.kind != TOKEN_END) {
		if (!is_end(&walk.token))
			read_statement(&walk);
		while (!is_end(&walk.token))
			next(&walk);
		if (walk.token.kind != TOKEN_END)
			next(&walk);
	}
	if (walk.is_discard)
		report(&walk, NULL, false);
	return walk.result;
}
