/* SPDX-License-Identifier: ISC */
/*
 * The first step of the scan: most texts need no other.
 *
 *   SELECT a FROM t WHERE f (b) IN (1, 2); UPDATE t SET a = 1
 *   ^ first word            ^ name before a parenthesis
 *                                        ^ first word
 *
 * A statement that touches the session begins with a word of its own, or calls a function by its
 * name, which is before a parenthesis, or behind a dot: (x).f; else it is SELECT ... INTO, an
 * UPDATE of pg_settings, or has a name in U&"...", whose letters are not in the text.
 *
 * Hard here: quotes and comments are not followed. A semicolon or a parenthesis in a string may
 * only lead to more work, never to less. Every place that can begin a statement is looked at, and
 * what the first word of one statement has switched on holds for the rest of the text. No byte
 * that is looked for is a part of a longer character in any encoding of PostgreSQL, except ';',
 * where that does no harm.
 */
#include <endian.h>
#include <strings.h>

#include "pgweir/pgwire/sql_touch.h"

#include "sql_priv.h"

/* What the statements of a text have shown so far. */
struct quick {
	const char *begin; /* of the text, or after the last parenthesis */
	const char *end;
	unsigned int bits;
	bool has_select; /* INTO may follow */
	bool has_update; /* of pg_settings, perhaps */
	bool has_line;   /* a newline was before a parenthesis: a comment may be there */
};

/*
 * What is a letter is in a name. Not a dollar sign or a digit: a name may follow $$a string$$ or a
 * number at once. Digits are only at the end of the names that are looked for.
 */

/* ---- first words ---- */

#define FOUR(a, b, c, d) \
	((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))

static uint32_t four_letters(const char *at)
{
	return FOUR((unsigned char)at[0], (unsigned char)at[1], (unsigned char)at[2],
	            (unsigned char)at[3]) |
	       0x20202020;
}

/* No two statements begin with the same four letters, except COMMIT and COMMENT. */
static bool is_quiet_word(struct quick *quick, uint32_t four)
{
	switch (four) {
	case FOUR('s', 'e', 'l', 'e'):
	case FOUR('v', 'a', 'l', 'u'):
	case FOUR('t', 'a', 'b', 'l'):
		quick->has_select = true;
		return true;
	case FOUR('w', 'i', 't', 'h'):
		quick->has_select = quick->has_update = true;
		quick->bits |= SQL_TOUCH_WRITE;
		return true;
	case FOUR('u', 'p', 'd', 'a'):
		quick->has_update = true;
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

/*
 * Judges the beginning of a statement. false: its tokens must be read. Comments are skipped at
 * the beginning of a text only: after each semicolon they could cost the square of its size.
 */
static bool is_quiet_statement(struct quick *quick, struct bytes rest)
{
	while (rest.count && is_a(rest.at[0], SPACE))
		rest = bytes_skip(rest, 1);
	if (rest.count == 0 || rest.at[0] == ';')
		return true;
	if (rest.at[0] == '(') {
		quick->has_select = true;
		return true;
	}
	return (rest.count >= 4 && is_quiet_word(quick, four_letters(rest.at))) ||
	       (sql_word_size(rest) == 3 && strncasecmp(rest.at, "end", 3) == 0);
}

/* ---- names of functions ---- */

#define LETTER(letter) (1u << ((letter)&31))

/*
 * Whether a name may be one of the functions with one argument, by its first two letters. One that
 * is not ASCII may be an `i`.
 */
static inline bool may_begin(char first, char second)
{
	static const unsigned int seconds[32] = {
		['c' & 31] = LETTER('u') | LETTER('r') | LETTER('o'),
		['d' & 31] = LETTER('b'),
		['i' & 31] = LETTER('s'),
		['l' & 31] = LETTER('a'),
		['n' & 31] = LETTER('e'),
		['p' & 31] = LETTER('g'),
		['q' & 31] = LETTER('u'),
		['s' & 31] = LETTER('e'),
		['t' & 31] = LETTER('s'),
		['x' & 31] = LETTER('p'),
	};

	return (first & 0x80) || (seconds[first & 31] & LETTER(second));
}

/* The same by its last two bytes. One that is not ASCII may be an `i`. */
static inline bool may_end(char before, char last)
{
	static const unsigned int befores[32] = {
		['2' & 31] = LETTER('b'),
		['3' & 31] = LETTER('b'),
		['a' & 31] = LETTER('m'),
		['b' & 31] = LETTER('a'),
		['d' & 31] = LETTER('e'),
		['e' & 31] = LETTER('t') | LETTER('l'),
		['g' & 31] = LETTER('i'),
		['k' & 31] = LETTER('c') | LETTER('a'),
		['l' & 31] = LETTER('a') | LETTER('m') | LETTER('l'),
		['n' & 31] = LETTER('o'),
		['p' & 31] = LETTER('u') | LETTER('o'),
		['t' & 31] = LETTER('i') | LETTER('c') | LETTER('e') | LETTER('o') | LETTER('r') |
		             LETTER('a') | LETTER('b'), /* and '4' */
		['u' & 31] = LETTER('_'),
		['y' & 31] = LETTER('f') | LETTER('b'),
	};

	return (befores[last & 31] & LETTER(before)) || (before & 0x80);
}

/* Judges what is before a parenthesis. */
static bool is_quiet_call(struct quick *quick, const char *end)
{
	const char *begin = quick->begin, *at;

	while (end > begin && is_a(end[-1], SPACE)) {
		quick->has_line |= end[-1] == '\n' || end[-1] == '\r';
		end--;
	}
	if (end > begin && end[-1] == '"')
		end--;
	if (end - begin < 2)
		return true;
	if (end[-1] == '/')
		return end[-2] != '*';
	if (!may_end(end[-2], end[-1]))
		return true;
	at = is_a(end[-1], DIGIT) ? end - 1 : end;
	while (at > begin && is_a(at[-1], LETTER) && end - at <= 4 * SQL_FUNCTION_MAX)
		at--;
	return !sql_function(bytes_of(at, (size_t)(end - at)));
}

/* Judges what is behind a dot, if it may be one of the functions, or a comment. */
__attribute__((noinline)) static bool is_quiet_part(const char *at, const char *end)
{
	const char *name;

	while (at < end && is_a(*at, SPACE))
		at++;
	if (at < end && *at == '"')
		at++;
	if (end - at < SQL_FUNCTION_MIN)
		return true;
	if ((at[0] == '/' && at[1] == '*') || (at[0] == '-' && at[1] == '-'))
		return false;
	for (name = at; at < end && at - name <= 4 * SQL_FUNCTION_MAX; at++) {
		if (!is_a(*at, LETTER | DIGIT))
			break;
	}
	return !sql_function(bytes_of(name, (size_t)(at - name)));
}

static inline bool is_quiet_dot(const char *at, const char *end)
{
	if (end - at <= SQL_FUNCTION_MIN)
		return true;
	at += at[1] == '"' ? 2 : 1;
	return (is_a(*at, LETTER) && !may_begin(at[0], at[1])) || is_quiet_part(at, end);
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

static inline found signs_in(block bytes)
{
	return (found)(bytes == '(') | (found)(bytes == ';') | (found)(bytes == '&') |
	       (found)(bytes == '.');
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
	default:
		return is_quiet_dot(at, quick->end);
	}
}

/* Judges the signs among eight bytes. signs: the comparison, the first byte in the lowest bits. */
__attribute__((noinline)) static bool are_quiet_signs(struct quick *quick, const char *at,
                                                      uint64_t signs)
{
	while (signs) {
		int bit = __builtin_ctzll(signs) & ~7;

		if (!is_quiet_sign(quick, at + bit / 8))
			return false;
		signs &= ~(0xffULL << bit);
	}
	return true;
}

/* Where these three letters begin in a block. */
static inline found letters_in(const char *at, const char three[static 3])
{
	block first = load(at) | 0x20, second = load(at + 1) | 0x20, third = load(at + 2) | 0x20;

	/* clang compares no bytes with an int. */
	return (found)(first == (char)(three[0] | 0x20)) &
	       (found)(second == (char)(three[1] | 0x20)) &
	       (found)(third == (char)(three[2] | 0x20));
}

static bool has_letters(struct bytes text, const char three[static 3])
{
	const char *last = text.at + text.count - BLOCK - AHEAD;
	found letters = letters_in(last, three);

	for (const char *at = text.at; at < last; at += BLOCK)
		letters |= letters_in(at, three);
	return has_any(letters);
}

/* Judges all signs behind the first byte. *has_words: "to" is somewhere, perhaps of INTO. */
static inline bool is_quiet_text(struct quick *quick, struct bytes text, bool *has_words)
{
	const char *last = text.at + text.count - BLOCK;
	found words = { 0 };

	for (const char *at = text.at + 1;; at = at + BLOCK < last ? at + BLOCK : last) {
		block before = load(at - 1), here = load(at);
		found signs = signs_in(here);

		words |= (found)((before | 0x20) == 't') & (found)((here | 0x20) == 'o');
		if (has_any(signs) && (!are_quiet_signs(quick, at, le64toh(signs[0])) ||
		                       !are_quiet_signs(quick, at + BLOCK / 2, le64toh(signs[1]))))
			return false;
		if (at == last)
			break;
	}
	*has_words = has_any(words);
	return true;
}

static inline bool is_quiet_beginning(struct quick *quick, struct bytes text)
{
	if (text.at[0] == ';' || (!is_a(text.at[0], LETTER) && !sql_skip_space(&text)))
		return false; /* is_quiet_text() does not see its first byte; or a comment */
	return is_quiet_statement(quick, text);
}

static inline __attribute__((always_inline)) unsigned int touch_blocks(struct bytes text)
{
	struct quick quick = { .begin = text.at, .end = text.at + text.count };
	bool has_words;

	/* So are most of those that are executed most often. */
	quick.has_select = four_letters(text.at) == FOUR('s', 'e', 'l', 'e');
	if ((quick.has_select || is_quiet_beginning(&quick, text)) &&
	    is_quiet_text(&quick, text, &has_words) &&
	    !(quick.has_select && has_words && has_letters(text, "nto")) &&
	    !(quick.has_update && has_letters(text, "g_s")) &&
	    !(quick.has_line && memmem(text.at, text.count, "--", 2)))
		return quick.bits;
	return quick.bits | SQL_TOUCH_UNREAD;
}

static bool is_one_word(struct bytes text)
{
	while (text.count && is_a(text.at[0], LETTER))
		text = bytes_skip(text, 1);
	return !text.count;
}

/* A text that is shorter than a block. */
__attribute__((noinline)) static unsigned int touch_short(struct bytes text)
{
	char padded[BLOCK + AHEAD];
	struct quick quick = { 0 };

	/* BEGIN, COMMIT, END and ROLLBACK are every other text of many clients. */
	if (is_one_word(text) && is_quiet_statement(&quick, text))
		return quick.bits;
	memset(padded, ' ', sizeof(padded));
	memcpy(padded, text.at, text.count);
	return touch_blocks(bytes_of(padded, sizeof(padded)));
}

unsigned int sql_touch_quick(struct bytes text)
{
	/* Nothing follows these at the end. */
	while (text.count && (text.at[text.count - 1] == ';' || text.at[text.count - 1] == ' '))
		text.count--;
	return text.count < BLOCK + AHEAD ? touch_short(text) : touch_blocks(text);
}

unsigned int sql_touch(struct bytes text)
{
	unsigned int bits = sql_touch_quick(text);

	return bits & SQL_TOUCH_UNREAD ? sql_touch_tokens(text) : bits;
}
