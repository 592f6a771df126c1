/* SPDX-License-Identifier: ISC */
/*
 * Keys derived from passwords: the slow derivation is done once per password, on a helper
 * thread, and the keys are cached.
 *
 * It stores no password: keys are found by a keyed hash of password, salt and iteration count,
 * so if a secret has changed, nothing is found. The random key of the process is also what
 * salts are made from.
 *
 * Several loops share one `struct verifiers`: its functions may be called from any thread, but
 * for verifiers_new() and verifiers_free().
 */
#ifndef PGWEIR_AUTH_DERIVED_H
#define PGWEIR_AUTH_DERIVED_H

#include "pgweir/auth/scram.h"
#include "pgweir/auth/users.h"
#include "pgweir/loop/workers.h"

struct verifiers;

/* Caches at most `limit` derivations; the least recently used is dropped. NULL: *err says why. */
struct verifiers *verifiers_new(size_t limit, struct err *err);

/* Exchanges and jobs may live longer, but only to be freed. */
void verifiers_free(struct verifiers **verifiers);

/* After a reload: drops all keys, as users may be gone or have another secret. */
void verifiers_forget(struct verifiers *verifiers);

size_t verifiers_count(struct verifiers *verifiers);

/* The salt of a user: the same for the same name and secret. secret NULL: of an unknown user. */
bool verifiers_salt(const struct verifiers *verifiers, const char *user, const char *secret,
                    unsigned char salt[SCRAM_SALT_SIZE]);

/* One derivation, done or not. It counts its references. */
struct derived;

enum derived_keep {
	/* cached immediately: clients that need it at the same time share the work */
	DERIVED_SHARED,
	DERIVED_PRIVATE /* not cached until verifiers_keep(): the password may be wrong */
};

/* Returns the derivation of this password; the caller owns one reference. NULL: no memory. */
struct derived *verifiers_ask(struct verifiers *verifiers, const char *password, struct bytes salt,
                              unsigned int iterations, enum derived_keep keep);

/* The password was correct: caches a private derivation. */
void verifiers_keep(struct verifiers *verifiers, struct derived *derived);

/* Adds a reference and returns it; releases one and sets NULL. Both accept NULL. */
struct derived *derived_hold(struct derived *derived);
void derived_release(struct derived **derived);

/* Returns NULL if they have not been derived yet, or if that failed. */
const struct scram_keys *derived_keys(const struct derived *derived);

/* Derives the keys, unless that has been done. Slow: only on a helper thread. */
void derived_run(struct derived *derived, const char *password);

/*
 * ---- mock ----
 *
 * Secrets for an unknown user, or one without a password, so that the exchange and the work are
 * those of others. A mock secret imitates one of the users, selected by the name: the kind, and
 * for SCRAM the iteration count and the length of the salt. The same name gets the same one as
 * long as the process and the users are the same. It is made from the random key of the
 * process: no password matches it.
 */

struct mock_form {
	enum secret_kind kind;
	unsigned int iterations; /* these two: of SECRET_SCRAM */
	size_t salt_count;
};

struct mock_form mock_form_of(const struct secret *secret);

/*
 * like NULL: imitates one of the users. users NULL, or no user has a secret: a plain password.
 * false: no memory.
 */
bool mock_secret(const struct verifiers *verifiers, const struct mock_form *like,
                 const struct users *users, const char *user, struct buf *out);

/*
 * ---- work ----
 *
 * What a login needs of a helper thread: keys are derived from a password, PAM or an LDAP server
 * checks it, or the name of a system user is found.
 */

/* Who runs an exchange, and its threads. */
struct auth_runner {
	/* Submits a job. is_slow: threads must not wait for it. false: there are too many. */
	bool (*submit)(void *arg, struct job *job, bool is_slow);
	/* The work is over: called once, from the loop, unless the owner has ended. */
	void (*on_work)(void *arg);
	void *arg;
};

/*
 * The part of an object that lets a thread work with it. Its owner may drop the object at any time;
 * it then stays as long as the thread works, so that nothing has to be copied.
 */
struct auth_work {
	struct job job; /* must be first */
	struct auth_runner runner;
	void (*free_object)(struct auth_work *work);
	bool is_running, is_dropped;
};

/* The work must not be running. false: there are too many jobs; on_work() will not be called. */
bool auth_work_begin(struct auth_work *work, void (*run)(struct job *job), bool is_slow);

/* Calls free_object(), now or when the job has ended. Accepts NULL. */
void auth_work_drop(struct auth_work *work);

#endif
