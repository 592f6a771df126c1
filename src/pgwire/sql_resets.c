/* SPDX-License-Identifier: ISC */
/*
 * Parameters that a text sets back.
 *
 * Hard here: what follows in the same text is executed before anybody can set a parameter to
 * another default. So the statements behind a RESET count too. And where a string with a backslash
 * ends depends on standard_conforming_strings, which is not known here.
 */
#include "pgweir/pgwire/sql_resets.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "sql_priv.h"

struct walk {
	struct scanner scanner;
	struct token token; /* the current one */
	void (*found)(void *context, const struct sql_reset *reset);
	void *context;
	enum sql_resets result;
	unsigned int count; /* of statements */
	bool is_discard;    /* the only one is DISCARD ALL */
	bool is_local;      /* the current one is SET LOCAL */
	const char *begin;  /* of the text */
	uint64_t places;    /* a hash of where parameters are set back or set */
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

static void note_reset(struct walk *walk, const char *name, bool is_set)
{
	if (walk->found)
		walk->found(walk->context, &(struct sql_reset){ .name = name,
		                                                .is_set = is_set,
		                                                .is_local = walk->is_local,
		                                                .is_discard = walk->is_discard });
	walk->places = walk->places * 31 + (uint64_t)(walk->token.text.at - walk->begin) + 1;
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
		note_reset(walk, NULL, false);
		return;
	}
	parameter = read_parameter(walk, name);
	if (parameter)
		note_reset(walk, parameter, false);
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

	walk->is_local = skip_scope(walk, "local");
	if (!walk->is_local)
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
	note_reset(walk, parameter, !is_default);
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
	walk->is_local = false;
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

static void walk_text(struct walk *walk)
{
	next(walk);
	while (walk->token.kind != TOKEN_END) {
		if (!is_end(&walk->token))
			read_statement(walk);
		while (!is_end(&walk->token))
			next(walk);
		if (walk->token.kind != TOKEN_END)
			next(walk);
	}
	if (walk->is_discard)
		note_reset(walk, NULL, false);
}

static struct walk walk_as(struct bytes text, bool is_escaped,
                           void (*found)(void *context, const struct sql_reset *reset),
                           void *context)
{
	struct walk walk = { .scanner = { .rest = text, .is_escaped = is_escaped },
		             .begin = text.at,
		             .found = found,
		             .context = context };

	walk_text(&walk);
	return walk;
}

static bool are_alike(const struct walk *plain, const struct walk *escaped)
{
	return plain->result == escaped->result && plain->places == escaped->places &&
	       plain->is_discard == escaped->is_discard;
}

enum sql_resets sql_resets(struct bytes text,
                           void (*found)(void *context, const struct sql_reset *reset),
                           void *context)
{
	struct walk plain, escaped;

	if (!text.count || !memchr(text.at, '\\', text.count))
		return walk_as(text, false, found, context).result;
	plain = walk_as(text, false, NULL, NULL);
	escaped = walk_as(text, true, NULL, NULL);
	/* PostgreSQL executes nothing of a text that ends within a string. */
	if (are_alike(&plain, &escaped) || escaped.scanner.is_broken)
		return walk_as(text, false, found, context).result;
	if (plain.scanner.is_broken)
		return walk_as(text, true, found, context).result;
	walk_as(text, false, found, context);
	walk_as(text, true, found, context);
	return SQL_RESETS_UNSURE;
}
