/* SPDX-License-Identifier: ISC */
/*
 * Entry by SCRAM: what scram.c computes, as the messages of a login.
 *
 * Hard here: the keys of a plain secret are derived between the client's proof and our
 * verdict on it; until then the exchange is in STATE_SASL_WORK. If the keys are at hand, a
 * right proof needs no derivation. A wrong one gets its verdict as late as that of a user who
 * does not exist: after a derivation.
 */
#include "entry_priv.h"

#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/message.h"

#include "pgweir/base/banned.h"

static const char sasl_failed[] = "SASL authentication failed";

/* `why` is what scram.c said. */
static enum entry_result refuse_sasl(struct entry *entry, struct err *err, const struct err *why)
{
	return entry_refuse(entry, err, why->code, sasl_failed, why->text);
}

enum entry_result entry_ask_sasl(struct entry *entry, struct buf *out)
{
	static const char *const mechanisms[] = { SCRAM_PLUS_MECHANISM, SCRAM_MECHANISM };
	bool has_plus = entry->scram.binding_count > 0;

	entry->method = ENTRY_SCRAM;
	if (!entry->doom && entry->secret.kind == SECRET_MD5)
		entry->doom = "the user has an md5 secret, with which SCRAM is not possible";
	message_auth_sasl(out, has_plus ? mechanisms : mechanisms + 1, has_plus ? 2 : 1);
	entry_enter(entry, STATE_SASL_FIRST);
	return ENTRY_MORE;
}

/* Salt and iterations to offer; of a SCRAM secret the keys too. */
static bool choose_salt(struct entry *entry, struct scram_verifier *verifier)
{
	if (entry->secret.kind == SECRET_SCRAM) {
		if (!scram_verifier_parse(entry->secret.text, verifier))
			return false;
		memcpy(entry->keys.stored_key, verifier->stored_key, SCRAM_KEY_SIZE);
		memcpy(entry->keys.server_key, verifier->server_key, SCRAM_KEY_SIZE);
		return true;
	}
	if (!verifiers_salt(entry->verifiers, entry->user, entry->secret.text, entry->salt))
		return false;
	memcpy(verifier->salt, entry->salt, SCRAM_SALT_SIZE);
	verifier->salt_count = SCRAM_SALT_SIZE;
	verifier->iterations = entry->iterations;
	return true;
}

enum entry_result entry_read_client_first(struct entry *entry, struct bytes body, struct buf *out,
                                          struct err *err)
{
	struct scram_verifier verifier;
	struct buf first = { 0 };
	const char *mechanism;
	struct bytes data;
	struct err why;
	bool ok;

	if (fields_sasl_initial(body, &mechanism, &data) != WIRE_OK || !data.at)
		return entry_refuse(entry, err, ERR_PROTOCOL, sasl_failed,
		                    "malformed SASLInitialResponse");
	entry->scram.is_plus = entry->scram.binding_count > 0 &&
	                       bytes_are(bytes_text(mechanism), SCRAM_PLUS_MECHANISM);
	if (!entry->scram.is_plus && !bytes_are(bytes_text(mechanism), SCRAM_MECHANISM))
		return entry_refuse(entry, err, ERR_PROTOCOL,
		                    "client selected an invalid SASL authentication mechanism",
		                    "invalid SASL mechanism");
	if (!choose_salt(entry, &verifier))
		return entry_refuse(entry, err, ERR_INTERNAL, sasl_failed, "no salt for the user");
	ok = scram_server_first(&entry->scram, data, bytes_of(verifier.salt, verifier.salt_count),
	                        verifier.iterations, &first, &why);
	if (ok) {
		message_auth_sasl_continue(out, buf_bytes(&first));
		entry_enter(entry, STATE_SASL_FINAL);
	}
	buf_free(&first);
	return ok ? ENTRY_MORE : refuse_sasl(entry, err, &why);
}

/* The keys are there: does the proof hold? */
static enum entry_result check_proof(struct entry *entry, struct buf *out, struct err *err)
{
	struct buf final = { 0 };
	struct err why;
	bool ok = scram_server_check(&entry->scram, entry->keys.stored_key, entry->keys.client_key,
	                             &why) &&
	          scram_server_final(&entry->scram, entry->keys.server_key, &final, &why);

	if (entry->doom)
		ok = err_set(&why, ERR_PASSWORD, "%s", entry->doom);
	if (ok)
		message_auth_sasl_final(out, buf_bytes(&final));
	buf_free(&final);
	return ok ? entry_accept(entry) : refuse_sasl(entry, err, &why);
}

enum entry_result entry_check_derived_proof(struct entry *entry, struct buf *out, struct err *err)
{
	const struct scram_keys *keys = derived_keys(entry->derived);

	if (!keys)
		return entry_refuse(entry, err, ERR_INTERNAL, sasl_failed, "key derivation failed");
	entry->keys = *keys;
	return check_proof(entry, out, err);
}

/* A derivation whose keys are good for nothing; the client is refused behind it. */
static enum entry_result work_in_vain(struct entry *entry, struct err *err)
{
	unsigned char salt[SCRAM_SALT_SIZE];

	entry->doom = "the proof does not match the secret";
	derived_release(&entry->derived);
	if (!digest_random(salt, sizeof(salt)))
		return entry_refuse(entry, err, ERR_INTERNAL, sasl_failed, "no random bytes");
	return entry_derive(entry, entry->secret.text, bytes_of(salt, sizeof(salt)),
	                    entry->iterations, DERIVED_PRIVATE, STATE_SASL_WORK, err);
}

/* The keys were at hand. */
static enum entry_result check_at_once(struct entry *entry, struct buf *out, struct err *err)
{
	const struct scram_keys *keys = derived_keys(entry->derived);
	unsigned char client_key[SCRAM_KEY_SIZE];
	struct err why;
	bool ok = scram_server_check(&entry->scram, keys->stored_key, client_key, &why);

	secret_wipe(client_key, sizeof(client_key));
	return ok ? entry_check_derived_proof(entry, out, err) : work_in_vain(entry, err);
}

enum entry_result entry_read_client_final(struct entry *entry, struct bytes body, struct buf *out,
                                          struct err *err)
{
	enum entry_result result;
	struct err why;

	if (!scram_server_read(&entry->scram, body, &why))
		return refuse_sasl(entry, err, &why);
	if (entry->secret.kind == SECRET_SCRAM)
		return check_proof(entry, out, err);
	result = entry_derive(entry, entry->secret.text, bytes_of(entry->salt, sizeof(entry->salt)),
	                      entry->iterations, DERIVED_SHARED, STATE_SASL_WORK, err);
	return result == ENTRY_OK ? check_at_once(entry, out, err) : result;
}
