/* SPDX-License-Identifier: ISC */
/*
 *   start --> password ------------------------> (work) --> end
 *         --> md5 -----------------------------------------> end
 *         --> SASL, client-first --> client-final --> (work) --> end
 *
 * Where an exchange is, is which step comes next: on_answer or on_work.
 *
 * Hard here: a client that cannot log in (unknown user, no secret, an md5 secret with SCRAM)
 * must see the same exchange as all others, up to its end. Such an exchange fails late: it has
 * the reason from the start (late_failure) and uses a mock secret, and it fails only when all the
 * work has been done.
 */
#include "pgweir/auth/auth_server.h"

#include <assert.h>
#include <pwd.h>
#include <stdlib.h>

#include "pgweir/auth/digest.h"
#include "pgweir/base/text.h"
#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/message.h"

#define REASON_SIZE 200

/* A step of the exchange, with the body of the client's message; after work it is empty. */
typedef enum auth_server_result auth_step(struct auth_server *auth, struct bytes body,
                                          struct buf *out, struct err *err);

struct auth_server {
	struct auth_work work;      /* must be first */
	struct auth_server_who who; /* its texts are in `texts`; what is not kept is NULL */
	struct buf texts;
	auth_step *on_answer; /* takes the client's next message; NULL: none is expected */
	auth_step *on_work;   /* continues after the work; NULL: there was none */
	struct secret secret; /* the user's, or a mock secret if there is none */
	bool is_known;
	const char
	    *late_failure; /* why the client cannot log in with any password; NULL = it can */
	char reason[REASON_SIZE];
	unsigned char md5_salt[4];
	struct scram scram;
	/* SECRET_SCRAM: the secret. Another one, with SCRAM: what was offered, later also its keys
	 */
	struct scram_verifier verifier;
	char *password;          /* cleartext password sent by the client */
	struct derived *derived; /* from: */
	const char *derived_from;
	char *system_user; /* by who.uid; NULL: no such user */
	struct outside_question question;
	enum outside_answer answer;
};

static const struct auth_method_row *row_of(enum auth_method method)
{
	return &auth_methods[method];
}

/* ---- ends ---- */

/* Ends the exchange: `words` are for the client, `reason` is for the log. */
static enum auth_server_result refuse(struct auth_server *auth, struct err *err, enum err_code code,
                                      const char *words, const char *reason)
{
	auth->on_answer = NULL;
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
	auth->on_answer = NULL;
	return AUTH_SERVER_OK;
}

/* ---- work ---- */

static enum auth_server_result begin_work(struct auth_server *auth, void (*run)(struct job *job),
                                          auth_step *then)
{
	auth->on_answer = NULL;
	auth->on_work = then;
	return auth_work_begin(&auth->work, run, false) ? AUTH_SERVER_WORK : AUTH_SERVER_BUSY;
}

/* Called on a helper thread. */
static void run_derive(struct job *job)
{
	const struct auth_server *auth = (struct auth_server *)job;

	derived_run(auth->derived, auth->derived_from);
}

/* Gets the keys of `password`, by work if they are not cached, and does the step `then`. */
static enum auth_server_result derive(struct auth_server *auth, const char *password,
                                      const struct scram_challenge *challenge,
                                      enum derived_keep keep, auth_step *then, struct buf *out,
                                      struct err *err)
{
	/* Nothing is cached then: each attempt must cost as much as the first. */
	if (auth->late_failure)
		keep = DERIVED_PRIVATE;
	derived_release(&auth->derived);
	auth->derived = verifiers_ask(auth->who.verifiers, password, scram_salt(challenge),
	                              challenge->iterations, keep);
	auth->derived_from = password;
	if (!auth->derived)
		return refuse_memory(auth, err);
	if (derived_keys(auth->derived))
		return then(auth, (struct bytes){ 0 }, out, err);
	return begin_work(auth, run_derive, then);
}

/*
 * ---- a password: sent in cleartext, or hashed with a salt of ours (md5) ----
 *
 * Hard here: a cleartext password is compared with whatever kind of secret the user has. With a
 * SCRAM secret this needs a derivation, so the result comes later. PAM and LDAP check it
 * outside.
 */

static enum auth_server_result admit_if(struct auth_server *auth, bool fits, struct err *err)
{
	if (fits && !auth->late_failure)
		return admit(auth);
	return refuse_for(auth, err, ERR_PASSWORD, CLOSE_AUTH_PASSWORD,
	                  auth->late_failure ? auth->late_failure : "wrong password");
}

/* Called on a helper thread. */
static void run_outside(struct job *job)
{
	struct auth_server *auth = (struct auth_server *)job;
	struct outside_question *question = &auth->question;

	if (question->deadline && clock_now() >= question->deadline)
		auth->answer = auth_outside_reply(question, OUTSIDE_FAILED,
		                                  "it waited too long for a helper thread");
	else
		auth->answer = row_of(auth->who.method)->outside->judge(question);
}

static enum auth_server_result check_outside(struct auth_server *auth, struct bytes body,
                                             struct buf *out, struct err *err)
{
	(void)body;
	(void)out;
	if (auth->answer == OUTSIDE_YES)
		return admit(auth);
	return refuse_for(auth, err, ERR_NOT_ALLOWED, row_of(auth->who.method)->refusal,
	                  auth->question.reason);
}

/* Compares the derived keys of a cleartext password with the user's SCRAM secret. */
static enum auth_server_result check_derived(struct auth_server *auth, struct bytes body,
                                             struct buf *out, struct err *err)
{
	const struct scram_keys *keys = derived_keys(auth->derived);
	enum auth_server_result result;

	(void)body;
	(void)out;
	if (!keys)
		return refuse_for(auth, err, ERR_INTERNAL, CLOSE_AUTH_PASSWORD,
		                  "key derivation failed");
	result =
	    admit_if(auth,
	             bytes_equal_secret(bytes_of(keys->stored_key, SCRAM_KEY_SIZE),
	                                bytes_of(auth->verifier.keys.stored_key, SCRAM_KEY_SIZE)),
	             err);
	if (result == AUTH_SERVER_OK)
		verifiers_keep(auth->who.verifiers, auth->derived);
	return result;
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

static enum auth_server_result check_md5(struct auth_server *auth, const char *given,
                                         struct err *err)
{
	char expected[MD5_TEXT_SIZE];

	if (!digest_md5_answer(auth->secret.text,
	                       auth->secret.kind == SECRET_PLAIN ? auth->who.user : NULL,
	                       bytes_of(auth->md5_salt, 4), expected))
		return refuse_for(auth, err, ERR_INTERNAL, CLOSE_AUTH_PASSWORD,
		                  "the crypto library has no MD5");
	return admit_if(auth, same_text(given, expected), err);
}

static enum auth_server_result read_password(struct auth_server *auth, struct bytes body,
                                             struct buf *out, struct err *err)
{
	const char *password;

	if (fields_text(body, &password) != WIRE_OK)
		return refuse(auth, err, ERR_PROTOCOL, "invalid password packet",
		              "malformed password packet");
	if (row_of(auth->who.method)->question == AUTH_ASKS_MD5)
		return check_md5(auth, password, err);
	if (!*password)
		return refuse_for(auth, err, ERR_PASSWORD, CLOSE_EMPTY_PASSWORD, "empty password");
	auth->password = strdup(password);
	if (!auth->password)
		return refuse_memory(auth, err);
	if (row_of(auth->who.method)->outside) {
		auth->question = (struct outside_question){ .password = auth->password,
			                                    .user = auth->who.user,
			                                    .options = auth->who.options,
			                                    .host = auth->who.host,
			                                    .deadline = auth->who.deadline };
		return begin_work(auth, run_outside, check_outside);
	}
	if (auth->secret.kind == SECRET_SCRAM)
		return derive(auth, auth->password, &auth->verifier.made_for, DERIVED_PRIVATE,
		              check_derived, out, err);
	return admit_if(auth,
	                auth->secret.kind == SECRET_MD5 ? matches_md5(auth, password)
	                                                : same_text(password, auth->secret.text),
	                err);
}

static enum auth_server_result ask_md5(struct auth_server *auth, struct buf *out, struct err *err)
{
	if (!digest_random(auth->md5_salt, sizeof(auth->md5_salt)))
		return refuse_for(auth, err, ERR_INTERNAL, CLOSE_AUTH_PASSWORD, "no random bytes");
	message_auth(out, AUTH_MD5, bytes_of(auth->md5_salt, 4));
	auth->on_answer = read_password;
	return AUTH_SERVER_MORE;
}

/*
 * ---- SCRAM: the computations of scram.c in protocol messages ----
 *
 * Hard here: the keys of a plain secret are derived between the client's proof and our answer.
 * If the keys are cached, a correct proof needs no derivation. A wrong proof then still waits
 * for one, so that it takes as long as that of an unknown user.
 */

/* `why` is the error of scram.c. */
static enum auth_server_result refuse_sasl(struct auth_server *auth, struct err *err,
                                           const struct err *why)
{
	return refuse_for(auth, err, why->code, CLOSE_AUTH_SASL, why->text);
}

static enum auth_server_result check_derived_proof(struct auth_server *auth, struct bytes body,
                                                   struct buf *out, struct err *err);

/* Derives keys that are not used, to take the usual time; then the client is refused. */
static enum auth_server_result work_in_vain(struct auth_server *auth, struct buf *out,
                                            struct err *err)
{
	struct scram_challenge challenge = { auth->who.iterations, SCRAM_SALT_SIZE, "" };

	auth->late_failure = "the proof does not match the secret";
	if (!digest_random(challenge.salt, challenge.salt_count))
		return refuse_for(auth, err, ERR_INTERNAL, CLOSE_AUTH_SASL, "no random bytes");
	return derive(auth, auth->secret.text, &challenge, DERIVED_PRIVATE, check_derived_proof,
	              out, err);
}

/* Checks the client's proof: the keys are available. */
static enum auth_server_result check_proof(struct auth_server *auth, struct buf *out,
                                           struct err *err)
{
	struct buf final = { 0 };
	struct err why;
	bool ok = scram_server_check(&auth->scram, &auth->verifier.keys, &final, &why);

	if (auth->late_failure)
		ok = err_set(&why, ERR_PASSWORD, "%s", auth->late_failure);
	if (ok)
		message_auth(out, AUTH_SASL_FINAL, buf_bytes(&final));
	buf_free(&final);
	if (ok)
		return admit(auth);
	return auth->derived && !auth->on_work ? work_in_vain(auth, out, err)
	                                       : refuse_sasl(auth, err, &why);
}

/* Checks the client's proof with the derived keys of the plain secret. */
static enum auth_server_result check_derived_proof(struct auth_server *auth, struct bytes body,
                                                   struct buf *out, struct err *err)
{
	const struct scram_keys *keys = derived_keys(auth->derived);

	(void)body;
	if (!keys)
		return refuse_for(auth, err, ERR_INTERNAL, CLOSE_AUTH_SASL,
		                  "key derivation failed");
	auth->verifier.keys = *keys;
	return check_proof(auth, out, err);
}

static enum auth_server_result read_client_final(struct auth_server *auth, struct bytes body,
                                                 struct buf *out, struct err *err)
{
	struct err why;

	if (!scram_server_read(&auth->scram, body, &why))
		return refuse_sasl(auth, err, &why);
	if (auth->secret.kind == SECRET_SCRAM)
		return check_proof(auth, out, err);
	return derive(auth, auth->secret.text, &auth->verifier.made_for, DERIVED_SHARED,
	              check_derived_proof, out, err);
}

/* Chooses salt and iterations to offer, unless the secret has them. */
static bool choose_salt(struct auth_server *auth)
{
	struct scram_challenge *offer = &auth->verifier.made_for;

	if (auth->secret.kind == SECRET_SCRAM)
		return true;
	offer->salt_count = SCRAM_SALT_SIZE;
	offer->iterations = auth->who.iterations;
	return verifiers_salt(auth->who.verifiers, auth->who.user, auth->secret.text, offer->salt);
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
	ok = scram_server_first(&auth->scram, data, scram_salt(&auth->verifier.made_for),
	                        auth->verifier.made_for.iterations, &first, &why);
	if (ok) {
		message_auth(out, AUTH_SASL_CONTINUE, buf_bytes(&first));
		auth->on_answer = read_client_final;
	}
	buf_free(&first);
	return ok ? AUTH_SERVER_MORE : refuse_sasl(auth, err, &why);
}

static enum auth_server_result ask_sasl(struct auth_server *auth, struct buf *out)
{
	static const char *const mechanisms[] = { SCRAM_PLUS_MECHANISM, SCRAM_MECHANISM };
	bool has_plus = auth->scram.binding_count > 0;

	auth->who.method = AUTH_METHOD_SCRAM;
	if (!auth->late_failure && auth->secret.kind == SECRET_MD5)
		auth->late_failure = "the user has an md5 secret, with which SCRAM is not possible";
	message_auth_sasl(out, has_plus ? mechanisms : mechanisms + 1, has_plus ? 2 : 1);
	auth->on_answer = read_client_first;
	return AUTH_SERVER_MORE;
}

/* ---- creation and end ---- */

static const char *late_failure_of(const struct auth_server_who *who)
{
	if (row_of(who->method)->outside)
		return NULL;
	if (!who->secret)
		return "no such user";
	if (who->secret->kind == SECRET_NONE)
		return "the user has no password";
	return NULL;
}

static void free_object(struct auth_work *work)
{
	struct auth_server *auth = (struct auth_server *)work;

	derived_release(&auth->derived);
	secret_free(&auth->password);
	free(auth->system_user);
	scram_done(&auth->scram);
	buf_wipe(&auth->texts);
	secret_wipe(auth, sizeof(*auth));
	free(auth);
}

void auth_server_free(struct auth_server **auth)
{
	_Static_assert(offsetof(struct auth_server, work) == 0, "it is found by it");
	auth_work_drop((struct auth_work *)*auth);
	*auth = NULL;
}

static struct auth_server *make(const struct auth_server_who *who, const char *secret)
{
	struct auth_server *auth = calloc(1, sizeof(*auth));
	struct auth_server_who *own;
	struct bytes rest;

	if (!auth)
		return NULL;
	auth->work.runner = who->runner;
	auth->work.free_object = free_object;
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
	if (auth && auth->secret.kind == SECRET_SCRAM)
		scram_verifier_parse(secret, &auth->verifier);
	return auth;
}

struct auth_server *auth_server_new(const struct auth_server_who *who)
{
	const char *secret = who->secret && who->secret->text ? who->secret->text : "";
	struct auth_server *auth = NULL;
	struct buf mock = { 0 };

	/* HBA means that a rule names the method; REJECT needs no exchange. */
	assert(who->method != AUTH_METHOD_HBA && who->method != AUTH_METHOD_REJECT);
	if (!late_failure_of(who) || row_of(who->method)->question == AUTH_ASKS_NOTHING)
		return make(who, secret);
	if (mock_secret(who->verifiers, who->like, who->users, who->user, &mock))
		auth = make(who, buf_text(&mock));
	buf_wipe(&mock);
	return auth;
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

#define PASSWD_SIZE 65536 /* buffer for one entry of the user database */

/* Called on a helper thread: the user database may be on another machine. */
static void run_find_name(struct job *job)
{
	struct auth_server *auth = (struct auth_server *)job;
	struct passwd entry, *found = NULL;
	char *buffer = malloc(PASSWD_SIZE);

	if (buffer && getpwuid_r(auth->who.uid, &entry, buffer, PASSWD_SIZE, &found) == 0 && found)
		auth->system_user = strdup(entry.pw_name);
	free(buffer);
}

static enum auth_server_result check_name(struct auth_server *auth, struct bytes body,
                                          struct buf *out, struct err *err)
{
	(void)body;
	(void)out;
	auth->who.is_proven =
	    auth->system_user && auth->who.is_named(auth->who.runner.arg, auth->system_user);
	return judge_unasked(auth, err);
}

enum auth_server_result auth_server_start(struct auth_server *auth, struct buf *out,
                                          struct err *err)
{
	switch (row_of(auth->who.method)->question) {
	case AUTH_ASKS_NOTHING:
		if (row_of(auth->who.method)->voucher == AUTH_BY_SYSTEM_USER)
			return begin_work(auth, run_find_name, check_name);
		return judge_unasked(auth, err);
	case AUTH_ASKS_PASSWORD:
		message_auth(out, AUTH_CLEARTEXT, bytes_of("", 0));
		auth->on_answer = read_password;
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

enum auth_server_result auth_server_answer(struct auth_server *auth, struct bytes body,
                                           struct buf *out, struct err *err)
{
	if (auth->on_answer)
		return auth->on_answer(auth, body, out, err);
	return refuse(auth, err, ERR_PROTOCOL, "unexpected password packet",
	              "unexpected password message");
}

enum auth_server_result auth_server_resume(struct auth_server *auth, struct buf *out,
                                           struct err *err)
{
	assert(auth->on_work && !auth->work.is_running);
	return auth->on_work(auth, (struct bytes){ 0 }, out, err);
}

/* ---- after the exchange ---- */

bool auth_server_is_by(const struct auth_server *auth, const struct secret *secret)
{
	const char *text = secret->text ? secret->text : "";

	return bytes_equal_secret(bytes_text(auth->secret.text), bytes_text(text));
}

const struct credentials *auth_server_credentials(const struct auth_server *auth)
{
	struct secret sent = { SECRET_PLAIN, auth->password };

	if (row_of(auth->who.method)->outside && auth->password)
		return credentials_of_secret(&sent, true);
	/* logged in without a secret of its own; the mock secret must not be used */
	if (auth->late_failure)
		return NULL;
	if (auth->secret.kind != SECRET_PLAIN && auth->password)
		return credentials_of_secret(&sent, true);
	if (auth->secret.kind == SECRET_SCRAM && auth->who.method == AUTH_METHOD_SCRAM)
		return credentials_of_keys(&auth->verifier);
	return credentials_of_secret(&auth->secret, false);
}
