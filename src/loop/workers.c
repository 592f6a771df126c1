/* SPDX-License-Identifier: ISC */
/*
 * Helper threads.
 *
 *   submit --> waiting --> token --> run() on a thread -----------------\
 *   begin  --> socket --> go_on() on a thread --> socket ... --> over --+--> letter --> done()
 *
 * All threads wait in one epoll: for sockets, and for tokens, of which each waiting job has one.
 *
 * Hard here: several loops share the threads. Only the lists and counts are shared, under the
 * lock. A job knows the loop that submitted it; done() and abandoning happen on the thread of
 * that loop only. A thread reads is_abandoned without the lock, only to skip work whose result
 * is not wanted any more. Letters are posted under the lock, so none is posted after the
 * threads were asked to end, when the loops may be freed.
 *
 * EPOLLONESHOT gives a socket to one thread at a time, and as soon as the socket is armed again,
 * another thread may get it. So a socket is armed under the lock, which the other thread takes
 * first. A loop cannot take such a job away from a thread. So to abandon it, its loop shuts the
 * connection down; a thread is then woken and returns the job to that loop.
 */
#include "pgweir/loop/workers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loop_priv.h"

#define FOREVER (INT64_MAX / 2)

TAILQ_HEAD(job_list, job);

struct workers {
	unsigned int limit;
	unsigned int thread_max;

	pthread_mutex_t lock; /* guards all fields below */
	int epoll_fd;         /* what the threads wait for; both are -1 before the first job */
	int token_fd; /* an eventfd: a token for each job that waits; at the end, for each thread */
	unsigned int thread_count; /* threads that have been started */
	pthread_t *threads;
	unsigned int waiting_count;
	unsigned int living_count; /* threads that have not ended */
	pthread_cond_t gone;       /* a thread has ended */
	bool is_ending;
	struct job_list waiting;
	struct job_list held; /* those with a socket, and those that are over until done() */
};

static bool arm(const struct workers *workers, int operation, struct job *job, unsigned int what)
{
	struct epoll_event event = { .events = EPOLLONESHOT, .data.ptr = job };

	assert_locked(&workers->lock);
	if (what & WATCH_READ)
		event.events |= EPOLLIN;
	if (what & WATCH_WRITE)
		event.events |= EPOLLOUT;
	return epoll_ctl(workers->epoll_fd, operation, job->fd, &event) == 0;
}

/* ---- on the helper threads ---- */

static bool is_abandoned(const struct job *job)
{
	return __atomic_load_n(&job->is_abandoned, __ATOMIC_RELAXED);
}

/* NULL: the threads must end. */
static struct job *take_job(struct workers *workers)
{
	LOCKED(&workers->lock);
	struct job *job = workers->is_ending ? NULL : TAILQ_FIRST(&workers->waiting);

	if (job) {
		TAILQ_REMOVE(&workers->waiting, job, node);
		workers->waiting_count--;
	}
	return job;
}

static void end_job(struct workers *workers, struct job *job)
{
	assert_locked(&workers->lock);
	if (!job->go_on)
		TAILQ_INSERT_TAIL(&workers->held, job, node);
	if (!workers->is_ending)
		loop_post(job->loop, &job->letter);
}

/* false: the threads must end. */
static bool run_job(struct workers *workers)
{
	struct job *job;
	eventfd_t token;

	if (eventfd_read(workers->token_fd, &token) != 0)
		return true; /* another thread took it */
	job = take_job(workers);
	if (!job)
		return false;
	if (!is_abandoned(job))
		job->run(job);
	LOCKED(&workers->lock);
	end_job(workers, job);
	return true;
}

static void run_step(struct workers *workers, struct job *job)
{
	unsigned int what;

	pthread_mutex_lock(&workers->lock); /* the thread that armed it has left the job */
	pthread_mutex_unlock(&workers->lock);
	what = is_abandoned(job) ? 0 : job->go_on(job);
	LOCKED(&workers->lock);
	if (what && arm(workers, EPOLL_CTL_MOD, job, what))
		return;
	/* Remove the socket first: after end_job() the loop may close it. */
	epoll_ctl(workers->epoll_fd, EPOLL_CTL_DEL, job->fd, NULL);
	end_job(workers, job);
}

static void *work(void *arg)
{
	struct workers *workers = arg;
	struct epoll_event event;
	bool goes_on = true;

	/* One event per call, so that each job goes to a thread that is free. */
	while (goes_on) {
		int count = epoll_wait(workers->epoll_fd, &event, 1, -1);

		if (count < 0)
			goes_on = errno == EINTR;
		else if (event.data.ptr == workers)
			goes_on = run_job(workers);
		else
			run_step(workers, event.data.ptr);
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
	TAILQ_REMOVE(&workers->held, job, node);
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

static void close_descriptors(struct workers *workers)
{
	if (workers->epoll_fd >= 0)
		close(workers->epoll_fd);
	if (workers->token_fd >= 0)
		close(workers->token_fd);
	workers->epoll_fd = workers->token_fd = -1;
}

static bool make_descriptors(struct workers *workers, struct err *err)
{
	struct epoll_event token = { .events = EPOLLIN, .data.ptr = workers };

	workers->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	workers->token_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC | EFD_SEMAPHORE);
	if (workers->epoll_fd >= 0 && workers->token_fd >= 0 &&
	    epoll_ctl(workers->epoll_fd, EPOLL_CTL_ADD, workers->token_fd, &token) == 0)
		return true;
	err_set(err, ERR_FILES, "cannot prepare helper threads: %s", strerror(errno));
	close_descriptors(workers);
	return false;
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
	workers->epoll_fd = workers->token_fd = -1;
	workers->thread_max = threads;
	workers->limit = limit;
	lock_init(&workers->lock);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&workers->gone, &monotonic);
	pthread_condattr_destroy(&monotonic);
	TAILQ_INIT(&workers->waiting);
	TAILQ_INIT(&workers->held);
	return workers;
}

static void tell_the_end(struct workers *workers)
{
	LOCKED(&workers->lock);
	workers->is_ending = true;
	if (workers->token_fd >= 0)
		eventfd_write(workers->token_fd, workers->thread_count);
}

static bool wait_for_threads(struct workers *workers, usec_t until)
{
	struct timespec due = { until / USEC_PER_SEC, until % USEC_PER_SEC * 1000 };

	LOCKED(&workers->lock);
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
	tell_the_end(workers);
	have_ended = wait_for_threads(workers, clock_now() + limit);
	for (unsigned int i = 0; i < workers->thread_count; i++) {
		if (have_ended)
			pthread_join(workers->threads[i], NULL);
		else
			pthread_detach(workers->threads[i]);
	}
	finish_jobs(workers, &workers->held);
	finish_jobs(workers, &workers->waiting);
	*workersp = NULL;
	if (!have_ended)
		return false;
	close_descriptors(workers);
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
	if (workers->epoll_fd < 0 && !make_descriptors(workers, err))
		return false;
	while (workers->thread_count < workers->thread_max) {
		if (!thread_start(&workers->threads[workers->thread_count], work, workers,
		                  THREAD_STACK_SIZE, workers->thread_count ? NULL : err))
			return workers->thread_count > 0;
		workers->thread_count++;
		workers->living_count++;
	}
	return true;
}

static bool prepare(struct workers *workers, struct loop *loop, struct job *job, struct err *err)
{
	if (!loop_take_letters(loop, err))
		return false;
	job->letter = (struct letter){ .open = on_ended };
	job->loop = loop;
	job->workers = workers;
	job->is_abandoned = false;
	return true;
}

bool workers_submit(struct workers *workers, struct loop *loop, struct job *job, struct err *err)
{
	assert(job->run && !job->go_on);
	if (!prepare(workers, loop, job, err))
		return false;
	LOCKED(&workers->lock);
	if (workers->waiting_count >= workers->limit)
		return err_set(err, ERR_LIMIT, "too many jobs (%u) wait for a helper thread",
		               workers->limit);
	if (!has_threads(workers, err))
		return false;
	TAILQ_INSERT_TAIL(&workers->waiting, job, node);
	workers->waiting_count++;
	eventfd_write(workers->token_fd, 1);
	return true;
}

bool workers_begin(struct workers *workers, struct loop *loop, struct job *job, unsigned int what,
                   struct err *err)
{
	assert(job->go_on);
	if (!prepare(workers, loop, job, err))
		return false;
	LOCKED(&workers->lock);
	if (!has_threads(workers, err))
		return false;
	if (!arm(workers, EPOLL_CTL_ADD, job, what))
		return err_set(err, ERR_FILES, "cannot watch the connection: %s", strerror(errno));
	TAILQ_INSERT_TAIL(&workers->held, job, node);
	return true;
}

void workers_abandon(struct job *job)
{
	__atomic_store_n(&job->is_abandoned, true, __ATOMIC_RELAXED);
	if (job->go_on)
		shutdown(job->fd, SHUT_RDWR);
}
