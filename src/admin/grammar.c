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

void grammar_next_token(struct bytes *rest, struct token *token)
{
	struct scanner scanner = { .rest = *rest };
	size_t letters;

	*token = sql_token(&scanner);
	*rest = scanner.rest;
	if (scanner.is_broken)
		token->kind = TOKEN_OPEN;
	if (token->kind != TOKEN_NUMBER || memchr(token->text.at, '.', token->text.count))
		return;
	/* A word may begin with digits here. */
	letters = sql_word_size(*rest);
	*token =
	    (struct token){ TOKEN_WORD, bytes_of(token->text.at, token->text.count + letters) };
	*rest = bytes_skip(*rest, letters);
}

bool grammar_copy_token(const struct token *token, char *out, size_t size)
{
	size_t used = token->text.count;

	if (token->kind == TOKEN_QUOTED || token->kind == TOKEN_STRING)
		used = sql_unquote(token, false, out, size);
	else
		memcpy(out, token->text.at, used < size ? used : size);
	if (used >= size)
		return false;
	out[used] = 0;
	return true;
}

bool grammar_token_is(const struct token *token, const char *word)
{
	struct bytes text = sql_name_text(token);

	return (sql_is_name(token) || token->kind == TOKEN_SIGN) && text.count == strlen(word) &&
	       strncasecmp(text.at, word, text.count) == 0;
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
	} while (token.kind != TOKEN_END && token.kind != TOKEN_OPEN &&
	         !sql_token_is_sign(&token, ';'));
	if (sql_token_is_sign(&token, ';'))
		statement->count--;
	return true;
}

/* ---- words ---- */

bool grammar_ends(struct bytes rest)
{
	struct token token;

	grammar_next_token(&rest, &token);
	if (sql_token_is_sign(&token, ';'))
		grammar_next_token(&rest, &token);
	return token.kind == TOKEN_END;
}

static enum words_result end_of(struct bytes rest)
{
	return grammar_ends(rest) ? WORDS_OK : WORDS_INVALID;
}

/* A value without quotes ends at the next blank, `;` or quote. So -1 and 127.0.0.1 are values. */
static void value_next(struct bytes *rest, struct token *token)
{
	size_t count = 0;

	while (rest->count && *rest->at && strchr(BLANKS, *rest->at))
		*rest = bytes_skip(*rest, 1);
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

/* The value at the end of a statement. */
static enum words_result read_value(struct bytes rest, struct words *words)
{
	struct token value;

	value_next(&rest, &value);
	if (value.kind != TOKEN_WORD && value.kind != TOKEN_STRING && value.kind != TOKEN_QUOTED)
		return WORDS_INVALID;
	if (!grammar_ends(rest))
		return WORDS_INVALID;
	words->count = 3;
	return grammar_copy_token(&value, words->value, sizeof(words->value)) ? WORDS_OK
	                                                                      : WORDS_TOO_LONG;
}

static enum words_result read_set(struct bytes rest, struct words *words)
{
	struct token key, equals;

	grammar_next_token(&rest, &key);
	grammar_next_token(&rest, &equals);
	if (!sql_is_name(&key) ||
	    (!grammar_token_is(&equals, "=") && !grammar_token_is(&equals, "TO")))
		return WORDS_INVALID;
	if (!grammar_copy_token(&key, words->argument, sizeof(words->argument)))
		return WORDS_TOO_LONG;
	return read_value(rest, words);
}

/* The words that follow the name of a SHOW, with one space between them. */
static enum words_result read_values(struct bytes rest, struct words *words)
{
	size_t size = sizeof(words->argument), used = 0;
	struct bytes before = rest;
	struct token token;
	bool fits = true;

	for (grammar_next_token(&rest, &token); sql_is_name(&token);
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
	return grammar_ends(rest) ? WORDS_OK /* a database */ : read_value(rest, words);
}

enum words_result grammar_read_words(struct bytes text, struct words *words)
{
	struct token command, argument;
	struct bytes rest = text;

	memset(words, 0, sizeof(*words));
	grammar_next_token(&rest, &command);
	if (!sql_is_name(&command))
		return WORDS_INVALID;
	if (!grammar_copy_token(&command, words->command, sizeof(words->command)))
		return WORDS_TOO_LONG;
	if (grammar_token_is(&command, "SET"))
		return read_set(rest, words);
	words->count = 1;
	text = rest;
	grammar_next_token(&rest, &argument);
	if (!sql_is_name(&argument))
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
