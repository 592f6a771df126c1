/* SPDX-License-Identifier: ISC */
/*
 * The server side of an authentication exchange: a client logs in to us.
 *
 *   start --> password ----------------> (work) --> ended
 *         --> password ----------------> (outside) -> ended
 *         --> md5 --------------------------------> ended
 *         --> sasl first --> sasl final -> (work) -> ended
 *
 * Hard here: a client that cannot log in (unknown user, no secret, an md5 secret with SCRAM)
 * must see the same exchange as all others, up to its end. Such an exchange fails late: it has
 * the reason from the start (late_failure) and uses a mock secret, and it fails only when all the
 * work has been done.
 */
#include "pgweir/auth/auth_server.h"

#include <assert.h>
#include <stdlib.h>

#include "pgweir/auth/digest.h"
#include "pgweir/base/text.h"
#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/message.h"

#define REASON_SIZE 200

enum auth_server_state {
	STATE_START,
	STATE_PASSWORD,   /* asked for a cleartext password */
	STATE_MD5,        /* asked for an answer to .md5_salt */
	STATE_SASL_FIRST, /* offered SCRAM, waits for client-first */
	STATE_SASL_FINAL, /* sent server-first, waits for client-final */
	STATE_WORK,       /* the keys of the received password are being derived */
	STATE_SASL_WORK,  /* the keys of the user's plain secret are being derived */
	STATE_OUTSIDE,    /* PAM or LDAP checks the received password */
	STATE_ENDED,
	STATES
};

struct auth_server {
	enum auth_server_state state;
	struct auth_server_who who; /* its texts are in `texts`; what is not kept is NULL */
	struct buf texts;
	struct secret secret; /* the user's, or a mock secret if there is none */
	bool is_known;
	const char
	    *late_failure; /* why the client cannot log in with any password; NULL = it can */
	char reason[REASON_SIZE];
	unsigned char md5_salt[4];
	struct scram_verifier offer; /* STATE_SASL_*: its salt and iterations were sent */
	struct scram scram;
	struct scram_keys keys; /* STATE_SASL_*: the user's; client_key is set only at the end */
	char *password;         /* cleartext password sent by the client */
	struct derived *derived;
	struct auth_work *work;
};

static const struct auth_method_row *row_of(enum auth_method method)
{
	return &auth_methods[method];
}

/* ---- states and ends ---- */

#define TO(state) (1u << (state))

/* TO() of each permitted next state. */
static const unsigned int next_states[STATES] = {
	[STATE_START] = TO(STATE_PASSWORD) | TO(STATE_MD5) | TO(STATE_SASL_FIRST) | TO(STATE_ENDED),
	[STATE_PASSWORD] = TO(STATE_WORK) | TO(STATE_OUTSIDE) | TO(STATE_ENDED),
	[STATE_MD5] = TO(STATE_ENDED),
	[STATE_SASL_FIRST] = TO(STATE_SASL_FINAL) | TO(STATE_ENDED),
	[STATE_SASL_FINAL] = TO(STATE_SASL_WORK) | TO(STATE_ENDED),
	[STATE_WORK] = TO(STATE_ENDED),
	[STATE_SASL_WORK] = TO(STATE_ENDED),
	[STATE_OUTSIDE] = TO(STATE_ENDED),
	[STATE_ENDED] = 0,
};

/* The only function that writes auth->state. */
static void enter(struct auth_server *auth, enum auth_server_state next)
{
	assert(next_states[auth->state] & TO(next));
	auth->state = next;
}

/* Ends the exchange: `words` are for the client, `reason` is for the log. */
static enum auth_server_result refuse(struct auth_server *auth, struct err *err, enum err_code code,
                                      const char *words, const char *reason)
{
	enter(auth, STATE_ENDED);
	text_copy(auth->reason, sizeof(auth->reason), reason);
	err_set(err, code, "%s", words);
	return AUTH_SERVER_REFUSED;
}

/* The same with the words of a close reason, which the connection is then closed for. */
static enum auth_server_result refuse_for(struct auth_server *auth, struct err *err,
                                          enum err_code code, enum close_reason refusal,
                                          const char *reason)
{
	refuse(auth, err, code, close_reason_row(refusal)->words, reason);
	err_reason(err, refusal);
	return AUTH_SERVER_REFUSED;
}

static enum auth_server_result refuse_memory(struct auth_server *auth, struct err *err)
{
	return refuse(auth, err, ERR_MEMORY, "out of memory", "out of memory");
}

static enum auth_server_result admit(struct auth_server *auth)
{
	enter(auth, STATE_ENDED);
	return AUTH_SERVER_OK;
}

static enum auth_server_result begin_work(struct auth_server *auth, bool is_begun,
                                          enum auth_server_state state)
{
	enter(auth, is_begun ? state : STATE_ENDED);
	return is_begun ? AUTH_SERVER_WORK : AUTH_SERVER_BUSY;
}

/*
 * Gets the keys of `password`. AUTH_SERVER_OK: derived_keys() has them. AUTH_SERVER_WORK: they
 * will be derived, and `state` has been entered.
 */
static enum auth_server_result derive(struct auth_server *auth, const char *password,
                                      struct bytes salt, unsigned int iterations,
                                      enum derived_keep keep, enum auth_server_state state,
                                      struct err *err)
{
	/* Nothing is cached then: each attempt must cost as much as the first. */
	if (auth->late_failure)
		keep = DERIVED_PRIVATE;
	auth->derived = verifiers_ask(auth->who.verifiers, password, salt, iterations, keep);
	if (!auth->derived)
		return refuse_memory(auth, err);
	if (derived_keys(auth->derived))
		return AUTH_SERVER_OK;
	return begin_work(
	    auth, auth_work_derive(&auth->work, &auth->who.runner, auth->derived, password, false),
	    state);
}

/*
 * ---- cleartext passwords, and md5 ----
 *
 * Authentication by password: sent in cleartext, or hashed with a salt of ours (md5).
 *
 * Hard here: a cleartext password is compared with whatever kind of secret the user has. With a
 * SCRAM secret this needs a derivation, so the result comes later. PAM and LDAP check it
 * outside.
 */

static enum auth_server_result refuse_password(struct auth_server *auth, struct err *err,
                                               const char *reason)
{
	return refuse_for(auth, err, ERR_PASSWORD, CLOSE_AUTH_PASSWORD, reason);
}

static enum auth_server_result refuse_wrong(struct auth_server *auth, struct err *err)
{
	return refuse_password(auth, err,
	                       auth->late_failure ? auth->late_failure : "wrong password");
}

static enum auth_server_result ask_outside(struct auth_server *auth)
{
	const struct outside_question question = { .password = auth->password,
		                                   .user = auth->who.user,
		                                   .options = auth->who.options,
		                                   .host = auth->who.host,
		                                   .deadline = auth->who.deadline };

	return begin_work(
	    auth, auth_work_ask(&auth->work, &auth->who.runner, auth->who.method, &question),
	    STATE_OUTSIDE);
}

static enum auth_server_result check_outside(struct auth_server *auth, struct err *err)
{
	if (auth->work->answer == OUTSIDE_YES)
		return admit(auth);
	return refuse_for(auth, err, ERR_NOT_ALLOWED, row_of(auth->who.method)->refusal,
	                  auth->work->question.reason);
}

/* Compares the derived keys of a cleartext password with the user's SCRAM secret. */
static enum auth_server_result check_derived(struct auth_server *auth, struct err *err)
{
	const struct scram_keys *keys = derived_keys(auth->derived);

	if (!keys)
		return refuse_for(auth, err, ERR_INTERNAL, CLOSE_AUTH_PASSWORD,
		                  "key derivation failed");
	if (!bytes_equal_secret(bytes_of(keys->stored_key, SCRAM_KEY_SIZE),
	                        bytes_of(auth->keys.stored_key, SCRAM_KEY_SIZE)) ||
	    auth->late_failure)
		return refuse_wrong(auth, err);
	verifiers_keep(auth->who.verifiers, auth->derived);
	return admit(auth);
}

static enum auth_server_result check_scram_secret(struct auth_server *auth, struct err *err)
{
	struct scram_verifier verifier;
	enum auth_server_result result;

	if (!scram_verifier_parse(auth->secret.text, &verifier))
		return refuse_password(auth, err, "the user's SCRAM secret is malformed");
	memcpy(auth->keys.stored_key, verifier.stored_key, SCRAM_KEY_SIZE);
	result = derive(auth, auth->password, bytes_of(verifier.salt, verifier.salt_count),
	                verifier.iterations, DERIVED_PRIVATE, STATE_WORK, err);
	return result == AUTH_SERVER_OK ? check_derived(auth, err) : result;
}

static bool same_text(const char *a, const char *b)
{
	return bytes_equal_secret(bytes_text(a), bytes_text(b));
}

static bool matches_md5(const struct auth_server *auth, const char *password)
{
	char secret[MD5_TEXT_SIZE];

	return digest_md5(bytes_text(password), bytes_text(auth->who.user), secret) &&
	       same_text(secret, auth->secret.text);
}

static enum auth_server_result read_password(struct auth_server *auth, struct bytes body,
                                             struct buf *out, struct err *err)
{
	const char *password;
	bool fits;

	(void)out;
	if (fields_text(body, &password) != WIRE_OK)
		return refuse(auth, err, ERR_PROTOCOL, "invalid password packet",
		              "malformed password packet");
	if (!*password)
		return refuse_for(auth, err, ERR_PASSWORD, CLOSE_EMPTY_PASSWORD, "empty password");
	auth->password = strdup(password);
	if (!auth->password)
		return refuse_memory(auth, err);
	if (row_of(auth->who.method)->is_outside)
		return ask_outside(auth);
	if (auth->secret.kind == SECRET_SCRAM)
		return check_scram_secret(auth, err);
	fits = auth->secret.kind == SECRET_MD5 ? matches_md5(auth, password)
	                                       : same_text(password, auth->secret.text);
	return fits && !auth->late_failure ? admit(auth) : refuse_wrong(auth, err);
}

/* ---- md5 ---- */

static enum auth_server_result ask_md5(struct auth_server *auth, struct buf *out, struct err *err)
{
	if (!digest_random(auth->md5_salt, sizeof(auth->md5_salt)))
		return refuse_for(auth, err, ERR_INTERNAL, CLOSE_AUTH_PASSWORD, "no random bytes");
	message_auth(out, AUTH_MD5, bytes_of(auth->md5_salt, 4));
	enter(auth, STATE_MD5);
	return AUTH_SERVER_MORE;
}

static enum auth_server_result read_md5(struct auth_server *auth, struct bytes body,
                                        struct buf *out, struct err *err)
{
	char expected[MD5_TEXT_SIZE];
	const char *given;

	(void)out;
	if (fields_text(body, &given) != WIRE_OK)
		return refuse(auth, err, ERR_PROTOCOL, "invalid password packet",
		              "malformed password packet");
	if (!digest_md5_answer(auth->secret.text,
	                       auth->secret.kind == SECRET_PLAIN ? auth->who.user : NULL,
	                       bytes_of(auth->md5_salt, 4), expected))
		return refuse_for(auth, err, ERR_INTERNAL, CLOSE_AUTH_PASSWORD,
		                  "the crypto library has no MD5");
	return same_text(given, expected) && !auth->late_failure ? admit(auth)
	                                                         : refuse_wrong(auth, err);
}

/*
 * ---- SCRAM ----
 *
 * Authentication by SCRAM: carries the computations of scram.c in protocol messages.
 *
 * Hard here: the keys of a plain secret are derived between the client's proof and our answer;
 * until then the exchange is in STATE_SASL_WORK. If the keys are cached, a correct proof needs
 * no derivation. A wrong proof then still waits for one, so that it takes as long as that of an
 * unknown user.
 */

/* `why` is the error of scram.c. */
static enum auth_server_result refuse_sasl(struct auth_server *auth, struct err *err,
                                           const struct err *why)
{
	return refuse_for(auth, err, why->code, CLOSE_AUTH_SASL, why->text);
}

static enum auth_server_result ask_sasl(struct auth_server *auth, struct buf *out)
{
	static const char *const mechanisms[] = { SCRAM_PLUS_MECHANISM, SCRAM_MECHANISM };
	bool has_plus = auth->scram.binding_count > 0;

	auth->who.method = AUTH_METHOD_SCRAM;
	if (!auth->late_failure && auth->secret.kind == SECRET_MD5)
		auth->late_failure = "the user has an md5 secret, with which SCRAM is not possible";
	message_auth_sasl(out, has_plus ? mechanisms : mechanisms + 1, has_plus ? 2 : 1);
	enter(auth, STATE_SASL_FIRST);
	return AUTH_SERVER_MORE;
}

/* Chooses salt and iterations to offer; for a SCRAM secret also the keys. */
static bool choose_salt(struct auth_server *auth)
{
	struct scram_verifier *offer = &auth->offer;

	if (auth->secret.kind == SECRET_SCRAM) {
		if (!scram_verifier_parse(auth->secret.text, offer))
			return false;
		memcpy(auth->keys.stored_key, offer->stored_key, SCRAM_KEY_SIZE);
		memcpy(auth->keys.server_key, offer->server_key, SCRAM_KEY_SIZE);
		return true;
	}
	offer->salt_count = SCRAM_SALT_SIZE;
	offer->iterations = auth->who.iterations;
	return verifiers_salt(auth->who.verifiers, auth->who.user, auth->secret.text, offer->salt);
}

static struct bytes offered_salt(const struct auth_server *auth)
{
	return bytes_of(auth->offer.salt, auth->offer.salt_count);
}

static enum auth_server_result read_client_first(struct auth_server *auth, struct bytes body,
                                                 struct buf *out, struct err *err)
{
	struct buf first = { 0 };
	const char *mechanism;
	struct bytes data;
	struct err why;
	bool ok;

	if (fields_sasl_initial(body, &mechanism, &data) != WIRE_OK || !data.at)
		return refuse_for(auth, err, ERR_PROTOCOL, CLOSE_AUTH_SASL,
		                  "malformed SASLInitialResponse");
	auth->scram.is_plus =
	    auth->scram.binding_count > 0 && bytes_are(bytes_text(mechanism), SCRAM_PLUS_MECHANISM);
	if (!auth->scram.is_plus && !bytes_are(bytes_text(mechanism), SCRAM_MECHANISM))
		return refuse(auth, err, ERR_PROTOCOL,
		              "client selected an invalid SASL authentication mechanism",
		              "invalid SASL mechanism");
	if (!choose_salt(auth))
		return refuse_for(auth, err, ERR_INTERNAL, CLOSE_AUTH_SASL, "no salt for the user");
	ok = scram_server_first(&auth->scram, data, offered_salt(auth), auth->offer.iterations,
	                        &first, &why);
	if (ok) {
		message_auth(out, AUTH_SASL_CONTINUE, buf_bytes(&first));
		enter(auth, STATE_SASL_FINAL);
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
		message_auth(out, AUTH_SASL_FINAL, buf_bytes(&final));
	buf_free(&final);
	return ok ? admit(auth) : refuse_sasl(auth, err, &why);
}

/* Checks the client's proof with the derived keys of the plain secret. */
static enum auth_server_result check_derived_proof(struct auth_server *auth, struct buf *out,
                                                   struct err *err)
{
	const struct scram_keys *keys = derived_keys(auth->derived);

	if (!keys)
		return refuse_for(auth, err, ERR_INTERNAL, CLOSE_AUTH_SASL,
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
		return refuse_for(auth, err, ERR_INTERNAL, CLOSE_AUTH_SASL, "no random bytes");
	return derive(auth, auth->secret.text, bytes_of(salt, sizeof(salt)), auth->who.iterations,
	              DERIVED_PRIVATE, STATE_SASL_WORK, err);
}

static enum auth_server_result check_at_once(struct auth_server *auth, struct buf *out,
                                             struct err *err)
{
	const struct scram_keys *keys = derived_keys(auth->derived);
	unsigned char client_key[SCRAM_KEY_SIZE];
	struct err why;
	bool ok = scram_server_check(&auth->scram, keys->stored_key, client_key, &why);

	secret_wipe(client_key, sizeof(client_key));
	return ok ? check_derived_proof(auth, out, err) : work_in_vain(auth, err);
}

static enum auth_server_result read_client_final(struct auth_server *auth, struct bytes body,
                                                 struct buf *out, struct err *err)
{
	enum auth_server_result result;
	struct err why;

	if (!scram_server_read(&auth->scram, body, &why))
		return refuse_sasl(auth, err, &why);
	if (auth->secret.kind == SECRET_SCRAM)
		return check_proof(auth, out, err);
	result = derive(auth, auth->secret.text, offered_salt(auth), auth->who.iterations,
	                DERIVED_SHARED, STATE_SASL_WORK, err);
	return result == AUTH_SERVER_OK ? check_at_once(auth, out, err) : result;
}

/* ---- creation and end ---- */

static const char *late_failure_of(const struct auth_server_who *who)
{
	if (row_of(who->method)->is_outside)
		return NULL;
	if (!who->secret)
		return "no such user";
	if (who->secret->kind == SECRET_NONE)
		return "the user has no password";
	return NULL;
}

static struct auth_server *make(const struct auth_server_who *who, const char *secret)
{
	struct auth_server *auth = calloc(1, sizeof(*auth));
	struct auth_server_who *own;
	struct bytes rest;

	if (!auth)
		return NULL;
	own = &auth->who;
	*own = *who;
	own->secret = NULL;
	own->like = NULL;
	own->users = NULL;
	own->binding = (struct bytes){ 0 };
	auth->is_known = who->secret != NULL;
	auth->late_failure = late_failure_of(who);
	scram_bind(&auth->scram, who->binding);
	auth->texts.is_secret = true;
	buf_add_cstr(&auth->texts, secret);
	buf_add_cstr(&auth->texts, who->user);
	buf_add_cstr(&auth->texts, who->options ? who->options : "");
	buf_add_cstr(&auth->texts, who->host ? who->host : "");
	rest = buf_bytes(&auth->texts);
	if (buf_ok(&auth->texts) && bytes_take_text(&rest, &secret) &&
	    bytes_take_text(&rest, &own->user) && bytes_take_text(&rest, &own->options) &&
	    bytes_take_text(&rest, &own->host))
		auth->secret = users_secret_of(secret);
	else
		auth_server_free(&auth);
	return auth;
}

static bool compares_secret(enum auth_method method)
{
	return row_of(method)->question != AUTH_ASKS_NOTHING && !row_of(method)->is_outside;
}

struct auth_server *auth_server_new(const struct auth_server_who *who)
{
	const char *secret = who->secret && who->secret->text ? who->secret->text : "";
	struct auth_server *auth = NULL;
	struct buf mock = { 0 };

	/* HBA means that a rule names the method; REJECT needs no exchange. */
	assert(who->method != AUTH_METHOD_HBA && who->method != AUTH_METHOD_REJECT);
	if (!late_failure_of(who) || !compares_secret(who->method))
		return make(who, secret);
	if (mock_secret(who->verifiers, who->like, who->users, who->user, &mock))
		auth = make(who, buf_text(&mock));
	buf_wipe(&mock);
	return auth;
}

void auth_server_free(struct auth_server **auth)
{
	struct auth_server *old = *auth;

	*auth = NULL;
	if (!old)
		return;
	auth_work_drop(&old->work);
	derived_release(&old->derived);
	secret_free(&old->password);
	scram_done(&old->scram);
	buf_wipe(&old->texts);
	secret_wipe(old, sizeof(*old));
	free(old);
}

const char *auth_server_reason(const struct auth_server *auth) { return auth->reason; }

const char *auth_server_method_name(const struct auth_server *auth)
{
	return row_of(auth->who.method)->name;
}

const char *auth_server_options(const struct auth_server *auth) { return auth->who.options; }

/* ---- start ---- */

/* No question: the user must be known, and verified if the method has a verifier. */
static enum auth_server_result judge_unasked(struct auth_server *auth, struct err *err)
{
	const struct auth_method_row *row = row_of(auth->who.method);

	if (!auth->is_known && !row->takes_anybody)
		return refuse_for(auth, err, ERR_NOT_ALLOWED, row->refusal, auth->late_failure);
	if (!auth->who.is_proven && row->voucher != AUTH_NO_VOUCHER)
		return refuse_for(auth, err, ERR_NOT_ALLOWED, row->refusal,
		                  "the name is not this user's");
	return admit(auth);
}

enum auth_server_result auth_server_start(struct auth_server *auth, struct buf *out,
                                          struct err *err)
{
	switch (row_of(auth->who.method)->question) {
	case AUTH_ASKS_NOTHING:
		return judge_unasked(auth, err);
	case AUTH_ASKS_PASSWORD:
		message_auth(out, AUTH_CLEARTEXT, bytes_of("", 0));
		enter(auth, STATE_PASSWORD);
		return AUTH_SERVER_MORE;
	case AUTH_ASKS_MD5:
		if (auth->secret.kind != SECRET_SCRAM)
			return ask_md5(auth, out, err);
		break;
	case AUTH_ASKS_SCRAM:
		break;
	}
	return ask_sasl(auth, out);
}

/* Handles the client's answer in each state. NULL: no answer is expected in this state. */
static enum auth_server_result (*const on_answer[STATES])(struct auth_server *auth,
                                                          struct bytes body, struct buf *out,
                                                          struct err *err) = {
	[STATE_PASSWORD] = read_password,
	[STATE_MD5] = read_md5,
	[STATE_SASL_FIRST] = read_client_first,
	[STATE_SASL_FINAL] = read_client_final,
};

enum auth_server_result auth_server_answer(struct auth_server *auth, struct bytes body,
                                           struct buf *out, struct err *err)
{
	if (!on_answer[auth->state])
		return refuse(auth, err, ERR_PROTOCOL, "unexpected password packet",
		              "unexpected password message");
	return on_answer[auth->state](auth, body, out, err);
}

enum auth_server_result auth_server_resume(struct auth_server *auth, struct buf *out,
                                           struct err *err)
{
	assert(auth->state == STATE_WORK || auth->state == STATE_SASL_WORK ||
	       auth->state == STATE_OUTSIDE);
	if (auth->state == STATE_OUTSIDE)
		return check_outside(auth, err);
	return auth->state == STATE_WORK ? check_derived(auth, err)
	                                 : check_derived_proof(auth, out, err);
}

/* ---- after the exchange ---- */

bool auth_server_is_by(const struct auth_server *auth, const struct secret *secret)
{
	const char *text = secret->text ? secret->text : "";

	return bytes_equal_secret(bytes_text(auth->secret.text), bytes_text(text));
}

/* Takes over the keys that the client's proof has revealed. */
static bool take_keys(const struct auth_server *auth, struct credentials *credentials)
{
	struct scram_challenge made_for = { auth->offer.iterations, auth->offer.salt_count, "" };

	memcpy(made_for.salt, auth->offer.salt, made_for.salt_count);
	credentials->keys = malloc(sizeof(*credentials->keys));
	if (!credentials->keys || !credentials_set_made_for(credentials, &made_for)) {
		credentials_done(credentials);
		return false;
	}
	*credentials->keys = auth->keys;
	credentials->kind = CREDENTIALS_KEYS;
	return true;
}

bool auth_server_credentials(const struct auth_server *auth, struct credentials *credentials)
{
	struct secret sent = { SECRET_PLAIN, auth->password };

	credentials->is_shown = true;
	if (row_of(auth->who.method)->is_outside && auth->password)
		return credentials_from_secret(credentials, &sent);
	/* logged in without a secret of its own; the mock secret must not be used */
	if (auth->late_failure)
		return true;
	if (auth->secret.kind != SECRET_PLAIN && auth->password)
		return credentials_from_secret(credentials, &sent);
	if (auth->secret.kind == SECRET_SCRAM && auth->who.method == AUTH_METHOD_SCRAM)
		return take_keys(auth, credentials);
	credentials->is_shown = false;
	return credentials_from_secret(credentials, &auth->secret);
}
