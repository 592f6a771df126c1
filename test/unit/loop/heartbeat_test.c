/* SPDX-License-Identifier: ISC */
/*
 * loop/crew.c: three loops, turned one after the other.
 *
 * A case that waits without end is ended by Check's time limit.
 */
#include "pgweir/loop/crew.h"

#include <stddef.h>

#include "pgweir/loop/loop.h"

#include "../unit.h"

#define INTERVAL USEC_PER_MS

struct stage {
	struct loop *loops[3];
	struct heartbeat *heartbeat;
	unsigned int beats;
	struct timer stop;
};

static void count_beat(void *arg) { ((struct stage *)arg)->beats++; }

static void stage_open(struct stage *stage, unsigned int count)
{
	struct err err;

	*stage = (struct stage){ .beats = 0 };
	for (unsigned int i = 0; i < count; i++) {
		stage->loops[i] = loop_new(&err);
		ck_assert_ptr_nonnull(stage->loops[i]);
		ck_assert(loop_take_letters(stage->loops[i], &err));
	}
	stage->heartbeat = heartbeat_new(&(struct heartbeat_with){ .loops = stage->loops,
	                                                           .count = count,
	                                                           .interval = INTERVAL,
	                                                           .beat = count_beat,
	                                                           .arg = stage },
	                                 &err);
	ck_assert_ptr_nonnull(stage->heartbeat);
	ck_assert_uint_eq(stage->beats, 1);
}

static void stage_close(struct stage *stage)
{
	heartbeat_free(&stage->heartbeat);
	ck_assert_ptr_null(stage->heartbeat);
	for (unsigned int i = 0; i < 3; i++) {
		if (stage->loops[i])
			loop_free(&stage->loops[i]);
	}
}

static void on_stop(struct timer *timer)
{
	loop_stop(((struct stage *)((char *)timer - offsetof(struct stage, stop)))->loops[0]);
}

/* The first loop runs for some intervals. */
static void run_first(struct stage *stage)
{
	struct loop *loop = stage->loops[0];

	timer_set(&stage->stop, loop_timer_queue(loop, 5 * INTERVAL, on_stop), loop_now(loop));
	loop_run(loop);
}

struct turning {
	struct task task;
	struct loop *loop;
};

static void stop_loop(struct task *task) { loop_stop(((struct turning *)task)->loop); }

/* One turn that does not sleep. */
static void turn_once(struct loop *loop)
{
	struct turning turning = { .task.run = stop_loop, .loop = loop };

	loop_defer(loop, &turning.task);
	loop_run(loop);
}

START_TEST(one_loop_beats_by_itself)
{
	struct stage stage;

	stage_open(&stage, 1);
	run_first(&stage);
	ck_assert_uint_ge(stage.beats, 2);
	stage_close(&stage);
}
END_TEST

START_TEST(a_loop_that_does_not_turn_stops_the_beat)
{
	struct stage stage;

	stage_open(&stage, 3);
	run_first(&stage);
	ck_assert_uint_eq(stage.beats, 1);
	turn_once(stage.loops[1]);
	run_first(&stage);
	ck_assert_uint_eq(stage.beats, 1);
	turn_once(stage.loops[2]);
	run_first(&stage);
	ck_assert_uint_eq(stage.beats, 2); /* and it waits for both again */
	turn_once(stage.loops[1]);
	turn_once(stage.loops[2]);
	run_first(&stage);
	ck_assert_uint_eq(stage.beats, 3);
	stage_close(&stage);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("loop/heartbeat");
	TCase *cases = tcase_create("heartbeat");

	tcase_set_timeout(cases, 20);
	tcase_add_test(cases, one_loop_beats_by_itself);
	tcase_add_test(cases, a_loop_that_does_not_turn_stops_the_beat);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
