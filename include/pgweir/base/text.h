/* SPDX-License-Identifier: ISC */
/*
 * Small functions on texts: bounded copies, numbers, hexadecimal.
 */
#ifndef PGWEIR_BASE_TEXT_H
#define PGWEIR_BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "pgweir/base/buf.h"
#include "pgweir/base/bytes.h"

/* Copies as much as fits, with a terminating zero. false: it was truncated. */
bool text_copy(char *out, size_t size, const char *text);

static inline bool text_same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* Parses all of `text` as a number in base 10. false: it is not a number, or out of range. */
bool text_to_i64(const char *text, int64_t *value);

/* In lower-case hexadecimal, with a zero: out needs 2 * count + 1 bytes. */
void text_hex(char *out, const void *bytes, size_t count);

/* The byte that two hexadecimal digits stand for. -1: they are none. */
int text_unhex(const char digits[2]);

/*
 * Returns the size of the UTF-8 character at `text`, of which `capacity` (at least 1) bytes
 * exist. 0: not valid UTF-8. *point is its code point.
 */
size_t text_utf8(const char *text, size_t capacity, uint32_t *point);

/* Removes blanks, tabs and line ends at both sides, in place. Returns the new start. */
char *text_trim(char *text);

/*
 * ---- strbuf ----
 *
 * A text of limited length in the caller's buffer, which always ends with a zero. What does not
 * fit is cut off. Much cheaper than printf, for lines that are logged for each connection.
 */

struct strbuf {
	char *at;
	size_t count; /* bytes, without the terminating zero */
	size_t size;  /* size of the buffer, at least 1 */
};

/* Begins an empty text in `out`, which the caller owns. */
struct strbuf strbuf_begin(char *out, size_t size);

void strbuf_add_bytes(struct strbuf *strbuf, const char *bytes, size_t count);
void strbuf_add(struct strbuf *strbuf, const char *text);
void strbuf_add_number(struct strbuf *strbuf, uint64_t number);
/* Adds a pointer in the format of "%p": 0x and lower-case digits. */
void strbuf_add_pointer(struct strbuf *strbuf, const void *pointer);
void strbuf_printf(struct strbuf *strbuf, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void strbuf_vprintf(struct strbuf *strbuf, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

/* ---- json ---- */

/*
 * Adds a text as a JSON string, with quotes. The output is always valid UTF-8: each invalid
 * byte becomes U+FFFD. Control characters (also C1 and line separators) are escaped.
 */
void json_add_text(struct buf *out, struct bytes text);

/*
 * JSON that others have sent is read without memory: values are parts of the text. Each step takes
 * a time in proportion to the part that it takes, and brackets are at most 32 deep.
 *
 * Escapes are not decoded: who compares texts finds only those that need none.
 */

enum json_kind {
	JSON_TEXT,
	JSON_OBJECT,
	JSON_ARRAY,
	JSON_WORD /* a number, true, false, null: it is not checked which */
};

/* A value; `text` is without its quotes or brackets. */
struct json {
	enum json_kind kind;
	struct bytes text;
};

/* Takes a value, and the blanks around it. false: there is none, or it has no end. */
bool json_take(struct bytes *rest, struct json *value);

enum json_step { JSON_ONE, JSON_END, JSON_BAD };

/* Takes the next member of an object, or (name NULL) of an array, from what is between brackets. */
enum json_step json_next(struct bytes *group, struct json *name, struct json *value);

/* The first member of this name. false: there is none before the end or what is bad. */
bool json_find(const struct json *object, const char *name, struct json *value);

/* ---- nearest: of some names, for "did you mean" after an unknown one ---- */

#define NEAREST_NAME_MAX 63 /* longer names are never near */

struct nearest {
	const char *wanted;
	const char *found; /* the nearest name so far, as offered; NULL: none is near */
	size_t distance;   /* a name is near if its distance is less */
};

/* Borrows `wanted` and all offered names. */
struct nearest nearest_begin(const char *wanted);

/* Offers a name. Upper and lower case are equal. Of names at the same distance the first wins. */
void nearest_offer(struct nearest *nearest, const char *name);

#define TEXT_UTC_SIZE 40

/* Writes microseconds since 1970 as "2026-11-23T01:02:03.456Z". Returns `out`. */
const char *text_utc(int64_t wall, char out[TEXT_UTC_SIZE]);

#endif
