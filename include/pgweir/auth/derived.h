/* SPDX-License-Identifier: ISC */
/*
 * Keys derived from passwords: the slow derivation is done once per password, on a helper
 * thread, and the keys are cached.
 *
 * `struct verifiers` is made by main and used by both sides of authentication exchanges. It
 * also has the random key of the process, from which salts are made. It stores no password:
 * keys are found by a keyed hash of password, salt and iteration count. So if a secret has
 * changed, nothing is found. The keys of a removed user are never looked up; verifiers_trim()
 * frees their memory.
 *
 * Several loops share one `struct verifiers`: its functions may be called from any thread, but
 * for verifiers_new() and verifiers_free(). A derivation's keys do not change once they are
 * there. A job belongs to the loop that submits it.
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

/* After a reload: drops the keys of users that are gone or have another secret. */
void verifiers_trim(struct verifiers *verifiers, const struct users *users);

/* Number of cached derivations. */
size_t verifiers_count(struct verifiers *verifiers);

/*
 * Makes the salt for a user: the same as long as name and secret are the same. secret NULL: a
 * salt for an unknown user, which looks like any other.
 */
bool verifiers_salt(const struct verifiers *verifiers, const char *user, const char *secret,
                    unsigned char salt[SCRAM_SALT_SIZE]);

/* One derivation, done or not. It counts its references. */
struct derived;

enum derived_keep {
	/* cached immediately: clients that need it at the same time share the work */
	DERIVED_SHARED,
	DERIVED_PRIVATE /* not cached until verifiers_keep(): the password may be wrong */
};

/*
 * Returns the derivation of this password; the caller owns one reference. `user`: its owner,
 * for verifiers_trim(); NULL = nobody. NULL: no memory.
 */
struct derived *verifiers_ask(struct verifiers *verifiers, const char *user, const char *password,
                              struct bytes salt, unsigned int iterations, enum derived_keep keep);

/* The password was correct: caches a private derivation. */
void verifiers_keep(struct verifiers *verifiers, struct derived *derived);

/* Adds a reference and returns it; releases one and sets NULL. Both accept NULL. */
struct derived *derived_hold(struct derived *derived);
void derived_release(struct derived **derived);

/* Returns NULL if they have not been derived yet, or if that failed. */
const struct scram_keys *derived_keys(const struct derived *derived);

/*
 * Makes a job that derives the keys, and stores it in *slot, which must not move until the job
 * is gone. In done() the job sets *slot to NULL and frees itself; unless it was abandoned it
 * then calls on_done(arg), from the loop. false: no memory.
 */
bool derived_job(struct derived *derived, const char *password, struct job **slot,
                 void (*on_done)(void *arg), void *arg);

/*
 * To be called if the owner closes, or workers_submit() refused the job. submitted:
 * workers_submit() accepted it; then it is abandoned and frees itself later, otherwise it is
 * freed now. Sets *slot to NULL; does nothing if it is NULL.
 */
void derived_job_drop(struct job **slot, bool submitted);

/*
 * ---- mock ----
 *
 * Mock secrets: for an unknown user, or one without a password. With it the exchange and the
 * work are the same as for other users.
 *
 * The mock secret imitates one of the existing users, selected by the name: the kind of secret,
 * and for SCRAM the iteration count and the length of the salt. The same name gets the same
 * mock secret as long as the process and the users are the same. No password matches it: it is
 * made from the random key of the process.
 */

/* users NULL, or no user has a secret: makes one like a plain password. false: no memory. */
bool mock_secret(const struct verifiers *verifiers, const struct users *users, const char *user,
                 struct buf *out);

#endif
