/* SPDX-License-Identifier: ISC */
/*
 * loop/workers.c: jobs run in helper threads and return to the loop.
 */
#include "pgweir/loop/workers.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "pgweir/loop/crew.h"

#include "../unit.h"

struct counter {
	struct loop *loop;
	pthread_t thread; /* the loop's */
	unsigned int done_count;
	unsigned int abandoned_count;
	unsigned int stop_at;
};

struct piece {
	struct job job;
	struct counter *counter;
	sem_t *gate;  /* run() waits for this, or NULL */
	sem_t *begun; /* run() signals this, or NULL */
	pid_t thread; /* of run() */
	bool has_run;
	bool was_elsewhere;
	bool had_signals_blocked;
};

static void run_piece(struct job *job)
{
	struct piece *piece = (struct piece *)job;
	sigset_t blocked;

	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	piece->thread = gettid();
	piece->had_signals_blocked = sigismember(&blocked, SIGTERM) == 1;
	piece->was_elsewhere = !pthread_equal(pthread_self(), piece->counter->thread);
	if (piece->begun)
		sem_post(piece->begun);
	if (piece->gate)
		sem_wait(piece->gate);
	piece->has_run = true;
}

static void done_piece(struct job *job)
{
	struct piece *piece = (struct piece *)job;
	struct counter *counter = piece->counter;

	ck_assert(pthread_equal(pthread_self(), counter->thread));
	counter->done_count++;
	if (job->is_abandoned)
		counter->abandoned_count++;
	if (counter->done_count == counter->stop_at)
		loop_stop(counter->loop);
}

static struct piece make_piece(struct counter *counter, sem_t *gate, sem_t *begun)
{
	return (struct piece){ .job = { .run = run_piece, .done = done_piece },
		               .counter = counter,
		               .gate = gate,
		               .begun = begun };
}

static struct counter make_counter(unsigned int stop_at)
{
	return (
	    struct counter){ .loop = loop_new(NULL), .thread = pthread_self(), .stop_at = stop_at };
}

START_TEST(jobs_run_elsewhere_and_end_in_the_loop)
{
	struct counter counter = make_counter(100);
	struct workers *workers = workers_new(3, 100, NULL);
	struct piece pieces[100];

	for (int i = 0; i < 100; i++) {
		pieces[i] = make_piece(&counter, NULL, NULL);
		ck_assert(workers_submit(workers, counter.loop, &pieces[i].job, NULL));
	}
	loop_run(counter.loop);
	for (int i = 0; i < 100; i++)
		ck_assert(pieces[i].has_run && pieces[i].was_elsewhere &&
		          pieces[i].had_signals_blocked);
	ck_assert_uint_eq(counter.abandoned_count, 0);
	workers_free(&workers);
	ck_assert_ptr_null(workers);
	loop_free(&counter.loop);
}
END_TEST

START_TEST(jobs_beyond_the_limit_are_refused)
{
	struct counter counter = make_counter(3);
	struct workers *workers = workers_new(1, 2, NULL);
	struct piece pieces[4];
	struct err err = { 0 };
	sem_t gate, begun;

	sem_init(&gate, 0, 0);
	sem_init(&begun, 0, 0);
	for (int i = 0; i < 4; i++)
		pieces[i] = make_piece(&counter, &gate, &begun);
	ck_assert(workers_submit(workers, counter.loop, &pieces[0].job, NULL));
	sem_wait(&begun); /* it is running, not queued any more */
	ck_assert(workers_submit(workers, counter.loop, &pieces[1].job, NULL));
	ck_assert(workers_submit(workers, counter.loop, &pieces[2].job, NULL));
	ck_assert(!workers_submit(workers, counter.loop, &pieces[3].job, &err));
	ck_assert_int_eq(err.code, ERR_LIMIT);
	for (int i = 0; i < 3; i++)
		sem_post(&gate);
	loop_run(counter.loop);
	ck_assert(!pieces[3].has_run);
	workers_free(&workers);
	loop_free(&counter.loop);
}
END_TEST

START_TEST(jobs_abandoned_are_told_so)
{
	struct counter counter = make_counter(2);
	struct workers *workers = workers_new(1, 10, NULL);
	struct piece pieces[2];
	sem_t gate, begun;

	sem_init(&gate, 0, 0);
	sem_init(&begun, 0, 0);
	for (int i = 0; i < 2; i++) {
		pieces[i] = make_piece(&counter, &gate, &begun);
		ck_assert(workers_submit(workers, counter.loop, &pieces[i].job, NULL));
	}
	sem_wait(&begun);
	workers_abandon(&pieces[0].job);
	workers_abandon(&pieces[1].job); /* still queued: may never run */
	sem_post(&gate);
	loop_run(counter.loop);
	ck_assert_uint_eq(counter.abandoned_count, 2);
	ck_assert(pieces[0].has_run);
	ck_assert(!pieces[1].has_run);
	workers_free(&workers);
	loop_free(&counter.loop);
}
END_TEST

START_TEST(jobs_left_at_the_end_are_all_cleaned_up)
{
	struct counter counter = make_counter(0);
	struct workers *workers = workers_new(2, 10, NULL);
	struct piece pieces[8];
	sem_t begun;

	sem_init(&begun, 0, 0);
	for (int i = 0; i < 8; i++) {
		pieces[i] = make_piece(&counter, NULL, &begun);
		ck_assert(workers_submit(workers, counter.loop, &pieces[i].job, NULL));
	}
	sem_wait(&begun);
	workers_free(&workers);
	ck_assert_uint_eq(counter.done_count, 8);
	ck_assert_uint_eq(counter.abandoned_count, 8);
	loop_free(&counter.loop);
}
END_TEST

/* ---- several loops ---- */

#define LOOPS 4
#define EACH 200

struct many {
	struct letter letter;
	struct counter counter;
	struct workers *workers;
	struct piece pieces[EACH];
	unsigned int next; /* the next piece to submit */
	sem_t *all_done;
};

static void done_of_many(struct job *job);

static void submit_next(struct many *many)
{
	struct piece *piece = &many->pieces[many->next++];

	*piece = make_piece(&many->counter, NULL, NULL);
	piece->job.done = done_of_many;
	unit_expect(workers_submit(many->workers, many->counter.loop, &piece->job, NULL));
	if (many->next % 7 == 0)
		workers_abandon(&piece->job);
}

static void done_of_many(struct job *job)
{
	struct many *many = (struct many *)((char *)((struct piece *)job)->counter -
	                                    offsetof(struct many, counter));

	many->counter.done_count++;
	unit_expect(pthread_equal(pthread_self(), many->counter.thread));
	if (many->next < EACH)
		submit_next(many);
	else if (many->counter.done_count == EACH)
		sem_post(many->all_done);
}

static void begin_many(struct letter *letter)
{
	struct many *many = (struct many *)letter;

	many->counter.thread = pthread_self();
	for (int i = 0; i < 5; i++)
		submit_next(many);
}

/* Starts a crew of which each loop but the first submits jobs to the same threads. */
static struct crew *start_many(struct many *many, struct workers *workers, sem_t *all_done)
{
	struct loop *loops[LOOPS];
	struct crew *crew;

	for (int i = 0; i < LOOPS; i++) {
		loops[i] = loop_new(NULL);
		many[i] = (struct many){ .letter.open = begin_many,
			                 .counter.loop = loops[i],
			                 .workers = workers,
			                 .all_done = all_done };
	}
	crew = crew_new(loops, LOOPS, NULL);
	ck_assert(crew_start(crew, NULL));
	for (int i = 1; i < LOOPS; i++)
		loop_post(loops[i], &many[i].letter);
	return crew;
}

static void end_many(struct many *many, struct crew **crew, struct workers **workers)
{
	crew_stop(*crew);
	for (int i = 1; i < LOOPS; i++)
		many[i].counter.thread = pthread_self();
	workers_free(workers);
	crew_free(crew);
	for (int i = 0; i < LOOPS; i++)
		loop_free(&many[i].counter.loop);
}

START_TEST(each_job_returns_to_its_own_loop)
{
	static struct many many[LOOPS];
	struct workers *workers = workers_new(3, LOOPS * EACH, NULL);
	struct crew *crew;
	sem_t all_done;

	sem_init(&all_done, 0, 0);
	crew = start_many(many, workers, &all_done);
	for (int i = 1; i < LOOPS; i++)
		sem_wait(&all_done);
	end_many(many, &crew, &workers);
	for (int i = 1; i < LOOPS; i++)
		ck_assert_uint_eq(many[i].counter.done_count, EACH);
}
END_TEST

static void note_done(struct job *job)
{
	struct piece *piece = (struct piece *)job;

	ck_assert(job->is_abandoned);
	piece->counter->done_count++;
}

/* A job that ended, but whose loop has stopped before it opened the letter. */
START_TEST(jobs_of_stopped_loops_are_all_cleaned_up)
{
	struct loop *loops[2] = { loop_new(NULL), loop_new(NULL) };
	struct workers *workers = workers_new(2, 100, NULL);
	struct counter counter = { .thread = pthread_self() };
	struct piece pieces[40];
	sem_t begun;

	sem_init(&begun, 0, 0);
	for (int i = 0; i < 40; i++) {
		pieces[i] = make_piece(&counter, NULL, &begun);
		pieces[i].job.done = note_done;
		ck_assert(workers_submit(workers, loops[i % 2], &pieces[i].job, NULL));
	}
	for (int i = 0; i < 20; i++)
		sem_wait(&begun);
	workers_free(&workers);
	ck_assert_uint_eq(counter.done_count, 40);
	for (int i = 0; i < 2; i++)
		loop_free(&loops[i]); /* no letter is left that would be opened late */
	ck_assert_uint_eq(counter.done_count, 40);
}
END_TEST

static bool is_alive(pid_t thread)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d", (int)thread);
	return access(path, F_OK) == 0;
}

/* A job that never ends keeps its thread; it must not post to a loop that is gone. */
START_TEST(a_job_that_ends_after_all_is_left_alone)
{
	struct loop *loop = loop_new(NULL);
	struct workers *workers = workers_new(1, 10, NULL);
	static struct counter counter;
	static struct piece piece;
	static sem_t gate, begun;

	counter.thread = pthread_self();
	sem_init(&gate, 0, 0);
	sem_init(&begun, 0, 0);
	piece = make_piece(&counter, &gate, &begun);
	ck_assert(workers_submit(workers, loop, &piece.job, NULL));
	sem_wait(&begun);
	workers_leave(&workers, 1);
	loop_free(&loop);
	sem_post(&gate);
	while (is_alive(piece.thread))
		sched_yield();
	ck_assert_uint_eq(counter.done_count, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("loop/workers");
	TCase *cases = tcase_create("workers");

	tcase_set_timeout(cases, 20);
	tcase_add_test(cases, jobs_run_elsewhere_and_end_in_the_loop);
	tcase_add_test(cases, jobs_beyond_the_limit_are_refused);
	tcase_add_test(cases, jobs_abandoned_are_told_so);
	tcase_add_test(cases, jobs_left_at_the_end_are_all_cleaned_up);
	tcase_add_test(cases, each_job_returns_to_its_own_loop);
	tcase_add_test(cases, jobs_of_stopped_loops_are_all_cleaned_up);
	tcase_add_test(cases, a_job_that_ends_after_all_is_left_alone);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
