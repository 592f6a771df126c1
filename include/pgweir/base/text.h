/* SPDX-License-Identifier: ISC */
/*
 * Small work on text: bounded copies, numbers, hexadecimal.
 */
#ifndef PGWEIR_BASE_TEXT_H
#define PGWEIR_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Copies as much as fits and terminates it with a zero. false: it was cut. */
bool text_copy(char *out, size_t size, const char *text);

/* The whole of `text` as a number in base 10. false: something else, or out of range. */
bool text_to_i64(const char *text, int64_t *value);

/* Lower-case hexadecimal of `count` bytes and a zero: out has 2 * count + 1 bytes. */
void text_hex(char *out, const void *bytes, size_t count);

/*
 * How many bytes of well-formed UTF-8 begin a text of `room` bytes, at least one; 0: none. *point
 * is what they say.
 */
size_t text_utf8(const char *text, size_t capacity, uint32_t *point);

/* Cuts blanks, tabs and line ends off both sides, in place; returns the new start. */
char *text_trim(char *text);

#endif
