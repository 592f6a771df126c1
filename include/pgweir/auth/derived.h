/* SPDX-License-Identifier: ISC */
/*
 * Keys that were derived from passwords, so that the slow part is done once for
 * each of them and on a helper thread.
 *
 * `struct verifiers` is made by main and handed to entries and logins; it also
 * holds the random key of the process from which salts are made. It keeps no
 * password: an entry is found by a keyed hash of password, salt and iterations,
 * so a secret that changed finds nothing. A user who is not known any more is
 * not asked for at all; verifiers_trim() gives back the memory.
 *
 * All of one thread, but for run() of the job.
 */
#ifndef PGWEIR_AUTH_DERIVED_H
#define PGWEIR_AUTH_DERIVED_H

#include "pgweir/auth/scram.h"
#include "pgweir/auth/users.h"
#include "pgweir/loop/workers.h"

struct verifiers;

/* Keeps at most `limit` derivations, and forgets the longest unused. NULL: *err says why. */
struct verifiers *verifiers_new(size_t limit, struct err *err);

/* Entries, logins and jobs may outlive it only if they do nothing but being freed. */
void verifiers_free(struct verifiers **verifiers);

/* After a reload: forgets what belongs to users who are gone or have another secret. */
void verifiers_trim(struct verifiers *verifiers, const struct users *users);

size_t verifiers_count(const struct verifiers *verifiers);

/*
 * The salt for a user, the same as long as name and secret are; secret NULL: the
 * salt of a user who does not exist, which looks like any other.
 */
bool verifiers_salt(const struct verifiers *verifiers, const char *user, const char *secret,
                    unsigned char salt[SCRAM_SALT_SIZE]);

/* What a user who does not exist has instead of a secret: bytes that look random. */
bool verifiers_mock(const struct verifiers *verifiers, const char *what, const char *user,
                    unsigned char out[SHA256_SIZE]);

/* One derivation, done or to be done. Counts its references. */
struct derived;

enum derived_keep {
	DERIVED_SHARED, /* kept from now on: several who ask at once do the work once */
	DERIVED_PRIVATE /* not kept until verifiers_keep(): the password may be a wrong one */
};

/*
 * The derivation of this password. `user`: whose it is, for verifiers_trim();
 * NULL = nobody's. NULL: no memory. One reference is the caller's.
 */
struct derived *verifiers_ask(struct verifiers *verifiers, const char *user, const char *password,
                              struct bytes salt, unsigned int iterations, enum derived_keep keep);

/* The password was the right one: keeps a private derivation. */
void verifiers_keep(struct verifiers *verifiers, struct derived *derived);

void derived_release(struct derived **derived);

/* NULL: not derived yet, or it failed. */
const struct scram_keys *derived_keys(const struct derived *derived);

/*
 * Makes the work a job of its own, and puts it into *slot, which the owner keeps
 * where it is until the job is gone. The job frees itself in done() and leaves
 * NULL in *slot; unless it was abandoned it then calls on_done(arg), from the loop.
 * false: no memory.
 */
bool derived_job(struct derived *derived, const char *password, struct job **slot,
                 void (*on_done)(void *arg), void *arg);

/*
 * The owner goes, or workers_submit() refused the job. submitted: whether it was
 * taken; then it is abandoned and frees itself later, else it is freed now.
 * Leaves NULL in *slot; does nothing when it is NULL already.
 */
void derived_job_drop(struct job **slot, bool submitted);

#endif
