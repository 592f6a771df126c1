/* SPDX-License-Identifier: ISC */
/*
 * Authentication by SCRAM: carries the computations of scram.c in protocol messages.
 *
 * Hard here: the keys of a plain secret are derived between the client's proof and our answer;
 * until then the exchange is in STATE_SASL_WORK. If the keys are cached, a correct proof needs
 * no derivation. A wrong proof then still waits for one, so that it takes as long as that of an
 * unknown user.
 */
#include "auth_server_priv.h"

#include "pgweir/auth/secret.h"
#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/message.h"

#include "pgweir/base/banned.h"

/* `why` is the error of scram.c. */
static enum auth_server_result refuse_sasl(struct auth_server *auth, struct err *err,
                                           const struct err *why)
{
	return auth_server_refuse_for(auth, err, why->code, CLOSE_AUTH_SASL, why->text);
}

enum auth_server_result auth_server_ask_sasl(struct auth_server *auth, struct buf *out)
{
	static const char *const mechanisms[] = { SCRAM_PLUS_MECHANISM, SCRAM_MECHANISM };
	bool has_plus = auth->scram.binding_count > 0;

	auth->method = AUTH_METHOD_SCRAM;
	if (!auth->late_failure && auth->secret.kind == SECRET_MD5)
		auth->late_failure = "the user has an md5 secret, with which SCRAM is not possible";
	message_auth_sasl(out, has_plus ? mechanisms : mechanisms + 1, has_plus ? 2 : 1);
	auth_server_enter(auth, STATE_SASL_FIRST);
	return AUTH_SERVER_MORE;
}

/* Chooses salt and iterations to offer; for a SCRAM secret also the keys. */
static bool choose_salt(struct auth_server *auth, struct scram_verifier *verifier)
{
	if (auth->secret.kind == SECRET_SCRAM) {
		if (!scram_verifier_parse(auth->secret.text, verifier))
			return false;
		memcpy(auth->keys.stored_key, verifier->stored_key, SCRAM_KEY_SIZE);
		memcpy(auth->keys.server_key, verifier->server_key, SCRAM_KEY_SIZE);
		return true;
	}
	if (!verifiers_salt(auth->verifiers, auth->user, auth->secret.text, auth->salt))
		return false;
	memcpy(verifier->salt, auth->salt, SCRAM_SALT_SIZE);
	verifier->salt_count = SCRAM_SALT_SIZE;
	verifier->iterations = auth->iterations;
	return true;
}

enum auth_server_result auth_server_read_client_first(struct auth_server *auth, struct bytes body,
                                                      struct buf *out, struct err *err)
{
	struct scram_verifier verifier;
	struct buf first = { 0 };
	const char *mechanism;
	struct bytes data;
	struct err why;
	bool ok;

	if (fields_sasl_initial(body, &mechanism, &data) != WIRE_OK || !data.at)
		return auth_server_refuse_for(auth, err, ERR_PROTOCOL, CLOSE_AUTH_SASL,
		                              "malformed SASLInitialResponse");
	auth->scram.is_plus =
	    auth->scram.binding_count > 0 && bytes_are(bytes_text(mechanism), SCRAM_PLUS_MECHANISM);
	if (!auth->scram.is_plus && !bytes_are(bytes_text(mechanism), SCRAM_MECHANISM))
		return auth_server_refuse(
		    auth, err, ERR_PROTOCOL,
		    "client selected an invalid SASL authentication mechanism",
		    "invalid SASL mechanism");
	if (!choose_salt(auth, &verifier))
		return auth_server_refuse_for(auth, err, ERR_INTERNAL, CLOSE_AUTH_SASL,
		                              "no salt for the user");
	ok = scram_server_first(&auth->scram, data, bytes_of(verifier.salt, verifier.salt_count),
	                        verifier.iterations, &first, &why);
	if (ok) {
		message_auth_sasl_continue(out, buf_bytes(&first));
		auth_server_enter(auth, STATE_SASL_FINAL);
	}
	buf_free(&first);
	return ok ? AUTH_SERVER_MORE : refuse_sasl(auth, err, &why);
}

/* Checks the client's proof: the keys are available. */
static enum auth_server_result check_proof(struct auth_server *auth, struct buf *out,
                                           struct err *err)
{
	struct buf final = { 0 };
	struct err why;
	bool ok =
	    scram_server_check(&auth->scram, auth->keys.stored_key, auth->keys.client_key, &why) &&
	    scram_server_final(&auth->scram, auth->keys.server_key, &final, &why);

	if (auth->late_failure)
		ok = err_set(&why, ERR_PASSWORD, "%s", auth->late_failure);
	if (ok)
		message_auth_sasl_final(out, buf_bytes(&final));
	buf_free(&final);
	return ok ? auth_server_accept(auth) : refuse_sasl(auth, err, &why);
}

enum auth_server_result auth_server_check_derived_proof(struct auth_server *auth, struct buf *out,
                                                        struct err *err)
{
	const struct scram_keys *keys = derived_keys(auth->derived);

	if (!keys)
		return auth_server_refuse_for(auth, err, ERR_INTERNAL, CLOSE_AUTH_SASL,
		                              "key derivation failed");
	auth->keys = *keys;
	return check_proof(auth, out, err);
}

/* Derives keys that are not used, to take the usual time; then the client is refused. */
static enum auth_server_result work_in_vain(struct auth_server *auth, struct err *err)
{
	unsigned char salt[SCRAM_SALT_SIZE];

	auth->late_failure = "the proof does not match the secret";
	derived_release(&auth->derived);
	if (!digest_random(salt, sizeof(salt)))
		return auth_server_refuse_for(auth, err, ERR_INTERNAL, CLOSE_AUTH_SASL,
		                              "no random bytes");
	return auth_server_derive(auth, auth->secret.text, bytes_of(salt, sizeof(salt)),
	                          auth->iterations, DERIVED_PRIVATE, STATE_SASL_WORK, err);
}

/* The keys were cached. */
static enum auth_server_result check_at_once(struct auth_server *auth, struct buf *out,
                                             struct err *err)
{
	const struct scram_keys *keys = derived_keys(auth->derived);
	unsigned char client_key[SCRAM_KEY_SIZE];
	struct err why;
	bool ok = scram_server_check(&auth->scram, keys->stored_key, client_key, &why);

	secret_wipe(client_key, sizeof(client_key));
	return ok ? auth_server_check_derived_proof(auth, out, err) : work_in_vain(auth, err);
}

enum auth_server_result auth_server_read_client_final(struct auth_server *auth, struct bytes body,
                                                      struct buf *out, struct err *err)
{
	enum auth_server_result result;
	struct err why;

	if (!scram_server_read(&auth->scram, body, &why))
		return refuse_sasl(auth, err, &why);
	if (auth->secret.kind == SECRET_SCRAM)
		return check_proof(auth, out, err);
	result =
	    auth_server_derive(auth, auth->secret.text, bytes_of(auth->salt, sizeof(auth->salt)),
	                       auth->iterations, DERIVED_SHARED, STATE_SASL_WORK, err);
	return result == AUTH_SERVER_OK ? check_at_once(auth, out, err) : result;
}
