/* SPDX-License-Identifier: ISC */
/*
 * Authentication by password: sent in cleartext, or hashed with a salt of ours (md5).
 *
 * Hard here: a cleartext password is compared with whatever kind of secret the user has. With a
 * SCRAM secret this needs a derivation, so the result comes later. PAM and LDAP check it
 * outside.
 */
#include "auth_server_priv.h"

#include <stdlib.h>

#include "pgweir/auth/secret.h"
#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/message.h"

#include "pgweir/base/banned.h"

static enum auth_server_result refuse_password(struct auth_server *entry, struct err *err,
                                               const char *reason)
{
	return auth_server_refuse_for(entry, err, ERR_PASSWORD, CLOSE_AUTH_PASSWORD, reason);
}

static enum auth_server_result refuse_wrong(struct auth_server *entry, struct err *err)
{
	return refuse_password(entry, err, entry->doom ? entry->doom : "wrong password");
}

static enum auth_server_result ask_outside(struct auth_server *entry, struct err *err)
{
	if (!outside_ask(entry->outside, entry->password, entry->deadline))
		return auth_server_refuse_memory(entry, err);
	auth_server_enter(entry, STATE_OUTSIDE);
	return AUTH_SERVER_WORK;
}

enum auth_server_result auth_server_check_outside(struct auth_server *entry, struct err *err)
{
	if (outside_answer(entry->outside) == OUTSIDE_YES)
		return auth_server_accept(entry);
	return auth_server_refuse_for(entry, err, ERR_NOT_ALLOWED,
	                              auth_methods[entry->method].refusal,
	                              outside_reason(entry->outside));
}

enum auth_server_result auth_server_check_derived(struct auth_server *entry, struct err *err)
{
	const struct scram_keys *keys = derived_keys(entry->derived);

	if (!keys)
		return auth_server_refuse_for(entry, err, ERR_INTERNAL, CLOSE_AUTH_PASSWORD,
		                              "key derivation failed");
	if (!bytes_equal_secret(bytes_of(keys->stored_key, SCRAM_KEY_SIZE),
	                        bytes_of(entry->keys.stored_key, SCRAM_KEY_SIZE)) ||
	    entry->doom)
		return refuse_wrong(entry, err);
	verifiers_keep(entry->verifiers, entry->derived);
	return auth_server_accept(entry);
}

static enum auth_server_result check_scram_secret(struct auth_server *entry, struct err *err)
{
	struct scram_verifier verifier;
	enum auth_server_result result;

	if (!scram_verifier_parse(entry->secret.text, &verifier))
		return refuse_password(entry, err, "the user's SCRAM secret is malformed");
	memcpy(entry->keys.stored_key, verifier.stored_key, SCRAM_KEY_SIZE);
	result =
	    auth_server_derive(entry, entry->password, bytes_of(verifier.salt, verifier.salt_count),
	                       verifier.iterations, DERIVED_PRIVATE, STATE_WORK, err);
	return result == AUTH_SERVER_OK ? auth_server_check_derived(entry, err) : result;
}

static bool same_text(const char *a, const char *b)
{
	return bytes_equal_secret(bytes_text(a), bytes_text(b));
}

static bool matches_md5(const struct auth_server *entry, const char *password)
{
	char secret[MD5_TEXT_SIZE];

	return digest_md5(bytes_text(password), bytes_text(entry->user), secret) &&
	       same_text(secret, entry->secret.text);
}

enum auth_server_result auth_server_read_password(struct auth_server *entry, struct bytes body,
                                                  struct buf *out, struct err *err)
{
	const char *password;
	bool fits;

	(void)out;
	if (fields_text(body, &password) != WIRE_OK)
		return auth_server_refuse(entry, err, ERR_PROTOCOL, "invalid password packet",
		                          "malformed password packet");
	if (!*password)
		return auth_server_refuse_for(entry, err, ERR_PASSWORD, CLOSE_EMPTY_PASSWORD,
		                              "empty password");
	entry->password = strdup(password);
	if (!entry->password)
		return auth_server_refuse_memory(entry, err);
	if (entry->outside)
		return ask_outside(entry, err);
	if (entry->secret.kind == SECRET_SCRAM)
		return check_scram_secret(entry, err);
	fits = entry->secret.kind == SECRET_MD5 ? matches_md5(entry, password)
	                                        : same_text(password, entry->secret.text);
	return fits && !entry->doom ? auth_server_accept(entry) : refuse_wrong(entry, err);
}

/* ---- md5 ---- */

enum auth_server_result auth_server_ask_md5(struct auth_server *entry, struct buf *out,
                                            struct err *err)
{
	if (!digest_random(entry->md5_salt, sizeof(entry->md5_salt)))
		return auth_server_refuse_for(entry, err, ERR_INTERNAL, CLOSE_AUTH_PASSWORD,
		                              "no random bytes");
	message_auth_md5(out, entry->md5_salt);
	auth_server_enter(entry, STATE_MD5);
	return AUTH_SERVER_MORE;
}

/* The correct answer to .md5_salt. */
static bool md5_expected(const struct auth_server *entry, char out[MD5_TEXT_SIZE])
{
	const char *secret = entry->secret.text;
	char made[MD5_TEXT_SIZE];
	bool ok;

	if (entry->secret.kind == SECRET_PLAIN) {
		if (!digest_md5(bytes_text(secret), bytes_text(entry->user), made))
			return false;
		secret = made;
	}
	ok = digest_md5(bytes_of(secret + 3, 32), bytes_of(entry->md5_salt, 4), out);
	secret_wipe(made, sizeof(made));
	return ok;
}

enum auth_server_result auth_server_read_md5(struct auth_server *entry, struct bytes body,
                                             struct buf *out, struct err *err)
{
	char expected[MD5_TEXT_SIZE];
	const char *given;

	(void)out;
	if (fields_text(body, &given) != WIRE_OK)
		return auth_server_refuse(entry, err, ERR_PROTOCOL, "invalid password packet",
		                          "malformed password packet");
	if (!md5_expected(entry, expected))
		return auth_server_refuse_for(entry, err, ERR_INTERNAL, CLOSE_AUTH_PASSWORD,
		                              "the crypto library has no MD5");
	return same_text(given, expected) && !entry->doom ? auth_server_accept(entry)
	                                                  : refuse_wrong(entry, err);
}
