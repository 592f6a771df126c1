/* SPDX-License-Identifier: ISC */
/*
 * Hashes and random bytes, by OpenSSL's libcrypto.
 *
 * false: the library refused (MD5 in a FIPS setting, no memory, no random bytes); then the
 * output must not be used.
 */
#ifndef PGWEIR_AUTH_DIGEST_H
#define PGWEIR_AUTH_DIGEST_H

#include <stdlib.h>
#include <string.h>

#include "pgweir/base/bytes.h"

#define SHA256_SIZE 32
#define MD5_TEXT_SIZE 36 /* "md5", 32 digits, terminating zero */

/* Makes "md5" + hex(md5(a + b)), the format of PostgreSQL's md5 secrets and answers. */
bool digest_md5(struct bytes a, struct bytes b, char out[MD5_TEXT_SIZE]);

/*
 * The answer to a request for an md5 password. user NULL: `secret` is in that format, else it is
 * the password of this user.
 */
bool digest_md5_answer(const char *secret, const char *user, struct bytes salt,
                       char out[MD5_TEXT_SIZE]);

bool digest_sha256(struct bytes in, unsigned char out[SHA256_SIZE]);
bool digest_hmac(struct bytes key, struct bytes in, unsigned char out[SHA256_SIZE]);

/* PBKDF2 with HMAC-SHA-256 (Hi() of RFC 5802). Slow: only for helper threads. */
bool digest_pbkdf2(struct bytes password, struct bytes salt, unsigned int iterations,
                   unsigned char out[SHA256_SIZE]);

bool digest_random(void *out, size_t count);

/* ---- base64 ---- */

/* Size of the base64 text of `count` bytes, with its terminating zero. */
#define BASE64_SIZE(count) (((count) + 2) / 3 * 4 + 1)

/* Writes BASE64_SIZE(in.count) bytes. */
void base64_encode(struct bytes in, char *out);

/*
 * Decodes strictly: no blanks, no missing padding. Writes at most `capacity` bytes and their
 * number to *count. false: not base64, or too long.
 */
bool base64_decode(struct bytes in, void *out, size_t capacity, size_t *count);

/*
 * ---- saslprep ----
 *
 * SASLprep (RFC 4013) as in PostgreSQL: a password that is not UTF-8, is forbidden by the
 * rules, or would become empty, is used unchanged.
 */

/* Returns a new text (free it with secret_free()); NULL: no memory. */
char *saslprep(const char *password);

/* ---- secrets are wiped ---- */

/* Overwrites memory, even if the compiler sees that nothing reads it any more. */
static inline void secret_wipe(void *at, size_t count) { explicit_bzero(at, count); }

static inline void secret_free(char **text)
{
	if (*text)
		secret_wipe(*text, strlen(*text));
	free(*text);
	*text = NULL;
}

#endif
