/* SPDX-License-Identifier: ISC */
/*
 * Canceller: a queue of requests, a few threads, and a pipe back to the event loop.
 *
 *   canceller_ask() --> queue --> thread: PQcancel() --> pipe --> loop: answer()
 *
 * The queue is at most as long as the number of clients: each waits for its response.
 */
#include "canceller.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <unistd.h>

#include <event2/event.h>

#define THREADS 4

struct request {
	TAILQ_ENTRY(request) node;
	PGcancel *cancel;
	void *owner;
	unsigned int ticket;
	bool is_sent;
};

struct canceller {
	pthread_t threads[THREADS];
	unsigned int started;
	pthread_mutex_t lock; /* guards line and is_ending */
	pthread_cond_t wake;
	TAILQ_HEAD(, request) line;
	bool is_ending;
	int pipe[2]; /* pointers to finished requests */
	struct event *finished;
	void (*answer)(void *owner, unsigned int ticket, bool is_sent);
};

static void request_free(struct request *request)
{
	PQfreeCancel(request->cancel);
	free(request);
}

static struct request *next_request(struct canceller *canceller)
{
	struct request *request = NULL;

	pthread_mutex_lock(&canceller->lock);
	while (!canceller->is_ending && TAILQ_EMPTY(&canceller->line))
		pthread_cond_wait(&canceller->wake, &canceller->lock);
	if (!canceller->is_ending) {
		request = TAILQ_FIRST(&canceller->line);
		TAILQ_REMOVE(&canceller->line, request, node);
	}
	pthread_mutex_unlock(&canceller->lock);
	return request;
}

static void *send_requests(void *arg)
{
	struct canceller *canceller = arg;
	struct request *request;
	char error[256];

	while ((request = next_request(canceller))) {
		request->is_sent = PQcancel(request->cancel, error, sizeof(error));
		if (!request->is_sent)
			fprintf(stderr, "load: cancel request failed: %s\n", error);
		/* A pointer is shorter than PIPE_BUF, so it is written completely or not at all. */
		if (write(canceller->pipe[1], &request, sizeof(request)) != sizeof(request))
			abort();
	}
	return NULL;
}

static void on_finished(evutil_socket_t fd, short what, void *arg)
{
	struct canceller *canceller = arg;
	struct request *request;

	(void)what;
	if (read(fd, &request, sizeof(request)) != sizeof(request))
		return;
	canceller->answer(request->owner, request->ticket, request->is_sent);
	request_free(request);
}

struct canceller *canceller_new(struct event_base *base,
                                void (*answer)(void *owner, unsigned int ticket, bool is_sent))
{
	struct canceller *canceller = calloc(1, sizeof(*canceller));

	if (!canceller)
		return NULL;
	if (pipe(canceller->pipe) != 0) {
		free(canceller);
		return NULL;
	}
	TAILQ_INIT(&canceller->line);
	pthread_mutex_init(&canceller->lock, NULL);
	pthread_cond_init(&canceller->wake, NULL);
	canceller->answer = answer;
	canceller->finished =
	    event_new(base, canceller->pipe[0], EV_READ | EV_PERSIST, on_finished, canceller);
	if (canceller->finished)
		event_add(canceller->finished, NULL);
	while (canceller->started < THREADS &&
	       pthread_create(&canceller->threads[canceller->started], NULL, send_requests,
	                      canceller) == 0)
		canceller->started++;
	if (!canceller->finished || canceller->started == 0)
		canceller_free(&canceller);
	return canceller;
}

void canceller_ask(struct canceller *canceller, PGcancel *cancel, void *owner, unsigned int ticket)
{
	struct request *request = calloc(1, sizeof(*request));

	if (!request) {
		fputs("load: out of memory\n", stderr);
		exit(2);
	}
	*request = (struct request){ .cancel = cancel, .owner = owner, .ticket = ticket };
	pthread_mutex_lock(&canceller->lock);
	TAILQ_INSERT_TAIL(&canceller->line, request, node);
	pthread_cond_signal(&canceller->wake);
	pthread_mutex_unlock(&canceller->lock);
}

void canceller_free(struct canceller **canceller_at)
{
	struct canceller *canceller = *canceller_at;
	struct request *request;

	if (!canceller)
		return;
	pthread_mutex_lock(&canceller->lock);
	canceller->is_ending = true;
	pthread_cond_broadcast(&canceller->wake);
	pthread_mutex_unlock(&canceller->lock);
	while (canceller->started > 0)
		pthread_join(canceller->threads[--canceller->started], NULL);
	while ((request = TAILQ_FIRST(&canceller->line))) {
		TAILQ_REMOVE(&canceller->line, request, node);
		request_free(request);
	}
	close(canceller->pipe[1]);
	while (read(canceller->pipe[0], &request, sizeof(request)) == sizeof(request))
		request_free(request);
	close(canceller->pipe[0]);
	if (canceller->finished)
		event_free(canceller->finished);
	pthread_cond_destroy(&canceller->wake);
	pthread_mutex_destroy(&canceller->lock);
	free(canceller);
	*canceller_at = NULL;
}
