/* SPDX-License-Identifier: ISC */
/*
 * Tokens of SQL, what is between quotes, and what comments say.
 *
 * Hard here: the meaning of a backslash in a plain string depends on
 * standard_conforming_strings of the session. The caller sets is_escaped; a caller that does
 * not know the setting scans twice.
 */
#include "pgweir/pgwire/sql_token.h"

#include <ctype.h>
#include <string.h>

#include "sql_priv.h"

/* clang-format off */
const unsigned char sql_classes[256] = {
	['\t' ... '\r'] = SPACE, [' '] = SPACE, ['$'] = IN_WORD, ['.'] = IN_NUMBER,
	['0' ... '9'] = IN_WORD | IN_NUMBER | DIGIT,
	['a' ... 'z'] = IN_WORD | LETTER, ['A' ... 'Z'] = IN_WORD | LETTER,
	['_'] = IN_WORD | LETTER, [0x80 ... 0xff] = IN_WORD | LETTER,
};
/* clang-format on */

/* Where the first byte is that is not of a class. */
static inline const char *skip_all(const char *at, const char *end, int class)
{
	while (at < end && is_a(*at, class))
		at++;
	return at;
}

size_t sql_word_size(struct bytes rest)
{
	if (rest.count == 0 || !is_a(rest.at[0], LETTER))
		return 0;
	return (size_t)(skip_all(rest.at, rest.at + rest.count, IN_WORD) - rest.at);
}

static inline bool are_two(const char *at, const char *end, const char two[static 2])
{
	return end - at >= 2 && at[0] == two[0] && at[1] == two[1];
}

/* One pass for both ends of a line: a text of many short lines must not cost more than its size. */
static const char *skip_line(const char *at, const char *end)
{
	while (at < end && *at != '\n' && *at != '\r')
		at++;
	return at;
}

/* Comments of this kind can be nested. NULL: there is no end. */
static const char *skip_comment(const char *at, const char *end)
{
	size_t depth = 0;

	for (; at < end; at++) {
		if (are_two(at, end, "/*")) {
			depth++;
			at++;
		} else if (are_two(at, end, "*/")) {
			at++;
			if (--depth == 0)
				return at + 1;
		}
	}
	return NULL;
}

/* NULL: the text ended within a comment. */
static inline const char *skip_space(const char *at, const char *end)
{
	while (at) {
		at = skip_all(at, end, SPACE);
		if (are_two(at, end, "--"))
			at = skip_line(at, end);
		else if (are_two(at, end, "/*"))
			at = skip_comment(at, end);
		else
			break;
	}
	return at;
}

bool sql_skip_space(struct bytes *rest)
{
	const char *end = rest->at + rest->count, *at = skip_space(rest->at, end);

	*rest = at ? bytes_of(at, (size_t)(end - at)) : bytes_of(end, 0);
	return at;
}

/* ---- quotes: each of these returns where the quoted text ends; NULL: it does not ---- */

/* No byte is escaped. */
static const char *plain_end(const char *at, const char *end)
{
	char quote = *at++;

	while (at < end && (at = memchr(at, quote, (size_t)(end - at)))) {
		at++;
		if (at == end || *at != quote)
			return at;
		at++;
	}
	return NULL;
}

static const char *quoted_end(const char *at, const char *end, bool is_escaped)
{
	char quote = *at;

	if (!is_escaped)
		return plain_end(at, end);
	for (at++; at < end; at++) {
		if (*at == '\\')
			at++;
		else if (*at == quote && (at + 1 == end || at[1] != quote))
			return at + 1;
		else if (*at == quote)
			at++;
	}
	return NULL;
}

/*
 * Skips white space with a newline in it, if the next part of a string constant follows: 'one'
 *          'constant'. NULL: none follows.
 */
static const char *skip_gap(const char *at, const char *end)
{
	bool has_newline = false;

	for (;;) {
		if (are_two(at, end, "--")) {
			at = skip_line(at, end);
		} else if (at < end && is_a(*at, SPACE)) {
			has_newline |= *at == '\n' || *at == '\r';
			at++;
		} else {
			break;
		}
	}
	return has_newline && at < end && *at == '\'' ? at : NULL;
}

/* From the first quote to the end of all parts. */
static const char *escape_string_end(const char *at, const char *end)
{
	const char *part = at;

	do {
		at = quoted_end(part, end, true);
		part = at ? skip_gap(at, end) : NULL;
	} while (part);
	return at;
}

/* ---- tokens ---- */

/* Takes a token up to `end`. NULL: it has no end. */
static inline struct token take(struct scanner *scanner, enum token_kind kind, const char *at,
                                const char *end)
{
	const char *all = scanner->rest.at + scanner->rest.count;

	scanner->is_broken |= !end;
	scanner->rest = end ? bytes_of(end, (size_t)(all - end)) : bytes_of(all, 0);
	return (struct token){ .kind = end ? kind : TOKEN_END,
		               .text = bytes_of(at, end ? (size_t)(end - at) : 0) };
}

/*
 * Takes U&"..." or U&'...', or one of these strings: E'...', in which a backslash always escapes,
 * B'...' and X'...', in which it never does, and N'...'. Or the word, which has one letter.
 */
static struct token take_prefixed(struct scanner *scanner, const char *at, const char *end)
{
	char c = (char)(*at | 0x20), quote = at[1];

	if (quote == '\'' && c == 'e')
		return take(scanner, TOKEN_STRING, at, escape_string_end(at + 1, end));
	if (quote == '\'' && (c == 'b' || c == 'x'))
		return take(scanner, TOKEN_STRING, at, plain_end(at + 1, end));
	if (quote == '\'' && c == 'n')
		return take(scanner, TOKEN_STRING, at,
		            quoted_end(at + 1, end, scanner->is_escaped));
	if (c != 'u' || quote != '&' || end - at < 3 || (at[2] != '"' && at[2] != '\''))
		return take(scanner, TOKEN_WORD, at, at + 1);
	return take(scanner, at[2] == '"' ? TOKEN_QUOTED : TOKEN_STRING, at,
	            quoted_end(at + 2, end, scanner->is_escaped && at[2] == '\''));
}

/*
 * From the first digit, or from a point before it. PostgreSQL 14 ends a number before a letter,
 * SELECT 1INTO t; newer versions have 0x1f and 1_000.
 */
static const char *number_end(const char *at, const char *end)
{
	if (*at == '0' && end - at > 2 && memchr("xXoObB", at[1], 6) &&
	    ((at[1] | 0x20) == 'x' ? isxdigit((unsigned char)at[2]) : is_a(at[2], DIGIT)))
		return skip_all(at + 2, end, IN_WORD);
	at = skip_all(at + 1, end, IN_NUMBER);
	while (end - at > 1 && *at == '_' && is_a(at[1], DIGIT))
		at = skip_all(at + 1, end, IN_NUMBER);
	if (end - at > 1 && (*at | 0x20) == 'e') {
		const char *digits = at + (at[1] == '-' || at[1] == '+' ? 2 : 1);

		if (digits < end && is_a(*digits, DIGIT))
			at = skip_all(digits, end, DIGIT);
	}
	return at;
}

/* A dollar-quoted string, $$text$$ or $tag$text$tag$, or a parameter. */
static struct token take_dollar(struct scanner *scanner, const char *at, const char *end)
{
	const char *text = at + 1;
	size_t size;

	while (text < end && is_a(*text, IN_WORD) && *text != '$')
		text++;
	if (text == end || *text++ != '$' || is_a(at[1], DIGIT))
		return take(scanner, TOKEN_NUMBER, at, skip_all(at + 1, end, DIGIT));
	size = (size_t)(text - at);
	text = memmem(text, (size_t)(end - text), at, size);
	return take(scanner, TOKEN_STRING, at, text ? text + size : NULL);
}

struct token sql_token(struct scanner *scanner)
{
	const char *end = scanner->rest.at + scanner->rest.count;
	const char *at = skip_space(scanner->rest.at, end), *word;

	if (!at || at == end)
		return take(scanner, TOKEN_END, end, at);
	if (is_a(*at, LETTER)) {
		word = skip_all(at + 1, end, IN_WORD);
		if (word - at == 1 && word < end && (*word == '\'' || *word == '&'))
			return take_prefixed(scanner, at, end);
		return take(scanner, TOKEN_WORD, at, word);
	}
	if (*at == '"')
		return take(scanner, TOKEN_QUOTED, at, plain_end(at, end));
	if (*at == '\'')
		return take(scanner, TOKEN_STRING, at, quoted_end(at, end, scanner->is_escaped));
	if (is_a(*at, DIGIT) || (*at == '.' && end - at > 1 && is_a(at[1], DIGIT)))
		return take(scanner, TOKEN_NUMBER, at, number_end(at, end));
	if (*at == '$')
		return take_dollar(scanner, at, end);
	return take(scanner, TOKEN_SIGN, at, at + 1);
}

bool sql_token_is(const struct token *token, const char *word)
{
	const char *at = token->text.at, *end = at + token->text.count;

	if (token->kind != TOKEN_WORD)
		return false;
	for (; at < end; at++, word++) {
		if (sql_lower(*at) != *word) /* which ends with a zero: no letter */
			return false;
	}
	return !*word;
}

bool sql_word_begins(struct bytes text, const struct sql_word *word)
{
	for (size_t i = 0; i < word->size; i++) {
		if (sql_lower(text.at[i]) != word->text[i])
			return false;
	}
	return true;
}

const void *sql_word_find(const void *table, size_t count, size_t width, struct bytes text)
{
	const char *end = (const char *)table + count * width, *at;
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct sql_word *word = (const void *)((const char *)table + middle * width);

		if (word->size < text.count)
			low = middle + 1;
		else
			high = middle;
	}
	for (at = (const char *)table + low * width; at < end; at += width) {
		const struct sql_word *word = (const void *)at;

		if (word->size != text.count)
			break;
		if (sql_word_begins(text, word))
			return at;
	}
	return NULL;
}

bool sql_token_is_one(const struct token *token, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (sql_token_is(token, words[i]))
			return true;
	}
	return false;
}

bool sql_takes(struct scanner *scanner, const char *word)
{
	struct scanner ahead = *scanner;
	struct token token = sql_token(&ahead);

	if (!sql_token_is(&token, word))
		return false;
	*scanner = ahead;
	return true;
}

bool sql_takes_all(struct scanner *scanner, const char *const *words)
{
	struct scanner ahead = *scanner;

	while (*words && sql_takes(&ahead, *words))
		words++;
	if (!*words)
		*scanner = ahead;
	return !*words;
}

bool sql_takes_sign(struct scanner *scanner, char sign)
{
	struct scanner ahead = *scanner;
	struct token token = sql_token(&ahead);

	if (!sql_token_is_sign(&token, sign))
		return false;
	*scanner = ahead;
	return true;
}

struct token sql_next_statement(struct scanner *scanner, struct token token)
{
	while (!sql_is_end(&token))
		token = sql_token(scanner);
	while (sql_token_is_sign(&token, ';'))
		token = sql_token(scanner);
	return token;
}

bool sql_is_last(struct scanner *scanner, struct token token)
{
	return sql_next_statement(scanner, token).kind == TOKEN_END && !scanner->is_broken;
}

bool sql_is_printable(struct bytes text)
{
	for (size_t i = 0; i < text.count; i++) {
		char c = text.at[i];

		/* Not \v: only newer versions of PostgreSQL treat it as white space. */
		if ((c < ' ' && c != '\t' && c != '\n' && c != '\r' && c != '\f') || c > '~')
			return false;
	}
	return true;
}

/* ---- what is between quotes ---- */

#define NOT_ASCII ((char)0x80) /* in place of a character that is written as a number */

/* Reads what follows a backslash. */
static char read_escape(char c)
{
	static const char letters[] = "bfnrt01234567xuU", values[] = "\b\f\n\r\t";
	const char *letter = c ? strchr(letters, c) : NULL;

	if (!letter)
		return c;
	return (size_t)(letter - letters) < strlen(values) ? values[letter - letters] : NOT_ASCII;
}

static size_t unquote_dollar(struct bytes text, char *out, size_t size)
{
	const char *tag = memchr(text.at + 1, '$', text.count - 1);
	size_t tag_size = (size_t)(tag - text.at) + 1;
	size_t count = text.count - 2 * tag_size;

	if (count > size)
		return SQL_CANNOT;
	memcpy(out, text.at + tag_size, count);
	return count;
}

size_t sql_unquote(const struct token *token, bool is_escaped, char *out, size_t size)
{
	struct bytes rest = token->text;
	char prefix = sql_lower(rest.at[0]), quote;
	size_t used = 0;

	if (token->kind == TOKEN_WORD) {
		for (; used < rest.count && used < size; used++)
			out[used] = sql_lower(rest.at[used]);
		return used == rest.count ? used : SQL_CANNOT;
	}
	if (prefix == '$')
		return unquote_dollar(rest, out, size);
	if (prefix == 'b' || prefix == 'x')
		return 0; /* bits */
	if (prefix == 'u')
		return SQL_CANNOT;
	if (prefix == 'e' || prefix == 'n')
		rest = bytes_skip(rest, 1);
	is_escaped = prefix == 'e' || (is_escaped && token->kind == TOKEN_STRING);
	quote = rest.at[0];
	rest = bytes_skip(rest, 1);
	while (rest.count) {
		char c = rest.at[0];

		rest = bytes_skip(rest, 1);
		if (c == quote && (rest.count == 0 || rest.at[0] != quote))
			return rest.count ? SQL_CANNOT : used;
		if (is_escaped && c == '\\' && rest.count) {
			c = read_escape(rest.at[0]);
			if (c == NOT_ASCII && prefix == 'e')
				return SQL_CANNOT;
			rest = bytes_skip(rest, 1);
		} else if (c == quote) {
			rest = bytes_skip(rest, 1);
		}
		if (used == size)
			return SQL_CANNOT;
		out[used++] = c;
	}
	return used;
}

bool sql_unquote_text(const struct token *token, char *out, size_t size)
{
	size_t used = sql_unquote(token, false, out, size - 1);

	if (used == 0 || used == SQL_CANNOT)
		return false;
	out[used] = 0;
	return true;
}

/* ---- names of parameters ---- */

bool sql_read_chain(struct scanner *scanner, struct token token, struct chain *chain)
{
	size_t most, size;

	chain->count = 0;
	chain->is_cut = false;
	for (;;) {
		chain->next = token;
		if (!sql_is_name(&token))
			return false;
		most = SQL_CHAIN_MAX - chain->count;
		if (most > SQL_NAME_MAX)
			most = SQL_NAME_MAX;
		size = sql_unquote(&token, false, chain->name + chain->count, most);
		chain->is_cut |= size == SQL_CANNOT;
		if (!sql_is_unicode(&token))
			chain->count += size == SQL_CANNOT ? most : size;
		chain->next = sql_token(scanner);
		if (!sql_token_is_sign(&chain->next, '.'))
			break;
		if (chain->count < SQL_CHAIN_MAX)
			chain->name[chain->count++] = '.';
		token = sql_token(scanner);
	}
	chain->name[chain->count] = 0;
	return true;
}

bool sql_takes_scope(struct scanner *scanner, const char *word)
{
	struct scanner ahead = *scanner;
	struct token next;

	if (!sql_takes(&ahead, word))
		return false;
	next = sql_peek(ahead);
	if (sql_is_name(&next))
		*scanner = ahead;
	return sql_is_name(&next);
}

const char *sql_read_parameter(struct scanner *scanner, struct chain *chain)
{
	static const struct {
		const char *words[3];
		const char *name;
	} forms[] = {
		{ { "authorization" }, "session_authorization" }, /* behind SESSION */
		{ { "time", "zone" }, "timezone" },
		{ { "names" }, "client_encoding" },
		{ { "transaction", "isolation" }, "transaction_isolation" },
	};
	const char *end = scanner->rest.at + scanner->rest.count, *next;
	bool is_name;

	sql_takes_scope(scanner, "session");
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (sql_takes_all(scanner, forms[i].words))
			return forms[i].name;
	}
	is_name = sql_read_chain(scanner, sql_token(scanner), chain);
	next = chain->next.text.at;
	scanner->rest = bytes_of(next, (size_t)(end - next)); /* it is put back */
	if (!is_name || chain->is_cut || chain->count > SQL_SET_NAME_MAX)
		return NULL;
	for (size_t i = 0; i < chain->count; i++)
		chain->name[i] = sql_lower(chain->name[i]);
	return chain->name;
}

/*
 * ---- what comments say ----
 *
 * Hard here: only the comment at each end is looked at, and not the text between them, so the cost
 * is bounded. Quotes between are not read: what looks like a comment at the end of a text is one,
 * or the text is not valid.
 */

/* So many digits and no more; all of a text that has a zero at its end. */
static bool has_digits(const char *at, size_t count, bool may_be_zero)
{
	return strspn(at, "0123456789abcdef") == count && (may_be_zero || strspn(at, "0") < count);
}

/* Version ff, and ids of zeros, are not valid. */
static bool is_traceparent(struct bytes value)
{
	char at[SQL_TRACEPARENT_SIZE + 1] = "";

	if (value.count != SQL_TRACEPARENT_SIZE)
		return false;
	memcpy(at, value.at, value.count);
	return has_digits(at, 2, true) && memcmp(at, "ff-", 3) != 0 && at[2] == '-' &&
	       has_digits(at + 3, 32, false) && at[35] == '-' && has_digits(at + 36, 16, false) &&
	       at[52] == '-' && has_digits(at + 53, 2, true);
}

/* comment: what is between its ends. */
static bool find_value(struct bytes comment, const char *key, struct bytes *value)
{
	struct bytes rest = comment;
	size_t size = strlen(key);
	const char *at, *end;

	while (rest.count >= size && (at = memmem(rest.at, rest.count, key, size))) {
		rest = bytes_skip(rest, (size_t)(at - rest.at) + size);
		if (at != comment.at && at[-1] != ',' && !is_a(at[-1], SPACE))
			continue; /* the end of another name */
		end = memchr(rest.at, '\'', rest.count);
		if (end)
			*value = bytes_of(rest.at, (size_t)(end - rest.at));
		return end != NULL;
	}
	return false;
}

/* The comment at the beginning. */
static bool find_first(struct bytes text, const char *key, struct bytes *value)
{
	const char *end;

	while (text.count && is_a(*text.at, SPACE))
		text = bytes_skip(text, 1);
	if (text.count < 4 || memcmp(text.at, "/*", 2) != 0)
		return false;
	text = bytes_skip(text, 2);
	end = memmem(text.at, text.count, "*/", 2);
	return end && find_value(bytes_of(text.at, (size_t)(end - text.at)), key, value);
}

/* The comment at the end, which only blanks and semicolons may follow. */
static bool find_last(struct bytes text, const char *key, struct bytes *value)
{
	size_t at;

	while (text.count &&
	       (is_a(text.at[text.count - 1], SPACE) || text.at[text.count - 1] == ';'))
		text.count--;
	if (text.count < 4 || memcmp(text.at + text.count - 2, "*/", 2) != 0)
		return false;
	text.count -= 2;
	for (at = text.count - 2; at && memcmp(text.at + at, "/*", 2) != 0;)
		at--;
	if (memcmp(text.at + at, "/*", 2) != 0)
		return false;
	return find_value(bytes_skip(text, at + 2), key, value);
}

bool sql_traceparent(struct bytes text, struct bytes *value)
{
	return sql_traceparent_key(text, "traceparent='", value) && is_traceparent(*value);
}

bool sql_traceparent_key(struct bytes text, const char *key, struct bytes *value)
{
	struct bytes front = text, back = text;

	if (front.count > SQL_TRACEPARENT_REACH) {
		front.count = SQL_TRACEPARENT_REACH;
		back = bytes_skip(text, text.count - SQL_TRACEPARENT_REACH);
	}
	return find_last(back, key, value) || find_first(front, key, value);
}
