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
#include "pgweir/auth/entry.h"

#include <assert.h>
#include <stdlib.h>

#include "pgweir/auth/mock.h"
#include "pgweir/auth/outside.h"
#include "pgweir/base/text.h"
#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/message.h"

#include "pgweir/base/banned.h"

#define REASON_SIZE 200

static const char password_failed[] = "password authentication failed";
static const char sasl_failed[] = "SASL authentication failed";

enum entry_state {
	STATE_START,
	STATE_PASSWORD,   /* asked for the password itself */
	STATE_MD5,        /* asked for an answer to .md5_salt */
	STATE_SASL_FIRST, /* offered SCRAM: client-first comes */
	STATE_SASL_FINAL, /* sent server-first: client-final comes */
	STATE_WORK,       /* keys of the password it sent are derived */
	STATE_SASL_WORK,  /* keys of its plain secret are derived */
	STATE_OUTSIDE,    /* the password it sent is judged outside */
	STATE_ENDED,
	STATES
};

struct entry {
	enum entry_state state;
	enum entry_method method;
	struct verifiers *verifiers;
	void (*on_work)(void *arg);
	void *arg;
	struct secret secret; /* a mock one of who has none */
	bool is_known;
	bool is_proven;
	const char *doom; /* why it cannot come in by any password; NULL = it can */
	char reason[REASON_SIZE];
	unsigned char md5_salt[4];
	unsigned char salt[SCRAM_SALT_SIZE]; /* of a plain secret */
	unsigned int iterations;
	struct scram scram;
	struct scram_keys keys; /* STATE_SASL_*: the user's, client_key only at the end */
	char *password;         /* what the client sent in the clear */
	struct derived *derived;
	struct job *job; /* see derived_job() */
	bool is_submitted;
	struct outside *outside; /* PAM, LDAP */
	usec_t deadline;
	const char *user;
	size_t text_count;
	char texts[]; /* secret and user */
};

#define TO(state) (1u << (state))

static enum entry_result read_password(struct entry *entry, struct bytes body, struct buf *out,
                                       struct err *err);
static enum entry_result read_md5(struct entry *entry, struct bytes body, struct buf *out,
                                  struct err *err);
static enum entry_result read_client_first(struct entry *entry, struct bytes body, struct buf *out,
                                           struct err *err);
static enum entry_result read_client_final(struct entry *entry, struct bytes body, struct buf *out,
                                           struct err *err);

static const struct entry_step {
	unsigned int next; /* TO() of each state that may follow */
	enum entry_result (*on_answer)(struct entry *entry, struct bytes body, struct buf *out,
	                               struct err *err);
} steps[STATES] = {
	[STATE_START] = { TO(STATE_PASSWORD) | TO(STATE_MD5) | TO(STATE_SASL_FIRST) |
	                      TO(STATE_ENDED),
	                  NULL },
	[STATE_PASSWORD] = { TO(STATE_WORK) | TO(STATE_OUTSIDE) | TO(STATE_ENDED), read_password },
	[STATE_MD5] = { TO(STATE_ENDED), read_md5 },
	[STATE_SASL_FIRST] = { TO(STATE_SASL_FINAL) | TO(STATE_ENDED), read_client_first },
	[STATE_SASL_FINAL] = { TO(STATE_SASL_WORK) | TO(STATE_ENDED), read_client_final },
	[STATE_WORK] = { TO(STATE_ENDED), NULL },
	[STATE_SASL_WORK] = { TO(STATE_ENDED), NULL },
	[STATE_OUTSIDE] = { TO(STATE_ENDED), NULL },
	[STATE_ENDED] = { 0, NULL },
};

/* The only place that writes entry->state. */
static void enter(struct entry *entry, enum entry_state next)
{
	assert(steps[entry->state].next & TO(next));
	entry->state = next;
}

static enum entry_result refuse(struct entry *entry, struct err *err, enum err_code code,
                                const char *words, const char *reason)
{
	enter(entry, STATE_ENDED);
	text_copy(entry->reason, sizeof(entry->reason), reason);
	err_set(err, code, "%s", words);
	return ENTRY_REFUSED;
}

static enum entry_result refuse_memory(struct entry *entry, struct err *err)
{
	return refuse(entry, err, ERR_MEMORY, "out of memory", "out of memory");
}

static enum entry_result refuse_password(struct entry *entry, struct err *err, const char *reason)
{
	return refuse(entry, err, ERR_PASSWORD, password_failed, reason);
}

/* `why` is what scram.c said. */
static enum entry_result refuse_sasl(struct entry *entry, struct err *err, const struct err *why)
{
	return refuse(entry, err, why->code, sasl_failed, why->text);
}

static enum entry_result accept(struct entry *entry)
{
	enter(entry, STATE_ENDED);
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

static enum entry_result ask_sasl(struct entry *entry, struct buf *out)
{
	static const char *const mechanisms[] = { SCRAM_PLUS_MECHANISM, SCRAM_MECHANISM };
	bool has_plus = entry->scram.binding_count > 0;

	entry->method = ENTRY_SCRAM;
	if (!entry->doom && entry->secret.kind == SECRET_MD5)
		entry->doom = "the user has an md5 secret, with which SCRAM is not possible";
	message_auth_sasl(out, has_plus ? mechanisms : mechanisms + 1, has_plus ? 2 : 1);
	enter(entry, STATE_SASL_FIRST);
	return ENTRY_MORE;
}

static enum entry_result ask_md5(struct entry *entry, struct buf *out, struct err *err)
{
	if (!digest_random(entry->md5_salt, sizeof(entry->md5_salt)))
		return refuse(entry, err, ERR_INTERNAL, password_failed, "no random bytes");
	message_auth_md5(out, entry->md5_salt);
	enter(entry, STATE_MD5);
	return ENTRY_MORE;
}

/* Somebody else has looked at who it is. */
static enum entry_result judge_proven(struct entry *entry, const char *words, struct err *err)
{
	if (!entry->is_known)
		return refuse(entry, err, ERR_NOT_ALLOWED, words, entry->doom);
	if (!entry->is_proven)
		return refuse(entry, err, ERR_NOT_ALLOWED, words, "the name is not this user's");
	return accept(entry);
}

enum entry_result entry_start(struct entry *entry, struct buf *out, struct err *err)
{
	switch (entry->method) {
	case ENTRY_ANY:
		return accept(entry);
	case ENTRY_TRUST:
		if (!entry->is_known)
			return refuse(entry, err, ERR_NOT_ALLOWED,
			              "\"trust\" authentication failed", entry->doom);
		return accept(entry);
	case ENTRY_PEER:
		return judge_proven(entry, "unix socket login rejected", err);
	case ENTRY_CERT:
		return judge_proven(entry, "certificate authentication failed", err);
	case ENTRY_PLAIN:
	case ENTRY_PAM:
	case ENTRY_LDAP:
		message_auth_cleartext(out);
		enter(entry, STATE_PASSWORD);
		return ENTRY_MORE;
	case ENTRY_MD5:
		return entry->secret.kind == SECRET_SCRAM ? ask_sasl(entry, out)
		                                          : ask_md5(entry, out, err);
	default:
		return ask_sasl(entry, out);
	}
}

enum entry_result entry_answer(struct entry *entry, struct bytes body, struct buf *out,
                               struct err *err)
{
	if (!steps[entry->state].on_answer)
		return refuse(entry, err, ERR_PROTOCOL, "unexpected password packet",
		              "a password packet that nobody asked for");
	return steps[entry->state].on_answer(entry, body, out, err);
}

/* ---- work ---- */

/*
 * Sees to the keys of `password`. ENTRY_OK: they are there; ENTRY_WORK: they
 * will be, and `state` has been entered.
 */
static enum entry_result derive(struct entry *entry, const char *password, struct bytes salt,
                                unsigned int iterations, enum derived_keep keep,
                                enum entry_state state, struct err *err)
{
	const char *owner = entry->doom ? NULL : entry->user;

	entry->derived = verifiers_ask(entry->verifiers, owner, password, salt, iterations, keep);
	if (!entry->derived)
		return refuse_memory(entry, err);
	if (derived_keys(entry->derived))
		return ENTRY_OK;
	if (!derived_job(entry->derived, password, &entry->job, entry->on_work, entry->arg))
		return refuse_memory(entry, err);
	enter(entry, state);
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

/* ---- the password itself, and md5 ---- */

static enum entry_result refuse_wrong(struct entry *entry, struct err *err)
{
	return refuse_password(entry, err, entry->doom ? entry->doom : "wrong password");
}

static enum entry_result ask_outside(struct entry *entry, struct err *err)
{
	if (!outside_ask(entry->outside, entry->password, entry->deadline))
		return refuse_memory(entry, err);
	enter(entry, STATE_OUTSIDE);
	return ENTRY_WORK;
}

static enum entry_result check_outside(struct entry *entry, struct err *err)
{
	const char *words =
	    entry->method == ENTRY_PAM ? "PAM authentication failed" : "LDAP authentication failed";

	if (outside_answer(entry->outside) == OUTSIDE_YES)
		return accept(entry);
	return refuse(entry, err, ERR_NOT_ALLOWED, words, outside_reason(entry->outside));
}

/* The password was sent in the clear and the secret is a SCRAM one: do its keys fit? */
static enum entry_result check_derived(struct entry *entry, struct err *err)
{
	const struct scram_keys *keys = derived_keys(entry->derived);

	if (!keys)
		return refuse(entry, err, ERR_INTERNAL, password_failed, "key derivation failed");
	if (!bytes_equal_secret(bytes_of(keys->stored_key, SCRAM_KEY_SIZE),
	                        bytes_of(entry->keys.stored_key, SCRAM_KEY_SIZE)) ||
	    entry->doom)
		return refuse_wrong(entry, err);
	derived_keep(entry->verifiers, entry->derived);
	return accept(entry);
}

static enum entry_result check_scram_secret(struct entry *entry, struct err *err)
{
	struct scram_verifier verifier;
	enum entry_result result;

	if (!scram_verifier_parse(entry->secret.text, &verifier))
		return refuse_password(entry, err, "the user's SCRAM secret is malformed");
	memcpy(entry->keys.stored_key, verifier.stored_key, SCRAM_KEY_SIZE);
	result = derive(entry, entry->password, bytes_of(verifier.salt, verifier.salt_count),
	                verifier.iterations, DERIVED_PRIVATE, STATE_WORK, err);
	return result == ENTRY_OK ? check_derived(entry, err) : result;
}

static bool same_text(const char *a, const char *b)
{
	return bytes_equal_secret(bytes_text(a), bytes_text(b));
}

static bool matches_md5(const struct entry *entry, const char *password)
{
	char secret[MD5_TEXT_SIZE];

	return digest_md5(bytes_text(password), bytes_text(entry->user), secret) &&
	       same_text(secret, entry->secret.text);
}

static enum entry_result read_password(struct entry *entry, struct bytes body, struct buf *out,
                                       struct err *err)
{
	const char *password;
	bool fits;

	(void)out;
	if (fields_text(body, &password) != WIRE_OK)
		return refuse(entry, err, ERR_PROTOCOL, "invalid password packet",
		              "malformed password packet");
	if (!*password)
		return refuse(entry, err, ERR_PASSWORD, "empty password returned by client",
		              "empty password");
	entry->password = strdup(password);
	if (!entry->password)
		return refuse_memory(entry, err);
	if (entry->outside)
		return ask_outside(entry, err);
	if (entry->secret.kind == SECRET_SCRAM)
		return check_scram_secret(entry, err);
	fits = entry->secret.kind == SECRET_MD5 ? matches_md5(entry, password)
	                                        : same_text(password, entry->secret.text);
	return fits && !entry->doom ? accept(entry) : refuse_wrong(entry, err);
}

/* What an honest client would answer to .md5_salt. */
static bool md5_expected(const struct entry *entry, char out[MD5_TEXT_SIZE])
{
	const char *secret = entry->secret.text;
	char made[MD5_TEXT_SIZE];
	bool ok;

	if (entry->secret.kind == SECRET_PLAIN) {
		if (!digest_md5(bytes_text(secret), bytes_text(entry->user), made))
			return false;
		secret = made;
	}
	ok = digest_md5(bytes_of(secret + 3, 32), bytes_of(entry->md5_salt, 4), out);
	secret_wipe(made, sizeof(made));
	return ok;
}

static enum entry_result read_md5(struct entry *entry, struct bytes body, struct buf *out,
                                  struct err *err)
{
	char expected[MD5_TEXT_SIZE];
	const char *given;

	(void)out;
	if (fields_text(body, &given) != WIRE_OK)
		return refuse(entry, err, ERR_PROTOCOL, "invalid password packet",
		              "malformed password packet");
	if (!md5_expected(entry, expected))
		return refuse(entry, err, ERR_INTERNAL, password_failed,
		              "the crypto library has no MD5");
	return same_text(given, expected) && !entry->doom ? accept(entry)
	                                                  : refuse_wrong(entry, err);
}

/* ---- SCRAM ---- */

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

static enum entry_result read_client_first(struct entry *entry, struct bytes body, struct buf *out,
                                           struct err *err)
{
	struct scram_verifier verifier;
	struct buf first = { 0 };
	const char *mechanism;
	struct bytes data;
	struct err why;
	bool ok;

	if (fields_sasl_initial(body, &mechanism, &data) != WIRE_OK || !data.at)
		return refuse(entry, err, ERR_PROTOCOL, sasl_failed,
		              "malformed SASLInitialResponse");
	entry->scram.is_plus = entry->scram.binding_count > 0 &&
	                       bytes_are(bytes_text(mechanism), SCRAM_PLUS_MECHANISM);
	if (!entry->scram.is_plus && !bytes_are(bytes_text(mechanism), SCRAM_MECHANISM))
		return refuse(entry, err, ERR_PROTOCOL,
		              "client selected an invalid SASL authentication mechanism",
		              "invalid SASL mechanism");
	if (!choose_salt(entry, &verifier))
		return refuse(entry, err, ERR_INTERNAL, sasl_failed, "no salt for the user");
	ok = scram_server_first(&entry->scram, data, bytes_of(verifier.salt, verifier.salt_count),
	                        verifier.iterations, &first, &why);
	if (ok) {
		message_auth_sasl_continue(out, buf_bytes(&first));
		enter(entry, STATE_SASL_FINAL);
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
	return ok ? accept(entry) : refuse_sasl(entry, err, &why);
}

static enum entry_result check_derived_proof(struct entry *entry, struct buf *out, struct err *err)
{
	const struct scram_keys *keys = derived_keys(entry->derived);

	if (!keys)
		return refuse(entry, err, ERR_INTERNAL, sasl_failed, "key derivation failed");
	entry->keys = *keys;
	return check_proof(entry, out, err);
}

static enum entry_result read_client_final(struct entry *entry, struct bytes body, struct buf *out,
                                           struct err *err)
{
	enum entry_result result;
	struct err why;

	if (!scram_server_read(&entry->scram, body, &why))
		return refuse_sasl(entry, err, &why);
	if (entry->secret.kind == SECRET_SCRAM)
		return check_proof(entry, out, err);
	result = derive(entry, entry->secret.text, bytes_of(entry->salt, sizeof(entry->salt)),
	                entry->iterations, DERIVED_SHARED, STATE_SASL_WORK, err);
	return result == ENTRY_OK ? check_derived_proof(entry, out, err) : result;
}

enum entry_result entry_resume(struct entry *entry, struct buf *out, struct err *err)
{
	assert(entry->state == STATE_WORK || entry->state == STATE_SASL_WORK ||
	       entry->state == STATE_OUTSIDE);
	if (entry->state == STATE_OUTSIDE)
		return check_outside(entry, err);
	return entry->state == STATE_WORK ? check_derived(entry, err)
	                                  : check_derived_proof(entry, out, err);
}

/* ---- what a server can be entered with ---- */

bool entry_credentials(const struct entry *entry, struct credentials *credentials)
{
	struct secret sent = { SECRET_PLAIN, entry->password };

	if (entry->outside && entry->password)
		return credentials_from_secret(credentials, &sent);
	if (entry->doom) /* it came in without a secret; the mock one is good for nothing */
		return true;
	if (entry->secret.kind != SECRET_PLAIN && entry->password)
		return credentials_from_secret(credentials, &sent);
	if (entry->secret.kind != SECRET_SCRAM || entry->method != ENTRY_SCRAM)
		return credentials_from_secret(credentials, &entry->secret);
	credentials->keys = malloc(sizeof(*credentials->keys));
	if (!credentials->keys)
		return false;
	*credentials->keys = entry->keys;
	credentials->kind = CREDENTIALS_KEYS;
	return true;
}
