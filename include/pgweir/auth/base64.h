/* SPDX-License-Identifier: ISC */
/*
 * Base64 (RFC 4648), with padding.
 */
#ifndef PGWEIR_AUTH_BASE64_H
#define PGWEIR_AUTH_BASE64_H

#include "pgweir/base/bytes.h"

/* Bytes of text that `count` bytes make, its zero included. */
#define BASE64_SIZE(count) (((count) + 2) / 3 * 4 + 1)

/* Writes BASE64_SIZE(in.count) bytes. */
void base64_encode(struct bytes in, char *out);

/*
 * Strict: no blanks, no missing padding. At most `room` bytes come out, *count
 * says how many. false: not base64, or too long.
 */
bool base64_decode(struct bytes in, void *out, size_t capacity, size_t *count);

#endif
