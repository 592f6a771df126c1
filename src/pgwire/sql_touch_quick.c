/* SPDX-License-Identifier: ISC */
/*
 * The first step of the scan: most texts need no other.
 *
 *   SELECT a FROM t WHERE f (b) IN (1, 2); UPDATE t SET a = 1
 *   ^ first word            ^ name before a parenthesis
 *                                        ^ first word
 *
 * A statement that touches the session begins with a word of its own, or calls a function by its
 * name, which is before a parenthesis, or behind a dot: (x).f; else it is SELECT ... INTO, or has a
 * name in U&"...", whose letters are not in the text.
 *
 * Hard here: quotes and comments are not followed. A semicolon or a parenthesis in a string may
 * only lead to more work, never to less. Every place that can begin a statement is looked at, and
 * what the first word of one statement has switched on holds for the rest of the text. No byte
 * that is looked for is a part of a longer character in any encoding of PostgreSQL, except ';',
 * where that does no harm.
 */
#include <endian.h>

#include "pgweir/pgwire/sql_touch.h"

#include "sql_priv.h"

#define FOUR(a, b, c, d) \
	((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))

#define LETTER(letter) (1u << ((letter)&31))

/* Whether a name may be one of these, by its first two letters in any case. */
static inline bool function_may_begin(char first, char second)
{
	static const unsigned int seconds[32] = {
		['c' & 31] = LETTER('u') | LETTER('r') | LETTER('o'),
		['d' & 31] = LETTER('b'),
		['l' & 31] = LETTER('a'),
		['n' & 31] = LETTER('e'),
		['p' & 31] = LETTER('g'),
		['q' & 31] = LETTER('u'),
		['s' & 31] = LETTER('e'),
		['t' & 31] = LETTER('s'),
		['x' & 31] = LETTER('p'),
	};

	return seconds[first & 31] & LETTER(second);
}

/* Whether a name may be one of these, by its last two bytes. */
static inline bool function_may_end(char before, char last)
{
	before |= 0x20; /* '_' becomes 0x7f */
	switch (last | 0x20) {
	case 'a':
		return before == 'm';
	case 'b':
		return before == 'a';
	case 'd':
		return before == 'e';
	case 'e':
		return before == 't' || before == 'l';
	case 'g':
		return before == 'i' || (before & 0x80);
	case 'k':
		return before == 'c';
	case 'l':
		return before == 'a' || before == 'm' || before == 'l';
	case 'n':
		return before == 'o';
	case 'p':
		return before == 'u' || before == 'o';
	case 't':
		return before == 'i' || before == 'c' || before == 'e' || before == 'o' ||
		       before == 'r' || before == 'a' || (before & 0x80);
	case 'u':
		return before == 0x7f;
	case 'y':
		return before == 'f' || before == 'b';
	case '2':
	case '3':
	case '4':
		return before == 'b';
	default:
		return false;
	}
}

/* What the statements of a text have shown so far. */
struct quick {
	const char *begin; /* of the text, or after the last parenthesis */
	const char *end;
	unsigned int bits;
	bool has_select; /* INTO may follow */
	bool has_with;   /* so may an UPDATE of pg_settings */
	bool has_line;   /* a newline was before a parenthesis: a comment may be there */
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
	       (rest.at[2] | 0x20) == 'd' && (rest.count == 3 || sql_word_size(rest) == 3);
}

/*
 * Not a dollar sign or a digit: a name may follow $$a string$$ or a number at once. Digits are only
 * at the end of the names that are looked for.
 */
static bool is_in_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
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
	if (!is_in_name(rest.at[0]) || four_letters(rest.at) == FOUR('o', 'n', 'l', 'y'))
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
		return rest.count < 6 || is_quiet_target(bytes_skip(rest, 6));
	}
	return is_quiet(quick, four) || is_end_word(rest);
}

/* Judges the name before a parenthesis. false: it may be one of the functions. */
static bool is_quiet_name(const char *begin, const char *end)
{
	const char *at = end;

	if (at > begin && at[-1] >= '0' && at[-1] <= '9')
		at--;
	while (at > begin && is_in_name(at[-1]) && end - at <= 4 * SQL_FUNCTION_MAX)
		at--;
	return !sql_function(bytes_of(at, (size_t)(end - at)));
}

/* Judges what is before a parenthesis. */
static bool is_quiet_call(struct quick *quick, const char *end)
{
	const char *begin = quick->begin;

	while (end > begin && (end[-1] == ' ' || (end[-1] >= '\t' && end[-1] <= '\r'))) {
		quick->has_line |= end[-1] == '\n' || end[-1] == '\r';
		end--;
	}
	if (end > begin && end[-1] == '"')
		end--;
	if (end - begin < 2)
		return true;
	if (end[-1] == '/')
		return end[-2] != '*';
	return !function_may_end(end[-2], end[-1]) || is_quiet_name(begin, end);
}

/* Judges what is behind a dot, if it may be one of the functions, or a comment. */
__attribute__((noinline)) static bool is_quiet_part(struct bytes rest)
{
	size_t size = 0;

	while (rest.count && (rest.at[0] == ' ' || (rest.at[0] >= '\t' && rest.at[0] <= '\r')))
		rest = bytes_skip(rest, 1);
	if (rest.count && rest.at[0] == '"')
		rest = bytes_skip(rest, 1);
	if (rest.count < SQL_FUNCTION_MIN)
		return true;
	if ((rest.at[0] == '/' && rest.at[1] == '*') || (rest.at[0] == '-' && rest.at[1] == '-'))
		return false;
	while (size < rest.count && size <= 4 * SQL_FUNCTION_MAX &&
	       (is_in_name(rest.at[size]) || (rest.at[size] >= '0' && rest.at[size] <= '9')))
		size++;
	return !sql_function(bytes_of(rest.at, size));
}

static inline bool is_quiet_dot(const char *at, const char *end)
{
	if (end - at <= SQL_FUNCTION_MIN)
		return true;
	at++;
	if (*at == '"')
		at++;
	if (is_in_name(*at) && !function_may_begin(at[0], at[1]))
		return true;
	return is_quiet_part(bytes_of(at, (size_t)(end - at)));
}

/* ---- all bytes, 16 at a time ---- */

#define BLOCK 16
#define AHEAD 2 /* bytes after a block that are read too */

typedef char block __attribute__((vector_size(BLOCK)));

/* A comparison: all bits of a byte, or none. */
typedef uint64_t found __attribute__((vector_size(BLOCK)));

static block load(const char *at)
{
	block bytes;

	memcpy(&bytes, at, sizeof(bytes));
	return bytes;
}

static inline bool has_any(found bits) { return (bits[0] | bits[1]) != 0; }

/* Those but the dot, which most texts have. */
static inline found signs_in(block bytes)
{
	return (found)(bytes == '(') | (found)(bytes == ';') | (found)(bytes == '&');
}

/* Where these three letters begin in a block. */
static inline found letters_in(const char *at, const char three[static 3])
{
	block first = load(at) | 0x20, second = load(at + 1) | 0x20, third = load(at + 2) | 0x20;

	return (found)(first == three[0]) & (found)(second == three[1]) &
	       (found)(third == three[2]);
}

static bool is_quiet_sign(struct quick *quick, const char *at)
{
	switch (*at) {
	case '(':
		if (at < quick->begin)
			return true; /* the last block overlaps the one before it */
		if (!is_quiet_call(quick, at))
			return false;
		quick->begin = at + 1;
		return true;
	case ';':
		return is_quiet_statement(quick, bytes_of(at + 1, (size_t)(quick->end - at) - 1));
	case '&': /* U&"name" */
		return quick->end - at < 2 || at[1] != '"';
	case '.':
		return is_quiet_dot(at, quick->end);
	default:
		return true;
	}
}

/* Judges the signs among eight bytes. signs: the comparison, the first byte in the lowest bits. */
static bool are_quiet_signs(struct quick *quick, const char *at, uint64_t signs)
{
	while (signs) {
		int bit = __builtin_ctzll(signs) & ~7;

		if (!is_quiet_sign(quick, at + bit / 8))
			return false;
		signs &= ~(0xffULL << bit);
	}
	return true;
}

static bool are_quiet_all_signs(struct quick *quick, struct bytes text)
{
	const char *last = text.at + text.count - BLOCK;

	for (const char *at = text.at;; at = at + BLOCK < last ? at + BLOCK : last) {
		block bytes = load(at);
		found signs = signs_in(bytes) | (found)(bytes == '.');

		if (has_any(signs) && (!are_quiet_signs(quick, at, le64toh(signs[0])) ||
		                       !are_quiet_signs(quick, at + BLOCK / 2, le64toh(signs[1]))))
			return false;
		if (at == last)
			return true;
	}
}

static bool has_letters(struct bytes text, const char three[static 3])
{
	const char *last = text.at + text.count - BLOCK - AHEAD;
	found letters = letters_in(last, three);

	for (const char *at = text.at; at < last; at += BLOCK)
		letters |= letters_in(at, three);
	return has_any(letters);
}

/* What one look at all bytes has found. */
struct hits {
	found signs; /* in all bytes but the first */
	found dots;
	found words; /* where "to" begins, perhaps of INTO */
};

static inline void look(struct hits *hits, const char *at)
{
	block here = load(at) | 0x20, next = load(at + 1);

	hits->signs |= signs_in(next);
	hits->dots |= (found)(next == '.');
	hits->words |= (found)(here == 't') & (found)((next | 0x20) == 'o');
}

static inline struct hits look_at_all(struct bytes text)
{
	const char *last = text.at + text.count - BLOCK - 1;
	struct hits hits = { 0 };

	look(&hits, last);
	for (const char *at = text.at; at < last; at += BLOCK)
		look(&hits, at);
	return hits;
}

static bool are_quiet_bytes(struct quick *quick, struct bytes text)
{
	for (const char *at = text.at; at < quick->end; at++) {
		char c = *at;

		if ((c == '(' || c == ';' || c == '&' || c == '.') && !is_quiet_sign(quick, at))
			return false;
		if ((quick->has_select || quick->has_with) && (c | 0x20) == 'n')
			return false; /* may be the middle of INTO, or the end of pg_settings */
	}
	return true;
}

/* BEGIN, COMMIT, END and ROLLBACK are every other text of many clients. */
static bool is_block_word(struct bytes text)
{
	uint32_t four;

	if (text.count == 3)
		return is_end_word(text);
	if (text.count < 4 || text.count > 8)
		return false;
	four = four_letters(text.at);
	if (four != FOUR('b', 'e', 'g', 'i') && four != FOUR('c', 'o', 'm', 'm') &&
	    four != FOUR('r', 'o', 'l', 'l'))
		return false;
	for (size_t i = 4; i < text.count; i++) {
		if ((text.at[i] | 0x20) < 'a' || (text.at[i] | 0x20) > 'z')
			return false;
	}
	return true;
}

static inline bool is_letter(char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }

/* Where the first statement begins. false: nothing is there but a comment that does not end. */
static bool skip_to_statement(struct bytes *rest)
{
	return (rest->count && is_letter(rest->at[0])) || sql_skip_space(rest);
}

/* Judges what follows the beginning of the text. */
static unsigned int result(struct quick *quick, struct bytes text, bool is_quiet)
{
	is_quiet = is_quiet && !(quick->has_line && memmem(text.at, text.count, "--", 2));
	return is_quiet ? quick->bits : quick->bits | SQL_TOUCH_UNREAD;
}

/* For texts that are shorter than a block. Not inlined, like the next: most texts need neither. */
__attribute__((noinline)) static unsigned int touch_bytes(struct bytes text)
{
	struct quick quick = { .begin = text.at, .end = text.at + text.count };
	struct bytes rest = text;

	if (is_block_word(text) || !skip_to_statement(&rest))
		return 0;
	return result(&quick, text,
	              is_quiet_statement(&quick, rest) && are_quiet_bytes(&quick, text));
}

__attribute__((noinline)) static unsigned int touch_blocks(struct bytes text, bool has_signs,
                                                           bool has_words)
{
	struct quick quick = { .begin = text.at, .end = text.at + text.count };
	struct bytes rest = text;
	bool is_quiet;

	if (text.at[0] == ';')
		return SQL_TOUCH_UNREAD; /* no sign was looked for in the first byte */
	if (!skip_to_statement(&rest))
		return 0;
	is_quiet = is_quiet_statement(&quick, rest) &&
	           !(has_signs && !are_quiet_all_signs(&quick, text)) &&
	           !(quick.has_select && has_words && has_letters(text, "nto")) &&
	           !(quick.has_with && has_letters(text, "ngs"));
	return result(&quick, text, is_quiet);
}

/* A SELECT that has no signs but dots. */
static unsigned int touch_dots(struct bytes text)
{
	struct quick quick = { .begin = text.at, .end = text.at + text.count };

	return are_quiet_all_signs(&quick, text) ? 0 : SQL_TOUCH_UNREAD;
}

unsigned int sql_touch_quick(struct bytes text)
{
	struct hits hits;

	/* Nothing follows these at the end. */
	while (text.count && (text.at[text.count - 1] == ';' || text.at[text.count - 1] == ' '))
		text.count--;
	if (text.count < BLOCK + AHEAD)
		return touch_bytes(text);
	hits = look_at_all(text);
	/* One SELECT without signs: so are most of those that are executed most often. */
	if (!has_any(hits.signs | hits.words) && four_letters(text.at) == FOUR('s', 'e', 'l', 'e'))
		return has_any(hits.dots) ? touch_dots(text) : 0;
	return touch_blocks(text, has_any(hits.signs | hits.dots), has_any(hits.words));
}
