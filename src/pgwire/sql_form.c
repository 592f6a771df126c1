/* SPDX-License-Identifier: ISC */
/*
 * The form of a text: up to sixteen bytes at a time are copied, and what may begin a constant is
 * looked at.
 */
#include "sql_form_priv.h"

#include "sql_sixteen_priv.h"

#include "pgweir/base/banned.h"

static inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Whether no word, name or number has this character: one may begin or end at it. */
static inline bool is_border(char c)
{
	if ((unsigned char)c < '@')
		return !is_digit(c) && c != '.' && c != '$';
	return c == '[' || c == ']';
}

static inline bool is_in_number(char c) { return is_digit(c) || c == '.'; }

/* 1e+5 */
static inline bool is_exponent(struct bytes text, const char *at)
{
	return at - text.at >= 2 && (at[-1] == '+' || at[-1] == '-') && (at[-2] | 0x20) == 'e';
}

/* Returns the end of the number that begins here. at: the digit is a part of another token. */
static inline const char *skip_number(struct bytes text, const char *at)
{
	const char *end = at, *text_end = text.at + text.count;

	if ((at > text.at && !is_border(at[-1])) || is_exponent(text, at))
		return at;
	while (end < text_end && is_in_number(*end))
		end++;
	return end == text_end || is_border(*end) ? end : at;
}

/* Whether a comment or a dollar quote may begin here. */
static bool is_hard(struct bytes text, const char *at)
{
	char next = at + 1 < text.at + text.count ? at[1] : 0;

	if (*at == '$')
		return !is_digit(next);
	return (*at == '-' && next == '-') || (*at == '/' && next == '*');
}

/* Returns the last byte of this sign or string. NULL: the text is its own form. */
__attribute__((noinline)) static const char *pass_other(struct bytes text, const char *at)
{
	if (*at != '\'')
		return is_hard(text, at) ? NULL : at;
	if (at > text.at && (at[-1] | 0x20) == 'e')
		return NULL; /* it may have escapes */
	return memchr(at + 1, '\'', (size_t)(text.at + text.count - at) - 1);
}

/*
 * A bit for each byte that is looked at: digits, quotes, minus, slash, dollar, and signs between
 * them that are rare.
 */
static inline uint64_t places_in(sixteen bytes)
{
	return sixteen_bits(sixteen_are_in(bytes, '"', '9' - '"' + 1) &
	                    ~(sixteen_are_in(bytes, '(', ',' - '(' + 1) | (sixteen)(bytes == '.')));
}

/* The next sixteen bytes; the last ones, and zeros. The text has sixteen at least. */
static inline sixteen next_sixteen(const char *at, const char *end)
{
	size_t rest = (size_t)(end - at);
	unsigned __int128 bytes;

	if (rest >= SIXTEEN)
		return sixteen_at(at);
	memcpy(&bytes, end - SIXTEEN, sizeof(bytes));
	bytes = BYTE_ORDER == LITTLE_ENDIAN ? bytes >> 8 * (SIXTEEN - rest)
	                                    : bytes << 8 * (SIXTEEN - rest);
	return (sixteen)bytes;
}

__attribute__((noinline)) static size_t copy(struct bytes text, char *form)
{
	memcpy(form, text.at, text.count);
	return text.count;
}

size_t sql_form(struct bytes text, char *form)
{
	const char *at = text.at, *end = text.at + text.count;
	bool is_in_name = false;
	char *to = form;

	if (text.count < SIXTEEN)
		return copy(text, form);
	for (; at < end; at++, to++) {
		sixteen bytes = next_sixteen(at, end);
		uint64_t places = places_in(bytes);

		memcpy(to, &bytes, sizeof(bytes));
		if (!places) {
			at += SIXTEEN - 1;
			to += SIXTEEN - 1;
			continue;
		}
		to += __builtin_ctzll(places);
		at += __builtin_ctzll(places);
		if (*at == '"') {
			is_in_name = !is_in_name;
		} else if (is_in_name) {
			continue;
		} else if (!is_digit(*at)) {
			if (*at == '\'')
				*++to = '\'';
			at = pass_other(text, at);
			if (!at)
				return copy(text, form);
		} else {
			const char *number_end = skip_number(text, at);

			if (number_end == at)
				continue;
			*to = '0';
			at = number_end - 1;
		}
	}
	return is_in_name ? copy(text, form) : (size_t)(to - form) - (size_t)(at - end);
}
