/* SPDX-License-Identifier: ISC */
/*
 * The loops of one process, and how the main thread holds them.
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

#include "pgweir/base/text.h"

#include "loop_priv.h"

/* As much as a main thread usually has. Only what is used takes memory. */
#define LOOP_STACK_SIZE ((size_t)8 * 1024 * 1024)

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

/* ---- thread ---- */

bool thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg, size_t stack_size,
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
