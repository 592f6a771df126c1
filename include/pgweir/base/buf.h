/* SPDX-License-Identifier: ISC */
/*
 * A growing buffer. {0} is a valid empty buffer, which owns nothing.
 *
 * Functions that add return no error: if memory or the limit runs out, the buffer is broken and
 * ignores further additions. The owner checks buf_ok() once, when the message is complete.
 */
#ifndef PGWEIR_BASE_BUF_H
#define PGWEIR_BASE_BUF_H

#include <stdarg.h>
#include <stdio.h>

#include "pgweir/base/bytes.h"

struct buf {
	char *at;
	size_t count;    /* bytes in use */
	size_t capacity; /* bytes allocated */
	size_t limit;    /* most bytes that it may contain; 0 = BUF_LIMIT */
	bool is_secret;  /* wipe the content before its memory is freed or moved */
	bool is_broken;  /* memory or limit ran out; the content is incomplete */
};

#define BUF_LIMIT ((size_t)1 << 30)

/* Frees the memory and empties the buffer. Keeps `limit` and `is_secret`. */
void buf_free(struct buf *buf);

/* Like buf_free(), but always wipes the content first: for secrets. */
void buf_wipe(struct buf *buf);

/*
 * Makes space for `count` more bytes and returns its address; NULL if broken. The caller adds
 * what it uses to buf->count.
 */
char *buf_reserve(struct buf *buf, size_t count);

void buf_add(struct buf *buf, const void *bytes, size_t count);
void buf_add_text(struct buf *buf, const char *text); /* without its terminating zero */
void buf_add_cstr(struct buf *buf, const char *text); /* with its terminating zero */
void buf_add_byte(struct buf *buf, char byte);
void buf_add_be16(struct buf *buf, uint16_t value);
void buf_add_be32(struct buf *buf, uint32_t value);
void buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *buf, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

/*
 * Adds a text in lines, each with this beginning and a line end. They are broken between words, so
 * that a line has at most `width` bytes behind its beginning, if no word is longer.
 */
void buf_add_wrapped(struct buf *buf, const char *text, size_t width, const char *beginning);

/*
 * Adds all of a file; no copy of it stays elsewhere. NULL: that is done; else "open" or "read",
 * what failed with errno: EFBIG if the buffer is broken. Its limit must allow for BUF_PIECE bytes
 * behind the file.
 */
const char *buf_read_file(struct buf *buf, const char *path);
#define BUF_PIECE ((size_t)65536)

void buf_drop(struct buf *buf, size_t count);

static inline void buf_clear(struct buf *buf)
{
	buf->count = 0;
	buf->is_broken = false;
}

/* Like buf_clear(), but frees memory of more than `most` bytes. */
void buf_reuse(struct buf *buf, size_t most);

static inline bool buf_ok(const struct buf *buf) { return !buf->is_broken; }

static inline struct bytes buf_bytes(const struct buf *buf)
{
	return (struct bytes){ buf->at, buf->count };
}

/* Returns the content as a C string (adds a zero after it); "" if empty or broken. */
const char *buf_text(struct buf *buf);

/*
 * Makes room for one more element in an array of `count` elements of this size. Returns the array;
 * NULL: no memory, and the array is unchanged.
 */
void *array_room(void *at, size_t count, size_t *capacity, size_t size);

/*
 * In an array of `count` elements of this size, each of which begins with its key, in rising order:
 * the index of the first one whose key is not less than this one.
 */
size_t array_find(const void *at, size_t count, size_t size, uint64_t key);

#endif
