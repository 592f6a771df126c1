/* SPDX-License-Identifier: ISC */
/*
 * Entry: a client proves who it is.
 *
 *   start --> password ----------------> (work) --> ended
 *         --> password ----------------> (outside) -> ended
 *         --> md5 --------------------------------> ended
 *         --> sasl first --> sasl final -> (work) -> ended
 *
 * Hard here: whoever cannot come in (no such user, no secret, an md5 secret
 * under SCRAM) must see the same exchange as everybody else, up to its end.
 * Such an entry is "doomed": it has a reason from the start, and a mock secret, and
 * the reason counts only when all the work is done.
 */
#include "entry_priv.h"

#include <assert.h>
#include <stdlib.h>

#include "pgweir/auth/mock.h"
#include "pgweir/base/text.h"
#include "pgweir/pgwire/message.h"

#include "pgweir/base/banned.h"

#define TO(state) (1u << (state))

static const struct entry_step {
	unsigned int next; /* TO() of each state that may follow */
	enum entry_result (*on_answer)(struct entry *entry, struct bytes body, struct buf *out,
	                               struct err *err);
} steps[STATES] = {
	[STATE_START] = { TO(STATE_PASSWORD) | TO(STATE_MD5) | TO(STATE_SASL_FIRST) |
	                      TO(STATE_ENDED),
	                  NULL },
	[STATE_PASSWORD] = { TO(STATE_WORK) | TO(STATE_OUTSIDE) | TO(STATE_ENDED),
	                     entry_read_password },
	[STATE_MD5] = { TO(STATE_ENDED), entry_read_md5 },
	[STATE_SASL_FIRST] = { TO(STATE_SASL_FINAL) | TO(STATE_ENDED), entry_read_client_first },
	[STATE_SASL_FINAL] = { TO(STATE_SASL_WORK) | TO(STATE_ENDED), entry_read_client_final },
	[STATE_WORK] = { TO(STATE_ENDED), NULL },
	[STATE_SASL_WORK] = { TO(STATE_ENDED), NULL },
	[STATE_OUTSIDE] = { TO(STATE_ENDED), NULL },
	[STATE_ENDED] = { 0, NULL },
};

void entry_enter(struct entry *entry, enum entry_state next)
{
	assert(steps[entry->state].next & TO(next));
	entry->state = next;
}

enum entry_result entry_refuse(struct entry *entry, struct err *err, enum err_code code,
                               const char *words, const char *reason)
{
	entry_enter(entry, STATE_ENDED);
	text_copy(entry->reason, sizeof(entry->reason), reason);
	err_set(err, code, "%s", words);
	return ENTRY_REFUSED;
}

enum entry_result entry_refuse_memory(struct entry *entry, struct err *err)
{
	return entry_refuse(entry, err, ERR_MEMORY, "out of memory", "out of memory");
}

enum entry_result entry_accept(struct entry *entry)
{
	entry_enter(entry, STATE_ENDED);
	return ENTRY_OK;
}

/* ---- a life ---- */

static bool is_outside(enum entry_method method)
{
	return method == ENTRY_PAM || method == ENTRY_LDAP;
}

static const char *doom_of(const struct entry_who *who)
{
	if (is_outside(who->method))
		return NULL;
	if (!who->secret)
		return "no such user";
	if (who->secret->kind == SECRET_NONE)
		return "the user has no password";
	return NULL;
}

static void on_outside(void *arg)
{
	struct entry *entry = arg;

	entry->on_work(entry->arg);
}

static bool make_outside(struct entry *entry, const struct entry_who *who)
{
	if (!is_outside(who->method))
		return true;
	entry->deadline = who->deadline;
	entry->outside = outside_new(&(struct outside_who){
	    .method = who->method == ENTRY_PAM ? OUTSIDE_PAM : OUTSIDE_LDAP,
	    .user = who->user,
	    .options = who->options,
	    .host = who->host,
	    .on_done = on_outside,
	    .arg = entry,
	});
	return entry->outside;
}

static struct entry *make(const struct entry_who *who, const char *secret)
{
	size_t secret_size = strlen(secret) + 1, user_size = strlen(who->user) + 1;
	struct entry *entry = calloc(1, sizeof(*entry) + secret_size + user_size);

	if (!entry)
		return NULL;
	entry->method = who->method;
	entry->verifiers = who->verifiers;
	entry->on_work = who->on_work;
	entry->arg = who->arg;
	entry->iterations = who->iterations;
	entry->is_known = who->secret != NULL;
	entry->is_proven = who->is_proven;
	entry->doom = doom_of(who);
	entry->text_count = secret_size + user_size;
	memcpy(entry->texts, secret, secret_size);
	memcpy(entry->texts + secret_size, who->user, user_size);
	entry->user = entry->texts + secret_size;
	entry->secret = secret_of(entry->texts);
	scram_bind(&entry->scram, who->binding);
	if (!make_outside(entry, who))
		entry_free(&entry);
	return entry;
}

static bool asks_for_secret(enum entry_method method)
{
	return method == ENTRY_PLAIN || method == ENTRY_MD5 || method == ENTRY_SCRAM;
}

struct entry *entry_new(const struct entry_who *who)
{
	const char *secret = who->secret && who->secret->text ? who->secret->text : "";
	struct entry *entry = NULL;
	struct buf mock = { 0 };

	if (!doom_of(who) || !asks_for_secret(who->method))
		return make(who, secret);
	if (mock_secret(who->verifiers, who->users, who->user, &mock))
		entry = make(who, buf_text(&mock));
	buf_wipe(&mock);
	return entry;
}

void entry_free(struct entry **entry)
{
	struct entry *old = *entry;

	*entry = NULL;
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

const char *entry_reason(const struct entry *entry) { return entry->reason; }

const char *entry_method_name(const struct entry *entry)
{
	static const char *const names[] = {
		[ENTRY_TRUST] = "trust",         [ENTRY_ANY] = "any",
		[ENTRY_PLAIN] = "plain",         [ENTRY_MD5] = "md5",
		[ENTRY_SCRAM] = "scram-sha-256", [ENTRY_PEER] = "peer",
		[ENTRY_CERT] = "cert",           [ENTRY_PAM] = "pam",
		[ENTRY_LDAP] = "ldap",
	};

	return names[entry->method];
}

/* ---- the first word ---- */

/* Somebody else has looked at who it is. */
static enum entry_result judge_proven(struct entry *entry, const char *words, struct err *err)
{
	if (!entry->is_known)
		return entry_refuse(entry, err, ERR_NOT_ALLOWED, words, entry->doom);
	if (!entry->is_proven)
		return entry_refuse(entry, err, ERR_NOT_ALLOWED, words,
		                    "the name is not this user's");
	return entry_accept(entry);
}

enum entry_result entry_start(struct entry *entry, struct buf *out, struct err *err)
{
	switch (entry->method) {
	case ENTRY_ANY:
		return entry_accept(entry);
	case ENTRY_TRUST:
		if (!entry->is_known)
			return entry_refuse(entry, err, ERR_NOT_ALLOWED,
			                    "\"trust\" authentication failed", entry->doom);
		return entry_accept(entry);
	case ENTRY_PEER:
		return judge_proven(entry, "unix socket login rejected", err);
	case ENTRY_CERT:
		return judge_proven(entry, "certificate authentication failed", err);
	case ENTRY_PLAIN:
	case ENTRY_PAM:
	case ENTRY_LDAP:
		message_auth_cleartext(out);
		entry_enter(entry, STATE_PASSWORD);
		return ENTRY_MORE;
	case ENTRY_MD5:
		return entry->secret.kind == SECRET_SCRAM ? entry_ask_sasl(entry, out)
		                                          : entry_ask_md5(entry, out, err);
	default:
		return entry_ask_sasl(entry, out);
	}
}

enum entry_result entry_answer(struct entry *entry, struct bytes body, struct buf *out,
                               struct err *err)
{
	if (!steps[entry->state].on_answer)
		return entry_refuse(entry, err, ERR_PROTOCOL, "unexpected password packet",
		                    "a password packet that nobody asked for");
	return steps[entry->state].on_answer(entry, body, out, err);
}

/* ---- work ---- */

enum entry_result entry_derive(struct entry *entry, const char *password, struct bytes salt,
                               unsigned int iterations, enum derived_keep keep,
                               enum entry_state state, struct err *err)
{
	const char *owner = entry->doom ? NULL : entry->user;

	/* Of who cannot come in nothing is kept: each try costs as much as the first. */
	if (entry->doom)
		keep = DERIVED_PRIVATE;
	entry->derived = verifiers_ask(entry->verifiers, owner, password, salt, iterations, keep);
	if (!entry->derived)
		return entry_refuse_memory(entry, err);
	if (derived_keys(entry->derived))
		return ENTRY_OK;
	if (!derived_job(entry->derived, password, &entry->job, entry->on_work, entry->arg))
		return entry_refuse_memory(entry, err);
	entry_enter(entry, state);
	return ENTRY_WORK;
}

struct job *entry_job(struct entry *entry)
{
	if (entry->outside)
		return outside_job(entry->outside);
	entry->is_submitted = true;
	return entry->job;
}

void entry_job_refused(struct entry *entry)
{
	if (entry->outside)
		outside_refused(entry->outside);
	derived_job_drop(&entry->job, false);
}

enum entry_result entry_resume(struct entry *entry, struct buf *out, struct err *err)
{
	assert(entry->state == STATE_WORK || entry->state == STATE_SASL_WORK ||
	       entry->state == STATE_OUTSIDE);
	if (entry->state == STATE_OUTSIDE)
		return entry_check_outside(entry, err);
	return entry->state == STATE_WORK ? entry_check_derived(entry, err)
	                                  : entry_check_derived_proof(entry, out, err);
}

/* ---- afterwards ---- */

bool entry_is_by(const struct entry *entry, const struct secret *secret)
{
	const char *text = secret->text ? secret->text : "";

	return bytes_equal_secret(bytes_text(entry->secret.text), bytes_text(text));
}

/* The keys that its proof has revealed. */
static bool take_keys(const struct entry *entry, struct credentials *credentials)
{
	struct scram_verifier verifier;
	struct scram_challenge made_for;

	if (!scram_verifier_parse(entry->secret.text, &verifier))
		return false;
	made_for.iterations = verifier.iterations;
	made_for.salt_count = verifier.salt_count;
	memcpy(made_for.salt, verifier.salt, verifier.salt_count);
	credentials->keys = malloc(sizeof(*credentials->keys));
	if (!credentials->keys || !credentials_set_made_for(credentials, &made_for)) {
		credentials_done(credentials);
		return false;
	}
	*credentials->keys = entry->keys;
	credentials->kind = CREDENTIALS_KEYS;
	return true;
}

bool entry_credentials(const struct entry *entry, struct credentials *credentials)
{
	struct secret sent = { SECRET_PLAIN, entry->password };

	credentials->is_shown = true;
	if (entry->outside && entry->password)
		return credentials_from_secret(credentials, &sent);
	if (entry->doom) /* it came in without a secret; the mock one is good for nothing */
		return true;
	if (entry->secret.kind != SECRET_PLAIN && entry->password)
		return credentials_from_secret(credentials, &sent);
	if (entry->secret.kind == SECRET_SCRAM && entry->method == ENTRY_SCRAM)
		return take_keys(entry, credentials);
	credentials->is_shown = false;
	return credentials_from_secret(credentials, &entry->secret);
}
