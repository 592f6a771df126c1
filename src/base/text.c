/* SPDX-License-Identifier: ISC */
/*
 * Small functions on texts.
 */
#include "pgweir/base/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "pgweir/base/bytes.h"

static const char hex_digits[] = "0123456789abcdef";

bool text_to_i64(const char *text, int64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoll(text, &end, 10);
	return end != text && *end == 0 && errno == 0;
}

void text_hex(char *out, const void *bytes, size_t count)
{
	const unsigned char *in = bytes;

	for (size_t i = 0; i < count; i++) {
		*out++ = hex_digits[in[i] >> 4];
		*out++ = hex_digits[in[i] & 15];
	}
	*out = 0;
}

static int digit_of(char c)
{
	const char *found = c ? strchr(hex_digits, tolower((unsigned char)c)) : NULL;

	return found ? (int)(found - hex_digits) : -1;
}

int text_unhex(const char digits[2])
{
	int high = digit_of(digits[0]), low = digit_of(digits[1]);

	return high < 0 || low < 0 ? -1 : high << 4 | low;
}

char *text_trim(char *text)
{
	size_t count;

	text += strspn(text, " \t\r\n");
	for (count = strlen(text); count && strchr(" \t\r\n", text[count - 1]); count--)
		;
	text[count] = 0;
	return text;
}

/*
 * Hard here: the bytes may come from any peer. Overlong forms, surrogates and values above
 * U+10FFFF are not UTF-8, although they look like it.
 */
size_t text_utf8(const char *text, size_t capacity, uint32_t *point)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *at = (const unsigned char *)text;
	size_t count = at[0] < 0x80   ? 1
	               : at[0] < 0xc2 ? 0
	               : at[0] < 0xe0 ? 2
	               : at[0] < 0xf0 ? 3
	                              : 4;

	if (count == 0 || at[0] > 0xf4 || count > capacity)
		return 0;
	*point = count == 1 ? at[0] : at[0] & (0x7fu >> count);
	for (size_t i = 1; i < count; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
		*point = *point << 6 | (at[i] & 0x3f);
	}
	if (*point < least[count] || *point > 0x10ffff || (*point >= 0xd800 && *point < 0xe000))
		return 0;
	return count;
}

/* A text is cut behind so many bytes. Returns how many of them are whole characters. */
static size_t count_whole(const char *text, size_t count)
{
	size_t begin = count;
	uint32_t point;

	while (begin && count - begin < 3 && (text[begin - 1] & 0xc0) == 0x80)
		begin--;
	if (!begin || (unsigned char)text[begin - 1] < 0xc0)
		return count;
	begin--;
	return text_utf8(text + begin, count - begin, &point) ? count : begin;
}

bool text_copy(char *out, size_t size, const char *text)
{
	size_t count = strlen(text);
	bool fits = count < size;

	if (!fits)
		count = count_whole(text, size - 1);
	memcpy(out, text, count);
	out[count] = 0;
	return fits;
}

/* ---- bytes ---- */

bool bytes_equal_secret(struct bytes a, struct bytes b)
{
	unsigned char differ = 0;

	if (a.count != b.count)
		return false;
	for (size_t i = 0; i < a.count; i++)
		differ |= (unsigned char)(a.at[i] ^ b.at[i]);
	return differ == 0;
}

struct bytes bytes_take_until(struct bytes *bytes, char end)
{
	const char *found = bytes->count ? memchr(bytes->at, end, bytes->count) : NULL;
	struct bytes taken = *bytes;

	if (found)
		taken.count = (size_t)(found - taken.at);
	*bytes = bytes_skip(*bytes, taken.count + (found != NULL));
	return taken;
}

bool bytes_contain(struct bytes bytes, const char *text)
{
	for (size_t size = strlen(text); bytes.count >= size; bytes = bytes_skip(bytes, 1)) {
		/* A call for each byte would take most of the time. */
		if ((bytes.at[0] | 0x20) == (text[0] | 0x20) &&
		    strncasecmp(bytes.at, text, size) == 0)
			return true;
	}
	return false;
}

bool bytes_list_has(struct bytes texts, const char *text)
{
	for (const char *each; bytes_take_text(&texts, &each);) {
		if (strcmp(each, text) == 0)
			return true;
	}
	return false;
}

/* ---- strbuf ---- */

struct strbuf strbuf_begin(char *out, size_t size)
{
	out[0] = 0;
	return (struct strbuf){ .at = out, .size = size };
}

/* Nothing more is added behind what was cut. */
static void cut(struct strbuf *strbuf)
{
	strbuf->count = count_whole(strbuf->at, strbuf->size - 1);
	strbuf->at[strbuf->count] = 0;
	strbuf->size = strbuf->count + 1;
}

void strbuf_add_bytes(struct strbuf *strbuf, const char *bytes, size_t count)
{
	size_t capacity = strbuf->size - 1 - strbuf->count;
	size_t fitting = count < capacity ? count : capacity;

	memcpy(strbuf->at + strbuf->count, bytes, fitting);
	strbuf->count += fitting;
	strbuf->at[strbuf->count] = 0;
	if (fitting < count)
		cut(strbuf);
}

void strbuf_add(struct strbuf *strbuf, const char *text)
{
	strbuf_add_bytes(strbuf, text, strlen(text));
}

/* The base is a constant, so the compiler needs no division. */
static inline void add_digits(struct strbuf *strbuf, uint64_t number, unsigned int base)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = hex_digits[number % base];
		number /= base;
	} while (number);
	strbuf_add_bytes(strbuf, digits + at, sizeof(digits) - at);
}

void strbuf_add_number(struct strbuf *strbuf, uint64_t number) { add_digits(strbuf, number, 10); }

void strbuf_add_pointer(struct strbuf *strbuf, const void *pointer)
{
	strbuf_add_bytes(strbuf, "0x", 2);
	add_digits(strbuf, (uintptr_t)pointer, 16);
}

void strbuf_vprintf(struct strbuf *strbuf, const char *format, va_list args)
{
	size_t capacity = strbuf->size - strbuf->count;
	int count = vsnprintf(strbuf->at + strbuf->count, capacity, format, args);

	if (count > 0 && (size_t)count < capacity)
		strbuf->count += (size_t)count;
	else if (count > 0)
		cut(strbuf);
}

void strbuf_printf(struct strbuf *strbuf, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	strbuf_vprintf(strbuf, format, args);
	va_end(args);
}

/* ---- json ---- */

static void add_point(struct buf *out, uint32_t point, struct bytes as_is)
{
	static const char names[] = "\"\"\\\\\nn\rr\tt";

	for (size_t i = 0; names[i]; i += 2) {
		if (point == (unsigned char)names[i]) {
			buf_add_byte(out, '\\');
			buf_add_byte(out, names[i + 1]);
			return;
		}
	}
	if (point < ' ' || (point >= 0x7f && point < 0xa0) || point == 0x2028 || point == 0x2029)
		buf_printf(out, "\\u%04x", point);
	else
		buf_add(out, as_is.at, as_is.count);
}

void json_add_text(struct buf *out, struct bytes text)
{
	buf_add_byte(out, '"');
	while (text.count) {
		uint32_t point = 0;
		size_t count = text_utf8(text.at, text.count, &point);

		if (count)
			add_point(out, point, bytes_of(text.at, count));
		else
			buf_add_text(out, "\xef\xbf\xbd");
		text = bytes_skip(text, count ? count : 1);
	}
	buf_add_byte(out, '"');
}

#define DEPTH_MAX 32 /* nothing is called recursively: the brackets that are open are bits */

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

/* ---- nearest: by edit distance; one letter in three may be wrong ---- */

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static bool is_same(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Number of letters changed, added, left out, or exchanged with their neighbour. */
static size_t distance_of(const char *a, const char *b)
{
	size_t rows[3][NEAREST_NAME_MAX + 1], count = strlen(b);
	size_t *before = rows[0], *last = rows[1], *row = rows[2];

	for (size_t j = 0; j <= count; j++)
		last[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t *oldest = before;

		row[0] = i;
		for (size_t j = 1; j <= count; j++) {
			row[j] = least(last[j - 1] + !is_same(a[i - 1], b[j - 1]),
			               least(last[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && is_same(a[i - 1], b[j - 2]) &&
			    is_same(a[i - 2], b[j - 1]))
				row[j] = least(row[j], before[j - 2] + 1);
		}
		before = last;
		last = row;
		row = oldest;
	}
	return last[count];
}

struct nearest nearest_begin(const char *wanted)
{
	return (struct nearest){ .wanted = wanted, .distance = strlen(wanted) / 3 + 1 };
}

void nearest_offer(struct nearest *nearest, const char *name)
{
	size_t distance;

	if (strlen(nearest->wanted) > NEAREST_NAME_MAX || strlen(name) > NEAREST_NAME_MAX)
		return;
	distance = distance_of(nearest->wanted, name);
	if (distance >= nearest->distance)
		return;
	nearest->distance = distance;
	nearest->found = name;
}

const char *text_utc(int64_t wall, char out[TEXT_UTC_SIZE])
{
	time_t second = (time_t)(wall / 1000000);
	size_t count;
	struct tm utc;

	gmtime_r(&second, &utc);
	count = strftime(out, TEXT_UTC_SIZE, "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(out + count, TEXT_UTC_SIZE - count, ".%03dZ", (int)(wall / 1000 % 1000));
	return out;
}
