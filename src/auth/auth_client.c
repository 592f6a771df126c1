/* SPDX-License-Identifier: ISC */
/*
 *   password, or its md5 hash ----------------------------------> AuthenticationOk
 *   client-first --> (work) --> client-final --> server-final --> AuthenticationOk
 *
 * Hard here: the server is not trusted either. Each request may come only once and in the right
 * order. With SCRAM, AuthenticationOk is accepted only after the server has proved that it
 * knows the keys.
 */
#include "pgweir/auth/auth_client.h"

#include <assert.h>
#include <stdlib.h>
#include <strings.h>

#include "pgweir/auth/digest.h"
#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/message.h"

/* Deriving keys with more iterations takes long: 50 milliseconds or so. */
#define SLOW_ITERATIONS 100000

#define KIND(kind) (1u << (kind))
#define FIRST_KINDS (KIND(AUTH_OK) | KIND(AUTH_CLEARTEXT) | KIND(AUTH_MD5) | KIND(AUTH_SASL))

struct auth_client {
	struct auth_work work; /* must be first */
	struct verifiers *verifiers;
	const struct credentials *credentials;
	struct scram scram;
	struct derived *derived;      /* SECRET_PLAIN with SCRAM */
	const char *asked, *mismatch; /* static texts, or NULL */
	unsigned int allowed;         /* KIND() of each request that the server may begin with */
	/* KIND() of each that may come next: this is where the exchange is. 0: at work, or ended */
	unsigned int expected;
	char user[];
};

static enum auth_client_result auth_client_fail(struct auth_client *auth, struct err *err,
                                                const char *reason)
{
	auth->expected = 0;
	err_set(err, ERR_NOT_ALLOWED, "server login failed: %s", reason);
	return AUTH_CLIENT_FAILED;
}

static enum auth_client_result expect(struct auth_client *auth, unsigned int kind)
{
	auth->expected = KIND(kind);
	return AUTH_CLIENT_MORE;
}

static enum auth_client_result wrong_type(struct auth_client *auth, struct err *err)
{
	return auth_client_fail(auth, err, "wrong password type");
}

/* What server_require_auth means: the methods it names (or all), but for those after a !. */
static unsigned int allowed_by(const struct config_list *require)
{
	static const struct {
		const char *name;
		unsigned int kinds;
	} methods[] = {
		{ "password", KIND(AUTH_CLEARTEXT) },
		{ "md5", KIND(AUTH_MD5) },
		{ "scram-sha-256", KIND(AUTH_SASL) },
		{ "none", KIND(AUTH_OK) },
	};
	unsigned int named = 0, without = 0;

	for (size_t i = 0; require && i < require->count; i++) {
		const char *name = require->names[i];
		bool is_without = *name == '!';

		for (size_t at = 0; at < sizeof(methods) / sizeof(methods[0]); at++) {
			if (strcasecmp(methods[at].name, name + is_without) != 0)
				continue;
			named |= is_without ? 0 : methods[at].kinds;
			without |= is_without ? methods[at].kinds : 0;
		}
	}
	return (named ? named : FIRST_KINDS) & ~without;
}

bool auth_client_may_enter_unasked(const struct config_list *require)
{
	return allowed_by(require) & KIND(AUTH_OK);
}

static void free_object(struct auth_work *work)
{
	struct auth_client *auth = (struct auth_client *)work;

	derived_release(&auth->derived);
	credentials_release(&auth->credentials);
	scram_done(&auth->scram);
	free(auth);
}

struct auth_client *auth_client_new(const struct auth_client_who *who)
{
	size_t user_size = strlen(who->user) + 1;
	struct auth_client *auth = calloc(1, sizeof(*auth) + user_size);

	if (!auth)
		return NULL;
	auth->credentials = credentials_hold(who->credentials);
	auth->work.runner = who->runner;
	auth->work.free_object = free_object;
	auth->allowed = allowed_by(who->require);
	auth->expected = FIRST_KINDS;
	auth->verifiers = who->verifiers;
	memcpy(auth->user, who->user, user_size);
	scram_bind(&auth->scram, who->binding);
	return auth;
}

void auth_client_free(struct auth_client **auth)
{
	_Static_assert(offsetof(struct auth_client, work) == 0, "it is found by it");
	auth_work_drop((struct auth_work *)*auth);
	*auth = NULL;
}

/* ---- cleartext password and md5 ---- */

static enum auth_client_result send_cleartext(struct auth_client *auth, struct buf *out,
                                              struct err *err)
{
	if (credentials_kind(auth->credentials) != SECRET_PLAIN)
		return wrong_type(auth, err);
	message_password(out, auth->credentials->text);
	return expect(auth, AUTH_OK);
}

static enum auth_client_result send_md5(struct auth_client *auth, struct bytes salt,
                                        struct buf *out, struct err *err)
{
	bool is_plain = credentials_kind(auth->credentials) == SECRET_PLAIN;
	char answer[MD5_TEXT_SIZE];

	if (!is_plain && credentials_kind(auth->credentials) != SECRET_MD5)
		return wrong_type(auth, err);
	if (!digest_md5_answer(auth->credentials->text, is_plain ? auth->user : NULL, salt, answer))
		return auth_client_fail(auth, err, "the crypto library has no MD5");
	message_password(out, answer);
	secret_wipe(answer, sizeof(answer));
	return expect(auth, AUTH_OK);
}

/* ---- SCRAM ---- */

static bool offers(struct bytes names, const char *mechanism)
{
	const char *name;

	while (fields_mechanism(&names, &name) == WALK_ITEM) {
		if (bytes_are(bytes_text(name), mechanism))
			return true;
	}
	return false;
}

static enum auth_client_result send_first(struct auth_client *auth, struct bytes names,
                                          struct buf *out, struct err *err)
{
	struct buf first = { 0 };
	struct err why;
	bool ok;

	auth->scram.is_plus = auth->scram.binding_count > 0 && offers(names, SCRAM_PLUS_MECHANISM);
	if (!auth->scram.is_plus && !offers(names, SCRAM_MECHANISM))
		return auth_client_fail(
		    auth, err, "none of the server's SASL authentication mechanisms are supported");
	if (credentials_kind(auth->credentials) != SECRET_PLAIN &&
	    credentials_kind(auth->credentials) != SECRET_SCRAM)
		return wrong_type(auth, err);
	/* PostgreSQL uses the name in the startup packet and ignores this one. */
	ok = scram_client_first(&auth->scram, "", &first, &why);
	if (ok)
		message_sasl_initial(out,
		                     auth->scram.is_plus ? SCRAM_PLUS_MECHANISM : SCRAM_MECHANISM,
		                     buf_bytes(&first));
	buf_free(&first);
	return ok ? expect(auth, AUTH_SASL_CONTINUE) : auth_client_fail(auth, err, why.text);
}

/* Returns NULL if they have not been derived, or if that failed. */
static const struct scram_keys *keys_of(const struct auth_client *auth)
{
	if (credentials_kind(auth->credentials) == SECRET_SCRAM)
		return &auth->credentials->scram->keys;
	return derived_keys(auth->derived);
}

static enum auth_client_result send_final(struct auth_client *auth, struct buf *out,
                                          struct err *err)
{
	const struct scram_keys *keys = keys_of(auth);
	struct buf final = { 0 };
	struct err why;
	bool ok;

	if (!keys)
		return auth_client_fail(auth, err, "key derivation failed");
	ok = scram_client_final(&auth->scram, keys, &final, &why);
	if (ok)
		message_sasl_response(out, buf_bytes(&final));
	buf_wipe(&final);
	return ok ? expect(auth, AUTH_SASL_FINAL) : auth_client_fail(auth, err, why.text);
}

/* Called on a helper thread. */
static void run_derive(struct job *job)
{
	const struct auth_client *auth = (struct auth_client *)job;

	derived_run(auth->derived, auth->credentials->text);
}

/* Gets the keys for this challenge: from the cache, or by deriving them. */
static enum auth_client_result derive(struct auth_client *auth,
                                      const struct scram_challenge *challenge, struct buf *out,
                                      struct err *err)
{
	/* Private: a server that sends another salt each time must not fill the cache. */
	auth->derived =
	    verifiers_ask(auth->verifiers, auth->credentials->text, scram_salt(challenge),
	                  challenge->iterations, DERIVED_PRIVATE);
	if (!auth->derived)
		return auth_client_fail(auth, err, "out of memory");
	if (derived_keys(auth->derived))
		return send_final(auth, out, err);
	auth->expected = 0;
	if (auth_work_begin(&auth->work, run_derive, challenge->iterations > SLOW_ITERATIONS))
		return AUTH_CLIENT_WORK;
	err_set(err, ERR_FILES, "too many logins at once wait for their key");
	err_reason(err, CLOSE_TOO_MANY_LOGINS);
	return AUTH_CLIENT_FAILED;
}

/* Keys belong to one salt and one iteration count. With others, authentication must fail. */
static const char *compare(const struct scram_challenge *ours, const struct scram_challenge *theirs)
{
	if (!ours->salt_count)
		return NULL;
	if (!bytes_equal(scram_salt(ours), scram_salt(theirs)))
		return "salt";
	return ours->iterations == theirs->iterations ? NULL : "iteration count";
}

static enum auth_client_result read_challenge(struct auth_client *auth, struct bytes data,
                                              struct buf *out, struct err *err)
{
	struct scram_challenge challenge;
	struct err why;

	if (!scram_client_read(&auth->scram, data, &challenge, &why))
		return auth_client_fail(auth, err, why.text);
	if (credentials_kind(auth->credentials) != SECRET_SCRAM)
		return derive(auth, &challenge, out, err);
	auth->mismatch = compare(&auth->credentials->scram->made_for, &challenge);
	return send_final(auth, out, err);
}

static enum auth_client_result read_signature(struct auth_client *auth, struct bytes data,
                                              struct err *err)
{
	struct err why;

	if (!scram_client_check(&auth->scram, keys_of(auth), data, &why))
		return auth_client_fail(auth, err,
		                        why.code == ERR_PASSWORD
		                            ? "invalid server signature"
		                            : "failed to verify server signature");
	if (auth->derived)
		verifiers_keep(auth->verifiers, auth->derived);
	return expect(auth, AUTH_OK);
}

/* ---- requests of the server ---- */

static const char *out_of_step(const struct auth_client *auth, uint32_t kind)
{
	if (kind == AUTH_OK)
		return "failed to verify server signature"; /* it sent none */
	if (!auth->asked)
		return "unsupported authentication method";
	return "unexpected authentication request";
}

static const char *const asked_words[AUTH_SASL_FINAL + 1] = {
	[AUTH_OK] = "nothing",
	[AUTH_CLEARTEXT] = "a password in clear text",
	[AUTH_MD5] = "md5",
	[AUTH_SASL] = "SCRAM-SHA-256",
};

const char *auth_client_asked(const struct auth_client *auth) { return auth->asked; }

const char *auth_client_mismatch(const struct auth_client *auth) { return auth->mismatch; }

enum auth_client_result auth_client_answer(struct auth_client *auth, struct bytes body,
                                           struct buf *out, struct err *err)
{
	struct auth_request request;

	if (fields_auth(body, &request) != WIRE_OK)
		return auth_client_fail(auth, err, "malformed authentication request");
	if (request.kind > AUTH_SASL_FINAL || !(auth->expected & KIND(request.kind)))
		return auth_client_fail(auth, err, out_of_step(auth, request.kind));
	if (!auth->asked) {
		auth->asked = asked_words[request.kind];
		if (!(auth->allowed & KIND(request.kind)))
			return auth_client_fail(auth, err,
			                        "server_require_auth forbids how PostgreSQL asks");
	}
	switch (request.kind) {
	case AUTH_CLEARTEXT:
		return send_cleartext(auth, out, err);
	case AUTH_MD5:
		return send_md5(auth, request.salt, out, err);
	case AUTH_SASL:
		return send_first(auth, request.names, out, err);
	case AUTH_SASL_CONTINUE:
		return read_challenge(auth, request.data, out, err);
	case AUTH_SASL_FINAL:
		return read_signature(auth, request.data, err);
	default:
		auth->expected = 0;
		return AUTH_CLIENT_OK;
	}
}

enum auth_client_result auth_client_resume(struct auth_client *auth, struct buf *out,
                                           struct err *err)
{
	assert(auth->derived && !auth->work.is_running);
	return send_final(auth, out, err);
}
