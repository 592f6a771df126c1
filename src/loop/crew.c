/* SPDX-License-Identifier: ISC */
/*
 * The threads of one process: its loops, how the main thread holds them, and helper threads.
 *
 *   main thread                          another loop
 *   crew_hold: is_called, wake  ------>  ends its turn, or is woken and makes an empty one
 *   waits for all               <------  crew_park(): counts itself, waits for the next round
 *   ... reads and changes ...
 *   crew_release: next round    ------>  makes a turn without sleeping
 *
 * Hard here: the main thread may hold again before a released loop has run. A parked loop waits
 * for the round to change, not for the hold to end, so it makes its turn in between.
 */
#include "pgweir/loop/crew.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/container_of.h"
#include "pgweir/base/lock.h"
#include "pgweir/base/text.h"
#include "pgweir/loop/workers.h"

/* For threads that call little; a loop needs more. */
#define WORKER_STACK_SIZE ((size_t)1024 * 1024)
/* As much as a main thread usually has. Only what is used takes memory. */
#define LOOP_STACK_SIZE ((size_t)8 * 1024 * 1024)

/* ---- threads beside the main thread ---- */

/* All signals are blocked: the main thread handles them. false: *err says why. */
static bool thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg, size_t stack_size,
                         struct err *err)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	int failure;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, stack_size);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	failure = pthread_create(thread, &attributes, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return !failure || err_set(err, ERR_FILES, "cannot start a thread: %s", strerror(failure));
}

/* ---- solo: a loop and its thread ---- */

struct solo {
	struct loop *loop;
	char name[20]; /* at most 15 bytes are of use */
	pthread_t thread;
	bool is_started;
};

static void *run_solo(void *arg)
{
	struct solo *solo = arg;

	pthread_setname_np(pthread_self(), solo->name);
	loop_run(solo->loop);
	return NULL;
}

struct solo *solo_new(const char *name, struct err *err)
{
	struct solo *solo = err_calloc(sizeof(*solo), "no memory for an event loop", err);

	if (!solo)
		return NULL;
	text_copy(solo->name, sizeof(solo->name), name);
	solo->loop = loop_new(err);
	if (!solo->loop)
		solo_free(&solo);
	return solo;
}

struct loop *solo_loop(const struct solo *solo) { return solo->loop; }

bool solo_start(struct solo *solo, struct err *err)
{
	solo->is_started = thread_start(&solo->thread, run_solo, solo, LOOP_STACK_SIZE, err);
	return solo->is_started;
}

void solo_stop(struct solo *solo)
{
	if (!solo->is_started)
		return;
	loop_stop(solo->loop);
	pthread_join(solo->thread, NULL);
	solo->is_started = false;
}

void solo_free(struct solo **solo)
{
	if (!*solo)
		return;
	loop_free(&(*solo)->loop);
	free(*solo);
	*solo = NULL;
}

/* ---- crew ---- */

struct crew {
	pthread_t main_thread;
	unsigned int depth;        /* of crew_hold(): for the main thread only */
	unsigned int thread_count; /* members with a thread; changes in crew_start() and _stop() */

	pthread_mutex_t lock; /* guards the fields below */
	pthread_cond_t all_parked;
	pthread_cond_t go_on;
	bool is_held;
	unsigned int parked_count; /* threads that are parked in this round */
	unsigned long round;       /* counts releases */

	unsigned int count;
	struct solo members[]; /* the first is the main thread's */
};

/* On a loop's thread: called between two turns, because it was called to park. */
static void crew_park(void *arg)
{
	struct crew *crew = arg;
	unsigned long round;

	LOCKED(&crew->lock);
	if (crew->is_held) {
		round = crew->round;
		if (++crew->parked_count == crew->thread_count)
			pthread_cond_signal(&crew->all_parked);
		while (crew->round == round)
			pthread_cond_wait(&crew->go_on, &crew->lock);
	}
}

static bool is_main_thread(const struct crew *crew)
{
	return pthread_equal(pthread_self(), crew->main_thread);
}

struct crew *crew_new(struct loop *const *loops, unsigned int count, struct err *err)
{
	struct crew *crew = err_calloc(sizeof(*crew) + count * sizeof(struct solo),
	                               "no memory for the event loops", err);

	assert(count > 0);
	if (!crew)
		return NULL;
	crew->main_thread = pthread_self();
	crew->count = count;
	pthread_mutex_init(&crew->lock, NULL);
	pthread_cond_init(&crew->all_parked, NULL);
	pthread_cond_init(&crew->go_on, NULL);
	for (unsigned int i = 0; i < count; i++) {
		crew->members[i].loop = loops[i];
		snprintf(crew->members[i].name, sizeof(crew->members[i].name), "pgweir/%u", i);
		if (i > 0)
			loop_parks_by(loops[i], crew_park, crew);
	}
	return crew;
}

void crew_free(struct crew **crewp)
{
	struct crew *crew = *crewp;

	if (!crew)
		return;
	assert(crew->thread_count == 0);
	pthread_cond_destroy(&crew->go_on);
	pthread_cond_destroy(&crew->all_parked);
	pthread_mutex_destroy(&crew->lock);
	free(crew);
	*crewp = NULL;
}

bool crew_start(struct crew *crew, struct err *err)
{
	assert(is_main_thread(crew) && crew->thread_count == 0);
	while (crew->thread_count + 1 < crew->count) {
		if (!solo_start(&crew->members[crew->thread_count + 1], err)) {
			crew_stop(crew);
			return false;
		}
		crew->thread_count++;
	}
	return true;
}

void crew_stop(struct crew *crew)
{
	assert(is_main_thread(crew) && crew->depth == 0);
	for (unsigned int i = 1; i <= crew->thread_count; i++)
		loop_stop(crew->members[i].loop);
	while (crew->thread_count > 0)
		pthread_join(crew->members[crew->thread_count--].thread, NULL);
}

void crew_hold(struct crew *crew)
{
	assert(is_main_thread(crew));
	if (crew->depth++ > 0 || crew->thread_count == 0)
		return;
	LOCKED(&crew->lock);
	crew->is_held = true;
	crew->parked_count = 0;
	for (unsigned int i = 1; i <= crew->thread_count; i++)
		loop_call(crew->members[i].loop);
	while (crew->parked_count < crew->thread_count)
		pthread_cond_wait(&crew->all_parked, &crew->lock);
}

void crew_release(struct crew *crew)
{
	assert(is_main_thread(crew) && crew->depth > 0);
	if (--crew->depth > 0 || crew->thread_count == 0)
		return;
	LOCKED(&crew->lock);
	for (unsigned int i = 1; i <= crew->thread_count; i++)
		loop_call_off(crew->members[i].loop);
	crew->is_held = false;
	crew->round++;
	pthread_cond_broadcast(&crew->go_on);
}

/* ---- workers: helper threads ---- */

#define FOREVER (INT64_MAX / 2)

TAILQ_HEAD(job_list, job);

struct workers {
	unsigned int limit;
	unsigned int thread_max;

	pthread_mutex_t lock;      /* guards all fields below */
	pthread_cond_t due;        /* a job waits, or the threads must end */
	unsigned int thread_count; /* threads that have been started */
	pthread_t *threads;
	unsigned int waiting_count;
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

	if (!workers || !(workers->threads = calloc(threads, sizeof(pthread_t)))) {
		err_set(err, ERR_MEMORY, "no memory for helper threads");
		free(workers);
		return NULL;
	}
	workers->thread_max = threads;
	workers->limit = limit;
	lock_init(&workers->lock);
	pthread_cond_init(&workers->due, NULL);
	TAILQ_INIT(&workers->waiting);
	TAILQ_INIT(&workers->ended);
	return workers;
}

/* Tells them to end, and waits for that. false: some have not. */
static bool end_threads(struct workers *workers, usec_t until)
{
	struct timespec due = { until / USEC_PER_SEC, until % USEC_PER_SEC * 1000 };
	bool have_ended = true;

	pthread_mutex_lock(&workers->lock);
	workers->is_ending = true;
	pthread_cond_broadcast(&workers->due);
	pthread_mutex_unlock(&workers->lock);
	for (unsigned int i = 0; i < workers->thread_count; i++) {
		if (pthread_timedjoin_np(workers->threads[i], NULL, &due) == 0)
			continue;
		pthread_detach(workers->threads[i]);
		have_ended = false;
	}
	return have_ended;
}

bool workers_leave(struct workers **workersp, usec_t limit)
{
	struct workers *workers = *workersp;
	bool have_ended;

	if (!workers)
		return true;
	have_ended = end_threads(workers, wall_now() + limit);
	finish_jobs(workers, &workers->ended);
	finish_jobs(workers, &workers->waiting);
	*workersp = NULL;
	if (!have_ended)
		return false;
	pthread_cond_destroy(&workers->due);
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
		                  WORKER_STACK_SIZE, workers->thread_count ? NULL : err))
			return workers->thread_count > 0;
		workers->thread_count++;
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
