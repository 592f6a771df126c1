/* SPDX-License-Identifier: ISC */
/*
 * Credentials for logging in to a server. They own their secrets.
 */
#include "pgweir/auth/credentials.h"

#include <stdlib.h>

#include "pgweir/auth/secret.h"

bool credentials_from_secret(struct credentials *credentials, const struct secret *secret)
{
	if (secret->kind != SECRET_PLAIN && secret->kind != SECRET_MD5)
		return true;
	credentials->text = strdup(secret->text);
	if (!credentials->text)
		return false;
	credentials->kind = secret->kind == SECRET_PLAIN ? CREDENTIALS_PLAIN : CREDENTIALS_MD5;
	return true;
}

bool credentials_set_made_for(struct credentials *credentials,
                              const struct scram_challenge *made_for)
{
	free(credentials->made_for);
	credentials->made_for = malloc(sizeof(*made_for));
	if (credentials->made_for)
		*credentials->made_for = *made_for;
	return credentials->made_for;
}

bool credentials_copy(struct credentials *to, const struct credentials *from)
{
	if (from->text && !(to->text = strdup(from->text)))
		return false;
	if (from->keys) {
		to->keys = malloc(sizeof(*to->keys));
		if (!to->keys) {
			credentials_done(to);
			return false;
		}
		*to->keys = *from->keys;
	}
	if (from->made_for && !credentials_set_made_for(to, from->made_for)) {
		credentials_done(to);
		return false;
	}
	to->kind = from->kind;
	to->is_shown = from->is_shown;
	return true;
}

bool credentials_equal(const struct credentials *a, const struct credentials *b)
{
	if (a->kind != b->kind)
		return false;
	switch (a->kind) {
	case CREDENTIALS_PLAIN:
	case CREDENTIALS_MD5:
		return bytes_equal_secret(bytes_text(a->text), bytes_text(b->text));
	case CREDENTIALS_KEYS:
		return bytes_equal_secret(bytes_of(a->keys, sizeof(*a->keys)),
		                          bytes_of(b->keys, sizeof(*b->keys)));
	default:
		return true;
	}
}

void credentials_done(struct credentials *credentials)
{
	secret_free(&credentials->text);
	if (credentials->keys)
		secret_wipe(credentials->keys, sizeof(*credentials->keys));
	free(credentials->keys);
	free(credentials->made_for);
	*credentials = (struct credentials){ 0 };
}
