/* SPDX-License-Identifier: ISC */
/*
 * pool/watches.c: what the main thread waits for, and changes in its own and in another loop.
 */
#include "pgweir/pool/watches.h"

#include "pgweir/base/container_of.h"

#include "../unit.h"

static struct stage {
	struct loop *loop, *other;
	struct watches watches;
	struct pools_watch watch;
	struct task change;
	struct timer limit;
	unsigned int ask_count;    /* calls of is_done() */
	unsigned int wanted_count; /* the call that says yes */
	unsigned int change_count; /* changes so far */
	usec_t asked_at,
	    shortest; /* the last call, and the shortest time between two from the second on */
	bool changes_elsewhere, is_single;
	bool is_done;
} stage;

static bool is_done(struct pools_watch *watch)
{
	usec_t now = loop_now(stage.loop);

	ck_assert_ptr_eq(watch, &stage.watch);
	if (++stage.ask_count > 2 && now - stage.asked_at < stage.shortest)
		stage.shortest = now - stage.asked_at;
	stage.asked_at = now;
	return stage.ask_count >= stage.wanted_count;
}

static void on_done(struct pools_watch *watch)
{
	ck_assert_ptr_eq(watch, &stage.watch);
	stage.is_done = true;
	loop_stop(stage.loop);
}

static void on_limit(struct timer *timer)
{
	(void)timer;
	loop_stop(stage.loop);
}

/* One change in each turn, or in one turn. */
static void run_change(struct task *task)
{
	watches_changed(&stage.watches, stage.changes_elsewhere ? stage.other : stage.loop);
	stage.change_count++;
	if (!stage.is_single)
		loop_defer(stage.loop, task);
}

/* The second loop never runs: it only says where something has changed. */
static void raise_stage(bool has_others)
{
	memset(&stage, 0, sizeof(stage));
	stage.loop = loop_new(NULL);
	stage.other = loop_new(NULL);
	watches_init(&stage.watches, stage.loop, has_others);
	stage.watch = (struct pools_watch){ .is_done = is_done, .on_done = on_done };
	stage.change.run = run_change;
}

static void run_for(usec_t limit)
{
	timer_set(&stage.limit, loop_timer_queue(stage.loop, limit, on_limit), clock_now());
	loop_run(stage.loop);
	timer_clear(&stage.limit);
}

static void strike_stage(void)
{
	loop_undefer(stage.loop, &stage.change);
	watches_done(&stage.watches);
	loop_free(&stage.loop);
	loop_free(&stage.other);
}

START_TEST(asks_at_the_beginning)
{
	raise_stage(_i);
	stage.wanted_count = 1;
	watches_start(&stage.watches, &stage.watch);
	ck_assert_uint_eq(stage.ask_count, 0); /* not within the call */
	run_for(USEC_PER_SEC * 20);
	ck_assert(stage.is_done);
	ck_assert_uint_eq(stage.ask_count, 1);
	ck_assert(TAILQ_EMPTY(&stage.watches.list));
	strike_stage();
}
END_TEST

START_TEST(asks_again_after_a_change)
{
	raise_stage(true);
	stage.changes_elsewhere = _i;
	stage.wanted_count = 2;
	watches_start(&stage.watches, &stage.watch);
	loop_defer(stage.loop, &stage.change);
	stage.is_single = true; /* in the turn of the first question */
	run_for(USEC_PER_SEC * 20);
	ck_assert(stage.is_done);
	strike_stage();
}
END_TEST

/* The only loop is asked in each turn with a change, as it need not be held. */
START_TEST(one_loop_asks_in_each_turn)
{
	raise_stage(false);
	stage.wanted_count = 1000;
	watches_start(&stage.watches, &stage.watch);
	loop_defer(stage.loop, &stage.change);
	run_for(USEC_PER_SEC * 20);
	ck_assert(stage.is_done);
	ck_assert_uint_ge(stage.change_count + 1, stage.ask_count);
	strike_stage();
}
END_TEST

/* The second question comes in any case; from there on there are 5 ms between two of them. */
START_TEST(several_loops_are_asked_seldom)
{
	raise_stage(true);
	stage.changes_elsewhere = _i;
	stage.wanted_count = 5;
	stage.shortest = USEC_PER_SEC;
	watches_start(&stage.watches, &stage.watch);
	loop_defer(stage.loop, &stage.change);
	run_for(USEC_PER_SEC * 20);
	ck_assert(stage.is_done);
	ck_assert_int_ge(stage.shortest, 5 * USEC_PER_MS);
	ck_assert_uint_gt(stage.change_count, stage.wanted_count);
	strike_stage();
}
END_TEST

START_TEST(without_a_watch_nothing_is_sent)
{
	raise_stage(true);
	watches_changed(&stage.watches, stage.other);
	ck_assert(!stage.watches.letter.is_posted);
	watches_start(&stage.watches, &stage.watch);
	watches_changed(&stage.watches, stage.other);
	ck_assert(stage.watches.letter.is_posted);
	watches_changed(&stage.watches, stage.other); /* the letter is under way: no second one */
	watches_stop(&stage.watches, &stage.watch);
	strike_stage(); /* with the letter still in the mailbox */
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/watches");
	TCase *cases = tcase_create("watches");

	tcase_set_timeout(cases, 60);
	tcase_add_loop_test(cases, asks_at_the_beginning, false, true + 1);
	tcase_add_loop_test(cases, asks_again_after_a_change, false, true + 1);
	tcase_add_test(cases, one_loop_asks_in_each_turn);
	tcase_add_loop_test(cases, several_loops_are_asked_seldom, false, true + 1);
	tcase_add_test(cases, without_a_watch_nothing_is_sent);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
