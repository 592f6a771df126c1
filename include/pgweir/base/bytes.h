/* SPDX-License-Identifier: ISC */
/*
 * A borrowed run of bytes. It does not own the memory, and is valid only as long as the owner
 * says. It has no terminating zero.
 */
#ifndef PGWEIR_BASE_BYTES_H
#define PGWEIR_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
	const char *at;
	size_t count;
};

static inline struct bytes bytes_of(const void *at, size_t count)
{
	return (struct bytes){ at, count };
}

static inline struct bytes bytes_text(const char *text)
{
	return (struct bytes){ text, strlen(text) };
}

/* Skips the first `count` bytes, which must exist. */
static inline struct bytes bytes_skip(struct bytes bytes, size_t count)
{
	return (struct bytes){ bytes.at + count, bytes.count - count };
}

static inline bool bytes_equal(struct bytes a, struct bytes b)
{
	return a.count == b.count && (a.count == 0 || memcmp(a.at, b.at, a.count) == 0);
}

static inline bool bytes_are(struct bytes bytes, const char *text)
{
	return bytes_equal(bytes, bytes_text(text));
}

static inline bool bytes_are_ascii(struct bytes bytes)
{
	for (size_t i = 0; i < bytes.count; i++) {
		if (bytes.at[i] & 0x80)
			return false;
	}
	return true;
}

/* Takes the zero-terminated text at the front, and its zero. false: there is no zero. */
static inline bool bytes_take_text(struct bytes *bytes, const char **text)
{
	const char *end = bytes->at;

	if (!bytes->count)
		return false;
	if (*end) /* most names are empty */
		end = (const char *)memchr(end, 0, bytes->count);
	if (!end)
		return false;
	*text = bytes->at;
	*bytes = bytes_skip(*bytes, (size_t)(end - bytes->at) + 1);
	return true;
}

/* Takes what comes before `end`, and that byte; all, if there is none. */
struct bytes bytes_take_until(struct bytes *bytes, char end);

/* Integers in network byte order, as in PostgreSQL's protocol. */
static inline uint16_t load_be16(const void *at)
{
	const unsigned char *in = at;

	return (uint16_t)(in[0] << 8 | in[1]);
}

static inline uint32_t load_be32(const void *at)
{
	const unsigned char *in = at;

	return (uint32_t)in[0] << 24 | (uint32_t)in[1] << 16 | (uint32_t)in[2] << 8 | in[3];
}

static inline void store_be16(void *at, uint16_t value)
{
	unsigned char *out = at;

	out[0] = (unsigned char)(value >> 8);
	out[1] = (unsigned char)value;
}

static inline void store_be32(void *at, uint32_t value)
{
	unsigned char *out = at;

	out[0] = (unsigned char)(value >> 24);
	out[1] = (unsigned char)(value >> 16);
	out[2] = (unsigned char)(value >> 8);
	out[3] = (unsigned char)value;
}

/* Compares two secrets in a time that does not depend on where they differ. */
bool bytes_equal_secret(struct bytes a, struct bytes b);

/* Whether the text, which is not empty, is in there, in upper or lower case, also within words. */
bool bytes_contain(struct bytes bytes, const char *text);

/* Whether it is one of these texts, each with a zero after it. */
bool bytes_list_has(struct bytes texts, const char *text);

#endif
