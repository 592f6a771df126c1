/* SPDX-License-Identifier: ISC */
/*
 * The console's grammar: WORD [WORD] [;], SHOW WORD [WORD ...] [;], and SET key = value.
 *
 * Hard here: drivers put comments around their statements, and quotes around names and
 * values. A `;` inside a comment or quotes does not end the statement.
 */
#include "admin_priv.h"

#include <strings.h>

#define BLANKS " \t\r\n\f\v"
#define WORD_BYTES "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"

/* How many bytes at the front are of this set. A zero byte never is. */
static size_t span(struct bytes text, const char *set)
{
	size_t count = 0;

	while (count < text.count && text.at[count] && strchr(set, text.at[count]))
		count++;
	return count;
}

static bool begins(struct bytes text, const char *with)
{
	return text.count >= strlen(with) && memcmp(text.at, with, strlen(with)) == 0;
}

/* Skips a comment, which may contain others, as in PostgreSQL. false: it does not end. */
static bool skip_long_comment(struct bytes *rest)
{
	unsigned int depth = 0;

	while (rest->count) {
		bool opens = begins(*rest, "/*"), closes = begins(*rest, "*/");

		*rest = bytes_skip(*rest, opens || closes ? 2 : 1);
		if (opens)
			depth++;
		else if (closes && --depth == 0)
			return true;
	}
	return false;
}

static bool skip_blanks(struct bytes *rest)
{
	for (;;) {
		*rest = bytes_skip(*rest, span(*rest, BLANKS));
		if (begins(*rest, "--")) {
			while (rest->count && *rest->at != '\n')
				*rest = bytes_skip(*rest, 1);
		} else if (!begins(*rest, "/*")) {
			return true;
		} else if (!skip_long_comment(rest)) {
			return false;
		}
	}
}

/* Parses up to the closing quote. A doubled quote is part of the text. */
static void take_quoted(struct bytes *rest, struct token *token)
{
	char quote = *rest->at;
	size_t at = 1;

	for (; at < rest->count; at++) {
		if (rest->at[at] != quote)
			continue;
		if (at + 1 == rest->count || rest->at[at + 1] != quote)
			break;
		at++;
	}
	token->kind = quote == '"' ? TOKEN_QUOTED : TOKEN_STRING;
	if (at >= rest->count) {
		token->kind = TOKEN_OPEN;
		*rest = bytes_skip(*rest, rest->count);
		return;
	}
	token->text = bytes_of(rest->at + 1, at - 1);
	*rest = bytes_skip(*rest, at + 1);
}

void grammar_next_token(struct bytes *rest, struct token *token)
{
	size_t count;

	*token = (struct token){ .kind = TOKEN_END };
	if (!skip_blanks(rest)) {
		token->kind = TOKEN_OPEN;
		return;
	}
	if (rest->count == 0)
		return;
	if (*rest->at == '"' || *rest->at == '\'') {
		take_quoted(rest, token);
		return;
	}
	count = span(*rest, WORD_BYTES);
	token->kind = count ? TOKEN_WORD : TOKEN_SIGN;
	token->text = bytes_of(rest->at, count ? count : 1);
	*rest = bytes_skip(*rest, token->text.count);
}

bool grammar_copy_token(const struct token *token, char *out, size_t size)
{
	bool is_quoted = token->kind == TOKEN_QUOTED || token->kind == TOKEN_STRING;
	char quote = token->kind == TOKEN_QUOTED ? '"' : '\'';
	size_t used = 0;

	for (size_t i = 0; i < token->text.count; i++) {
		if (used + 1 >= size)
			return false;
		out[used++] = token->text.at[i];
		if (is_quoted && token->text.at[i] == quote)
			i++; /* the second of two quotes */
	}
	out[used] = 0;
	return true;
}

bool grammar_token_is(const struct token *token, const char *word)
{
	return (token->kind == TOKEN_WORD || token->kind == TOKEN_QUOTED ||
	        token->kind == TOKEN_SIGN) &&
	       token->text.count == strlen(word) &&
	       strncasecmp(token->text.at, word, token->text.count) == 0;
}

static bool is_semicolon(const struct token *token)
{
	return token->kind == TOKEN_SIGN && *token->text.at == ';';
}

bool grammar_next_statement(struct bytes *rest, struct bytes *statement)
{
	const char *begin = rest->at;
	struct token token;

	if (rest->count == 0)
		return false;
	do {
		grammar_next_token(rest, &token);
		*statement = bytes_of(begin, (size_t)(rest->at - begin));
	} while (token.kind != TOKEN_END && token.kind != TOKEN_OPEN && !is_semicolon(&token));
	if (is_semicolon(&token))
		statement->count--;
	return true;
}

/* ---- words ---- */

static bool is_name(const struct token *token)
{
	return token->kind == TOKEN_WORD || token->kind == TOKEN_QUOTED;
}

/* At most one `;` may follow, and nothing after it. */
static enum words_result end_of(struct bytes rest)
{
	struct token token;

	grammar_next_token(&rest, &token);
	if (is_semicolon(&token))
		grammar_next_token(&rest, &token);
	return token.kind == TOKEN_END ? WORDS_OK : WORDS_INVALID;
}

/* A value without quotes ends at the next blank, `;` or quote. So -1 and 127.0.0.1 are values. */
static void value_next(struct bytes *rest, struct token *token)
{
	size_t count = 0;

	*rest = bytes_skip(*rest, span(*rest, BLANKS));
	if (rest->count && (*rest->at == '\'' || *rest->at == '"')) {
		grammar_next_token(rest, token);
		return;
	}
	while (count < rest->count && !strchr(BLANKS ";'\"", rest->at[count]))
		count++;
	token->kind = count ? TOKEN_WORD : TOKEN_END;
	token->text = bytes_of(rest->at, count);
	*rest = bytes_skip(*rest, count);
}

static enum words_result read_set(struct bytes rest, struct words *words)
{
	struct token key, equals, value;
	enum words_result result;

	grammar_next_token(&rest, &key);
	grammar_next_token(&rest, &equals);
	if (!is_name(&key) || (!grammar_token_is(&equals, "=") && !grammar_token_is(&equals, "TO")))
		return WORDS_INVALID;
	value_next(&rest, &value);
	if (value.kind != TOKEN_WORD && value.kind != TOKEN_STRING && value.kind != TOKEN_QUOTED)
		return WORDS_INVALID;
	result = end_of(rest);
	if (result != WORDS_OK)
		return result;
	words->count = 3;
	return grammar_copy_token(&key, words->argument, sizeof(words->argument)) &&
	               grammar_copy_token(&value, words->value, sizeof(words->value))
	           ? WORDS_OK
	           : WORDS_TOO_LONG;
}

/* The words that follow the name of a SHOW, with one space between them. */
static enum words_result read_values(struct bytes rest, struct words *words)
{
	size_t size = sizeof(words->argument), used = 0;
	struct bytes before = rest;
	struct token token;
	bool fits = true;

	for (grammar_next_token(&rest, &token); is_name(&token);
	     grammar_next_token(&rest, &token)) {
		if (used && used + 1 < size)
			words->value[used++] = ' ';
		fits = fits && used < size &&
		       grammar_copy_token(&token, words->value + used, size - used);
		if (fits)
			used += strlen(words->value + used);
		words->count++;
		before = rest;
	}
	if (end_of(before) != WORDS_OK)
		return WORDS_INVALID;
	return fits ? WORDS_OK : WORDS_TOO_LONG;
}

static enum words_result read_host_name(struct bytes rest, struct words *words)
{
	struct token value;

	if (end_of(rest) == WORDS_OK)
		return WORDS_OK; /* a database */
	value_next(&rest, &value);
	if (value.kind != TOKEN_WORD && value.kind != TOKEN_STRING && value.kind != TOKEN_QUOTED)
		return WORDS_INVALID;
	if (end_of(rest) != WORDS_OK)
		return WORDS_INVALID;
	words->count = 3;
	return grammar_copy_token(&value, words->value, sizeof(words->value)) ? WORDS_OK
	                                                                      : WORDS_TOO_LONG;
}

enum words_result grammar_read_words(struct bytes text, struct words *words)
{
	struct token command, argument;
	struct bytes rest = text;

	memset(words, 0, sizeof(*words));
	grammar_next_token(&rest, &command);
	if (!is_name(&command))
		return WORDS_INVALID;
	if (!grammar_copy_token(&command, words->command, sizeof(words->command)))
		return WORDS_TOO_LONG;
	if (grammar_token_is(&command, "SET"))
		return read_set(rest, words);
	words->count = 1;
	text = rest;
	grammar_next_token(&rest, &argument);
	if (!is_name(&argument))
		return end_of(text);
	words->count = 2;
	if (!grammar_copy_token(&argument, words->argument, sizeof(words->argument)))
		return end_of(rest) == WORDS_OK ? WORDS_TOO_LONG : WORDS_INVALID;
	if (grammar_token_is(&command, "SHOW") || grammar_token_is(&command, "SELECT"))
		return read_values(rest, words);
	/* DISABLE HOST name: not DISABLE of a database of that name */
	if (grammar_token_is(&argument, "HOST") &&
	    (grammar_token_is(&command, "DISABLE") || grammar_token_is(&command, "ENABLE") ||
	     grammar_token_is(&command, "DRAIN")))
		return read_host_name(rest, words);
	return end_of(rest);
}
