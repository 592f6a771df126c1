/* SPDX-License-Identifier: ISC */
/*
 * What the comments of an SQL text say, and the trace that it belongs to.
 *
 * Hard here: only the comment at each end is looked at, and not the text between them, so the cost
 * is bounded. Quotes between are not read: what looks like a comment at the end of a text is one,
 * or the text is not valid.
 */
#include "pgweir/pgwire/sql_traceparent.h"

#include "sql_priv.h"

/* So many digits, then `end`. */
static bool has_digits(const char *at, size_t count, char end, bool may_be_zero)
{
	bool is_zero = true;

	for (size_t i = 0; i < count; i++) {
		if (!memchr("0123456789abcdef", at[i], 16))
			return false;
		is_zero = is_zero && at[i] == '0';
	}
	return at[count] == end && (may_be_zero || !is_zero);
}

/* A quote follows it. Version ff, and ids of zeros, are not valid. */
static bool is_value(struct bytes value)
{
	const char *at = value.at;

	return value.count == SQL_TRACEPARENT_SIZE && has_digits(at, 2, '-', true) &&
	       memcmp(at, "ff", 2) != 0 && has_digits(at + 3, 32, '-', false) &&
	       has_digits(at + 36, 16, '-', false) && has_digits(at + 53, 2, '\'', true);
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
	return sql_traceparent_key(text, "traceparent='", value) && is_value(*value);
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
