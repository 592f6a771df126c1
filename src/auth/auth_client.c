/* SPDX-License-Identifier: ISC */
/*
 * The client side of an authentication exchange: we log in to a server.
 *
 *   start --> sent ------------------------------------------> ended
 *         --> sasl first --> (work) --> sasl final --> proven --> ended
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

enum auth_client_state {
	STATE_START,
	STATE_SENT,       /* a password or its md5 hash has been sent */
	STATE_SASL_FIRST, /* sent client-first, waits for server-first */
	STATE_WORK,       /* the keys of the password are being derived */
	STATE_SASL_FINAL, /* sent client-final, waits for server-final */
	STATE_PROVEN,     /* the server has proved that it knows the keys */
	STATE_ENDED,
	STATES
};

struct auth_client {
	enum auth_client_state state;
	struct verifiers *verifiers;
	struct auth_runner runner;
	struct credentials credentials;
	struct scram scram;
	struct derived *derived; /* CREDENTIALS_PLAIN with SCRAM */
	struct auth_work *work;
	const char *asked, *mismatch; /* static texts, or NULL */
	unsigned int allowed;         /* ANSWERS() of each request that the server may begin with */
	char user[];
};

#define TO(state) (1u << (state))
#define ANSWERS(kind) (1u << (kind))

static const struct auth_client_step {
	unsigned int next;  /* TO() of each permitted next state */
	unsigned int kinds; /* ANSWERS() of each permitted request */
} steps[STATES] = {
	[STATE_START] = { TO(STATE_SENT) | TO(STATE_SASL_FIRST) | TO(STATE_ENDED),
	                  ANSWERS(AUTH_OK) | ANSWERS(AUTH_CLEARTEXT) | ANSWERS(AUTH_MD5) |
	                      ANSWERS(AUTH_SASL) },
	[STATE_SENT] = { TO(STATE_ENDED), ANSWERS(AUTH_OK) },
	[STATE_SASL_FIRST] = { TO(STATE_WORK) | TO(STATE_SASL_FINAL) | TO(STATE_ENDED),
	                       ANSWERS(AUTH_SASL_CONTINUE) },
	[STATE_WORK] = { TO(STATE_SASL_FINAL) | TO(STATE_ENDED), 0 },
	[STATE_SASL_FINAL] = { TO(STATE_PROVEN) | TO(STATE_ENDED), ANSWERS(AUTH_SASL_FINAL) },
	[STATE_PROVEN] = { TO(STATE_ENDED), ANSWERS(AUTH_OK) },
	[STATE_ENDED] = { TO(STATE_ENDED), 0 },
};

/* The only function that writes auth->state. */
static void auth_client_enter(struct auth_client *auth, enum auth_client_state next)
{
	assert(steps[auth->state].next & TO(next));
	auth->state = next;
}

static enum auth_client_result auth_client_fail(struct auth_client *auth, struct err *err,
                                                const char *reason)
{
	auth_client_enter(auth, STATE_ENDED);
	err_set(err, ERR_NOT_ALLOWED, "server login failed: %s", reason);
	return AUTH_CLIENT_FAILED;
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
		{ "password", ANSWERS(AUTH_CLEARTEXT) },
		{ "md5", ANSWERS(AUTH_MD5) },
		{ "scram-sha-256", ANSWERS(AUTH_SASL) },
		{ "none", ANSWERS(AUTH_OK) },
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
	return (named ? named : steps[STATE_START].kinds) & ~without;
}

bool auth_client_may_enter_unasked(const struct config_list *require)
{
	return allowed_by(require) & ANSWERS(AUTH_OK);
}

struct auth_client *auth_client_new(const struct auth_client_who *who)
{
	size_t user_size = strlen(who->user) + 1;
	struct auth_client *auth = calloc(1, sizeof(*auth) + user_size);

	if (!auth)
		return NULL;
	if (!credentials_copy(&auth->credentials, who->credentials)) {
		free(auth);
		return NULL;
	}
	auth->allowed = allowed_by(who->require);
	auth->verifiers = who->verifiers;
	auth->runner = who->runner;
	memcpy(auth->user, who->user, user_size);
	scram_bind(&auth->scram, who->binding);
	return auth;
}

void auth_client_free(struct auth_client **auth)
{
	struct auth_client *old = *auth;

	*auth = NULL;
	if (!old)
		return;
	auth_work_drop(&old->work);
	derived_release(&old->derived);
	credentials_done(&old->credentials);
	scram_done(&old->scram);
	free(old);
}

/* ---- cleartext password and md5 ---- */

static enum auth_client_result send_cleartext(struct auth_client *auth, struct buf *out,
                                              struct err *err)
{
	if (auth->credentials.kind != CREDENTIALS_PLAIN)
		return wrong_type(auth, err);
	message_password(out, auth->credentials.text);
	auth_client_enter(auth, STATE_SENT);
	return AUTH_CLIENT_MORE;
}

static enum auth_client_result send_md5(struct auth_client *auth, struct bytes salt,
                                        struct buf *out, struct err *err)
{
	bool is_plain = auth->credentials.kind == CREDENTIALS_PLAIN;
	char answer[MD5_TEXT_SIZE];

	if (!is_plain && auth->credentials.kind != CREDENTIALS_MD5)
		return wrong_type(auth, err);
	if (!digest_md5_answer(auth->credentials.text, is_plain ? auth->user : NULL, salt, answer))
		return auth_client_fail(auth, err, "the crypto library has no MD5");
	message_password(out, answer);
	secret_wipe(answer, sizeof(answer));
	auth_client_enter(auth, STATE_SENT);
	return AUTH_CLIENT_MORE;
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
	if (auth->credentials.kind != CREDENTIALS_PLAIN &&
	    auth->credentials.kind != CREDENTIALS_KEYS)
		return wrong_type(auth, err);
	/* PostgreSQL uses the name in the startup packet and ignores this one. */
	ok = scram_client_first(&auth->scram, "", &first, &why);
	if (ok) {
		message_sasl_initial(out,
		                     auth->scram.is_plus ? SCRAM_PLUS_MECHANISM : SCRAM_MECHANISM,
		                     buf_bytes(&first));
		auth_client_enter(auth, STATE_SASL_FIRST);
	}
	buf_free(&first);
	return ok ? AUTH_CLIENT_MORE : auth_client_fail(auth, err, why.text);
}

/* Returns NULL if they have not been derived, or if that failed. */
static const struct scram_keys *keys_of(const struct auth_client *auth)
{
	if (auth->credentials.kind == CREDENTIALS_KEYS)
		return auth->credentials.keys;
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
	if (ok) {
		message_sasl_response(out, buf_bytes(&final));
		auth_client_enter(auth, STATE_SASL_FINAL);
	}
	buf_wipe(&final);
	return ok ? AUTH_CLIENT_MORE : auth_client_fail(auth, err, why.text);
}

/* Gets the keys for this challenge: from the cache, or by deriving them. */
static enum auth_client_result derive(struct auth_client *auth,
                                      const struct scram_challenge *challenge, struct buf *out,
                                      struct err *err)
{
	const char *password = auth->credentials.text;

	/* Private: a server that sends another salt each time must not fill the cache. */
	auth->derived = verifiers_ask(auth->verifiers, password,
	                              bytes_of(challenge->salt, challenge->salt_count),
	                              challenge->iterations, DERIVED_PRIVATE);
	if (!auth->derived)
		return auth_client_fail(auth, err, "out of memory");
	if (derived_keys(auth->derived))
		return send_final(auth, out, err);
	if (!auth_work_derive(&auth->work, &auth->runner, auth->derived, password,
	                      challenge->iterations > SLOW_ITERATIONS)) {
		auth_client_enter(auth, STATE_ENDED);
		err_set(err, ERR_FILES, "too many logins at once wait for their key");
		err_reason(err, CLOSE_TOO_MANY_LOGINS);
		return AUTH_CLIENT_FAILED;
	}
	auth_client_enter(auth, STATE_WORK);
	return AUTH_CLIENT_WORK;
}

/* Keys belong to one salt and one iteration count. With others, authentication must fail. */
static const char *compare(const struct scram_challenge *ours, const struct scram_challenge *theirs)
{
	if (!bytes_equal(bytes_of(ours->salt, ours->salt_count),
	                 bytes_of(theirs->salt, theirs->salt_count)))
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
	if (auth->credentials.made_for)
		auth->mismatch = compare(auth->credentials.made_for, &challenge);
	if (auth->credentials.kind == CREDENTIALS_KEYS)
		return send_final(auth, out, err);
	return derive(auth, &challenge, out, err);
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
	auth_client_enter(auth, STATE_PROVEN);
	return AUTH_CLIENT_MORE;
}

/* ---- requests of the server ---- */

static const char *out_of_step(const struct auth_client *auth, uint32_t kind)
{
	if (kind == AUTH_OK)
		return "failed to verify server signature"; /* it sent none */
	if (auth->state == STATE_START)
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
	if (request.kind > AUTH_SASL_FINAL || !(steps[auth->state].kinds & ANSWERS(request.kind)))
		return auth_client_fail(auth, err, out_of_step(auth, request.kind));
	if (auth->state == STATE_START) {
		auth->asked = asked_words[request.kind];
		if (!(auth->allowed & ANSWERS(request.kind)))
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
		auth_client_enter(auth, STATE_ENDED);
		return AUTH_CLIENT_OK;
	}
}

enum auth_client_result auth_client_resume(struct auth_client *auth, struct buf *out,
                                           struct err *err)
{
	assert(auth->state == STATE_WORK);
	return send_final(auth, out, err);
}
