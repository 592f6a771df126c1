/* SPDX-License-Identifier: ISC */
/*
 * loop/crew.c: loops with threads of their own, held and released by the main thread.
 */
#include "pgweir/loop/crew.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../unit.h"

#define LOOPS 4

/* What one loop has. No field is atomic: only holding makes it safe to use another loop's. */
struct hand {
	struct loop *loop;
	struct letter letter;
	struct task busy;
	bool is_busy; /* defers itself again and again, so the loop never sleeps */
	unsigned long count;
	unsigned long twin; /* equal to count between two turns */
	char name[16];
	bool had_signals_blocked;
	sem_t *said; /* posted when something has happened */
	struct timer timer;
	struct watch watch;
	struct task later;
};

struct stage {
	struct loop *loops[LOOPS];
	struct hand hands[LOOPS];
	struct crew *crew;
	sem_t said;
};

static void run_busy(struct task *task)
{
	struct hand *hand = (struct hand *)((char *)task - offsetof(struct hand, busy));

	hand->count++;
	if (hand->is_busy)
		loop_defer(hand->loop, task);
	for (volatile int i = 0; i < 3000; i++) /* mostly, count and twin differ */
		continue;
	hand->twin++;
}

static void raise_stage(struct stage *stage, unsigned int count)
{
	memset(stage, 0, sizeof(*stage));
	sem_init(&stage->said, 0, 0);
	for (unsigned int i = 0; i < count; i++) {
		stage->loops[i] = loop_new(NULL);
		ck_assert_ptr_nonnull(stage->loops[i]);
		stage->hands[i].loop = stage->loops[i];
		stage->hands[i].busy.run = run_busy;
		stage->hands[i].said = &stage->said;
	}
	stage->crew = crew_new(stage->loops, count, NULL);
	ck_assert_ptr_nonnull(stage->crew);
}

static void leave_nothing(struct hand *hand)
{
	if (!hand->watch.loop)
		return;
	watch_done(&hand->watch);
	close(hand->watch.fd);
	hand->watch.loop = NULL;
}

static void strike_stage(struct stage *stage)
{
	crew_stop(stage->crew);
	crew_free(&stage->crew);
	ck_assert_ptr_null(stage->crew);
	for (unsigned int i = 0; i < LOOPS; i++) {
		leave_nothing(&stage->hands[i]);
		if (stage->loops[i])
			loop_undefer(stage->loops[i], &stage->hands[i].busy);
		loop_free(&stage->loops[i]);
	}
	sem_destroy(&stage->said);
}

static void make_busy(struct stage *stage, bool is_busy)
{
	for (unsigned int i = 1; i < LOOPS; i++) {
		stage->hands[i].is_busy = is_busy;
		if (is_busy)
			loop_defer(stage->loops[i], &stage->hands[i].busy);
	}
}

static void say_who(struct letter *letter)
{
	struct hand *hand = (struct hand *)((char *)letter - offsetof(struct hand, letter));
	sigset_t blocked;

	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	hand->had_signals_blocked = sigismember(&blocked, SIGTERM) == 1;
	pthread_getname_np(pthread_self(), hand->name, sizeof(hand->name));
	sem_post(hand->said);
}

START_TEST(each_loop_but_the_first_has_a_thread)
{
	struct stage stage;
	char name[16];

	raise_stage(&stage, LOOPS);
	ck_assert(crew_start(stage.crew, NULL));
	for (int i = 1; i < LOOPS; i++) {
		stage.hands[i].letter.open = say_who;
		loop_post(stage.loops[i], &stage.hands[i].letter);
	}
	for (int i = 1; i < LOOPS; i++)
		sem_wait(&stage.said);
	for (int i = 1; i < LOOPS; i++) {
		snprintf(name, sizeof(name), "pgweir/%d", i);
		ck_assert_str_eq(stage.hands[i].name, name);
		ck_assert(stage.hands[i].had_signals_blocked);
	}
	strike_stage(&stage);
}
END_TEST

static void expect_between_turns(const struct stage *stage)
{
	unsigned long counts[LOOPS];

	for (int i = 1; i < LOOPS; i++)
		counts[i] = stage->hands[i].count;
	sched_yield();
	for (int i = 1; i < LOOPS; i++) {
		unit_expect(stage->hands[i].count == stage->hands[i].twin);
		unit_expect(stage->hands[i].count == counts[i]);
	}
}

/* Under ThreadSanitizer each access here is also checked for being ordered with the loops'. */
START_TEST(held_loops_are_between_two_turns)
{
	unsigned long turns[LOOPS] = { 0 };
	struct stage stage;

	raise_stage(&stage, LOOPS);
	make_busy(&stage, true);
	ck_assert(crew_start(stage.crew, NULL));
	for (int round = 0; round < 1000; round++) {
		crew_hold(stage.crew);
		expect_between_turns(&stage);
		crew_hold(stage.crew);
		crew_release(stage.crew);
		expect_between_turns(&stage);
		for (int i = 1; i < LOOPS; i++) {
			/* It made a turn since the last hold, however soon this one came. */
			unit_expect(round == 0 || loop_turn_count(stage.loops[i]) > turns[i]);
			turns[i] = loop_turn_count(stage.loops[i]);
		}
		crew_release(stage.crew);
	}
	crew_hold(stage.crew);
	make_busy(&stage, false);
	crew_release(stage.crew);
	strike_stage(&stage);
}
END_TEST

START_TEST(loops_that_sleep_are_woken_to_be_held)
{
	struct stage stage;

	raise_stage(&stage, LOOPS);
	ck_assert(crew_start(stage.crew, NULL));
	for (int round = 0; round < 200; round++) {
		crew_hold(stage.crew);
		crew_release(stage.crew);
	}
	strike_stage(&stage);
}
END_TEST

/* ---- what the holder leaves behind, in a loop that would sleep otherwise ---- */

static void say_later(struct task *task)
{
	struct hand *hand = (struct hand *)((char *)task - offsetof(struct hand, later));

	sem_post(hand->said);
}

static void leave_task(struct hand *hand)
{
	hand->later.run = say_later;
	loop_defer(hand->loop, &hand->later);
}

static void say_due(struct timer *timer)
{
	struct hand *hand = (struct hand *)((char *)timer - offsetof(struct hand, timer));

	sem_post(hand->said);
}

static void leave_timer(struct hand *hand)
{
	timer_set(&hand->timer, loop_timer_queue(hand->loop, 1000, say_due), loop_now(hand->loop));
}

static void say_ready(struct watch *watch, unsigned int what)
{
	struct hand *hand = (struct hand *)((char *)watch - offsetof(struct hand, watch));

	(void)what;
	watch_set(watch, 0);
	sem_post(hand->said);
}

static void leave_watch(struct hand *hand)
{
	watch_init(&hand->watch, hand->loop, eventfd(1, EFD_CLOEXEC), say_ready);
	ck_assert(watch_set(&hand->watch, WATCH_READ));
}

static void say_end(void *arg)
{
	struct hand *hand = arg;

	loop_at_turn_end(hand->loop, NULL, NULL);
	sem_post(hand->said);
}

static void leave_turn_end(struct hand *hand) { loop_at_turn_end(hand->loop, say_end, hand); }

static const struct {
	const char *says;
	void (*leave)(struct hand *hand);
} leavings[] = {
	{ "a task", leave_task },
	{ "a timer", leave_timer },
	{ "a watch", leave_watch },
	{ "work for the end of the turn", leave_turn_end },
};

START_TEST(what_the_holder_leaves_is_done_at_once)
{
	struct stage stage;

	raise_stage(&stage, LOOPS);
	ck_assert(crew_start(stage.crew, NULL));
	for (int round = 0; round < 20; round++) {
		crew_hold(stage.crew);
		for (int i = 1; i < LOOPS; i++) {
			leave_nothing(&stage.hands[i]);
			leavings[_i].leave(&stage.hands[i]);
		}
		crew_release(stage.crew);
		for (int i = 1; i < LOOPS; i++)
			sem_wait(&stage.said); /* a loop that sleeps fails by the time limit */
	}
	strike_stage(&stage);
}
END_TEST

START_TEST(the_clock_of_a_held_loop_goes_on)
{
	struct stage stage;
	usec_t before;

	raise_stage(&stage, LOOPS);
	ck_assert(crew_start(stage.crew, NULL));
	crew_hold(stage.crew);
	before = loop_now(stage.loops[1]);
	while (clock_now() == before)
		continue;
	ck_assert_int_gt(loop_now(stage.loops[1]), before);
	ck_assert_int_ge(loop_cpu(stage.loops[1]), 0);
	crew_release(stage.crew);
	strike_stage(&stage);
}
END_TEST

/* ---- letters between running loops, with holds in between ---- */

struct ball {
	struct letter letter;
	struct stage *stage;
	unsigned int at;
	unsigned long passes;
};

static void pass_on(struct letter *letter)
{
	struct ball *ball = (struct ball *)letter;

	if (letter->is_late)
		return;
	ball->stage->hands[ball->at].count++;
	if (++ball->passes == 3000)
		sem_post(&ball->stage->said);
	ball->at = 1 + ball->at % (LOOPS - 1);
	loop_post(ball->stage->loops[ball->at], letter);
}

START_TEST(letters_go_round_while_loops_are_held_and_stopped)
{
	struct stage stage;
	struct ball balls[8];
	unsigned long opened = 0, passes = 0;

	raise_stage(&stage, LOOPS);
	ck_assert(crew_start(stage.crew, NULL));
	for (int i = 0; i < 8; i++) {
		balls[i] =
		    (struct ball){ .letter.open = pass_on, .stage = &stage, .at = 1 + i % 3 };
		loop_post(stage.loops[balls[i].at], &balls[i].letter);
	}
	for (int i = 0; i < 300; i++) {
		crew_hold(stage.crew);
		crew_release(stage.crew);
	}
	for (int i = 0; i < 8; i++)
		sem_wait(&stage.said);
	crew_stop(stage.crew);
	for (int i = 0; i < 8; i++)
		passes += balls[i].passes;
	for (int i = 1; i < LOOPS; i++)
		opened += stage.hands[i].count;
	ck_assert_uint_eq(opened, passes);
	strike_stage(&stage);
}
END_TEST

/* ---- the ends ---- */

START_TEST(one_loop_needs_no_thread)
{
	struct stage stage;

	raise_stage(&stage, 1);
	ck_assert(crew_start(stage.crew, NULL));
	crew_hold(stage.crew);
	crew_release(stage.crew);
	ck_assert_uint_eq(loop_turn_count(stage.loops[0]), 0);
	strike_stage(&stage);
}
END_TEST

START_TEST(a_crew_may_start_again)
{
	struct stage stage;

	raise_stage(&stage, LOOPS);
	crew_stop(stage.crew); /* nothing runs */
	for (int i = 0; i < 20; i++) {
		ck_assert(crew_start(stage.crew, NULL));
		crew_hold(stage.crew);
		crew_release(stage.crew);
		crew_stop(stage.crew);
	}
	strike_stage(&stage);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("loop/crew");
	TCase *cases = tcase_create("crew");

	tcase_set_timeout(cases, 60);
	tcase_add_test(cases, each_loop_but_the_first_has_a_thread);
	tcase_add_test(cases, held_loops_are_between_two_turns);
	tcase_add_test(cases, loops_that_sleep_are_woken_to_be_held);
	tcase_add_loop_test(cases, what_the_holder_leaves_is_done_at_once, 0, COUNT_OF(leavings));
	tcase_add_test(cases, the_clock_of_a_held_loop_goes_on);
	tcase_add_test(cases, letters_go_round_while_loops_are_held_and_stopped);
	tcase_add_test(cases, one_loop_needs_no_thread);
	tcase_add_test(cases, a_crew_may_start_again);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
