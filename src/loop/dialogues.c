/* SPDX-License-Identifier: ISC */
/*
 * Dialogues.
 *
 *   begin --> epoll --> go_on() on a thread --> epoll --> ... --> over --> eventfd --> done()
 *
 * Hard here: a socket is handed to one thread at a time (EPOLLONESHOT), and as soon as it is
 * waited for again another one may have it. Nobody can take a dialogue out of a thread's
 * hands; so who abandons one shuts its connection down, and the thread that is told of
 * that brings it home.
 */
#include "pgweir/loop/dialogues.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "thread_priv.h"

#include "pgweir/base/banned.h"

TAILQ_HEAD(dialogue_list, dialogue);

struct dialogues {
	struct watch watch; /* on an eventfd: some dialogue is over */
	int epoll_fd;       /* what the threads wait for */
	int end_fd;         /* an eventfd: the end has come */
	unsigned int thread_max;
	unsigned int thread_count; /* started */
	pthread_t *threads;

	pthread_mutex_t lock; /* guards all below */
	struct dialogue_list held;
	struct dialogue_list over;
};

/*
 * Whoever is told by the kernel has it only when this is through (take()): neither thread
 * uses it, or its descriptor, while the other one does.
 */
static bool wait_for(const struct dialogues *dialogues, int operation, struct dialogue *dialogue,
                     unsigned int what)
{
	struct epoll_event event = { .events = EPOLLONESHOT, .data.ptr = dialogue };

	if (what & WATCH_READ)
		event.events |= EPOLLIN;
	if (what & WATCH_WRITE)
		event.events |= EPOLLOUT;
	if (epoll_ctl(dialogues->epoll_fd, operation, dialogue->fd, &event) != 0)
		return false;
	__atomic_store_n(&dialogue->is_waiting, true, __ATOMIC_RELEASE);
	return true;
}

static void move(struct dialogues *dialogues, struct dialogue *dialogue)
{
	bool is_first;

	pthread_mutex_lock(&dialogues->lock);
	is_first = TAILQ_EMPTY(&dialogues->over);
	TAILQ_REMOVE(&dialogues->held, dialogue, node);
	TAILQ_INSERT_TAIL(&dialogues->over, dialogue, node);
	pthread_mutex_unlock(&dialogues->lock);
	if (is_first)
		eventfd_write(dialogues->watch.fd, 1);
}

/* ---- on the helper threads ---- */

static void go_on(struct dialogues *dialogues, struct dialogue *dialogue)
{
	unsigned int what = 0;

	if (!__atomic_load_n(&dialogue->is_abandoned, __ATOMIC_RELAXED))
		what = dialogue->go_on(dialogue);
	if (what && wait_for(dialogues, EPOLL_CTL_MOD, dialogue, what))
		return;
	epoll_ctl(dialogues->epoll_fd, EPOLL_CTL_DEL, dialogue->fd, NULL);
	move(dialogues, dialogue);
}

static struct dialogue *take(const struct epoll_event *event)
{
	struct dialogue *dialogue = event->data.ptr;

	while (!__atomic_load_n(&dialogue->is_waiting, __ATOMIC_ACQUIRE))
		sched_yield(); /* the other thread is between two instructions */
	__atomic_store_n(&dialogue->is_waiting, false, __ATOMIC_RELAXED);
	return dialogue;
}

static void *hold(void *arg)
{
	struct dialogues *dialogues = arg;
	struct epoll_event event;
	int count;

	/* One by one, so that what waits goes to whichever thread has time. */
	while ((count = epoll_wait(dialogues->epoll_fd, &event, 1, -1)) >= 0 || errno == EINTR) {
		if (count > 0 && !event.data.ptr)
			break; /* the end */
		if (count > 0)
			go_on(dialogues, take(&event));
	}
	return NULL;
}

/* ---- on the loop's thread ---- */

static void finish(struct dialogues *dialogues, struct dialogue_list *list, bool is_end)
{
	struct dialogue_list taken = TAILQ_HEAD_INITIALIZER(taken);
	struct dialogue *dialogue;

	pthread_mutex_lock(&dialogues->lock);
	TAILQ_CONCAT(&taken, list, node);
	pthread_mutex_unlock(&dialogues->lock);
	while ((dialogue = TAILQ_FIRST(&taken))) {
		TAILQ_REMOVE(&taken, dialogue, node);
		if (is_end)
			dialogue->is_abandoned = true;
		dialogue->done(dialogue);
	}
}

static void on_over(struct watch *watch, unsigned int what)
{
	struct dialogues *dialogues = (struct dialogues *)watch;
	eventfd_t count;

	(void)what;
	eventfd_read(watch->fd, &count);
	finish(dialogues, &dialogues->over, false);
}

static void close_all(const struct dialogues *dialogues)
{
	const int fds[] = { dialogues->watch.fd, dialogues->epoll_fd, dialogues->end_fd };

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static bool make_descriptors(struct dialogues *dialogues, struct loop *loop)
{
	struct epoll_event end = { .events = EPOLLIN, .data.ptr = NULL };

	watch_init(&dialogues->watch, loop, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), on_over);
	dialogues->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	dialogues->end_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (dialogues->watch.fd >= 0 && dialogues->epoll_fd >= 0 && dialogues->end_fd >= 0 &&
	    epoll_ctl(dialogues->epoll_fd, EPOLL_CTL_ADD, dialogues->end_fd, &end) == 0)
		return true;
	close_all(dialogues);
	return false;
}

struct dialogues *dialogues_new(struct loop *loop, unsigned int threads, struct err *err)
{
	struct dialogues *dialogues = calloc(1, sizeof(*dialogues));

	_Static_assert(offsetof(struct dialogues, watch) == 0, "on_over() counts on it");
	if (!dialogues || !(dialogues->threads = calloc(threads, sizeof(pthread_t))) ||
	    !make_descriptors(dialogues, loop)) {
		err_set(err, ERR_FILES, "cannot prepare helper threads: %s", strerror(errno));
		if (dialogues)
			free(dialogues->threads);
		free(dialogues);
		return NULL;
	}
	dialogues->thread_max = threads;
	pthread_mutex_init(&dialogues->lock, NULL);
	TAILQ_INIT(&dialogues->held);
	TAILQ_INIT(&dialogues->over);
	return dialogues;
}

void dialogues_free(struct dialogues **dialoguesp)
{
	struct dialogues *dialogues = *dialoguesp;

	if (!dialogues)
		return;
	eventfd_write(dialogues->end_fd, 1);
	for (unsigned int i = 0; i < dialogues->thread_count; i++)
		pthread_join(dialogues->threads[i], NULL);
	finish(dialogues, &dialogues->over, true);
	finish(dialogues, &dialogues->held, true);
	watch_done(&dialogues->watch);
	close_all(dialogues);
	pthread_mutex_destroy(&dialogues->lock);
	free(dialogues->threads);
	free(dialogues);
	*dialoguesp = NULL;
}

/* One thread at least; that no more can be had only makes it slower. */
static bool has_threads(struct dialogues *dialogues, struct err *err)
{
	while (dialogues->thread_count < dialogues->thread_max) {
		if (!thread_start(&dialogues->threads[dialogues->thread_count], hold, dialogues,
		                  err))
			return dialogues->thread_count > 0;
		dialogues->thread_count++;
	}
	return true;
}

bool dialogue_begin(struct dialogues *dialogues, struct dialogue *dialogue, unsigned int what,
                    struct err *err)
{
	if (!watch_set(&dialogues->watch, WATCH_READ))
		return err_set(err, ERR_FILES, "cannot watch for what helper threads do");
	if (!has_threads(dialogues, err))
		return false;
	dialogue->is_abandoned = false;
	dialogue->is_waiting = false;
	pthread_mutex_lock(&dialogues->lock);
	TAILQ_INSERT_TAIL(&dialogues->held, dialogue, node);
	pthread_mutex_unlock(&dialogues->lock);
	if (wait_for(dialogues, EPOLL_CTL_ADD, dialogue, what))
		return true;
	err_set(err, ERR_FILES, "cannot watch the connection: %s", strerror(errno));
	pthread_mutex_lock(&dialogues->lock);
	TAILQ_REMOVE(&dialogues->held, dialogue, node);
	pthread_mutex_unlock(&dialogues->lock);
	return false;
}

void dialogue_abandon(struct dialogue *dialogue)
{
	__atomic_store_n(&dialogue->is_abandoned, true, __ATOMIC_RELAXED);
	shutdown(dialogue->fd, SHUT_RDWR);
}
