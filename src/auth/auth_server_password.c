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

static enum auth_server_result refuse_password(struct auth_server *auth, struct err *err,
                                               const char *reason)
{
	return auth_server_refuse_for(auth, err, ERR_PASSWORD, CLOSE_AUTH_PASSWORD, reason);
}

static enum auth_server_result refuse_wrong(struct auth_server *auth, struct err *err)
{
	return refuse_password(auth, err,
	                       auth->late_failure ? auth->late_failure : "wrong password");
}

static enum auth_server_result ask_outside(struct auth_server *auth, struct err *err)
{
	if (!outside_ask(auth->outside, auth->password, auth->deadline))
		return auth_server_refuse_memory(auth, err);
	auth_server_enter(auth, STATE_OUTSIDE);
	return AUTH_SERVER_WORK;
}

enum auth_server_result auth_server_check_outside(struct auth_server *auth, struct err *err)
{
	if (outside_answer(auth->outside) == OUTSIDE_YES)
		return auth_server_accept(auth);
	return auth_server_refuse_for(auth, err, ERR_NOT_ALLOWED,
	                              auth_methods[auth->method].refusal,
	                              outside_reason(auth->outside));
}

enum auth_server_result auth_server_check_derived(struct auth_server *auth, struct err *err)
{
	const struct scram_keys *keys = derived_keys(auth->derived);

	if (!keys)
		return auth_server_refuse_for(auth, err, ERR_INTERNAL, CLOSE_AUTH_PASSWORD,
		                              "key derivation failed");
	if (!bytes_equal_secret(bytes_of(keys->stored_key, SCRAM_KEY_SIZE),
	                        bytes_of(auth->keys.stored_key, SCRAM_KEY_SIZE)) ||
	    auth->late_failure)
		return refuse_wrong(auth, err);
	verifiers_keep(auth->verifiers, auth->derived);
	return auth_server_accept(auth);
}

static enum auth_server_result check_scram_secret(struct auth_server *auth, struct err *err)
{
	struct scram_verifier verifier;
	enum auth_server_result result;

	if (!scram_verifier_parse(auth->secret.text, &verifier))
		return refuse_password(auth, err, "the user's SCRAM secret is malformed");
	memcpy(auth->keys.stored_key, verifier.stored_key, SCRAM_KEY_SIZE);
	result =
	    auth_server_derive(auth, auth->password, bytes_of(verifier.salt, verifier.salt_count),
	                       verifier.iterations, DERIVED_PRIVATE, STATE_WORK, err);
	return result == AUTH_SERVER_OK ? auth_server_check_derived(auth, err) : result;
}

static bool same_text(const char *a, const char *b)
{
	return bytes_equal_secret(bytes_text(a), bytes_text(b));
}

static bool matches_md5(const struct auth_server *auth, const char *password)
{
	char secret[MD5_TEXT_SIZE];

	return digest_md5(bytes_text(password), bytes_text(auth->user), secret) &&
	       same_text(secret, auth->secret.text);
}

enum auth_server_result auth_server_read_password(struct auth_server *auth, struct bytes body,
                                                  struct buf *out, struct err *err)
{
	const char *password;
	bool fits;

	(void)out;
	if (fields_text(body, &password) != WIRE_OK)
		return auth_server_refuse(auth, err, ERR_PROTOCOL, "invalid password packet",
		                          "malformed password packet");
	if (!*password)
		return auth_server_refuse_for(auth, err, ERR_PASSWORD, CLOSE_EMPTY_PASSWORD,
		                              "empty password");
	auth->password = strdup(password);
	if (!auth->password)
		return auth_server_refuse_memory(auth, err);
	if (auth->outside)
		return ask_outside(auth, err);
	if (auth->secret.kind == SECRET_SCRAM)
		return check_scram_secret(auth, err);
	fits = auth->secret.kind == SECRET_MD5 ? matches_md5(auth, password)
	                                       : same_text(password, auth->secret.text);
	return fits && !auth->late_failure ? auth_server_accept(auth) : refuse_wrong(auth, err);
}

/* ---- md5 ---- */

enum auth_server_result auth_server_ask_md5(struct auth_server *auth, struct buf *out,
                                            struct err *err)
{
	if (!digest_random(auth->md5_salt, sizeof(auth->md5_salt)))
		return auth_server_refuse_for(auth, err, ERR_INTERNAL, CLOSE_AUTH_PASSWORD,
		                              "no random bytes");
	message_auth_md5(out, auth->md5_salt);
	auth_server_enter(auth, STATE_MD5);
	return AUTH_SERVER_MORE;
}

/* The correct answer to .md5_salt. */
static bool md5_expected(const struct auth_server *auth, char out[MD5_TEXT_SIZE])
{
	const char *secret = auth->secret.text;
	char made[MD5_TEXT_SIZE];
	bool ok;

	if (auth->secret.kind == SECRET_PLAIN) {
		if (!digest_md5(bytes_text(secret), bytes_text(auth->user), made))
			return false;
		secret = made;
	}
	ok = digest_md5(bytes_of(secret + 3, 32), bytes_of(auth->md5_salt, 4), out);
	secret_wipe(made, sizeof(made));
	return ok;
}

enum auth_server_result auth_server_read_md5(struct auth_server *auth, struct bytes body,
                                             struct buf *out, struct err *err)
{
	char expected[MD5_TEXT_SIZE];
	const char *given;

	(void)out;
	if (fields_text(body, &given) != WIRE_OK)
		return auth_server_refuse(auth, err, ERR_PROTOCOL, "invalid password packet",
		                          "malformed password packet");
	if (!md5_expected(auth, expected))
		return auth_server_refuse_for(auth, err, ERR_INTERNAL, CLOSE_AUTH_PASSWORD,
		                              "the crypto library has no MD5");
	return same_text(given, expected) && !auth->late_failure ? auth_server_accept(auth)
	                                                         : refuse_wrong(auth, err);
}
