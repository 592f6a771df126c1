/* SPDX-License-Identifier: ISC */
/*
 * Base64 (RFC 4648), with padding.
 */
#ifndef PGWEIR_AUTH_BASE64_H
#define PGWEIR_AUTH_BASE64_H

#include "pgweir/base/bytes.h"

/* Size of the base64 text of `count` bytes, with its terminating zero. */
#define BASE64_SIZE(count) (((count) + 2) / 3 * 4 + 1)

/* Writes BASE64_SIZE(in.count) bytes. */
void base64_encode(struct bytes in, char *out);

/*
 * Decodes strictly: no blanks, no missing padding. Writes at most `capacity` bytes and their
 * number to *count. false: not base64, or too long.
 */
bool base64_decode(struct bytes in, void *out, size_t capacity, size_t *count);

#endif
