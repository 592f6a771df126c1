/* SPDX-License-Identifier: ISC */
/*
 * The first step of the scan: most texts need no other.
 *
 *   SELECT a FROM t WHERE f (b) IN (1, 2); UPDATE t SET a = 1
 *   ^ first word            ^ name before a parenthesis
 *                                        ^ first word
 *
 * A statement that touches the session begins with a word of its own, or calls a function by its
 * name, which needs a parenthesis; else it is SELECT ... INTO, or has a name in U&"...", whose
 * letters are not in the text.
 *
 * Hard here: quotes and comments are not followed. A semicolon or a parenthesis in a string may
 * only lead to more work, never to less. Every place that can begin a statement is looked at, and
 * what the first word of one statement has switched on holds for the rest of the text. No byte
 * that is looked for is a part of a longer character in any encoding of PostgreSQL, except ';',
 * where that does no harm.
 */
#include "sql_touch_priv.h"

#include "sql_functions_priv.h"
#include "sql_priv.h"

#include "pgweir/base/banned.h"

#define FOUR(a, b, c, d) \
	((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))

/* What the statements of a text have shown so far. */
struct quick {
	unsigned int bits;
	bool has_select; /* INTO may follow */
	bool has_with;   /* so may an UPDATE */
};

/* No two statements begin with the same four letters, except COMMIT and COMMENT. */
static bool is_quiet(struct quick *quick, uint32_t four)
{
	switch (four) {
	case FOUR('s', 'e', 'l', 'e'):
	case FOUR('v', 'a', 'l', 'u'):
	case FOUR('t', 'a', 'b', 'l'):
		quick->has_select = true;
		return true;
	case FOUR('w', 'i', 't', 'h'):
		quick->has_select = quick->has_with = true;
		quick->bits |= SQL_TOUCH_WRITE;
		return true;
	case FOUR('i', 'n', 's', 'e'):
	case FOUR('d', 'e', 'l', 'e'):
	case FOUR('m', 'e', 'r', 'g'):
	case FOUR('c', 'o', 'p', 'y'):
		quick->bits |= SQL_TOUCH_WRITE;
		return true;
	case FOUR('b', 'e', 'g', 'i'):
	case FOUR('s', 't', 'a', 'r'):
	case FOUR('c', 'o', 'm', 'm'):
	case FOUR('r', 'o', 'l', 'l'):
	case FOUR('a', 'b', 'o', 'r'):
	case FOUR('s', 'a', 'v', 'e'):
	case FOUR('r', 'e', 'l', 'e'):
	case FOUR('f', 'e', 't', 'c'):
	case FOUR('m', 'o', 'v', 'e'):
	case FOUR('s', 'h', 'o', 'w'):
	case FOUR('l', 'o', 'c', 'k'):
	case FOUR('t', 'r', 'u', 'n'):
		return true;
	default:
		return false;
	}
}

static uint32_t four_letters(const char *at)
{
	return FOUR((unsigned char)at[0], (unsigned char)at[1], (unsigned char)at[2],
	            (unsigned char)at[3]) |
	       0x20202020;
}

static bool is_end_word(struct bytes rest)
{
	return rest.count >= 3 && (rest.at[0] | 0x20) == 'e' && (rest.at[1] | 0x20) == 'n' &&
	       (rest.at[2] | 0x20) == 'd' && sql_word_size(rest) == 3;
}

/* An UPDATE of the view pg_settings sets a parameter. false: this may be one. */
static bool is_quiet_target(struct bytes rest)
{
	while (rest.count && (rest.at[0] == ' ' || (rest.at[0] >= '\t' && rest.at[0] <= '\r')))
		rest = bytes_skip(rest, 1);
	if (rest.count && rest.at[0] == '"')
		rest = bytes_skip(rest, 1);
	if (rest.count < 5)
		return true;
	if (!sql_word_size(rest) || four_letters(rest.at) == FOUR('o', 'n', 'l', 'y'))
		return false;
	/* pg_settings, pg_catalog.pg_settings; not people, pgbench_accounts */
	return (rest.at[0] | 0x20) != 'p' || (rest.at[1] | 0x20) != 'g' || rest.at[2] != '_';
}

/*
 * Judges the beginning of a statement. false: its tokens must be read. Comments are skipped at
 * the beginning of a text only: after each semicolon they could cost the square of its size.
 */
static bool is_quiet_statement(struct quick *quick, struct bytes rest)
{
	uint32_t four;

	while (rest.count && (rest.at[0] == ' ' || (rest.at[0] >= '\t' && rest.at[0] <= '\r')))
		rest = bytes_skip(rest, 1);
	if (rest.count == 0 || rest.at[0] == ';')
		return true;
	if (rest.at[0] == '(') {
		quick->has_select = true;
		return true;
	}
	if (rest.count < 4)
		return is_end_word(rest);
	four = four_letters(rest.at);
	if (four == FOUR('u', 'p', 'd', 'a')) {
		quick->bits |= SQL_TOUCH_WRITE;
		return is_quiet_target(bytes_skip(rest, sql_word_size(rest)));
	}
	return is_quiet(quick, four) || is_end_word(rest);
}

static bool are_quiet_statements(struct quick *quick, struct bytes text)
{
	struct bytes rest = text;
	const char *next;

	if (!sql_skip_space(&rest))
		return true; /* it ends within a comment */
	if (!is_quiet_statement(quick, rest))
		return false;
	while ((next = memchr(text.at, ';', text.count)) != NULL) {
		text = bytes_skip(text, (size_t)(next - text.at) + 1);
		if (!is_quiet_statement(quick, text))
			return false;
	}
	return true;
}

static bool is_in_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '$' || (c & 0x80);
}

/* Judges the name before a parenthesis. false: it may be one of the functions. */
static bool is_quiet_name(const char *begin, const char *end)
{
	const char *at = end;

	while (at > begin && is_in_name(at[-1]) && end - at <= 4 * SQL_FUNCTION_MAX)
		at--;
	return !sql_function(bytes_of(at, (size_t)(end - at)));
}

/* Judges what is before a parenthesis. *has_line: a comment may be there, from -- to a newline. */
static bool is_quiet_call(const char *begin, const char *end, bool *has_line)
{
	while (end > begin && (end[-1] == ' ' || (end[-1] >= '\t' && end[-1] <= '\r'))) {
		*has_line |= end[-1] == '\n' || end[-1] == '\r';
		end--;
	}
	if (end > begin && end[-1] == '"')
		end--;
	if (end == begin)
		return true;
	if (end[-1] == '/')
		return end - begin < 2 || end[-2] != '*';
	return !sql_function_may_end(end[-1]) || is_quiet_name(begin, end);
}

static bool are_quiet_calls(struct bytes text)
{
	const char *begin = text.at, *end = text.at + text.count, *at = begin;
	bool has_line = false;

	while ((at = memchr(at, '(', (size_t)(end - at))) != NULL) {
		if (!is_quiet_call(begin, at, &has_line))
			return false;
		begin = ++at;
	}
	return !has_line || !memmem(text.at, text.count, "--", 2);
}

/* Whether the text may have a name in U&"...". */
static bool has_unicode_name(struct bytes text)
{
	const char *end = text.at + text.count, *at = text.at;

	while ((at = memchr(at, '&', (size_t)(end - at))) != NULL) {
		at++;
		if (at < end && *at == '"' && at - text.at > 1 && (at[-2] | 0x20) == 'u')
			return true;
	}
	return false;
}

/* The search for four letters: by its last byte, how many of the next four can be skipped. */
struct four {
	uint32_t letters;
	unsigned char less[256]; /* four, less this */
};

static const struct four into = {
	FOUR('i', 'n', 't', 'o'),
	{ ['o'] = 4, ['O'] = 4, ['t'] = 3, ['T'] = 3, ['n'] = 2, ['N'] = 2, ['i'] = 1, ['I'] = 1 },
};

static const struct four settings = {
	/* of pg_settings */
	FOUR('i', 'n', 'g', 's'),
	{ ['s'] = 4, ['S'] = 4, ['g'] = 3, ['G'] = 3, ['n'] = 2, ['N'] = 2, ['i'] = 1, ['I'] = 1 },
};

static bool has_four(struct bytes text, const struct four *four)
{
	for (size_t at = 3; at < text.count;) {
		size_t step = 4u - four->less[(unsigned char)text.at[at]];

		if (step == 0) {
			if (four_letters(text.at + at - 3) == four->letters)
				return true;
			step = 1;
		}
		at += step;
	}
	return false;
}

bool sql_touch_quick(struct bytes text, unsigned int *bits)
{
	struct quick quick = { 0 };
	bool is_quiet;

	if (text.count == 0) {
		*bits = 0;
		return false;
	}
	is_quiet = are_quiet_statements(&quick, text) && are_quiet_calls(text) &&
	           !has_unicode_name(text) && !(quick.has_select && has_four(text, &into)) &&
	           !(quick.has_with && has_four(text, &settings));
	*bits = quick.bits;
	return !is_quiet;
}
