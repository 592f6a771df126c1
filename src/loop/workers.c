/* SPDX-License-Identifier: ISC */
/*
 * Helper threads.
 *
 *   submit --> waiting --> run() on a thread --> ended --> eventfd --> done() in the loop
 *
 * Hard here: only the two lists are shared, under the lock. done() and abandoning happen on the
 * loop's thread only. A thread reads is_abandoned without the lock, only to skip work whose
 * result is not wanted any more.
 */
#include "pgweir/loop/workers.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "thread_priv.h"

#include "pgweir/base/banned.h"

TAILQ_HEAD(job_list, job);

struct workers {
	struct watch watch; /* on an eventfd: a job has ended */
	unsigned int limit;
	unsigned int thread_max;
	unsigned int thread_count; /* threads that have been started */
	pthread_t *threads;

	pthread_mutex_t lock; /* guards all fields below */
	pthread_cond_t wake;  /* a job waits, or the threads must end */
	unsigned int waiting_count;
	unsigned int resting_count; /* threads without work */
	unsigned int living_count;  /* threads that have not ended */
	pthread_cond_t gone;        /* a thread has ended */
	bool is_ending;
	struct job_list waiting;
	struct job_list ended;
};

/* ---- on the helper threads ---- */

/* Waits for a job. NULL: the threads must end. */
static struct job *take_job(struct workers *workers)
{
	struct job *job = NULL;

	pthread_mutex_lock(&workers->lock);
	workers->resting_count++;
	while (!workers->is_ending && TAILQ_EMPTY(&workers->waiting))
		pthread_cond_wait(&workers->wake, &workers->lock);
	workers->resting_count--;
	if (!workers->is_ending) {
		job = TAILQ_FIRST(&workers->waiting);
		TAILQ_REMOVE(&workers->waiting, job, node);
		workers->waiting_count--;
	}
	pthread_mutex_unlock(&workers->lock);
	return job;
}

static void end_job(struct workers *workers, struct job *job)
{
	bool is_first;

	pthread_mutex_lock(&workers->lock);
	is_first = TAILQ_EMPTY(&workers->ended);
	TAILQ_INSERT_TAIL(&workers->ended, job, node);
	pthread_mutex_unlock(&workers->lock);
	if (is_first)
		eventfd_write(workers->watch.fd, 1);
}

static void *work(void *arg)
{
	struct workers *workers = arg;
	struct job *job;

	while ((job = take_job(workers))) {
		if (!__atomic_load_n(&job->is_abandoned, __ATOMIC_RELAXED))
			job->run(job);
		end_job(workers, job);
	}
	pthread_mutex_lock(&workers->lock);
	workers->living_count--;
	pthread_cond_signal(&workers->gone);
	pthread_mutex_unlock(&workers->lock);
	return NULL;
}

/* ---- on the loop's thread ---- */

static void finish_jobs(struct workers *workers, struct job_list *jobs)
{
	struct job_list taken = TAILQ_HEAD_INITIALIZER(taken);
	struct job *job;

	pthread_mutex_lock(&workers->lock);
	TAILQ_CONCAT(&taken, jobs, node);
	pthread_mutex_unlock(&workers->lock);
	while ((job = TAILQ_FIRST(&taken))) {
		TAILQ_REMOVE(&taken, job, node);
		if (workers->is_ending)
			job->is_abandoned = true;
		job->done(job);
	}
}

static void on_ended(struct watch *watch, unsigned int what)
{
	struct workers *workers = (struct workers *)watch;
	eventfd_t count;

	(void)what;
	eventfd_read(watch->fd, &count);
	finish_jobs(workers, &workers->ended);
}

struct workers *workers_new(struct loop *loop, unsigned int threads, unsigned int limit,
                            struct err *err)
{
	struct workers *workers = calloc(1, sizeof(*workers));
	int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	pthread_condattr_t monotonic;

	_Static_assert(offsetof(struct workers, watch) == 0, "on_ended() counts on it");
	if (!workers || fd < 0 || !(workers->threads = calloc(threads, sizeof(pthread_t)))) {
		err_set(err, ERR_FILES, "cannot prepare helper threads: %s", strerror(errno));
		free(workers);
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	workers->thread_max = threads;
	workers->limit = limit;
	pthread_mutex_init(&workers->lock, NULL);
	pthread_cond_init(&workers->wake, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&workers->gone, &monotonic);
	pthread_condattr_destroy(&monotonic);
	TAILQ_INIT(&workers->waiting);
	TAILQ_INIT(&workers->ended);
	watch_init(&workers->watch, loop, fd, on_ended);
	return workers;
}

static void tell_the_end(struct workers *workers)
{
	pthread_mutex_lock(&workers->lock);
	workers->is_ending = true;
	pthread_cond_broadcast(&workers->wake);
	pthread_mutex_unlock(&workers->lock);
}

static void stop_threads(struct workers *workers)
{
	tell_the_end(workers);
	for (unsigned int i = 0; i < workers->thread_count; i++)
		pthread_join(workers->threads[i], NULL);
	workers->thread_count = 0;
}

void workers_free(struct workers **workers)
{
	if (!*workers)
		return;
	stop_threads(*workers);
	finish_jobs(*workers, &(*workers)->ended);
	finish_jobs(*workers, &(*workers)->waiting);
	watch_done(&(*workers)->watch);
	close((*workers)->watch.fd);
	pthread_cond_destroy(&(*workers)->wake);
	pthread_cond_destroy(&(*workers)->gone);
	pthread_mutex_destroy(&(*workers)->lock);
	free((*workers)->threads);
	free(*workers);
	*workers = NULL;
}

/* Whether all threads have ended before `until`. */
static bool wait_for_threads(struct workers *workers, usec_t until)
{
	struct timespec due = { until / USEC_PER_SEC, until % USEC_PER_SEC * 1000 };
	bool is_over;

	pthread_mutex_lock(&workers->lock);
	while (workers->living_count > 0 &&
	       pthread_cond_timedwait(&workers->gone, &workers->lock, &due) == 0)
		continue;
	is_over = workers->living_count == 0;
	pthread_mutex_unlock(&workers->lock);
	return is_over;
}

bool workers_leave(struct workers **workersp, usec_t limit)
{
	struct workers *workers = *workersp;

	if (!workers)
		return true;
	tell_the_end(workers);
	if (wait_for_threads(workers, clock_now() + limit)) {
		workers_free(workersp);
		return true;
	}
	finish_jobs(workers, &workers->ended);
	finish_jobs(workers, &workers->waiting);
	watch_done(&workers->watch);
	for (unsigned int i = 0; i < workers->thread_count; i++)
		pthread_detach(workers->threads[i]);
	*workersp = NULL;
	return false;
}

static void count_living(struct workers *workers, int change)
{
	pthread_mutex_lock(&workers->lock);
	workers->living_count += (unsigned int)change;
	pthread_mutex_unlock(&workers->lock);
}

static bool start_thread(struct workers *workers, struct err *err)
{
	count_living(workers, 1);
	if (thread_start(&workers->threads[workers->thread_count], work, workers, THREAD_STACK_SIZE,
	                 err)) {
		workers->thread_count++;
		return true;
	}
	count_living(workers, -1);
	return false;
}

bool workers_submit(struct workers *workers, struct job *job, struct err *err)
{
	bool has_space, has_hands;

	if (!watch_set(&workers->watch, WATCH_READ))
		return err_set(err, ERR_FILES, "cannot watch the helper threads");
	pthread_mutex_lock(&workers->lock);
	has_space = workers->waiting_count < workers->limit;
	has_hands = workers->resting_count > workers->waiting_count ||
	            workers->thread_count == workers->thread_max;
	pthread_mutex_unlock(&workers->lock);
	if (!has_space)
		return err_set(err, ERR_LIMIT, "too many jobs (%u) wait for a helper thread",
		               workers->limit);
	/* One thread is enough. If more cannot be started, jobs only wait longer. */
	if (!has_hands && !start_thread(workers, workers->thread_count ? NULL : err) &&
	    workers->thread_count == 0)
		return false;
	job->is_abandoned = false;
	pthread_mutex_lock(&workers->lock);
	TAILQ_INSERT_TAIL(&workers->waiting, job, node);
	workers->waiting_count++;
	pthread_cond_signal(&workers->wake);
	pthread_mutex_unlock(&workers->lock);
	return true;
}

void workers_abandon(struct job *job)
{
	__atomic_store_n(&job->is_abandoned, true, __ATOMIC_RELAXED);
}
