/* SPDX-License-Identifier: ISC */
/*
 * One derivation, done on a helper thread.
 *
 *   verifiers --holds--> derived <--holds-- auth_server, auth_client, job
 *
 * Hard here: when many clients reconnect, many want the same derivation at the same time. Each
 * submits a job, but all jobs share one `struct derived`. Its lock lets the first job do the
 * work, and the others find it done. Clients of several loops may hold it, so its references
 * are counted atomically.
 */
#include "derived_priv.h"

#include <stdlib.h>

#include "pgweir/auth/secret.h"

#include "pgweir/base/banned.h"

struct work {
	struct job job; /* must be first */
	struct derived *derived;
	char *password;
	struct job **slot; /* the owner's pointer to the job; NULL: the owner is gone */
	void (*on_done)(void *arg);
	void *arg;
};

struct derived *derived_new(const unsigned char id[SHA256_SIZE], const char *user,
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

struct derived *derived_hold(struct derived *derived)
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

const struct scram_keys *derived_keys(const struct derived *derived)
{
	return atomic_load(&derived->outcome) == OUTCOME_KEYS ? &derived->keys : NULL;
}

/* ---- the job ---- */

static void work_free(struct work *work)
{
	derived_release(&work->derived);
	secret_free(&work->password);
	free(work);
}

/* Called on a helper thread. */
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
	work->derived = derived_hold(derived);
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
	if (submitted) /* a helper thread may be using it now */
		__atomic_store_n(&work->job.is_abandoned, true, __ATOMIC_RELAXED);
	else
		work_free(work);
}
