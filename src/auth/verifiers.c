/* SPDX-License-Identifier: ISC */
/*
 * The cache of derivations. They are found by a keyed hash.
 *
 * All loops share it. The lock is held only while the table is used; hashes of passwords are
 * computed before. It is never taken on the way of a query: only logins need it.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "pgweir/auth/derived.h"
#include "pgweir/auth/digest.h"
#include "pgweir/base/lock.h"
#include "pgweir/base/refs.h"
#include "pgweir/base/table.h"
#include "pgweir/base/text.h"

enum outcome { OUTCOME_NONE, OUTCOME_KEYS, OUTCOME_FAILED };

struct derived {
	UT_hash_handle hh; /* while it is cached */
	unsigned char id[SHA256_SIZE];
	struct refs refs;
	struct scram_keys keys; /* valid once there is an outcome */
	pthread_mutex_t lock;   /* held during the derivation */
	_Atomic enum outcome outcome;
	unsigned int iterations;
	size_t salt_count;
	unsigned char salt[];
};

/*
 * ---- one derivation, on a helper thread ----
 *
 *   verifiers --holds--> derived <--holds-- auth_server, auth_client, auth_work
 *
 * Hard here: when many clients reconnect, many want the same derivation at the same time. Each
 * submits a job, but all jobs share one `struct derived`. Its lock lets the first job do the
 * work, and the others find it done. Clients of several loops may hold it, so its references
 * are counted atomically.
 */

/* Returns a derivation that is not done yet; the caller owns one reference. NULL: no memory. */
static struct derived *derived_new(const unsigned char id[SHA256_SIZE], struct bytes salt,
                                   unsigned int iterations)
{
	struct derived *derived = calloc(1, sizeof(*derived) + salt.count);

	if (!derived)
		return NULL;
	memcpy(derived->id, id, SHA256_SIZE);
	memcpy(derived->salt, salt.at, salt.count);
	derived->salt_count = salt.count;
	derived->iterations = iterations;
	lock_init(&derived->lock);
	return derived;
}

static void derived_free(struct derived *derived)
{
	pthread_mutex_destroy(&derived->lock);
	secret_wipe(&derived->keys, sizeof(derived->keys));
	free(derived);
}

REFS_FUNCTIONS(derived_hold, derived_release, struct derived, derived_free)

const struct scram_keys *derived_keys(const struct derived *derived)
{
	return atomic_load(&derived->outcome) == OUTCOME_KEYS ? &derived->keys : NULL;
}

void derived_run(struct derived *derived, const char *password)
{
	bool ok;

	LOCKED(&derived->lock);
	if (atomic_load(&derived->outcome) == OUTCOME_NONE) {
		ok = scram_derive(password, bytes_of(derived->salt, derived->salt_count),
		                  derived->iterations, &derived->keys);
		atomic_store(&derived->outcome, ok ? OUTCOME_KEYS : OUTCOME_FAILED);
	}
}

/* ---- the cache of derivations ---- */

struct verifiers {
	unsigned char key[SHA256_SIZE]; /* random key of this process, for salts and ids */
	size_t limit;
	pthread_mutex_t lock; /* guards the field below */
	struct derived *kept; /* sorted by last use */
};

struct verifiers *verifiers_new(size_t limit, struct err *err)
{
	struct verifiers *verifiers = err_calloc(sizeof(*verifiers), "out of memory", err);

	if (!verifiers)
		return NULL;
	if (!digest_random(verifiers->key, sizeof(verifiers->key))) {
		err_set(err, ERR_INTERNAL, "no random bytes from the crypto library");
		free(verifiers);
		return NULL;
	}
	verifiers->limit = limit;
	lock_init(&verifiers->lock);
	return verifiers;
}

/* The lock must be held. */
static void forget_derived(struct verifiers *verifiers, struct derived *derived)
{
	HASH_DEL(verifiers->kept, derived);
	derived_release(&derived);
}

void verifiers_forget(struct verifiers *verifiers)
{
	struct derived *derived, *next;

	LOCKED(&verifiers->lock);
	HASH_ITER (hh, verifiers->kept, derived, next)
		forget_derived(verifiers, derived);
}

void verifiers_free(struct verifiers **verifiers)
{
	if (!*verifiers)
		return;
	verifiers_forget(*verifiers);
	pthread_mutex_destroy(&(*verifiers)->lock);
	secret_wipe(*verifiers, sizeof(**verifiers));
	free(*verifiers);
	*verifiers = NULL;
}

size_t verifiers_count(struct verifiers *verifiers)
{
	LOCKED(&verifiers->lock);
	return HASH_COUNT(verifiers->kept);
}

/* ---- keyed hashes ---- */

/* HMAC over the parts, each behind its length: different lists never have the same text. */
static bool hash_parts(const struct verifiers *verifiers, const struct bytes *parts, size_t count,
                       unsigned char out[SHA256_SIZE])
{
	struct buf text = { 0 };
	bool ok;

	for (size_t i = 0; i < count; i++) {
		buf_add_be32(&text, (uint32_t)parts[i].count);
		buf_add(&text, parts[i].at, parts[i].count);
	}
	ok = buf_ok(&text) &&
	     digest_hmac(bytes_of(verifiers->key, sizeof(verifiers->key)), buf_bytes(&text), out);
	buf_wipe(&text);
	return ok;
}

bool verifiers_salt(const struct verifiers *verifiers, const char *user, const char *secret,
                    unsigned char salt[SCRAM_SALT_SIZE])
{
	struct bytes parts[] = { bytes_text(secret ? "salt" : "mock"), bytes_text(user),
		                 bytes_text(secret ? secret : "") };
	unsigned char hash[SHA256_SIZE];

	if (!hash_parts(verifiers, parts, 3, hash))
		return false;
	memcpy(salt, hash, SCRAM_SALT_SIZE);
	return true;
}

/* Bytes for the mock secret of an unknown user; they look random. */
static bool mock(const struct verifiers *verifiers, const char *what, const char *user,
                 unsigned char out[SHA256_SIZE])
{
	struct bytes parts[] = { bytes_text("mock secret"), bytes_text(what), bytes_text(user) };

	return hash_parts(verifiers, parts, 3, out);
}

/* The lock must be held. */
static void keep_derived(struct verifiers *verifiers, struct derived *derived)
{
	struct derived *same;

	HASH_FIND(hh, verifiers->kept, derived->id, SHA256_SIZE, same);
	if (same)
		return;
	if (verifiers->kept && HASH_COUNT(verifiers->kept) >= verifiers->limit)
		forget_derived(verifiers,
		               verifiers->kept); /* the head is the least recently used */
	derived_hold(derived);
	HASH_ADD(hh, verifiers->kept, id, SHA256_SIZE, derived);
}

void verifiers_keep(struct verifiers *verifiers, struct derived *derived)
{
	LOCKED(&verifiers->lock);
	keep_derived(verifiers, derived);
}

/* Finds a cached derivation and marks it as the last used. The lock must be held. */
static struct derived *find_derived(struct verifiers *verifiers,
                                    const unsigned char id[SHA256_SIZE])
{
	struct derived *derived;

	HASH_FIND(hh, verifiers->kept, id, SHA256_SIZE, derived);
	if (!derived)
		return NULL;
	if (atomic_load(&derived->outcome) == OUTCOME_FAILED) { /* a failed one is tried again */
		forget_derived(verifiers, derived);
		return NULL;
	}
	HASH_DEL(verifiers->kept, derived);
	HASH_ADD(hh, verifiers->kept, id, SHA256_SIZE, derived);
	return derived;
}

struct derived *verifiers_ask(struct verifiers *verifiers, const char *password, struct bytes salt,
                              unsigned int iterations, enum derived_keep keep)
{
	struct bytes parts[] = { bytes_text("keys"), bytes_text(password), salt,
		                 bytes_of(&iterations, sizeof(iterations)) };
	unsigned char id[SHA256_SIZE];
	struct derived *derived;

	if (!hash_parts(verifiers, parts, 4, id))
		return NULL;
	/* One lock for both: clients of two loops that need it at the same time share it too. */
	LOCKED(&verifiers->lock);
	derived = find_derived(verifiers, id);
	if (derived)
		return derived_hold(derived);
	derived = derived_new(id, salt, iterations);
	if (derived && keep == DERIVED_SHARED)
		keep_derived(verifiers, derived);
	return derived;
}

/* ---- mock secrets ---- */

#define HEX_BYTES 16 /* as many as an MD5 hash has */

static bool add_verifier(const struct verifiers *verifiers, const char *user,
                         const struct mock_form *like, struct buf *out)
{
	struct scram_verifier verifier = { .made_for = { .iterations = like->iterations,
		                                         .salt_count = like->salt_count } };
	unsigned char salt[SHA256_SIZE];

	if (!mock(verifiers, "salt", user, salt) ||
	    !mock(verifiers, "stored", user, verifier.keys.stored_key) ||
	    !mock(verifiers, "server", user, verifier.keys.server_key))
		return false;
	for (size_t i = 0; i < like->salt_count; i++)
		verifier.made_for.salt[i] = salt[i % sizeof(salt)];
	scram_verifier_text(&verifier, out);
	return true;
}

struct mock_form mock_form_of(const struct secret *secret)
{
	struct scram_verifier verifier;

	if (secret->kind == SECRET_SCRAM && scram_verifier_parse(secret->text, &verifier))
		return (struct mock_form){ SECRET_SCRAM, verifier.made_for.iterations,
			                   verifier.made_for.salt_count };
	return (struct mock_form){ .kind = secret->kind };
}

bool mock_secret(const struct verifiers *verifiers, const struct mock_form *like,
                 const struct users *users, const char *user, struct buf *out)
{
	struct mock_form form = { .kind = SECRET_PLAIN };
	unsigned char hash[SHA256_SIZE];
	char hex[2 * HEX_BYTES + 1];
	const struct user *one;

	if (!mock(verifiers, "user", user, hash))
		return false;
	one = users && !like ? users_any(users, load_be32(hash)) : NULL;
	if (like || one)
		form = like ? *like : mock_form_of(&one->secret);
	if (form.kind == SECRET_SCRAM)
		return add_verifier(verifiers, user, &form, out) && buf_ok(out);
	if (form.kind == SECRET_MD5)
		buf_add_text(out, "md5");
	if (!mock(verifiers, "secret", user, hash))
		return false;
	text_hex(hex, hash, HEX_BYTES);
	buf_add_text(out, hex);
	return buf_ok(out);
}

/* ---- work on a helper thread ---- */

static void done(struct job *job)
{
	struct auth_work *work = (struct auth_work *)job;

	_Static_assert(offsetof(struct auth_work, job) == 0, "jobs are found by it");
	work->is_running = false;
	if (work->is_dropped)
		work->free_object(work);
	else if (!job->is_abandoned)
		work->runner.on_work(work->runner.arg);
}

bool auth_work_begin(struct auth_work *work, void (*run)(struct job *job), bool is_slow)
{
	work->job = (struct job){ .run = run, .done = done };
	work->is_running = work->runner.submit(work->runner.arg, &work->job, is_slow);
	return work->is_running;
}

void auth_work_drop(struct auth_work *work)
{
	if (!work)
		return;
	work->is_dropped = true;
	if (work->is_running)
		workers_abandon(&work->job);
	else
		work->free_object(work);
}
