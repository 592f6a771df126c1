/* SPDX-License-Identifier: ISC */
/*
 * The cache of derivations. They are found by a keyed hash.
 *
 * All loops share it. The lock is held only while the table is used; hashes of passwords are
 * computed before. It is never taken on the way of a query: only logins need it.
 */
#include "derived_priv.h"

#include <stdlib.h>

#include "pgweir/auth/secret.h"

#include "pgweir/base/banned.h"

struct verifiers {
	unsigned char key[SHA256_SIZE]; /* random key of this process, for salts and ids */
	size_t limit;
	pthread_mutex_t lock; /* guards the field below */
	struct derived *kept; /* sorted by last use */
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
	pthread_mutex_init(&verifiers->lock, NULL);
	return verifiers;
}

/* The lock must be held. */
static void forget_derived(struct verifiers *verifiers, struct derived *derived)
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
		forget_derived(*verifiers, derived);
	pthread_mutex_destroy(&(*verifiers)->lock);
	secret_wipe(*verifiers, sizeof(**verifiers));
	free(*verifiers);
	*verifiers = NULL;
}

size_t verifiers_count(struct verifiers *verifiers)
{
	size_t count;

	pthread_mutex_lock(&verifiers->lock);
	count = HASH_COUNT(verifiers->kept);
	pthread_mutex_unlock(&verifiers->lock);
	return count;
}

/* ---- keyed hashes ---- */

/*
 * HMAC over the parts. The length of each part precedes it, so that different lists of parts
 * never have the same text.
 */
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

/* ---- the cache ---- */

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
	derived_hold(derived)->is_kept = true;
	HASH_ADD(hh, verifiers->kept, id, SHA256_SIZE, derived);
}

void verifiers_keep(struct verifiers *verifiers, struct derived *derived)
{
	pthread_mutex_lock(&verifiers->lock);
	keep_derived(verifiers, derived);
	pthread_mutex_unlock(&verifiers->lock);
}

/* Finds a cached derivation and marks it as the last used. The lock must be held. */
static struct derived *find_derived(struct verifiers *verifiers,
                                    const unsigned char id[SHA256_SIZE])
{
	struct derived *derived;

	HASH_FIND(hh, verifiers->kept, id, SHA256_SIZE, derived);
	if (!derived)
		return NULL;
	HASH_DEL(verifiers->kept, derived);
	if (atomic_load(&derived->outcome) == OUTCOME_FAILED) { /* a failed one is tried again */
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
	/* One lock for both: clients of two loops that need it at the same time share it too. */
	pthread_mutex_lock(&verifiers->lock);
	derived = find_derived(verifiers, id);
	if (derived) {
		derived_hold(derived);
	} else {
		derived = derived_new(id, user, salt, iterations);
		if (derived && keep == DERIVED_SHARED)
			keep_derived(verifiers, derived);
	}
	pthread_mutex_unlock(&verifiers->lock);
	return derived;
}

static bool same_salt(const struct derived *derived, const struct scram_verifier *verifier)
{
	return derived->iterations == verifier->iterations &&
	       bytes_equal(bytes_of(derived->salt, derived->salt_count),
	                   bytes_of(verifier->salt, verifier->salt_count));
}

/* Whether it was derived from the secret that this user has now. */
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

	pthread_mutex_lock(&verifiers->lock);
	HASH_ITER (hh, verifiers->kept, derived, next) {
		if (derived->user && !belongs(verifiers, derived, users_find(users, derived->user)))
			forget_derived(verifiers, derived);
	}
	pthread_mutex_unlock(&verifiers->lock);
}
