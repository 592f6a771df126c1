/* SPDX-License-Identifier: ISC */
/*
 * Helper threads for work that would block a loop: key derivation, blocking calls, TLS handshakes.
 * Several loops may use the same threads; the result returns to the loop that submitted the job.
 */
#ifndef PGWEIR_LOOP_WORKERS_H
#define PGWEIR_LOOP_WORKERS_H

#include "pgweir/loop/loop.h"

struct workers;

/*
 * One job. Embedded in an object that holds copies of everything run() needs: the owner may be
 * closed while the job runs.
 */
struct job {
	struct letter letter; /* the first four fields: for crew.c only */
	TAILQ_ENTRY(job) node;
	struct loop *loop;
	struct workers *workers;
	void (*run)(struct job *job);  /* called on a helper thread; uses only the job's object */
	void (*done)(struct job *job); /* called in its loop when the job is over */
	bool is_abandoned;             /* the owner is closed: done() must only clean up */
};

/* Threads start with the first job. `limit` is how many jobs may wait. NULL: *err says why. */
struct workers *workers_new(unsigned int threads, unsigned int limit, struct err *err);

/*
 * Waits for running jobs, then calls done() of all jobs with is_abandoned set, on the
 * caller's thread. Of the loops that have jobs here, none may run but the caller's.
 */
void workers_free(struct workers **workers);

/*
 * The same for jobs that may never end, just before the process exits: waits at most `limit`
 * microseconds. Jobs that still run then keep their thread and all they need. false: there are
 * such jobs, so the process must end by _exit(): exit() would let libraries free what these use.
 */
bool workers_leave(struct workers **workers, usec_t limit);

/*
 * Queues a job; done() will be called in `loop`, whose thread this must be. false: too many
 * jobs wait, or no thread can be started; done() will not be called.
 */
bool workers_submit(struct workers *workers, struct loop *loop, struct job *job, struct err *err);

/*
 * To be called by the job's loop when the owner closes. done() is still called, with is_abandoned
 * set, when the job has ended. run() is skipped if it has not begun.
 */
void workers_abandon(struct job *job);

#endif
