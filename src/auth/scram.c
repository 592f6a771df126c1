/* SPDX-License-Identifier: ISC */
/*
 *   SaltedPassword = Hi(SASLprep(password), salt, iterations)
 *   ClientKey = HMAC(SaltedPassword, "Client Key")    StoredKey = SHA-256(ClientKey)
 *   ServerKey = HMAC(SaltedPassword, "Server Key")
 *   AuthMessage = client-first-bare "," server-first "," client-final-without-proof
 *   proof = ClientKey XOR HMAC(StoredKey, AuthMessage)
 *   v = HMAC(ServerKey, AuthMessage)
 *
 * Hard here: AuthMessage must consist of exactly the bytes that both sides have seen. So each
 * step keeps what it read or wrote.
 */
#include "pgweir/auth/scram.h"

#include <ctype.h>
#include <stdlib.h>

#include "pgweir/auth/digest.h"

#define VERIFIER_PREFIX SCRAM_MECHANISM "$"
#define KEY_TEXT_SIZE BASE64_SIZE(SCRAM_KEY_SIZE)
#define SALT_TEXT_SIZE BASE64_SIZE(SCRAM_SALT_MAX)

/* With channel binding; without it the header is "n,," or "y,,". */
#define BINDING_NAME "tls-server-end-point"
#define BINDING_HEADER "p=" BINDING_NAME ",,"
#define BINDING_TEXT_SIZE BASE64_SIZE(sizeof(BINDING_HEADER) + SCRAM_BINDING_MAX)

static bool malformed(struct err *err, const char *reason)
{
	return err_set(err, ERR_PROTOCOL, "malformed SCRAM message: %s", reason);
}

static bool broken(struct err *err)
{
	return err_set(err, ERR_INTERNAL, "out of memory, or an error of the crypto library");
}

void scram_done(struct scram *scram)
{
	buf_wipe(&scram->said);
	buf_wipe(&scram->joint);
	secret_wipe(scram, sizeof(*scram));
}

void scram_bind(struct scram *scram, struct bytes binding)
{
	if (binding.count == 0 || binding.count > SCRAM_BINDING_MAX)
		return;
	memcpy(scram->binding, binding.at, binding.count);
	scram->binding_count = binding.count;
}

/* ---- parts of messages ---- */

/* The value of `c=`: the gs2 header, followed by the binding data if channel binding is used. */
static void binding_text(const struct scram *scram, char out[BINDING_TEXT_SIZE])
{
	char plain[sizeof(BINDING_HEADER) + SCRAM_BINDING_MAX] = "n,,";
	size_t count = strlen(plain);

	plain[0] = scram->gs2;
	if (scram->gs2 == 'p') {
		count = strlen(BINDING_HEADER);
		memcpy(plain, BINDING_HEADER, count);
		memcpy(plain + count, scram->binding, scram->binding_count);
		count += scram->binding_count;
	}
	base64_encode(bytes_of(plain, count), out);
}

/* Parses the attribute `name=value` with its comma. false: it is not next. */
static bool take_attribute(struct bytes *in, char name, struct bytes *value)
{
	if (in->count < 2 || in->at[0] != name || in->at[1] != '=')
		return false;
	*value = bytes_skip(bytes_take_until(in, ','), 2);
	return true;
}

/* Whether this is a nonce: visible ASCII without a comma, of a limited length. */
static bool is_nonce(struct bytes nonce)
{
	if (nonce.count == 0 || nonce.count > SCRAM_NONCE_MAX)
		return false;
	for (size_t i = 0; i < nonce.count; i++) {
		if (nonce.at[i] < 0x21 || nonce.at[i] > 0x7e || nonce.at[i] == ',')
			return false;
	}
	return true;
}

static bool take_key(struct bytes in, unsigned char key[SCRAM_KEY_SIZE])
{
	size_t count;

	return base64_decode(in, key, SCRAM_KEY_SIZE, &count) && count == SCRAM_KEY_SIZE;
}

static bool take_iterations(struct bytes in, unsigned int *iterations)
{
	unsigned int value = 0;

	for (size_t i = 0; i < in.count; i++) {
		if (!isdigit((unsigned char)in.at[i]) || value > SCRAM_ITERATIONS_MAX / 10)
			return false;
		value = value * 10 + (unsigned int)(in.at[i] - '0');
	}
	*iterations = value;
	return value >= 1 && value <= SCRAM_ITERATIONS_MAX;
}

static bool take_salt(struct bytes in, struct scram_challenge *challenge)
{
	return base64_decode(in, challenge->salt, SCRAM_SALT_MAX, &challenge->salt_count) &&
	       challenge->salt_count > 0;
}

static bool make_nonce(struct scram *scram)
{
	unsigned char random[18];

	if (scram->nonce[0])
		return true;
	if (!digest_random(random, sizeof(random)))
		return false;
	base64_encode(bytes_of(random, sizeof(random)), scram->nonce);
	return true;
}

static bool sign(const unsigned char key[SCRAM_KEY_SIZE], const struct scram *scram,
                 unsigned char out[SCRAM_KEY_SIZE])
{
	return digest_hmac(bytes_of(key, SCRAM_KEY_SIZE), buf_bytes(&scram->said), out);
}

static void mix(unsigned char *out, const unsigned char *a, const unsigned char *b)
{
	for (size_t i = 0; i < SCRAM_KEY_SIZE; i++)
		out[i] = a[i] ^ b[i];
}

/* ---- stored verifiers ---- */

bool scram_verifier_parse(const char *text, struct scram_verifier *verifier)
{
	struct bytes in = bytes_text(text);
	size_t prefix = strlen(VERIFIER_PREFIX);

	if (strncmp(text, VERIFIER_PREFIX, prefix) != 0)
		return false;
	in = bytes_skip(in, prefix);
	return take_iterations(bytes_take_until(&in, ':'), &verifier->made_for.iterations) &&
	       take_salt(bytes_take_until(&in, '$'), &verifier->made_for) &&
	       take_key(bytes_take_until(&in, ':'), verifier->keys.stored_key) &&
	       take_key(in, verifier->keys.server_key);
}

void scram_verifier_text(const struct scram_verifier *verifier, struct buf *out)
{
	char salt[SALT_TEXT_SIZE], stored[KEY_TEXT_SIZE], server[KEY_TEXT_SIZE];

	base64_encode(scram_salt(&verifier->made_for), salt);
	base64_encode(bytes_of(verifier->keys.stored_key, SCRAM_KEY_SIZE), stored);
	base64_encode(bytes_of(verifier->keys.server_key, SCRAM_KEY_SIZE), server);
	buf_printf(out, VERIFIER_PREFIX "%u:%s$%s:%s", verifier->made_for.iterations, salt, stored,
	           server);
	secret_wipe(stored, sizeof(stored));
	secret_wipe(server, sizeof(server));
}

bool scram_derive(const char *password, struct bytes salt, unsigned int iterations,
                  struct scram_keys *keys)
{
	unsigned char salted[SHA256_SIZE] = { 0 };
	struct bytes key = bytes_of(salted, sizeof(salted));
	char *prepared = saslprep(password);
	bool ok = prepared && digest_pbkdf2(bytes_text(prepared), salt, iterations, salted) &&
	          digest_hmac(key, bytes_text("Client Key"), keys->client_key) &&
	          digest_hmac(key, bytes_text("Server Key"), keys->server_key) &&
	          digest_sha256(bytes_of(keys->client_key, SCRAM_KEY_SIZE), keys->stored_key);

	secret_free(&prepared);
	secret_wipe(salted, sizeof(salted));
	return ok;
}

/* ---- the server's side ---- */

/* Whether the client's gs2 flag agrees with what we offered and what it selected. */
static bool check_flag(const struct scram *scram, struct bytes flag, struct err *err)
{
	bool binds = flag.count >= 2 && flag.at[0] == 'p' && flag.at[1] == '=';

	if (binds && !scram->is_plus)
		return err_set(
		    err, ERR_PROTOCOL,
		    "client requests channel binding, but has not chosen " SCRAM_PLUS_MECHANISM);
	if (binds)
		return bytes_are(bytes_skip(flag, 2), BINDING_NAME) ||
		       err_set(err, ERR_PROTOCOL, "unsupported SCRAM channel binding type");
	if (!bytes_are(flag, "n") && !bytes_are(flag, "y"))
		return malformed(err, "unexpected channel binding flag");
	if (scram->is_plus)
		return malformed(err, "no channel binding in " SCRAM_PLUS_MECHANISM);
	/* The client supports channel binding but did not see our offer: a downgrade attack. */
	if (*flag.at == 'y' && scram->binding_count)
		return err_set(err, ERR_PROTOCOL,
		               "client did not see that channel binding is offered");
	return true;
}

/* Parses "n,,", "y,," or "p=...,,"; *in is then client-first-bare. */
static bool take_gs2_header(struct scram *scram, struct bytes *in, struct err *err)
{
	struct bytes flag = bytes_take_until(in, ',');

	if (!check_flag(scram, flag, err))
		return false;
	scram->gs2 = flag.at[0];
	if (in->count == 0)
		return malformed(err, "nothing after the channel binding flag");
	if (bytes_take_until(in, ',').count != 0)
		return err_set(err, ERR_PROTOCOL,
		               "client uses an authorization identity, which is not supported");
	return true;
}

bool scram_server_first(struct scram *scram, struct bytes client_first, struct bytes salt,
                        unsigned int iterations, struct buf *out, struct err *err)
{
	struct bytes rest = client_first, bare, user, nonce;
	char salt_text[SALT_TEXT_SIZE];
	size_t at;

	if (client_first.count > SCRAM_MESSAGE_MAX)
		return malformed(err, "too long");
	if (!take_gs2_header(scram, &rest, err))
		return false;
	bare = rest;
	if (rest.count >= 2 && memcmp(rest.at, "m=", 2) == 0)
		return err_set(err, ERR_PROTOCOL, "client requires an unsupported SCRAM extension");
	if (!take_attribute(&rest, 'n', &user))
		return malformed(err, "no user name in client-first");
	if (!take_attribute(&rest, 'r', &nonce) || !is_nonce(nonce))
		return malformed(err, "no valid nonce in client-first");
	if (!make_nonce(scram) || salt.count > SCRAM_SALT_MAX)
		return broken(err);

	buf_add(&scram->joint, nonce.at, nonce.count);
	buf_add_text(&scram->joint, scram->nonce);
	base64_encode(salt, salt_text);
	buf_add(&scram->said, bare.at, bare.count);
	buf_add_byte(&scram->said, ',');
	at = scram->said.count;
	buf_printf(&scram->said, "r=%s,s=%s,i=%u", buf_text(&scram->joint), salt_text, iterations);
	if (!buf_ok(&scram->said) || !buf_ok(&scram->joint))
		return broken(err);
	buf_add(out, scram->said.at + at, scram->said.count - at);
	return true;
}

/* Splits client-final before its last attribute, the proof. */
static bool split_proof(struct bytes *message, struct bytes *proof)
{
	/* From the end: the nonce and extensions precede the proof. */
	for (size_t i = message->count; i >= 3; i--) {
		if (message->at[i - 3] != ',')
			continue;
		*proof = bytes_skip(*message, i - 2);
		message->count = i - 3;
		return take_attribute(proof, 'p', proof);
	}
	return false;
}

bool scram_server_read(struct scram *scram, struct bytes client_final, struct err *err)
{
	struct bytes rest, binding, nonce, proof;
	char wanted[BINDING_TEXT_SIZE];

	if (client_final.count > SCRAM_MESSAGE_MAX)
		return malformed(err, "too long");
	if (!split_proof(&client_final, &proof) || !take_key(proof, scram->proof))
		return malformed(err, "no valid proof in client-final");
	rest = client_final;
	binding_text(scram, wanted);
	if (!take_attribute(&rest, 'c', &binding))
		return malformed(err, "no channel binding in client-final");
	if (!bytes_are(binding, wanted))
		return err_set(err, ERR_PROTOCOL, "SCRAM channel binding check failed");
	if (!take_attribute(&rest, 'r', &nonce) || !bytes_equal(nonce, buf_bytes(&scram->joint)))
		return malformed(err, "nonce does not match in client-final");
	buf_add_byte(&scram->said, ',');
	buf_add(&scram->said, client_final.at, client_final.count);
	return buf_ok(&scram->said) || broken(err);
}

bool scram_server_check(const struct scram *scram, struct scram_keys *keys, struct buf *out,
                        struct err *err)
{
	unsigned char hash[SHA256_SIZE], signature[SCRAM_KEY_SIZE];
	char text[KEY_TEXT_SIZE];

	/* proof = ClientKey XOR signature: correct if the hash of ClientKey is StoredKey. */
	if (!sign(keys->stored_key, scram, keys->client_key))
		return broken(err);
	mix(keys->client_key, keys->client_key, scram->proof);
	if (!digest_sha256(bytes_of(keys->client_key, SCRAM_KEY_SIZE), hash))
		return broken(err);
	if (!bytes_equal_secret(bytes_of(hash, sizeof(hash)),
	                        bytes_of(keys->stored_key, SCRAM_KEY_SIZE))) {
		secret_wipe(keys->client_key, SCRAM_KEY_SIZE);
		return err_set(err, ERR_PASSWORD, "the proof does not match the secret");
	}
	if (!sign(keys->server_key, scram, signature))
		return broken(err);
	base64_encode(bytes_of(signature, sizeof(signature)), text);
	buf_add_text(out, "v=");
	buf_add_text(out, text);
	return true;
}

/* ---- the client's side ---- */

bool scram_client_first(struct scram *scram, const char *user, struct buf *out, struct err *err)
{
	if (!make_nonce(scram))
		return broken(err);
	/* "y": we can, but were not offered it. A server that did offer it refuses: a downgrade. */
	scram->gs2 = scram->is_plus ? 'p' : scram->binding_count ? 'y' : 'n';
	buf_printf(&scram->said, "n=%s,r=%s", user, scram->nonce);
	if (!buf_ok(&scram->said))
		return broken(err);
	if (scram->is_plus)
		buf_add_text(out, BINDING_HEADER);
	else
		buf_printf(out, "%c,,", scram->gs2);
	buf_add(out, scram->said.at, scram->said.count);
	return true;
}

static bool take_joint_nonce(struct scram *scram, struct bytes *in)
{
	size_t own = strlen(scram->nonce);
	struct bytes nonce;

	if (!take_attribute(in, 'r', &nonce) || !is_nonce(nonce) || nonce.count <= own ||
	    memcmp(nonce.at, scram->nonce, own) != 0)
		return false;
	buf_add(&scram->joint, nonce.at, nonce.count);
	return true;
}

bool scram_client_read(struct scram *scram, struct bytes server_first,
                       struct scram_challenge *challenge, struct err *err)
{
	struct bytes rest = server_first, value;

	if (server_first.count > SCRAM_MESSAGE_MAX)
		return malformed(err, "too long");
	if (!take_joint_nonce(scram, &rest))
		return malformed(err, "no valid nonce in server-first");
	if (!take_attribute(&rest, 's', &value) || !take_salt(value, challenge))
		return malformed(err, "no valid salt in server-first");
	if (!take_attribute(&rest, 'i', &value) || !take_iterations(value, &challenge->iterations))
		return malformed(err, "no acceptable iteration count in server-first");
	if (challenge->iterations > SCRAM_SERVER_ITERATIONS_MAX)
		return err_set(err, ERR_PROTOCOL,
		               "the server asks for %u SCRAM iterations, more than %d",
		               challenge->iterations, SCRAM_SERVER_ITERATIONS_MAX);
	buf_add_byte(&scram->said, ',');
	buf_add(&scram->said, server_first.at, server_first.count);
	return (buf_ok(&scram->said) && buf_ok(&scram->joint)) || broken(err);
}

bool scram_client_final(struct scram *scram, const struct scram_keys *keys, struct buf *out,
                        struct err *err)
{
	unsigned char proof[SCRAM_KEY_SIZE];
	char text[KEY_TEXT_SIZE], binding[BINDING_TEXT_SIZE];
	size_t at = scram->said.count + 1;

	binding_text(scram, binding);
	buf_printf(&scram->said, ",c=%s,r=%s", binding, buf_text(&scram->joint));
	if (!buf_ok(&scram->said) || !sign(keys->stored_key, scram, proof))
		return broken(err);
	mix(proof, proof, keys->client_key);
	base64_encode(bytes_of(proof, sizeof(proof)), text);
	buf_add(out, scram->said.at + at, scram->said.count - at);
	buf_add_text(out, ",p=");
	buf_add_text(out, text);
	secret_wipe(proof, sizeof(proof));
	secret_wipe(text, sizeof(text));
	return true;
}

bool scram_client_check(const struct scram *scram, const struct scram_keys *keys,
                        struct bytes server_final, struct err *err)
{
	unsigned char theirs[SCRAM_KEY_SIZE], ours[SCRAM_KEY_SIZE];
	struct bytes value;

	if (server_final.count > SCRAM_MESSAGE_MAX)
		return malformed(err, "too long");
	if (take_attribute(&server_final, 'e', &value))
		return err_set(err, ERR_PROTOCOL, "server reports a SCRAM error");
	if (!take_attribute(&server_final, 'v', &value) || !take_key(value, theirs))
		return malformed(err, "no valid signature in server-final");
	if (!sign(keys->server_key, scram, ours))
		return broken(err);
	if (!bytes_equal_secret(bytes_of(theirs, sizeof(theirs)), bytes_of(ours, sizeof(ours))))
		return err_set(err, ERR_PASSWORD, "the server's signature does not match");
	return true;
}
