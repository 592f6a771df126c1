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

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "loop_priv.h"
#include "thread_priv.h"

#include "pgweir/base/banned.h"

/* As much as a main thread usually has. Only what is used takes memory. */
#define LOOP_STACK_SIZE ((size_t)8 * 1024 * 1024)

struct member {
	struct crew *crew;
	struct loop *loop;
	unsigned int number;
	pthread_t thread;
};

struct crew {
	pthread_t main_thread;
	unsigned int depth;        /* of crew_hold(): for the main thread only */
	unsigned int thread_count; /* members with a thread: for the main thread only */

	pthread_mutex_t lock; /* guards all fields below */
	pthread_cond_t all_parked;
	pthread_cond_t go_on;
	bool is_held;
	unsigned int running_count; /* threads whose loop has not ended */
	unsigned int parked_count;  /* those that are parked in this round */
	unsigned long round;        /* counts releases */

	unsigned int count;
	struct member members[]; /* the first is the main thread's */
};

/* ---- on the loops' threads ---- */

static void signal_if_all_parked(struct crew *crew)
{
	if (crew->is_held && crew->parked_count == crew->running_count)
		pthread_cond_signal(&crew->all_parked);
}

/* Called by a loop between two turns, because it was called to park. */
static void crew_park(void *arg)
{
	struct crew *crew = arg;
	unsigned long round;

	pthread_mutex_lock(&crew->lock);
	if (crew->is_held) {
		round = crew->round;
		crew->parked_count++;
		signal_if_all_parked(crew);
		while (crew->round == round)
			pthread_cond_wait(&crew->go_on, &crew->lock);
	}
	pthread_mutex_unlock(&crew->lock);
}

static void *run_member(void *arg)
{
	struct member *member = arg;
	struct crew *crew = member->crew;
	char name[16];

	snprintf(name, sizeof(name), "pgweir/%u", member->number);
	pthread_setname_np(pthread_self(), name);
	loop_run(member->loop);
	pthread_mutex_lock(&crew->lock);
	crew->running_count--;
	signal_if_all_parked(crew);
	pthread_mutex_unlock(&crew->lock);
	return NULL;
}

/* ---- on the main thread ---- */

static bool is_main_thread(const struct crew *crew)
{
	return pthread_equal(pthread_self(), crew->main_thread);
}

struct crew *crew_new(struct loop *const *loops, unsigned int count, struct err *err)
{
	struct crew *crew = calloc(1, sizeof(*crew) + count * sizeof(struct member));

	assert(count > 0);
	if (!crew) {
		err_set(err, ERR_MEMORY, "no memory for the event loops");
		return NULL;
	}
	crew->main_thread = pthread_self();
	crew->count = count;
	pthread_mutex_init(&crew->lock, NULL);
	pthread_cond_init(&crew->all_parked, NULL);
	pthread_cond_init(&crew->go_on, NULL);
	for (unsigned int i = 0; i < count; i++) {
		crew->members[i] = (struct member){ .crew = crew, .loop = loops[i], .number = i };
		if (count > 1 && !loop_take_letters(loops[i], err)) {
			crew_free(&crew);
			return NULL;
		}
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

static bool start_member(struct crew *crew, struct member *member, struct err *err)
{
	bool has_started;

	pthread_mutex_lock(&crew->lock);
	has_started = thread_start(&member->thread, run_member, member, LOOP_STACK_SIZE, err);
	crew->running_count += has_started;
	pthread_mutex_unlock(&crew->lock);
	return has_started;
}

bool crew_start(struct crew *crew, struct err *err)
{
	assert(is_main_thread(crew) && crew->thread_count == 0);
	while (crew->thread_count + 1 < crew->count) {
		if (!start_member(crew, &crew->members[crew->thread_count + 1], err)) {
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
	crew_hold(crew);
	for (unsigned int i = 1; i <= crew->thread_count; i++)
		loop_stop(crew->members[i].loop);
	crew_release(crew);
	while (crew->thread_count > 0)
		pthread_join(crew->members[crew->thread_count--].thread, NULL);
}

void crew_hold(struct crew *crew)
{
	assert(is_main_thread(crew));
	if (crew->depth++ > 0 || crew->thread_count == 0)
		return;
	pthread_mutex_lock(&crew->lock);
	crew->is_held = true;
	crew->parked_count = 0;
	for (unsigned int i = 1; i <= crew->thread_count; i++)
		loop_call(crew->members[i].loop);
	while (crew->parked_count < crew->running_count)
		pthread_cond_wait(&crew->all_parked, &crew->lock);
	pthread_mutex_unlock(&crew->lock);
}

void crew_release(struct crew *crew)
{
	assert(is_main_thread(crew) && crew->depth > 0);
	if (--crew->depth > 0 || crew->thread_count == 0)
		return;
	pthread_mutex_lock(&crew->lock);
	for (unsigned int i = 1; i <= crew->thread_count; i++)
		loop_call_off(crew->members[i].loop);
	crew->is_held = false;
	crew->round++;
	pthread_cond_broadcast(&crew->go_on);
	pthread_mutex_unlock(&crew->lock);
}

bool crew_is_held(const struct crew *crew) { return crew->depth > 0; }
