/* SPDX-License-Identifier: ISC */
/*
 * Helper threads for what would hold up the loop: key derivation and anything
 * that blocks. The answer comes back through the loop.
 */
#ifndef PGWEIR_LOOP_WORKERS_H
#define PGWEIR_LOOP_WORKERS_H

#include "pgweir/loop/loop.h"

struct workers;

/*
 * One piece of work. Lives inside its owner's own object, which must hold
 * copies of all that run() needs: the owner may be gone while it runs.
 */
struct job {
	TAILQ_ENTRY(job) node;
	void (*run)(struct job *job); /* on a helper thread: touches nothing but the job's object */
	void (*done)(
	    struct job *job); /* from the loop, after run(); frees the object when is_abandoned */
	bool is_abandoned;    /* the owner went away: done() only cleans up */
};

/*
 * Threads start with the first job. `limit` is how many jobs may wait.
 * NULL: *err says why.
 */
struct workers *workers_new(struct loop *loop, unsigned int threads, unsigned int limit,
                            struct err *err);

/* Waits for what runs; calls done() of all jobs with is_abandoned set. */
void workers_free(struct workers **workers);

/*
 * The same for work that may take for ever, just before the process ends: waits for at
 * most `limit`. What still runs then is left to run, with its job and all it needs.
 */
void workers_leave(struct workers **workers, usec_t limit);

/* false: too many wait, or no thread can be started; done() will not be called. */
bool workers_submit(struct workers *workers, struct job *job, struct err *err);

/*
 * The owner goes: done() is still called, with is_abandoned set, once the job has
 * ended. run() is left out if it has not begun.
 */
void workers_abandon(struct job *job);

#endif
