/* SPDX-License-Identifier: ISC */
/*
 * A buffer that grows. At rest ({0}) it owns nothing.
 *
 * Adding never fails visibly: when memory or the limit runs out, the buffer is
 * broken, further additions are ignored, and the owner asks buf_ok() once, when
 * the whole message has been put together.
 */
#ifndef PGWEIR_BASE_BUF_H
#define PGWEIR_BASE_BUF_H

#include <stdarg.h>

#include "pgweir/base/bytes.h"

struct buf {
	char *at;
	size_t count;    /* bytes in use */
	size_t capacity; /* bytes allocated */
	size_t limit;    /* most bytes it may hold; 0 = BUF_LIMIT */
	bool is_secret;  /* the content is wiped before its memory is freed or moved */
	bool is_broken;  /* memory or limit ran out: the content is incomplete */
};

#define BUF_LIMIT ((size_t)1 << 30)

/* Frees what it owns and leaves it at rest; limit and secrecy stay. */
void buf_free(struct buf *buf);

/* As buf_free(), and wipes the content first: for secrets. */
void buf_wipe(struct buf *buf);

/* Reserves `count` more bytes and returns their address; NULL when broken. Does not count them.
 */
char *buf_reserve(struct buf *buf, size_t count);

void buf_add(struct buf *buf, const void *bytes, size_t count);
void buf_add_text(struct buf *buf, const char *text); /* without its zero */
void buf_add_cstr(struct buf *buf, const char *text); /* with its zero */
void buf_add_byte(struct buf *buf, char byte);
void buf_add_be16(struct buf *buf, uint16_t value);
void buf_add_be32(struct buf *buf, uint32_t value);
void buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *buf, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

/* Removes the first `count` bytes; the rest moves to the front. */
void buf_drop(struct buf *buf, size_t count);

static inline void buf_clear(struct buf *buf)
{
	buf->count = 0;
	buf->is_broken = false;
}

/* As buf_clear(), for the next use: keeps its memory unless that is more than `most` bytes. */
void buf_reuse(struct buf *buf, size_t most);

static inline bool buf_ok(const struct buf *buf) { return !buf->is_broken; }

static inline struct bytes buf_bytes(const struct buf *buf)
{
	return (struct bytes){ buf->at, buf->count };
}

/* The content as a C string (a zero is kept behind it); "" when empty or broken. */
const char *buf_text(struct buf *buf);

#endif
