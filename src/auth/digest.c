/* SPDX-License-Identifier: ISC */
/*
 * Hashes by OpenSSL's libcrypto, and random bytes.
 */
#include "pgweir/auth/digest.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <stringprep.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "pgweir/base/bytes.h"
#include "pgweir/base/text.h"

/* OpenSSL leaves the end of a long password on the stack below. This overwrites it. */
static __attribute__((noinline)) void clear_stack(void)
{
	unsigned char capacity[8192];

	explicit_bzero(capacity, sizeof(capacity));
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
	bool ok = HMAC(EVP_sha256(), key.count ? key.at : "", (int)key.count,
	               (const unsigned char *)in.at, in.count, out, NULL) != NULL;

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

bool digest_md5_answer(const char *secret, const char *user, struct bytes salt,
                       char out[MD5_TEXT_SIZE])
{
	char made[MD5_TEXT_SIZE];
	bool ok = true;

	if (user) {
		ok = digest_md5(bytes_text(secret), bytes_text(user), made);
		secret = made;
	}
	ok = ok && digest_md5(bytes_of(secret + 3, 32), salt, out);
	secret_wipe(made, sizeof(made));
	return ok;
}

/* ---- base64 ---- */

void base64_encode(struct bytes in, char *out)
{
	EVP_EncodeBlock((unsigned char *)out, (const unsigned char *)in.at, (int)in.count);
	out[BASE64_SIZE(in.count) - 1] = 0;
}

/*
 * EVP_DecodeBlock() skips blanks, does not report padding, and writes whole groups of three bytes:
 * so the digits are checked before, and the last group is decoded apart.
 */
bool base64_decode(struct bytes in, void *out, size_t capacity, size_t *count)
{
	const unsigned char *digits = (const unsigned char *)in.at;
	unsigned char last[3];
	size_t padding = 0;

	*count = 0;
	if (in.count % 4 != 0)
		return false;
	while (padding < 2 && padding < in.count && in.at[in.count - 1 - padding] == '=')
		padding++;
	for (size_t i = 0; i < in.count - padding; i++) {
		if (!isalnum(digits[i]) && digits[i] != '+' && digits[i] != '/')
			return false;
	}
	if (in.count / 4 * 3 - padding > capacity)
		return false;
	if (in.count == 0)
		return true;
	if (EVP_DecodeBlock(out, digits, (int)in.count - 4) < 0 ||
	    EVP_DecodeBlock(last, digits + in.count - 4, 4) < 0)
		return false;
	memcpy((char *)out + in.count / 4 * 3 - 3, last, 3 - padding);
	*count = in.count / 4 * 3 - padding;
	return true;
}

/*
 * ---- saslprep, by libidn ----
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
