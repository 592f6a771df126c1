/* SPDX-License-Identifier: ISC */
/*
 * loop/workers.c, jobs with sockets: helper threads wait for sockets themselves, and the loop is
 * notified at the end.
 */
#include "pgweir/loop/workers.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/socket.h>
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

/* Reads `left` bytes, one at a time, and echoes each. */
struct echo {
	struct job job;
	struct counter *counter;
	int far;
	unsigned int left;
	unsigned int calls;
	char byte;
	bool has_to_say;
	bool was_elsewhere, had_signals_blocked;
	sem_t *gate;  /* a call waits for this, or NULL */
	sem_t *begun; /* a call signals this, or NULL */
};

static void note_thread(struct echo *echo)
{
	sigset_t blocked;

	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	echo->had_signals_blocked = sigismember(&blocked, SIGTERM) == 1;
	echo->was_elsewhere = !pthread_equal(pthread_self(), echo->counter->thread);
}

static unsigned int go_on(struct job *job)
{
	struct echo *echo = (struct echo *)job;

	echo->calls++;
	note_thread(echo);
	if (echo->begun)
		sem_post(echo->begun);
	if (echo->gate)
		sem_wait(echo->gate);
	if (echo->has_to_say) {
		ck_assert_int_eq(send(job->fd, &echo->byte, 1, MSG_NOSIGNAL), 1);
		echo->has_to_say = false;
		return --echo->left ? WATCH_READ : 0;
	}
	if (recv(job->fd, &echo->byte, 1, 0) != 1)
		return 0; /* the end */
	echo->has_to_say = true;
	return WATCH_WRITE;
}

static void done(struct job *job)
{
	struct echo *echo = (struct echo *)job;
	struct counter *counter = echo->counter;

	ck_assert(pthread_equal(pthread_self(), counter->thread));
	close(job->fd);
	counter->done_count++;
	counter->abandoned_count += job->is_abandoned;
	if (counter->done_count == counter->stop_at)
		loop_stop(counter->loop);
}

static struct counter make_counter(unsigned int stop_at)
{
	return (
	    struct counter){ .loop = loop_new(NULL), .thread = pthread_self(), .stop_at = stop_at };
}

static struct echo make_echo(struct counter *counter, unsigned int bytes)
{
	int pair[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	fcntl(pair[0], F_SETFL, O_NONBLOCK);
	return (struct echo){ .job = { .fd = pair[0], .go_on = go_on, .done = done },
		              .counter = counter,
		              .far = pair[1],
		              .left = bytes };
}

static void say(const struct echo *echo, char byte)
{
	ck_assert_int_eq(send(echo->far, &byte, 1, MSG_NOSIGNAL), 1);
}

static char hear(const struct echo *echo)
{
	char byte = 0;

	ck_assert_int_eq(recv(echo->far, &byte, 1, 0), 1);
	return byte;
}

START_TEST(handshakes_run_on_threads_and_end_in_the_loop)
{
	struct counter counter = make_counter(50);
	struct workers *handshakes = workers_new(3, 0, NULL);
	struct echo echoes[50];

	for (int i = 0; i < 50; i++) {
		echoes[i] = make_echo(&counter, 2);
		ck_assert(
		    workers_begin(handshakes, counter.loop, &echoes[i].job, WATCH_READ, NULL));
	}
	for (int round = 0; round < 2; round++) {
		for (int i = 49; i >= 0; i--)
			say(&echoes[i], (char)(' ' + i));
		for (int i = 0; i < 50; i++)
			ck_assert_int_eq(hear(&echoes[i]), ' ' + i);
	}
	loop_run(counter.loop);
	for (int i = 0; i < 50; i++) {
		ck_assert_uint_eq(echoes[i].calls, 4);
		ck_assert(echoes[i].was_elsewhere && echoes[i].had_signals_blocked);
		close(echoes[i].far);
	}
	ck_assert_uint_eq(counter.abandoned_count, 0);
	workers_free(&handshakes);
	ck_assert_ptr_null(handshakes);
	loop_free(&counter.loop);
}
END_TEST

START_TEST(who_has_to_speak_first_does)
{
	struct counter counter = make_counter(1);
	struct workers *handshakes = workers_new(1, 0, NULL);
	struct echo echo = make_echo(&counter, 1);

	echo.has_to_say = true;
	echo.byte = '!';
	ck_assert(workers_begin(handshakes, counter.loop, &echo.job, WATCH_WRITE, NULL));
	loop_run(counter.loop);
	ck_assert_int_eq(hear(&echo), '!');
	close(echo.far);
	workers_free(&handshakes);
	loop_free(&counter.loop);
}
END_TEST

START_TEST(the_far_ends_end_is_told)
{
	struct counter counter = make_counter(1);
	struct workers *handshakes = workers_new(1, 0, NULL);
	struct echo echo = make_echo(&counter, 9);

	ck_assert(workers_begin(handshakes, counter.loop, &echo.job, WATCH_READ, NULL));
	close(echo.far);
	loop_run(counter.loop);
	ck_assert_uint_eq(echo.calls, 1);
	ck_assert_uint_eq(counter.abandoned_count, 0);
	workers_free(&handshakes);
	loop_free(&counter.loop);
}
END_TEST

START_TEST(what_is_abandoned_while_it_waits_goes_no_further)
{
	struct counter counter = make_counter(1);
	struct workers *handshakes = workers_new(2, 0, NULL);
	struct echo echo = make_echo(&counter, 9);
	char byte;

	ck_assert(workers_begin(handshakes, counter.loop, &echo.job, WATCH_READ, NULL));
	workers_abandon(&echo.job);
	loop_run(counter.loop);
	ck_assert_uint_eq(echo.calls, 0);
	ck_assert_uint_eq(counter.abandoned_count, 1);
	ck_assert_int_eq(recv(echo.far, &byte, 1, 0), 0);
	close(echo.far);
	workers_free(&handshakes);
	loop_free(&counter.loop);
}
END_TEST

START_TEST(what_is_abandoned_amid_a_call_ends_behind_it)
{
	struct counter counter = make_counter(1);
	struct workers *handshakes = workers_new(2, 0, NULL);
	struct echo echo = make_echo(&counter, 9);
	sem_t gate, begun;

	sem_init(&gate, 0, 0);
	sem_init(&begun, 0, 0);
	echo.gate = &gate;
	echo.begun = &begun;
	say(&echo, 'x');
	ck_assert(workers_begin(handshakes, counter.loop, &echo.job, WATCH_READ, NULL));
	sem_wait(&begun);
	workers_abandon(&echo.job);
	sem_post(&gate);
	loop_run(counter.loop);
	ck_assert_uint_eq(echo.calls, 1);
	ck_assert_uint_eq(counter.abandoned_count, 1);
	close(echo.far);
	workers_free(&handshakes);
	loop_free(&counter.loop);
}
END_TEST

START_TEST(what_is_left_at_the_end_is_cleaned_up)
{
	struct counter counter = make_counter(0);
	struct workers *handshakes = workers_new(2, 0, NULL);
	struct echo waits = make_echo(&counter, 9), is_over = make_echo(&counter, 1);

	ck_assert(workers_begin(handshakes, counter.loop, &waits.job, WATCH_READ, NULL));
	ck_assert(workers_begin(handshakes, counter.loop, &is_over.job, WATCH_READ, NULL));
	say(&is_over, 'x');
	hear(&is_over);
	workers_free(&handshakes);
	ck_assert_uint_eq(counter.done_count, 2);
	ck_assert_uint_eq(counter.abandoned_count, 2);
	close(waits.far);
	close(is_over.far);
	loop_free(&counter.loop);
}
END_TEST

START_TEST(what_cannot_be_waited_for_is_refused)
{
	struct counter counter = make_counter(0);
	struct workers *handshakes = workers_new(1, 0, NULL);
	struct echo echo = { .job = { .fd = -1, .go_on = go_on, .done = done },
		             .counter = &counter };
	struct err err = { 0 };

	ck_assert(!workers_begin(handshakes, counter.loop, &echo.job, WATCH_READ, &err));
	ck_assert_str_eq(err.text, "cannot watch the connection: Bad file descriptor");
	workers_free(&handshakes);
	ck_assert_uint_eq(counter.done_count, 0);
	loop_free(&counter.loop);
}
END_TEST

/* ---- several loops ---- */

#define LOOPS 4
#define EACH 50

struct many {
	struct letter letter;
	struct counter counter;
	struct workers *handshakes;
	struct echo echoes[EACH];
	sem_t *all_done;
};

static void done_of_many(struct job *job)
{
	struct many *many =
	    (struct many *)((char *)((struct echo *)job)->counter - offsetof(struct many, counter));

	unit_expect(pthread_equal(pthread_self(), many->counter.thread));
	close(job->fd);
	many->counter.abandoned_count += job->is_abandoned;
	if (++many->counter.done_count == EACH)
		sem_post(many->all_done);
}

static unsigned int go_on_of_many(struct job *job)
{
	char byte;

	return recv(job->fd, &byte, 1, 0) == 1 ? (unsigned int)WATCH_READ : 0;
}

static void begin_many(struct letter *letter)
{
	struct many *many = (struct many *)letter;

	many->counter.thread = pthread_self();
	for (int i = 0; i < EACH; i++) {
		struct echo *echo = &many->echoes[i];

		*echo = make_echo(&many->counter, 0);
		echo->job.go_on = go_on_of_many;
		echo->job.done = done_of_many;
		unit_expect(workers_begin(many->handshakes, many->counter.loop, &echo->job,
		                          WATCH_READ, NULL));
		say(echo, 'x');
		if (i % 2)
			workers_abandon(&echo->job);
		else
			shutdown(echo->far, SHUT_WR);
	}
}

START_TEST(each_handshake_returns_to_its_own_loop)
{
	static struct many many[LOOPS];
	struct workers *handshakes = workers_new(2, 0, NULL);
	struct loop *loops[LOOPS];
	struct crew *crew;
	sem_t all_done;

	sem_init(&all_done, 0, 0);
	for (int i = 0; i < LOOPS; i++) {
		loops[i] = loop_new(NULL);
		many[i] = (struct many){ .letter.open = begin_many,
			                 .counter.loop = loops[i],
			                 .handshakes = handshakes,
			                 .all_done = &all_done };
	}
	crew = crew_new(loops, LOOPS, NULL);
	ck_assert(crew_start(crew, NULL));
	for (int i = 1; i < LOOPS; i++)
		loop_post(loops[i], &many[i].letter);
	for (int i = 1; i < LOOPS; i++)
		sem_wait(&all_done);
	crew_stop(crew);
	workers_free(&handshakes);
	for (int i = 1; i < LOOPS; i++) {
		ck_assert_uint_eq(many[i].counter.abandoned_count, EACH / 2);
		for (int j = 0; j < EACH; j++)
			close(many[i].echoes[j].far);
	}
	crew_free(&crew);
	for (int i = 0; i < LOOPS; i++)
		loop_free(&loops[i]);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("loop/handshakes");
	TCase *cases = tcase_create("handshakes");

	tcase_set_timeout(cases, 20);
	tcase_add_test(cases, handshakes_run_on_threads_and_end_in_the_loop);
	tcase_add_test(cases, who_has_to_speak_first_does);
	tcase_add_test(cases, the_far_ends_end_is_told);
	tcase_add_test(cases, what_is_abandoned_while_it_waits_goes_no_further);
	tcase_add_test(cases, what_is_abandoned_amid_a_call_ends_behind_it);
	tcase_add_test(cases, what_is_left_at_the_end_is_cleaned_up);
	tcase_add_test(cases, what_cannot_be_waited_for_is_refused);
	tcase_add_test(cases, each_handshake_returns_to_its_own_loop);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
