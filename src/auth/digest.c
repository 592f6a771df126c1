/* SPDX-License-Identifier: ISC */
/*
 * Hashes, random bytes and base64 by OpenSSL's libcrypto, which nobody else here
 * calls.
 */
#include "pgweir/auth/digest.h"

#include <stdlib.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "pgweir/base/text.h"

#include "pgweir/base/banned.h"

/* The library leaves the end of a long password on the stack, below us: it is written over. */
static __attribute__((noinline)) void clear_stack(void)
{
	unsigned char room[8192];

	explicit_bzero(room, sizeof(room));
}

bool digest_md5(struct bytes a, struct bytes b, char out[MD5_TEXT_SIZE])
{
	unsigned char hash[EVP_MAX_MD_SIZE];
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	bool ok = context && EVP_DigestInit_ex(context, EVP_md5(), NULL) &&
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
	return EVP_Digest(in.at, in.count, out, NULL, EVP_sha256(), NULL) == 1;
}

bool digest_hmac(struct bytes key, struct bytes in, unsigned char out[SHA256_SIZE])
{
	/* A NULL key would mean "the key of last time" to OpenSSL. */
	const char *at = key.count ? key.at : "";

	bool ok = HMAC(EVP_sha256(), at, (int)key.count, (const unsigned char *)in.at, in.count,
	               out, NULL) != NULL;

	clear_stack();
	return ok;
}

bool digest_pbkdf2(struct bytes password, struct bytes salt, unsigned int iterations,
                   unsigned char out[SHA256_SIZE])
{
	bool ok = PKCS5_PBKDF2_HMAC(password.count ? password.at : "", (int)password.count,
	                            (const unsigned char *)salt.at, (int)salt.count,
	                            (int)iterations, EVP_sha256(), SHA256_SIZE, out) == 1;

	clear_stack();
	return ok;
}

bool digest_random(void *out, size_t count) { return RAND_bytes(out, (int)count) == 1; }

void base64_encode(struct bytes in, char *out)
{
	EVP_EncodeBlock((unsigned char *)out, (const unsigned char *)in.at, (int)in.count);
	out[BASE64_SIZE(in.count) - 1] = 0;
}

static int base64_digit(char digit)
{
	if (digit >= 'A' && digit <= 'Z')
		return digit - 'A';
	if (digit >= 'a' && digit <= 'z')
		return digit - 'a' + 26;
	if (digit >= '0' && digit <= '9')
		return digit - '0' + 52;
	return digit == '+' ? 62 : digit == '/' ? 63 : -1;
}

/* Three bytes from four digits, of which `count` (2 to 4) are there. */
static bool base64_group(const char *in, size_t count, unsigned char out[3])
{
	unsigned long bits = 0;

	for (size_t i = 0; i < 4; i++) {
		int digit = i < count ? base64_digit(in[i]) : 0;

		if (digit < 0)
			return false;
		bits = bits << 6 | (unsigned long)digit;
	}
	out[0] = (unsigned char)(bits >> 16);
	out[1] = (unsigned char)(bits >> 8);
	out[2] = (unsigned char)bits;
	return true;
}

/*
 * Not by EVP_DecodeBlock(): it skips blanks, does not say how much of the last
 * group is padding, and writes past a buffer that is just large enough.
 */
bool base64_decode(struct bytes in, void *out, size_t room, size_t *count)
{
	unsigned char *to = out;
	size_t padding = 0;

	*count = 0;
	if (in.count % 4 != 0)
		return false;
	while (padding < 2 && padding < in.count && in.at[in.count - 1 - padding] == '=')
		padding++;
	if (in.count / 4 * 3 - padding > room)
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

void secret_wipe(void *at, size_t count) { explicit_bzero(at, count); }

void secret_free(char **text)
{
	if (*text)
		secret_wipe(*text, strlen(*text));
	free(*text);
	*text = NULL;
}
