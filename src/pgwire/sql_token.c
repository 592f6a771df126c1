/* SPDX-License-Identifier: ISC */
/*
 * Tokens of the scanner.
 *
 * Hard here: the meaning of a backslash in a plain string depends on
 * standard_conforming_strings of the session. The caller sets is_escaped; a caller that does
 * not know the setting scans twice.
 */
#include <string.h>

#include "sql_priv.h"

enum { SPACE = 1, LETTER = 2, IN_WORD = 4, DIGIT = 8 };

/* clang-format off */
static const unsigned char classes[256] = {
	['\t' ... '\r'] = SPACE, [' '] = SPACE, ['$'] = IN_WORD,
	['0' ... '9'] = IN_WORD | DIGIT,
	['a' ... 'z'] = IN_WORD | LETTER, ['A' ... 'Z'] = IN_WORD | LETTER,
	['_'] = IN_WORD | LETTER, [0x80 ... 0xff] = IN_WORD | LETTER,
};
/* clang-format on */

static inline bool is_a(char c, int class) { return classes[(unsigned char)c] & class; }

static inline bool is_space(char c) { return is_a(c, SPACE); }

static inline bool is_digit(char c) { return is_a(c, DIGIT); }

static inline bool begins_word(char c) { return is_a(c, LETTER); }

static inline bool is_in_word(char c) { return is_a(c, IN_WORD); }

size_t sql_word_size(struct bytes rest)
{
	size_t size = 0;

	if (rest.count == 0 || !begins_word(rest.at[0]))
		return 0;
	while (size < rest.count && is_in_word(rest.at[size]))
		size++;
	return size;
}

static bool begins_with(struct bytes rest, const char *two)
{
	return rest.count >= 2 && rest.at[0] == two[0] && rest.at[1] == two[1];
}

/* One pass for both ends of a line: a text of many short lines must not cost more than its size. */
static void skip_line(struct bytes *rest)
{
	size_t size = 0;

	while (size < rest->count && rest->at[size] != '\n' && rest->at[size] != '\r')
		size++;
	*rest = bytes_skip(*rest, size);
}

/* Comments of this kind can be nested. */
static bool skip_comment(struct bytes *rest)
{
	size_t depth = 0;

	do {
		if (begins_with(*rest, "/*")) {
			depth++;
			*rest = bytes_skip(*rest, 2);
		} else if (begins_with(*rest, "*/")) {
			depth--;
			*rest = bytes_skip(*rest, 2);
		} else if (rest->count) {
			*rest = bytes_skip(*rest, 1);
		} else {
			return false;
		}
	} while (depth);
	return true;
}

bool sql_skip_space(struct bytes *rest)
{
	while (rest->count) {
		if (is_space(rest->at[0]))
			*rest = bytes_skip(*rest, 1);
		else if (rest->at[0] != '-' && rest->at[0] != '/')
			break;
		else if (begins_with(*rest, "--"))
			skip_line(rest);
		else if (!begins_with(*rest, "/*"))
			break;
		else if (!skip_comment(rest))
			return false;
	}
	return true;
}

/* See quoted_size(). No byte is escaped. */
static size_t plain_quoted_size(struct bytes rest)
{
	const char *at = rest.at + 1, *end = rest.at + rest.count;
	char quote = rest.at[0];

	while (at < end && (at = memchr(at, quote, (size_t)(end - at)))) {
		at++;
		if (at == end || *at != quote)
			return (size_t)(at - rest.at);
		at++;
	}
	return 0;
}

/*
 * Returns the size of the quoted text at the front, both quotes included. 0: the closing quote
 * is missing.
 */
static size_t quoted_size(struct bytes rest, bool is_escaped)
{
	char quote = rest.at[0];

	if (!is_escaped)
		return plain_quoted_size(rest);
	for (size_t at = 1; at < rest.count; at++) {
		if (rest.at[at] == '\\')
			at++;
		else if (rest.at[at] != quote)
			continue;
		else if (at + 1 < rest.count && rest.at[at + 1] == quote)
			at++;
		else
			return at + 1;
	}
	return 0;
}

/*
 * Returns the size of a dollar-quoted string: $$text$$ or $tag$text$tag$. 0: it does not end,
 * or it is not dollar-quoted (*is_one is false).
 */
static size_t dollar_size(struct bytes rest, bool *is_one)
{
	size_t tag = 1;
	const char *end;

	while (tag < rest.count && is_in_word(rest.at[tag]) && rest.at[tag] != '$')
		tag++;
	*is_one = tag < rest.count && rest.at[tag] == '$' && !is_digit(rest.at[1]);
	if (!*is_one)
		return 0;
	tag++;
	end = memmem(rest.at + tag, rest.count - tag, rest.at, tag);
	return end ? (size_t)(end - rest.at) + tag : 0;
}

static size_t number_size(struct bytes rest)
{
	size_t size = 1;

	while (size < rest.count && (is_in_word(rest.at[size]) || rest.at[size] == '.'))
		size++;
	return size;
}

static struct token take(struct scanner *scanner, enum token_kind kind, size_t size)
{
	struct token token = { kind, bytes_of(scanner->rest.at, size) };

	if (size == 0) {
		scanner->is_broken = true;
		token.kind = TOKEN_END;
		size = scanner->rest.count;
	}
	scanner->rest = bytes_skip(scanner->rest, size);
	return token;
}

/*
 * Returns the size of white space with a newline in it, if the next part of a string constant
 * follows: 'one'
 *          'constant'. 0: none follows.
 */
static size_t gap_size(struct bytes rest)
{
	struct bytes after = rest;
	bool has_newline = false;

	for (;;) {
		if (begins_with(after, "--")) {
			skip_line(&after);
		} else if (after.count && is_space(after.at[0])) {
			has_newline |= after.at[0] == '\n' || after.at[0] == '\r';
			after = bytes_skip(after, 1);
		} else {
			break;
		}
	}
	return has_newline && after.count && after.at[0] == '\'' ? rest.count - after.count : 0;
}

/* Returns the size of an escape string from its first quote, all parts included. 0: no end. */
static size_t escape_string_size(struct bytes rest)
{
	size_t size = 0;

	for (;;) {
		struct bytes part = bytes_skip(rest, size);
		size_t part_size = quoted_size(part, true), gap;

		if (part_size == 0)
			return 0;
		gap = gap_size(bytes_skip(part, part_size));
		size += part_size + gap;
		if (gap == 0)
			return size;
	}
}

/*
 * Scans a word or one of these strings: E'...', in which a backslash always escapes, B'...' and
 * X'...', in which it never does. N'' and U&'' are scanned as a word (and a sign) followed by a
 * plain string.
 */
static struct token take_word(struct scanner *scanner)
{
	struct bytes rest = scanner->rest, string;
	size_t size = sql_word_size(rest);
	char c = (char)(rest.at[0] | 0x20);

	if (size != 1 || rest.count < 2 || rest.at[1] != '\'' || (c != 'e' && c != 'b' && c != 'x'))
		return take(scanner, TOKEN_WORD, size);
	string = bytes_skip(rest, 1);
	size = c == 'e' ? escape_string_size(string) : quoted_size(string, false);
	return take(scanner, TOKEN_STRING, size ? size + 1 : 0);
}

struct token sql_token(struct scanner *scanner)
{
	size_t size;
	bool is_one;
	char c;

	if (!sql_skip_space(&scanner->rest))
		return take(scanner, TOKEN_END, 0);
	if (scanner->rest.count == 0)
		return (struct token){ TOKEN_END, scanner->rest };
	c = scanner->rest.at[0];
	if (begins_word(c))
		return take_word(scanner);
	if (c == '"')
		return take(scanner, TOKEN_QUOTED, quoted_size(scanner->rest, false));
	if (c == '\'')
		return take(scanner, TOKEN_STRING, quoted_size(scanner->rest, scanner->is_escaped));
	if (is_digit(c))
		return take(scanner, TOKEN_NUMBER, number_size(scanner->rest));
	if (c != '$')
		return take(scanner, TOKEN_SIGN, 1);
	size = dollar_size(scanner->rest, &is_one);
	if (is_one)
		return take(scanner, TOKEN_STRING, size);
	return take(scanner, TOKEN_NUMBER, number_size(scanner->rest));
}

bool sql_is_over(struct scanner *scanner, struct token token)
{
	while (sql_token_is_sign(&token, ';'))
		token = sql_token(scanner);
	return token.kind == TOKEN_END && !scanner->is_broken;
}

bool sql_token_is(const struct token *token, const char *word)
{
	size_t size = strlen(word);

	if (token->kind != TOKEN_WORD || token->text.count != size)
		return false;
	for (size_t i = 0; i < size; i++) {
		char c = token->text.at[i];

		if ((c >= 'A' && c <= 'Z' ? c + 32 : c) != word[i])
			return false;
	}
	return true;
}
