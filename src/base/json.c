/* SPDX-License-Identifier: ISC */
/*
 * See pgweir/base/json.h. Nothing is called recursively: the brackets that are open are bits.
 */
#include "pgweir/base/json.h"

#include <string.h>

#define DEPTH_MAX 32

static void skip_blanks(struct bytes *rest)
{
	while (rest->count && memchr(" \t\r\n", rest->at[0], 4))
		*rest = bytes_skip(*rest, 1);
}

/* The size of a text with its quotes; 0: it has no end. */
static size_t text_size(struct bytes in)
{
	for (size_t i = 1; i < in.count && (unsigned char)in.at[i] >= ' '; i++) {
		if (in.at[i] == '"')
			return i + 1;
		if (in.at[i] == '\\')
			i++;
	}
	return 0;
}

/* The size of an object or array with its brackets; 0: its brackets do not match. */
static size_t group_size(struct bytes in)
{
	uint32_t braces = 0; /* for each open bracket whether it is { */
	unsigned int depth = 0;

	for (size_t i = 0; i < in.count; i++) {
		char c = in.at[i];
		size_t size = c == '"' ? text_size(bytes_skip(in, i)) : 1;

		if (!size || ((c == '{' || c == '[') && depth++ == DEPTH_MAX))
			return 0;
		i += size - 1;
		if (c == '{' || c == '[')
			braces = braces << 1 | (c == '{');
		if (c != '}' && c != ']')
			continue;
		if ((braces & 1) != (c == '}'))
			return 0;
		braces >>= 1;
		if (--depth == 0)
			return i + 1;
	}
	return 0;
}

bool json_take(struct bytes *rest, struct json *value)
{
	size_t size, edge = 1;

	skip_blanks(rest);
	if (!rest->count)
		return false;
	switch (rest->at[0]) {
	case '"':
		value->kind = JSON_TEXT;
		size = text_size(*rest);
		break;
	case '{':
	case '[':
		value->kind = rest->at[0] == '{' ? JSON_OBJECT : JSON_ARRAY;
		size = group_size(*rest);
		break;
	default:
		value->kind = JSON_WORD;
		edge = size = 0;
		while (size < rest->count && rest->at[size] &&
		       strchr("+-.0123456789abcdefghijklmnopqrstuvwxyzE", rest->at[size]))
			size++;
	}
	if (!size)
		return false;
	value->text = bytes_of(rest->at + edge, size - 2 * edge);
	*rest = bytes_skip(*rest, size);
	skip_blanks(rest);
	return true;
}

/* What comes before the next one: nothing, or the comma behind the one before. */
static bool take_mark(struct bytes *rest, char mark)
{
	if (!rest->count || rest->at[0] != mark)
		return false;
	*rest = bytes_skip(*rest, 1);
	return true;
}

enum json_step json_next(struct bytes *group, struct json *name, struct json *value)
{
	skip_blanks(group);
	if (!group->count)
		return JSON_END;
	if (name && (!json_take(group, name) || name->kind != JSON_TEXT || !take_mark(group, ':')))
		return JSON_BAD;
	if (!json_take(group, value))
		return JSON_BAD;
	if (!group->count)
		return JSON_ONE;
	return take_mark(group, ',') && group->count ? JSON_ONE : JSON_BAD;
}

bool json_find(const struct json *object, const char *wanted, struct json *value)
{
	struct bytes rest = object->text;
	struct json name;

	while (object->kind == JSON_OBJECT && json_next(&rest, &name, value) == JSON_ONE) {
		if (bytes_are(name.text, wanted))
			return true;
	}
	return false;
}
