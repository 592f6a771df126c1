/* SPDX-License-Identifier: ISC */
/*
 * Hashes by OpenSSL's libcrypto, and random bytes.
 */
#include "pgweir/auth/digest.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <stringprep.h>
#include <sys/random.h>

#include <openssl/evp.h>

#include "pgweir/base/bytes.h"
#include "pgweir/base/text.h"

#define SHA256_BLOCK 64 /* bytes per block */

/*
 * Looked up once and kept, because EVP_sha256() causes a look-up for each hash. NULL: not
 * available (MD5 may be forbidden); then functions that need it fail.
 */
static EVP_MD *md5, *sha256;

static void look_up(void)
{
	md5 = EVP_MD_fetch(NULL, "MD5", NULL);
	sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
}

/* `algorithm` is &md5 or &sha256. May be called by any thread. */
static const EVP_MD *known(EVP_MD *const *algorithm)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, look_up);
	return *algorithm;
}

/*
 * OpenSSL leaves the end of a long password on the stack below this function. This overwrites
 * it.
 */
static __attribute__((noinline)) void clear_stack(void)
{
	unsigned char capacity[8192];

	explicit_bzero(capacity, sizeof(capacity));
}

bool digest_md5(struct bytes a, struct bytes b, char out[MD5_TEXT_SIZE])
{
	unsigned char hash[EVP_MAX_MD_SIZE];
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	bool ok = context && EVP_DigestInit_ex(context, known(&md5), NULL) &&
	          EVP_DigestUpdate(context, a.at, a.count) &&
	          EVP_DigestUpdate(context, b.at, b.count) &&
	          EVP_DigestFinal_ex(context, hash, NULL);

	EVP_MD_CTX_free(context);
	memset(out, 0, MD5_TEXT_SIZE);
	if (ok) {
		memcpy(out, "md5", 3);
		text_hex(out + 3, hash, 16);
	}
	secret_wipe(hash, sizeof(hash));
	clear_stack();
	return ok;
}

bool digest_sha256(struct bytes in, unsigned char out[SHA256_SIZE])
{
	return EVP_Digest(in.at, in.count, out, NULL, known(&sha256), NULL) == 1;
}

/* Hashes a block and what follows it. type NULL: the hash of the last call. */
static bool hash_behind(EVP_MD_CTX *context, const EVP_MD *type, const unsigned char *block,
                        struct bytes in, unsigned char out[SHA256_SIZE])
{
	return EVP_DigestInit_ex(context, type, NULL) == 1 &&
	       EVP_DigestUpdate(context, block, SHA256_BLOCK) == 1 &&
	       EVP_DigestUpdate(context, in.at, in.count) == 1 &&
	       EVP_DigestFinal_ex(context, out, NULL) == 1;
}

/*
 * RFC 2104: two hashes with one context. OpenSSL's HMAC() looks up the algorithm and creates
 * contexts several times per call, which costs twice as much as the hashes.
 */
bool digest_hmac(struct bytes key, struct bytes in, unsigned char out[SHA256_SIZE])
{
	unsigned char block[SHA256_BLOCK] = { 0 };
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	bool ok = context != NULL;

	if (key.count > SHA256_BLOCK)
		ok = ok && digest_sha256(key, block);
	else if (key.count)
		memcpy(block, key.at, key.count);
	for (size_t i = 0; i < SHA256_BLOCK; i++)
		block[i] ^= 0x36;
	ok = ok && hash_behind(context, known(&sha256), block, in, out);
	for (size_t i = 0; i < SHA256_BLOCK; i++)
		block[i] ^= 0x36 ^ 0x5c;
	ok = ok && hash_behind(context, NULL, block, bytes_of((const char *)out, SHA256_SIZE), out);
	EVP_MD_CTX_free(context);
	secret_wipe(block, sizeof(block));
	clear_stack();
	return ok;
}

bool digest_pbkdf2(struct bytes password, struct bytes salt, unsigned int iterations,
                   unsigned char out[SHA256_SIZE])
{
	bool ok = PKCS5_PBKDF2_HMAC(password.count ? password.at : "", (int)password.count,
	                            (const unsigned char *)salt.at, (int)salt.count,
	                            (int)iterations, known(&sha256), SHA256_SIZE, out) == 1;

	clear_stack();
	return ok;
}

bool digest_random(void *out, size_t count)
{
	unsigned char *at = out;

	while (count > 0) {
		ssize_t done = getrandom(at, count, 0);

		if (done < 0 && errno != EINTR)
			return false;
		if (done > 0) {
			at += done;
			count -= (size_t)done;
		}
	}
	return true;
}

/* ---- base64 ---- */

void base64_encode(struct bytes in, char *out)
{
	EVP_EncodeBlock((unsigned char *)out, (const unsigned char *)in.at, (int)in.count);
	out[BASE64_SIZE(in.count) - 1] = 0;
}

/* Value of each base64 digit plus one; 0: not a digit. */
static const unsigned char base64_digits[256] = {
	['A'] = 1,  ['B'] = 2,  ['C'] = 3,  ['D'] = 4,  ['E'] = 5,  ['F'] = 6,  ['G'] = 7,
	['H'] = 8,  ['I'] = 9,  ['J'] = 10, ['K'] = 11, ['L'] = 12, ['M'] = 13, ['N'] = 14,
	['O'] = 15, ['P'] = 16, ['Q'] = 17, ['R'] = 18, ['S'] = 19, ['T'] = 20, ['U'] = 21,
	['V'] = 22, ['W'] = 23, ['X'] = 24, ['Y'] = 25, ['Z'] = 26, ['a'] = 27, ['b'] = 28,
	['c'] = 29, ['d'] = 30, ['e'] = 31, ['f'] = 32, ['g'] = 33, ['h'] = 34, ['i'] = 35,
	['j'] = 36, ['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40, ['o'] = 41, ['p'] = 42,
	['q'] = 43, ['r'] = 44, ['s'] = 45, ['t'] = 46, ['u'] = 47, ['v'] = 48, ['w'] = 49,
	['x'] = 50, ['y'] = 51, ['z'] = 52, ['0'] = 53, ['1'] = 54, ['2'] = 55, ['3'] = 56,
	['4'] = 57, ['5'] = 58, ['6'] = 59, ['7'] = 60, ['8'] = 61, ['9'] = 62, ['+'] = 63,
	['/'] = 64,
};

/* Decodes up to three bytes from four digits, of which `count` (2 to 4) are not padding. */
static bool base64_group(const char *in, size_t count, unsigned char out[3])
{
	unsigned long bits = 0;

	for (size_t i = 0; i < 4; i++) {
		unsigned long digit = i < count ? base64_digits[(unsigned char)in[i]] : 1;

		if (digit == 0)
			return false;
		bits = bits << 6 | (digit - 1);
	}
	out[0] = (unsigned char)(bits >> 16);
	out[1] = (unsigned char)(bits >> 8);
	out[2] = (unsigned char)bits;
	return true;
}

/*
 * EVP_DecodeBlock() cannot be used: it skips blanks, does not report padding, and writes past a
 * buffer that is just large enough.
 */
bool base64_decode(struct bytes in, void *out, size_t capacity, size_t *count)
{
	unsigned char *to = out;
	size_t padding = 0;

	*count = 0;
	if (in.count % 4 != 0)
		return false;
	while (padding < 2 && padding < in.count && in.at[in.count - 1 - padding] == '=')
		padding++;
	if (in.count / 4 * 3 - padding > capacity)
		return false;
	for (size_t i = 0; i < in.count; i += 4) {
		size_t missing = i + 4 == in.count ? padding : 0;
		unsigned char group[3];

		if (!base64_group(in.at + i, 4 - missing, group))
			return false;
		memcpy(to + *count, group, 3 - missing);
		*count += 3 - missing;
	}
	return true;
}

/*
 * ---- saslprep ----
 *
 * SASLprep, by libidn.
 *
 * As in PostgreSQL: code points that Unicode 3.2 does not define are forbidden, ASCII is used
 * unchanged, and if SASLprep fails, the bytes are used unchanged. Any difference would derive
 * another key, and the login would fail.
 */

char *saslprep(const char *password)
{
	char *prepared = NULL;

	if (bytes_are_ascii(bytes_text(password)) ||
	    stringprep_profile(password, &prepared, "SASLprep", STRINGPREP_NO_UNASSIGNED) !=
	        STRINGPREP_OK)
		return strdup(password);
	if (*prepared)
		return prepared;
	secret_free(&prepared);
	return strdup(password);
}
