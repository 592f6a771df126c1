/* SPDX-License-Identifier: ISC */
/*
 * What is typed at the console, as statements and their tokens.
 *
 * Hard here: drivers put comments around their statements, and quotes around names and
 * values. A `;` inside a comment or quotes does not end the statement.
 */
#include "admin_priv.h"

#include <strings.h>

#include "pgweir/base/text.h"

#define BLANKS " \t\r\n\f\v"

/* Skips blanks and comments. A whole number is a word. TOKEN_OPEN: no end of quotes or a comment.
 */
static void next_token(struct bytes *rest, struct token *token)
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

bool grammar_read_sentence(struct bytes *rest, struct sentence *sentence)
{
	struct bytes next;
	struct token token;
	bool is_first = true;

	sentence->count = 0;
	sentence->end = rest->at + rest->count;
	for (next_token(rest, &token); sql_token_is_sign(&token, ';'); next_token(rest, &token))
		is_first = false;
	for (; !sql_is_end(&token); next_token(rest, &token)) {
		if (sentence->count < TOKENS_MAX)
			sentence->tokens[sentence->count++] = token;
		if (token.kind == TOKEN_OPEN)
			break;
	}
	sentence->tokens[sentence->count] = token;
	next = *rest;
	next_token(&next, &token);
	sentence->is_alone = is_first && token.kind == TOKEN_END;
	return sentence->count > 0;
}

size_t grammar_match(const char *pattern, const struct sentence *sentence, struct words *words)
{
	const struct token *at = sentence->tokens, *end = at + sentence->count;

	for (; *pattern; at++) {
		size_t length = strcspn(pattern, " ");
		char word[64];

		memcpy(word, pattern, length);
		word[length] = 0;
		pattern += length + strspn(pattern + length, " ");
		if (strcmp(word, "...") == 0)
			return sentence->count;
		if (at == end || at->kind == TOKEN_OPEN)
			return 0;
		if (strcmp(word, "?") == 0) {
			text_copy(words->argument, sizeof(words->argument), words->value);
			if (!grammar_copy_token(at, words->value, sizeof(words->value)))
				return 0;
		} else if (!grammar_token_is(at, word)) {
			return 0;
		}
	}
	return (size_t)(at - sentence->tokens);
}

/* Whether at most one `;` follows, and nothing after it. */
static bool ends(struct bytes rest)
{
	struct token token;

	next_token(&rest, &token);
	if (sql_token_is_sign(&token, ';'))
		next_token(&rest, &token);
	return token.kind == TOKEN_END;
}

/* A value without quotes ends at the next blank, `;` or quote. So -1 and 127.0.0.1 are values. */
static void value_next(struct bytes *rest, struct token *token)
{
	size_t count = 0;

	while (rest->count && *rest->at && strchr(BLANKS, *rest->at))
		*rest = bytes_skip(*rest, 1);
	if (rest->count && (*rest->at == '\'' || *rest->at == '"')) {
		next_token(rest, token);
		return;
	}
	while (count < rest->count && !strchr(BLANKS ";'\"", rest->at[count]))
		count++;
	token->kind = count ? TOKEN_WORD : TOKEN_END;
	token->text = bytes_of(rest->at, count);
	*rest = bytes_skip(*rest, count);
}

enum words_result grammar_read_value(const struct sentence *sentence, const struct token *behind,
                                     struct words *words)
{
	const char *at = behind->text.at + behind->text.count;
	struct bytes rest = bytes_of(at, (size_t)(sentence->end - at));
	struct token value;

	value_next(&rest, &value);
	if ((value.kind != TOKEN_WORD && value.kind != TOKEN_STRING &&
	     value.kind != TOKEN_QUOTED) ||
	    !ends(rest))
		return WORDS_INVALID;
	words->count = 2;
	return grammar_copy_token(&value, words->value, sizeof(words->value)) ? WORDS_OK
	                                                                      : WORDS_TOO_LONG;
}
