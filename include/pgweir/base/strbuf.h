/* SPDX-License-Identifier: ISC */
/*
 * A text of limited length, built from pieces in the caller's buffer. What does not fit is cut
 * off. The text always ends with a zero. Much cheaper than printf, for lines that are logged
 * for each connection.
 */
#ifndef PGWEIR_BASE_STRBUF_H
#define PGWEIR_BASE_STRBUF_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

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
void strbuf_vprintf(struct strbuf *strbuf, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

#endif
