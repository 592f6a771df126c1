/* SPDX-License-Identifier: ISC */
/*
 * Handshake threads.
 *
 *   begin --> epoll --> go_on() on a thread --> epoll --> ... --> over --> letter --> done()
 *
 * Hard here: EPOLLONESHOT gives a socket to one thread at a time, and as soon as the socket is
 * armed again, another thread may get it. A loop cannot take a handshake away from a thread.
 * So to abandon a handshake, its loop shuts the connection down; a thread is then woken and
 * returns the handshake to that loop. Several loops share the threads.
 */
#include "pgweir/loop/handshakes.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loop_priv.h"

TAILQ_HEAD(handshake_list, handshake_job);

struct handshakes {
	int epoll_fd; /* the sockets that the threads wait for */
	int end_fd;   /* an eventfd: tells the threads to end */
	unsigned int thread_max;

	pthread_mutex_t lock;      /* guards all fields below */
	unsigned int thread_count; /* threads that have been started */
	pthread_t *threads;
	struct handshake_list held;
	struct handshake_list over; /* their letters are not opened yet */
};

/*
 * Another thread may be woken before this function returns. It waits in job_of_event() until
 * is_waiting is set, so two threads never use the same handshake or its descriptor at the same
 * time.
 */
static bool wait_for(const struct handshakes *handshakes, int operation, struct handshake_job *job,
                     unsigned int what)
{
	struct epoll_event event = { .events = EPOLLONESHOT, .data.ptr = job };

	if (what & WATCH_READ)
		event.events |= EPOLLIN;
	if (what & WATCH_WRITE)
		event.events |= EPOLLOUT;
	if (epoll_ctl(handshakes->epoll_fd, operation, job->fd, &event) != 0)
		return false;
	__atomic_store_n(&job->is_waiting, true, __ATOMIC_RELEASE);
	return true;
}

static void move_to_over(struct handshakes *handshakes, struct handshake_job *job)
{
	pthread_mutex_lock(&handshakes->lock);
	TAILQ_REMOVE(&handshakes->held, job, node);
	TAILQ_INSERT_TAIL(&handshakes->over, job, node);
	loop_post(job->loop, &job->letter);
	pthread_mutex_unlock(&handshakes->lock);
}

/* ---- on the helper threads ---- */

static void run_step(struct handshakes *handshakes, struct handshake_job *job)
{
	unsigned int what = 0;

	if (!__atomic_load_n(&job->is_abandoned, __ATOMIC_RELAXED))
		what = job->go_on(job);
	if (what && wait_for(handshakes, EPOLL_CTL_MOD, job, what))
		return;
	/* Remove the socket first: after move_to_over() the loop may close it. */
	epoll_ctl(handshakes->epoll_fd, EPOLL_CTL_DEL, job->fd, NULL);
	move_to_over(handshakes, job);
}

static struct handshake_job *job_of_event(const struct epoll_event *event)
{
	struct handshake_job *job = event->data.ptr;

	while (!__atomic_load_n(&job->is_waiting, __ATOMIC_ACQUIRE))
		sched_yield(); /* the other thread is about to set is_waiting */
	__atomic_store_n(&job->is_waiting, false, __ATOMIC_RELAXED);
	return job;
}

static void *run_thread(void *arg)
{
	struct handshakes *handshakes = arg;
	struct epoll_event event;
	int count;

	/* One event per call, so that each ready socket goes to a thread that is free. */
	while ((count = epoll_wait(handshakes->epoll_fd, &event, 1, -1)) >= 0 || errno == EINTR) {
		if (count > 0 && !event.data.ptr)
			break; /* end_fd: the threads must end */
		if (count > 0)
			run_step(handshakes, job_of_event(&event));
	}
	return NULL;
}

/* ---- on the loops' threads ---- */

static void on_over(struct letter *letter)
{
	struct handshake_job *job = (struct handshake_job *)letter;
	struct handshakes *handshakes = job->handshakes;

	_Static_assert(offsetof(struct handshake_job, letter) == 0, "on_over() counts on it");
	pthread_mutex_lock(&handshakes->lock);
	TAILQ_REMOVE(&handshakes->over, job, node);
	pthread_mutex_unlock(&handshakes->lock);
	job->done(job);
}

/* The end: the threads have ended, and no loop runs that has handshakes here. */
static void finish_all(struct handshake_list *list)
{
	struct handshake_job *job;

	while ((job = TAILQ_FIRST(list))) {
		TAILQ_REMOVE(list, job, node);
		loop_take_back(job->loop, &job->letter);
		job->is_abandoned = true;
		job->done(job);
	}
}

static void close_all(const struct handshakes *handshakes)
{
	const int fds[] = { handshakes->epoll_fd, handshakes->end_fd };

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static bool make_descriptors(struct handshakes *handshakes)
{
	struct epoll_event end = { .events = EPOLLIN, .data.ptr = NULL };

	handshakes->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	handshakes->end_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (handshakes->epoll_fd >= 0 && handshakes->end_fd >= 0 &&
	    epoll_ctl(handshakes->epoll_fd, EPOLL_CTL_ADD, handshakes->end_fd, &end) == 0)
		return true;
	close_all(handshakes);
	return false;
}

struct handshakes *handshakes_new(unsigned int threads, struct err *err)
{
	struct handshakes *handshakes = calloc(1, sizeof(*handshakes));

	if (!handshakes || !(handshakes->threads = calloc(threads, sizeof(pthread_t))) ||
	    !make_descriptors(handshakes)) {
		err_set(err, ERR_FILES, "cannot prepare helper threads: %s", strerror(errno));
		if (handshakes)
			free(handshakes->threads);
		free(handshakes);
		return NULL;
	}
	handshakes->thread_max = threads;
	pthread_mutex_init(&handshakes->lock, NULL);
	TAILQ_INIT(&handshakes->held);
	TAILQ_INIT(&handshakes->over);
	return handshakes;
}

void handshakes_free(struct handshakes **handshakesp)
{
	struct handshakes *handshakes = *handshakesp;

	if (!handshakes)
		return;
	eventfd_write(handshakes->end_fd, 1);
	for (unsigned int i = 0; i < handshakes->thread_count; i++)
		pthread_join(handshakes->threads[i], NULL);
	finish_all(&handshakes->over);
	finish_all(&handshakes->held);
	close_all(handshakes);
	pthread_mutex_destroy(&handshakes->lock);
	free(handshakes->threads);
	free(handshakes);
	*handshakesp = NULL;
}

/*
 * The lock must be held. One thread is enough. If more cannot be started, handshakes are only
 * slower.
 */
static bool has_threads(struct handshakes *handshakes, struct err *err)
{
	while (handshakes->thread_count < handshakes->thread_max) {
		if (!thread_start(&handshakes->threads[handshakes->thread_count], run_thread,
		                  handshakes, THREAD_STACK_SIZE, err))
			return handshakes->thread_count > 0;
		handshakes->thread_count++;
	}
	return true;
}

static bool hold(struct handshakes *handshakes, struct handshake_job *job, struct err *err)
{
	bool is_held;

	pthread_mutex_lock(&handshakes->lock);
	is_held = has_threads(handshakes, err);
	if (is_held)
		TAILQ_INSERT_TAIL(&handshakes->held, job, node);
	pthread_mutex_unlock(&handshakes->lock);
	return is_held;
}

bool handshakes_begin(struct handshakes *handshakes, struct loop *loop, struct handshake_job *job,
                      unsigned int what, struct err *err)
{
	if (!loop_take_letters(loop, err))
		return false;
	job->letter = (struct letter){ .open = on_over };
	job->loop = loop;
	job->handshakes = handshakes;
	job->is_abandoned = false;
	job->is_waiting = false;
	if (!hold(handshakes, job, err))
		return false;
	if (wait_for(handshakes, EPOLL_CTL_ADD, job, what))
		return true;
	err_set(err, ERR_FILES, "cannot watch the connection: %s", strerror(errno));
	pthread_mutex_lock(&handshakes->lock);
	TAILQ_REMOVE(&handshakes->held, job, node);
	pthread_mutex_unlock(&handshakes->lock);
	return false;
}

void handshakes_abandon(struct handshake_job *job)
{
	__atomic_store_n(&job->is_abandoned, true, __ATOMIC_RELAXED);
	shutdown(job->fd, SHUT_RDWR);
}
