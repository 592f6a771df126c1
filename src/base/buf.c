/* SPDX-License-Identifier: ISC */
/*
 * A growing buffer. Its capacity doubles, up to its limit.
 */
#include "pgweir/base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define FIRST_CAPACITY 64

void buf_free(struct buf *buf)
{
	if (buf->is_secret && buf->at)
		explicit_bzero(buf->at, buf->capacity);
	free(buf->at);
	*buf = (struct buf){ .limit = buf->limit, .is_secret = buf->is_secret };
}

void buf_wipe(struct buf *buf)
{
	if (buf->at)
		explicit_bzero(buf->at, buf->capacity);
	buf_free(buf);
}

void buf_reuse(struct buf *buf, size_t most)
{
	if (buf->capacity > most)
		buf_free(buf);
	else
		buf_clear(buf);
}

/* Like realloc(), but wipes the old memory, because the content is secret. */
static char *move(struct buf *buf, size_t capacity)
{
	char *at = malloc(capacity);

	if (!at || !buf->at)
		return at;
	memcpy(at, buf->at, buf->count);
	explicit_bzero(buf->at, buf->capacity);
	free(buf->at);
	return at;
}

char *buf_reserve(struct buf *buf, size_t count)
{
	size_t limit = buf->limit ? buf->limit : BUF_LIMIT;
	size_t capacity = buf->capacity ? buf->capacity : FIRST_CAPACITY;
	char *at;

	if (buf->is_broken)
		return NULL;
	if (count <= buf->capacity - buf->count && buf->at)
		return buf->at + buf->count;
	if (count > limit || buf->count > limit - count)
		goto broken;
	while (capacity < buf->count + count)
		capacity *= 2;
	if (capacity > limit)
		capacity = limit;
	at = buf->is_secret ? move(buf, capacity) : realloc(buf->at, capacity);
	if (!at)
		goto broken;
	buf->at = at;
	buf->capacity = capacity;
	return buf->at + buf->count;

broken:
	buf->is_broken = true;
	return NULL;
}

void buf_add(struct buf *buf, const void *bytes, size_t count)
{
	char *at = buf_reserve(buf, count);

	if (!at || count == 0)
		return;
	memcpy(at, bytes, count);
	buf->count += count;
}

void buf_add_text(struct buf *buf, const char *text) { buf_add(buf, text, strlen(text)); }

void buf_add_cstr(struct buf *buf, const char *text) { buf_add(buf, text, strlen(text) + 1); }

void buf_add_byte(struct buf *buf, char byte) { buf_add(buf, &byte, 1); }

void buf_add_be16(struct buf *buf, uint16_t value)
{
	char out[2];

	store_be16(out, value);
	buf_add(buf, out, sizeof(out));
}

void buf_add_be32(struct buf *buf, uint32_t value)
{
	char out[4];

	store_be32(out, value);
	buf_add(buf, out, sizeof(out));
}

void buf_vprintf(struct buf *buf, const char *format, va_list args)
{
	va_list again;
	char *at;
	int count;

	va_copy(again, args);
	count = vsnprintf(NULL, 0, format, again);
	va_end(again);
	if (count < 0) {
		buf->is_broken = true;
		return;
	}
	at = buf_reserve(buf, (size_t)count + 1);
	if (!at)
		return;
	vsnprintf(at, (size_t)count + 1, format, args);
	buf->count += (size_t)count;
}

void buf_printf(struct buf *buf, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	buf_vprintf(buf, format, args);
	va_end(args);
}

const char *buf_read_file(struct buf *buf, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), error = 0;
	ssize_t count = 1;

	if (fd < 0)
		return "open";
	while (count > 0) {
		char *at = buf_reserve(buf, BUF_PIECE);

		count = at ? read(fd, at, BUF_PIECE) : -1;
		error = at ? errno : EFBIG;
		buf->count += count > 0 ? (size_t)count : 0;
	}
	close(fd);
	errno = error;
	return count < 0 ? "read" : NULL;
}

void buf_add_wrapped(struct buf *buf, const char *text, size_t width, const char *beginning)
{
	while (*text) {
		size_t count = strlen(text);

		if (count > width) {
			for (count = width; count && text[count] != ' '; count--)
				;
		}
		if (count == 0) /* one word is longer than the line */
			count = strcspn(text, " ");
		buf_add_text(buf, beginning);
		buf_add(buf, text, count);
		buf_add_byte(buf, '\n');
		text += count + strspn(text + count, " ");
	}
}

void buf_drop(struct buf *buf, size_t count)
{
	buf->count -= count;
	if (buf->count)
		memmove(buf->at, buf->at + count, buf->count);
}

const char *buf_text(struct buf *buf)
{
	char *at = buf_reserve(buf, 1);

	if (!at)
		return "";
	*at = 0;
	return buf->at;
}

void *array_room(void *at, size_t count, size_t *capacity, size_t size)
{
	size_t more = *capacity ? 2 * *capacity : 16;

	if (count < *capacity)
		return at;
	at = realloc(at, more * size);
	if (at)
		*capacity = more;
	return at;
}

size_t array_find(const void *at, size_t count, size_t size, uint64_t key)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (*(const uint64_t *)(const void *)((const char *)at + middle * size) < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}
