/* SPDX-License-Identifier: ISC */
/*
 * Mock secrets.
 */
#include "pgweir/auth/mock.h"

#include "pgweir/base/text.h"

#include "pgweir/base/banned.h"

#define HEX_BYTES 16 /* as many as an MD5 hash has */

static bool add_hex(const struct verifiers *verifiers, const char *user, struct buf *out)
{
	unsigned char hash[SHA256_SIZE];
	char hex[2 * HEX_BYTES + 1];

	if (!verifiers_mock(verifiers, "secret", user, hash))
		return false;
	text_hex(hex, (const char *)hash, HEX_BYTES);
	buf_add_text(out, hex);
	return true;
}

/* Adds a verifier with the iteration count and salt length of the other. */
static bool add_verifier(const struct verifiers *verifiers, const char *user, const char *like,
                         struct buf *out)
{
	struct scram_verifier verifier;
	unsigned char salt[SHA256_SIZE];

	if (!scram_verifier_parse(like, &verifier) ||
	    !verifiers_mock(verifiers, "salt", user, salt) ||
	    !verifiers_mock(verifiers, "stored", user, verifier.stored_key) ||
	    !verifiers_mock(verifiers, "server", user, verifier.server_key))
		return false;
	for (size_t i = 0; i < verifier.salt_count; i++)
		verifier.salt[i] = salt[i % sizeof(salt)];
	scram_verifier_text(&verifier, out);
	return true;
}

bool mock_secret(const struct verifiers *verifiers, const struct users *users, const char *user,
                 struct buf *out)
{
	unsigned char hash[SHA256_SIZE];
	const struct user *like;

	if (!verifiers_mock(verifiers, "user", user, hash))
		return false;
	like = users ? users_any(users, load_be32(hash)) : NULL;
	if (like && like->secret.kind == SECRET_SCRAM)
		return add_verifier(verifiers, user, like->secret.text, out) && buf_ok(out);
	if (like && like->secret.kind == SECRET_MD5)
		buf_add_text(out, "md5");
	return add_hex(verifiers, user, out) && buf_ok(out);
}
