/* SPDX-License-Identifier: ISC */
/*
 * loop/workers.c: jobs run in helper threads and return to the loop.
 */
#include "pgweir/loop/workers.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

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
	bool has_run;
	bool was_elsewhere;
	bool had_signals_blocked;
};

static void run_piece(struct job *job)
{
	struct piece *piece = (struct piece *)job;
	sigset_t blocked;

	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
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
	struct workers *workers = workers_new(counter.loop, 3, 100, NULL);
	struct piece pieces[100];

	for (int i = 0; i < 100; i++) {
		pieces[i] = make_piece(&counter, NULL, NULL);
		ck_assert(workers_submit(workers, &pieces[i].job, NULL));
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
	struct workers *workers = workers_new(counter.loop, 1, 2, NULL);
	struct piece pieces[4];
	struct err err = { 0 };
	sem_t gate, begun;

	sem_init(&gate, 0, 0);
	sem_init(&begun, 0, 0);
	for (int i = 0; i < 4; i++)
		pieces[i] = make_piece(&counter, &gate, &begun);
	ck_assert(workers_submit(workers, &pieces[0].job, NULL));
	sem_wait(&begun); /* it is running, not queued any more */
	ck_assert(workers_submit(workers, &pieces[1].job, NULL));
	ck_assert(workers_submit(workers, &pieces[2].job, NULL));
	ck_assert(!workers_submit(workers, &pieces[3].job, &err));
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
	struct workers *workers = workers_new(counter.loop, 1, 10, NULL);
	struct piece pieces[2];
	sem_t gate, begun;

	sem_init(&gate, 0, 0);
	sem_init(&begun, 0, 0);
	for (int i = 0; i < 2; i++) {
		pieces[i] = make_piece(&counter, &gate, &begun);
		ck_assert(workers_submit(workers, &pieces[i].job, NULL));
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
	struct workers *workers = workers_new(counter.loop, 2, 10, NULL);
	struct piece pieces[8];
	sem_t begun;

	sem_init(&begun, 0, 0);
	for (int i = 0; i < 8; i++) {
		pieces[i] = make_piece(&counter, NULL, &begun);
		ck_assert(workers_submit(workers, &pieces[i].job, NULL));
	}
	sem_wait(&begun);
	workers_free(&workers);
	ck_assert_uint_eq(counter.done_count, 8);
	ck_assert_uint_eq(counter.abandoned_count, 8);
	loop_free(&counter.loop);
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
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
