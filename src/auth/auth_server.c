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
#include "auth_server_priv.h"

#include <assert.h>
#include <stdlib.h>

#include "pgweir/auth/secret.h"
#include "pgweir/auth/mock.h"
#include "pgweir/pgwire/message.h"

#include "pgweir/base/banned.h"

/* ---- creation and end ---- */

static const struct auth_method_row *row_of(enum auth_method method)
{
	return &auth_methods[method];
}

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

static void on_outside(void *arg)
{
	struct auth_server *auth = arg;

	auth->on_work(auth->arg);
}

static bool make_outside(struct auth_server *auth, const struct auth_server_who *who)
{
	if (!row_of(who->method)->is_outside)
		return true;
	auth->deadline = who->deadline;
	auth->outside = outside_new(&(struct outside_who){
	    .method = who->method,
	    .user = who->user,
	    .options = who->options,
	    .host = who->host,
	    .on_done = on_outside,
	    .arg = auth,
	});
	return auth->outside;
}

static struct auth_server *make(const struct auth_server_who *who, const char *secret)
{
	size_t secret_size = strlen(secret) + 1, user_size = strlen(who->user) + 1;
	struct auth_server *auth = calloc(1, sizeof(*auth) + secret_size + user_size);

	if (!auth)
		return NULL;
	auth->method = who->method;
	auth->verifiers = who->verifiers;
	auth->on_work = who->on_work;
	auth->arg = who->arg;
	auth->iterations = who->iterations;
	auth->is_known = who->secret != NULL;
	auth->is_proven = who->is_proven;
	auth->late_failure = late_failure_of(who);
	auth->text_count = secret_size + user_size;
	memcpy(auth->texts, secret, secret_size);
	memcpy(auth->texts + secret_size, who->user, user_size);
	auth->user = auth->texts + secret_size;
	auth->secret = users_secret_of(auth->texts);
	scram_bind(&auth->scram, who->binding);
	if (!make_outside(auth, who))
		auth_server_free(&auth);
	return auth;
}

/* Whether the client's answer is compared with a secret of ours. */
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
	if (mock_secret(who->verifiers, who->users, who->user, &mock))
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
	derived_job_drop(&old->job, old->is_submitted);
	derived_release(&old->derived);
	outside_free(&old->outside);
	secret_free(&old->password);
	scram_done(&old->scram);
	secret_wipe(old, sizeof(*old) + old->text_count);
	free(old);
}

const char *auth_server_reason(const struct auth_server *auth) { return auth->reason; }

const char *auth_server_method_name(const struct auth_server *auth)
{
	return row_of(auth->method)->name;
}

/* ---- start ---- */

/*
 * A method without a question: the user must be known, and verified if the method has a
 * verifier.
 */
static enum auth_server_result judge_unasked(struct auth_server *auth, struct err *err)
{
	const struct auth_method_row *row = row_of(auth->method);

	if (!auth->is_known && !row->takes_anybody)
		return auth_server_refuse_for(auth, err, ERR_NOT_ALLOWED, row->refusal,
		                              auth->late_failure);
	if (!auth->is_proven && row->voucher != AUTH_NO_VOUCHER)
		return auth_server_refuse_for(auth, err, ERR_NOT_ALLOWED, row->refusal,
		                              "the name is not this user's");
	return auth_server_accept(auth);
}

enum auth_server_result auth_server_start(struct auth_server *auth, struct buf *out,
                                          struct err *err)
{
	switch (row_of(auth->method)->question) {
	case AUTH_ASKS_NOTHING:
		return judge_unasked(auth, err);
	case AUTH_ASKS_PASSWORD:
		message_auth_cleartext(out);
		auth_server_enter(auth, STATE_PASSWORD);
		return AUTH_SERVER_MORE;
	case AUTH_ASKS_MD5:
		if (auth->secret.kind != SECRET_SCRAM)
			return auth_server_ask_md5(auth, out, err);
		break;
	case AUTH_ASKS_SCRAM:
		break;
	}
	return auth_server_ask_sasl(auth, out);
}

/* Handles the client's answer in each state. NULL: no answer is expected in this state. */
static enum auth_server_result (*const on_answer[STATES])(struct auth_server *auth,
                                                          struct bytes body, struct buf *out,
                                                          struct err *err) = {
	[STATE_PASSWORD] = auth_server_read_password,
	[STATE_MD5] = auth_server_read_md5,
	[STATE_SASL_FIRST] = auth_server_read_client_first,
	[STATE_SASL_FINAL] = auth_server_read_client_final,
};

enum auth_server_result auth_server_answer(struct auth_server *auth, struct bytes body,
                                           struct buf *out, struct err *err)
{
	if (!on_answer[auth->state])
		return auth_server_refuse(auth, err, ERR_PROTOCOL, "unexpected password packet",
		                          "unexpected password message");
	return on_answer[auth->state](auth, body, out, err);
}

/* ---- deriving keys ---- */

struct job *auth_server_job(struct auth_server *auth)
{
	if (auth->outside)
		return outside_job(auth->outside);
	auth->is_submitted = true;
	return auth->job;
}

void auth_server_job_refused(struct auth_server *auth)
{
	if (auth->outside)
		outside_refused(auth->outside);
	derived_job_drop(&auth->job, false);
}

enum auth_server_result auth_server_resume(struct auth_server *auth, struct buf *out,
                                           struct err *err)
{
	assert(auth->state == STATE_WORK || auth->state == STATE_SASL_WORK ||
	       auth->state == STATE_OUTSIDE);
	if (auth->state == STATE_OUTSIDE)
		return auth_server_check_outside(auth, err);
	return auth->state == STATE_WORK ? auth_server_check_derived(auth, err)
	                                 : auth_server_check_derived_proof(auth, out, err);
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
	struct scram_verifier verifier;
	struct scram_challenge made_for;

	if (!scram_verifier_parse(auth->secret.text, &verifier))
		return false;
	made_for.iterations = verifier.iterations;
	made_for.salt_count = verifier.salt_count;
	memcpy(made_for.salt, verifier.salt, verifier.salt_count);
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
	if (auth->outside && auth->password)
		return credentials_from_secret(credentials, &sent);
	/* logged in without a secret of its own; the mock secret must not be used */
	if (auth->late_failure)
		return true;
	if (auth->secret.kind != SECRET_PLAIN && auth->password)
		return credentials_from_secret(credentials, &sent);
	if (auth->secret.kind == SECRET_SCRAM && auth->method == AUTH_METHOD_SCRAM)
		return take_keys(auth, credentials);
	credentials->is_shown = false;
	return credentials_from_secret(credentials, &auth->secret);
}
