/* SPDX-License-Identifier: ISC */
/*
 * Helper threads.
 *
 *   submit --> waiting --> run() on a thread --> ended --> letter --> done()
 *
 * Hard here: several loops share the threads. Only the lists and counts are shared, under the
 * lock. A job knows the loop that submitted it; done() and abandoning happen on the thread of
 * that loop only. A thread reads is_abandoned without the lock, only to skip work whose result
 * is not wanted any more. Letters are posted under the lock, so none is posted after the
 * threads were asked to end, when the loops may be freed.
 */
#include "pgweir/loop/workers.h"

#include <stdlib.h>

#include "loop_priv.h"

#define FOREVER (INT64_MAX / 2)

TAILQ_HEAD(job_list, job);

struct workers {
	unsigned int limit;
	unsigned int thread_max;

	pthread_mutex_t lock;      /* guards all fields below */
	pthread_cond_t due;        /* a job waits, or the threads must end */
	pthread_cond_t gone;       /* a thread has ended */
	unsigned int thread_count; /* threads that have been started */
	pthread_t *threads;
	unsigned int waiting_count;
	unsigned int living_count; /* threads that have not ended */
	bool is_ending;
	struct job_list waiting;
	struct job_list ended; /* their letters are not opened yet */
};

/* ---- on the helper threads ---- */

/* Waits for a job. NULL: the threads must end. */
static struct job *take_job(struct workers *workers)
{
	LOCKED(&workers->lock);
	struct job *job;

	while (TAILQ_EMPTY(&workers->waiting) && !workers->is_ending)
		pthread_cond_wait(&workers->due, &workers->lock);
	if (workers->is_ending)
		return NULL;
	job = TAILQ_FIRST(&workers->waiting);
	TAILQ_REMOVE(&workers->waiting, job, node);
	workers->waiting_count--;
	return job;
}

static void *work(void *arg)
{
	struct workers *workers = arg;
	struct job *job;

	while ((job = take_job(workers))) {
		if (!__atomic_load_n(&job->is_abandoned, __ATOMIC_RELAXED))
			job->run(job);
		LOCKED(&workers->lock);
		TAILQ_INSERT_TAIL(&workers->ended, job, node);
		if (!workers->is_ending)
			loop_post(job->loop, &job->letter);
	}
	LOCKED(&workers->lock);
	workers->living_count--;
	pthread_cond_signal(&workers->gone);
	return NULL;
}

/* ---- on the loops' threads ---- */

static void on_ended(struct letter *letter)
{
	struct job *job = container_of(letter, struct job, letter);
	struct workers *workers = job->workers;

	pthread_mutex_lock(&workers->lock);
	TAILQ_REMOVE(&workers->ended, job, node);
	pthread_mutex_unlock(&workers->lock);
	job->done(job);
}

static struct job *take_first(struct workers *workers, struct job_list *jobs)
{
	LOCKED(&workers->lock);
	struct job *job = TAILQ_FIRST(jobs);

	if (job)
		TAILQ_REMOVE(jobs, job, node);
	return job;
}

/* The end: no loop runs that has jobs here. */
static void finish_jobs(struct workers *workers, struct job_list *jobs)
{
	struct job *job;

	while ((job = take_first(workers, jobs))) {
		loop_take_back(job->loop, &job->letter);
		job->is_abandoned = true;
		job->done(job);
	}
}

struct workers *workers_new(unsigned int threads, unsigned int limit, struct err *err)
{
	struct workers *workers = calloc(1, sizeof(*workers));
	pthread_condattr_t monotonic;

	if (!workers || !(workers->threads = calloc(threads, sizeof(pthread_t)))) {
		err_set(err, ERR_MEMORY, "no memory for helper threads");
		free(workers);
		return NULL;
	}
	workers->thread_max = threads;
	workers->limit = limit;
	lock_init(&workers->lock);
	pthread_cond_init(&workers->due, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&workers->gone, &monotonic);
	pthread_condattr_destroy(&monotonic);
	TAILQ_INIT(&workers->waiting);
	TAILQ_INIT(&workers->ended);
	return workers;
}

/* Tells them to end, and waits for that. false: some have not. */
static bool end_threads(struct workers *workers, usec_t until)
{
	struct timespec due = { until / USEC_PER_SEC, until % USEC_PER_SEC * 1000 };

	LOCKED(&workers->lock);
	workers->is_ending = true;
	pthread_cond_broadcast(&workers->due);
	while (workers->living_count > 0 &&
	       pthread_cond_timedwait(&workers->gone, &workers->lock, &due) == 0)
		continue;
	return workers->living_count == 0;
}

bool workers_leave(struct workers **workersp, usec_t limit)
{
	struct workers *workers = *workersp;
	bool have_ended;

	if (!workers)
		return true;
	have_ended = end_threads(workers, clock_now() + limit);
	for (unsigned int i = 0; i < workers->thread_count; i++) {
		if (have_ended)
			pthread_join(workers->threads[i], NULL);
		else
			pthread_detach(workers->threads[i]);
	}
	finish_jobs(workers, &workers->ended);
	finish_jobs(workers, &workers->waiting);
	*workersp = NULL;
	if (!have_ended)
		return false;
	pthread_cond_destroy(&workers->due);
	pthread_cond_destroy(&workers->gone);
	pthread_mutex_destroy(&workers->lock);
	free(workers->threads);
	free(workers);
	return true;
}

void workers_free(struct workers **workers) { workers_leave(workers, FOREVER); }

/* The lock must be held. One thread is enough: jobs only wait longer. */
static bool has_threads(struct workers *workers, struct err *err)
{
	while (workers->thread_count < workers->thread_max) {
		if (!thread_start(&workers->threads[workers->thread_count], work, workers,
		                  THREAD_STACK_SIZE, workers->thread_count ? NULL : err))
			return workers->thread_count > 0;
		workers->thread_count++;
		workers->living_count++;
	}
	return true;
}

bool workers_submit(struct workers *workers, struct loop *loop, struct job *job, struct err *err)
{
	job->letter = (struct letter){ .open = on_ended };
	job->loop = loop;
	job->workers = workers;
	job->is_abandoned = false;
	LOCKED(&workers->lock);
	if (workers->waiting_count >= workers->limit)
		return err_set(err, ERR_LIMIT, "too many jobs (%u) wait for a helper thread",
		               workers->limit);
	if (!has_threads(workers, err))
		return false;
	TAILQ_INSERT_TAIL(&workers->waiting, job, node);
	workers->waiting_count++;
	pthread_cond_signal(&workers->due);
	return true;
}

void workers_abandon(struct job *job)
{
	__atomic_store_n(&job->is_abandoned, true, __ATOMIC_RELAXED);
}
