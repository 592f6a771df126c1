/* SPDX-License-Identifier: ISC */
/*
 * Small functions on texts: bounded copies, numbers, hexadecimal.
 */
#ifndef PGWEIR_BASE_TEXT_H
#define PGWEIR_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Copies as much as fits, with a terminating zero. false: it was truncated. */
bool text_copy(char *out, size_t size, const char *text);

/* Parses all of `text` as a number in base 10. false: it is not a number, or out of range. */
bool text_to_i64(const char *text, int64_t *value);

/*
 * Writes `count` bytes in lower-case hexadecimal with a terminating zero: out needs 2 * count +
 * 1 bytes.
 */
void text_hex(char *out, const void *bytes, size_t count);

/*
 * Returns the size of the UTF-8 character at `text`, of which `capacity` (at least 1) bytes
 * exist. 0: not valid UTF-8. *point is its code point.
 */
size_t text_utf8(const char *text, size_t capacity, uint32_t *point);

/* Removes blanks, tabs and line ends at both sides, in place. Returns the new start. */
char *text_trim(char *text);

#endif
