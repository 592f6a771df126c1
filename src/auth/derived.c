/* SPDX-License-Identifier: ISC */
/*
 * Derived keys: done once, kept by a keyed hash, worked out on helper threads.
 *
 *   verifiers --holds--> derived <--holds-- entry, login, job
 *
 * Hard here: many may want the same derivation at once, when a crowd of clients
 * comes back. Each submits a job, but all jobs share one `struct derived`, whose
 * lock lets the first do the work and the others find it done. The references
 * are counted by the loop's thread alone: a job takes its own when it is made
 * and gives it back in done().
 */
#include "pgweir/auth/derived.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "pgweir/base/table.h"

#include "pgweir/base/banned.h"

enum outcome { OUTCOME_NONE, OUTCOME_KEYS, OUTCOME_FAILED };

struct derived {
	UT_hash_handle hh; /* while it is kept */
	unsigned char id[SHA256_SIZE];
	unsigned long reference_count;
	bool is_kept;
	char *user;             /* whose; NULL = nobody's */
	struct scram_keys keys; /* once there is an outcome */
	pthread_mutex_t lock;   /* held while the work is done */
	_Atomic enum outcome outcome;
	unsigned int iterations;
	size_t salt_count;
	unsigned char salt[];
};

struct verifiers {
	unsigned char key[SHA256_SIZE]; /* of this process; salts and ids are made with it */
	size_t limit;
	struct derived *kept; /* in the order of their last use */
};

struct work {
	struct job job; /* first */
	struct derived *derived;
	char *password;
	struct job **slot; /* where the owner keeps it; NULL: the owner has gone */
	void (*on_done)(void *arg);
	void *arg;
};

struct verifiers *verifiers_new(size_t limit, struct err *err)
{
	struct verifiers *verifiers = calloc(1, sizeof(*verifiers));

	if (!verifiers) {
		err_set(err, ERR_MEMORY, "out of memory");
		return NULL;
	}
	if (!digest_random(verifiers->key, sizeof(verifiers->key))) {
		err_set(err, ERR_INTERNAL, "no random bytes from the crypto library");
		free(verifiers);
		return NULL;
	}
	verifiers->limit = limit;
	return verifiers;
}

static void forget(struct verifiers *verifiers, struct derived *derived)
{
	HASH_DEL(verifiers->kept, derived);
	derived->is_kept = false;
	derived_release(&derived);
}

void verifiers_free(struct verifiers **verifiers)
{
	struct derived *derived, *next;

	if (!*verifiers)
		return;
	HASH_ITER (hh, (*verifiers)->kept, derived, next)
		forget(*verifiers, derived);
	secret_wipe(*verifiers, sizeof(**verifiers));
	free(*verifiers);
	*verifiers = NULL;
}

size_t verifiers_count(const struct verifiers *verifiers) { return HASH_COUNT(verifiers->kept); }

/* ---- keyed hashes ---- */

/* HMAC over the parts, each with its length before it, so that no two lists of parts are alike. */
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

bool verifiers_mock(const struct verifiers *verifiers, const char *what, const char *user,
                    unsigned char out[SHA256_SIZE])
{
	struct bytes parts[] = { bytes_text("mock secret"), bytes_text(what), bytes_text(user) };

	return hash_parts(verifiers, parts, 3, out);
}

static bool make_id(const struct verifiers *verifiers, const char *password, struct bytes salt,
                    unsigned int iterations, unsigned char id[SHA256_SIZE])
{
	struct bytes parts[] = { bytes_text("keys"), bytes_text(password), salt,
		                 bytes_of(&iterations, sizeof(iterations)) };

	return hash_parts(verifiers, parts, 4, id);
}

/* ---- what is kept ---- */

static struct derived *derived_new(const unsigned char id[SHA256_SIZE], const char *user,
                                   struct bytes salt, unsigned int iterations)
{
	struct derived *derived = calloc(1, sizeof(*derived) + salt.count);

	if (!derived)
		return NULL;
	if (user && !(derived->user = strdup(user))) {
		free(derived);
		return NULL;
	}
	memcpy(derived->id, id, SHA256_SIZE);
	memcpy(derived->salt, salt.at, salt.count);
	derived->salt_count = salt.count;
	derived->iterations = iterations;
	derived->reference_count = 1;
	pthread_mutex_init(&derived->lock, NULL);
	return derived;
}

static struct derived *hold(struct derived *derived)
{
	derived->reference_count++;
	return derived;
}

void derived_release(struct derived **derived)
{
	struct derived *old = *derived;

	*derived = NULL;
	if (!old || --old->reference_count > 0)
		return;
	pthread_mutex_destroy(&old->lock);
	free(old->user);
	secret_wipe(&old->keys, sizeof(old->keys));
	free(old);
}

void derived_keep(struct verifiers *verifiers, struct derived *derived)
{
	struct derived *same;

	HASH_FIND(hh, verifiers->kept, derived->id, SHA256_SIZE, same);
	if (same)
		return;
	if (verifiers->kept && HASH_COUNT(verifiers->kept) >= verifiers->limit)
		forget(verifiers, verifiers->kept); /* the head is the longest unused */
	hold(derived)->is_kept = true;
	HASH_ADD(hh, verifiers->kept, id, SHA256_SIZE, derived);
}

/* Finds it and puts it at the end of the line of those that may be forgotten. */
static struct derived *find(struct verifiers *verifiers, const unsigned char id[SHA256_SIZE])
{
	struct derived *derived;

	HASH_FIND(hh, verifiers->kept, id, SHA256_SIZE, derived);
	if (!derived)
		return NULL;
	HASH_DEL(verifiers->kept, derived);
	if (atomic_load(&derived->outcome) == OUTCOME_FAILED) { /* perhaps it works this time */
		derived->is_kept = false;
		derived_release(&derived);
		return NULL;
	}
	HASH_ADD(hh, verifiers->kept, id, SHA256_SIZE, derived);
	return derived;
}

struct derived *verifiers_ask(struct verifiers *verifiers, const char *user, const char *password,
                              struct bytes salt, unsigned int iterations, enum derived_keep keep)
{
	unsigned char id[SHA256_SIZE];
	struct derived *derived;

	if (!make_id(verifiers, password, salt, iterations, id))
		return NULL;
	derived = find(verifiers, id);
	if (derived)
		return hold(derived);
	derived = derived_new(id, user, salt, iterations);
	if (derived && keep == DERIVED_SHARED)
		derived_keep(verifiers, derived);
	return derived;
}

static bool same_salt(const struct derived *derived, const struct scram_verifier *verifier)
{
	return derived->iterations == verifier->iterations &&
	       bytes_equal(bytes_of(derived->salt, derived->salt_count),
	                   bytes_of(verifier->salt, verifier->salt_count));
}

/* Whether it was made of the secret that this user has today. */
static bool belongs(const struct verifiers *verifiers, const struct derived *derived,
                    const struct user *user)
{
	struct bytes salt = bytes_of(derived->salt, derived->salt_count);
	const struct scram_keys *keys = derived_keys(derived);
	struct scram_verifier verifier;
	unsigned char id[SHA256_SIZE];

	if (!user)
		return false;
	if (user->secret.kind == SECRET_PLAIN)
		return make_id(verifiers, user->secret.text, salt, derived->iterations, id) &&
		       memcmp(id, derived->id, SHA256_SIZE) == 0;
	return user->secret.kind == SECRET_SCRAM && keys &&
	       scram_verifier_parse(user->secret.text, &verifier) &&
	       same_salt(derived, &verifier) &&
	       memcmp(verifier.stored_key, keys->stored_key, SCRAM_KEY_SIZE) == 0;
}

void verifiers_trim(struct verifiers *verifiers, const struct users *users)
{
	struct derived *derived, *next;

	HASH_ITER (hh, verifiers->kept, derived, next) {
		if (derived->user && !belongs(verifiers, derived, users_find(users, derived->user)))
			forget(verifiers, derived);
	}
}

const struct scram_keys *derived_keys(const struct derived *derived)
{
	return atomic_load(&derived->outcome) == OUTCOME_KEYS ? &derived->keys : NULL;
}

/* ---- the work ---- */

static void work_free(struct work *work)
{
	derived_release(&work->derived);
	secret_free(&work->password);
	free(work);
}

/* On a helper thread. */
static void work_run(struct job *job)
{
	struct work *work = (struct work *)job;
	struct derived *derived = work->derived;
	bool ok;

	pthread_mutex_lock(&derived->lock);
	if (atomic_load(&derived->outcome) == OUTCOME_NONE) {
		ok = scram_derive(work->password, bytes_of(derived->salt, derived->salt_count),
		                  derived->iterations, &derived->keys);
		atomic_store(&derived->outcome, ok ? OUTCOME_KEYS : OUTCOME_FAILED);
	}
	pthread_mutex_unlock(&derived->lock);
}

static void work_done(struct job *job)
{
	struct work *work = (struct work *)job;
	bool is_wanted = work->slot && !job->is_abandoned;
	void (*on_done)(void *arg) = work->on_done;
	void *arg = work->arg;

	if (work->slot)
		*work->slot = NULL;
	work_free(work);
	if (is_wanted)
		on_done(arg);
}

bool derived_job(struct derived *derived, const char *password, struct job **slot,
                 void (*on_done)(void *arg), void *arg)
{
	struct work *work = calloc(1, sizeof(*work));

	_Static_assert(offsetof(struct work, job) == 0, "work_run() counts on it");
	if (!work)
		return false;
	work->password = strdup(password);
	if (!work->password) {
		free(work);
		return false;
	}
	work->job.run = work_run;
	work->job.done = work_done;
	work->derived = hold(derived);
	work->slot = slot;
	work->on_done = on_done;
	work->arg = arg;
	*slot = &work->job;
	return true;
}

void derived_job_drop(struct job **slot, bool submitted)
{
	struct work *work = (struct work *)*slot;

	*slot = NULL;
	if (!work)
		return;
	work->slot = NULL;
	if (submitted) /* a helper thread may be looking at it right now */
		__atomic_store_n(&work->job.is_abandoned, true, __ATOMIC_RELAXED);
	else
		work_free(work);
}
