/* SPDX-License-Identifier: ISC */
/*
 * loop/loop.c: descriptors, timers, tasks and signals, checked by their callbacks.
 *
 * A case that waits without end is ended by Check's time limit.
 */
#include "pgweir/loop/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../unit.h"

/* A watch that records its events and stops the loop. */
struct noted {
	struct watch watch;
	unsigned int what; /* of all calls, or-ed */
	unsigned int count;
};

static void note_and_stop(struct watch *watch, unsigned int what)
{
	struct noted *noted = (struct noted *)watch;

	noted->what |= what;
	noted->count++;
	loop_stop(watch->loop);
}

static struct loop *make_loop(void)
{
	struct loop *loop = loop_new(NULL);

	ck_assert_ptr_nonnull(loop);
	return loop;
}

static void make_pair(int pair[2])
{
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
}

static void write_byte(int fd) { ck_assert_int_eq(write(fd, "x", 1), 1); }

/* ---- tasks ---- */

struct counted {
	struct task task;
	struct loop *loop;
	struct task *defers; /* itself or another, or NULL */
	struct task *takes_back;
	unsigned int stop_at;
	unsigned int count;
};

static void run_counted(struct task *task)
{
	struct counted *counted = (struct counted *)task;

	counted->count++;
	if (counted->defers)
		loop_defer(counted->loop, counted->defers);
	if (counted->takes_back)
		loop_undefer(counted->loop, counted->takes_back);
	if (counted->count == counted->stop_at)
		loop_stop(counted->loop);
}

START_TEST(task_runs_once_however_often_it_is_deferred)
{
	struct loop *loop = make_loop();
	struct counted task = { .task.run = run_counted, .loop = loop, .stop_at = 1 };

	loop_defer(loop, &task.task);
	loop_defer(loop, &task.task);
	loop_run(loop);
	ck_assert_uint_eq(task.count, 1);
	ck_assert(!task.task.is_waiting);
	ck_assert_uint_eq(loop_turn_count(loop), 1);
	loop_free(&loop);
	ck_assert_ptr_null(loop);
}
END_TEST

START_TEST(task_taken_back_does_not_run)
{
	struct loop *loop = make_loop();
	struct counted second = { .task.run = run_counted, .loop = loop };
	struct counted third = { .task.run = run_counted, .loop = loop };
	struct counted first = { .task.run = run_counted, .loop = loop, .stop_at = 1 };

	first.takes_back = &third.task;
	loop_defer(loop, &first.task);
	loop_defer(loop, &second.task);
	loop_defer(loop, &third.task);
	loop_undefer(loop, &second.task);
	loop_undefer(loop, &second.task);
	loop_run(loop);
	ck_assert_uint_eq(first.count, 1);
	ck_assert_uint_eq(second.count, 0);
	ck_assert_uint_eq(third.count, 0);
	loop_free(&loop);
}
END_TEST

START_TEST(task_that_defers_itself_lets_descriptors_be_seen)
{
	struct loop *loop = make_loop();
	struct counted task = { .task.run = run_counted, .loop = loop };
	struct noted noted = { 0 };
	int pair[2];

	make_pair(pair);
	task.defers = &task.task;
	watch_init(&noted.watch, loop, pair[0], note_and_stop);
	ck_assert(watch_set(&noted.watch, WATCH_READ));
	loop_defer(loop, &task.task);
	write_byte(pair[1]);
	loop_run(loop); /* only the descriptor stops the loop */
	ck_assert_uint_eq(noted.what, WATCH_READ);
	ck_assert_uint_eq(task.count, loop_turn_count(loop));
	ck_assert(task.task.is_waiting);
	loop_undefer(loop, &task.task);
	watch_done(&noted.watch);
	close(pair[0]);
	close(pair[1]);
	loop_free(&loop);
}
END_TEST

/* ---- timers ---- */

struct dated {
	struct timer timer;
	struct loop *loop;
	int *order; /* receives the numbers of expired timers */
	int *count;
	int number;
	struct dated *clears; /* another, or NULL */
	struct timer_queue *again;
	usec_t again_from;
	int stop_at;
};

static void on_dated(struct timer *timer)
{
	struct dated *dated = (struct dated *)timer;

	ck_assert(!timer_is_set(timer));
	ck_assert_int_ge(loop_now(dated->loop), timer->due);
	dated->order[(*dated->count)++] = dated->number;
	if (dated->clears)
		timer_clear(&dated->clears->timer);
	if (dated->again)
		timer_set(timer, dated->again, dated->again_from);
	if (*dated->count >= dated->stop_at)
		loop_stop(dated->loop);
}

START_TEST(timers_of_a_line_come_in_the_order_of_their_due_time)
{
	struct loop *loop = make_loop();
	struct timer_queue *line = loop_timer_queue(loop, 20 * USEC_PER_MS, on_dated);
	int order[4], count = 0;
	struct dated timers[4];
	/* Set in the order of their numbers; due by `from`. */
	static const usec_t from[4] = { 6 * USEC_PER_MS, -3 * USEC_PER_MS, 6 * USEC_PER_MS, 0 };
	usec_t now = loop_now(loop);

	for (int i = 0; i < 4; i++) {
		timers[i] = (struct dated){
			.loop = loop, .order = order, .count = &count, .number = i, .stop_at = 4
		};
		timer_set(&timers[i].timer, line, now + from[i]);
	}
	loop_run(loop);
	ck_assert_int_eq(order[0], 1);
	ck_assert_int_eq(order[1], 3);
	ck_assert_int_eq(order[2], 0);
	ck_assert_int_eq(order[3], 2);
	loop_free(&loop);
}
END_TEST

START_TEST(timer_lines_are_found_by_limit_and_purpose)
{
	struct loop *loop = make_loop();
	struct timer_queue *line = loop_timer_queue(loop, USEC_PER_SEC, on_dated);

	ck_assert_ptr_nonnull(line);
	ck_assert_ptr_eq(line, loop_timer_queue(loop, USEC_PER_SEC, on_dated));
	ck_assert_ptr_ne(line, loop_timer_queue(loop, 2 * USEC_PER_SEC, on_dated));
	ck_assert_ptr_ne(line,
	                 loop_timer_queue(loop, USEC_PER_SEC, (void (*)(struct timer *))abort));
	ck_assert_ptr_null(loop_timer_queue(loop, 0, on_dated));
	ck_assert_ptr_null(loop_timer_queue(loop, -1, on_dated));
	loop_free(&loop);
}
END_TEST

START_TEST(timer_cleared_or_without_line_does_not_come)
{
	struct loop *loop = make_loop();
	struct timer_queue *line = loop_timer_queue(loop, USEC_PER_MS, on_dated);
	int order[8], count = 0;
	struct dated timers[4];
	usec_t now = loop_now(loop);

	for (int i = 0; i < 4; i++) {
		timers[i] = (struct dated){
			.loop = loop, .order = order, .count = &count, .number = i, .stop_at = 2
		};
		timer_set(&timers[i].timer, line, now + i);
	}
	timer_clear(&timers[0].timer); /* the head, for which the alarm was set */
	timer_clear(&timers[0].timer);
	timers[1].clears = &timers[2];
	loop_run(loop);
	ck_assert_int_eq(count, 2);
	ck_assert_int_eq(order[0], 1);
	ck_assert_int_eq(order[1], 3);
	timer_set(&timers[0].timer, line, now);
	timer_set(&timers[0].timer, NULL, now);
	ck_assert(!timer_is_set(&timers[0].timer));
	loop_free(&loop);
}
END_TEST

START_TEST(timer_set_anew_within_its_callback_comes_again)
{
	struct loop *loop = make_loop();
	int order[5], count = 0;
	struct dated timer = {
		.loop = loop, .order = order, .count = &count, .number = 7, .stop_at = 5
	};

	/* From a time long past: due at once each time, but each in its own turn. */
	timer.again = loop_timer_queue(loop, USEC_PER_MS, on_dated);
	timer_set(&timer.timer, timer.again, timer.again_from);
	loop_run(loop);
	ck_assert_int_eq(count, 5);
	ck_assert_uint_ge(loop_turn_count(loop), 5);
	timer_clear(&timer.timer);
	loop_free(&loop);
}
END_TEST

START_TEST(timer_due_earlier_than_the_armed_one_comes_first)
{
	struct loop *loop = make_loop();
	struct timer_queue *line = loop_timer_queue(loop, USEC_PER_MS, on_dated);
	int order[1], count = 0;
	struct dated late = { .loop = loop, .order = order, .count = &count, .stop_at = 1 };
	struct dated early = late;

	early.number = 1;
	late.number = 2;
	timer_set(&late.timer, line, loop_now(loop) + 3600 * USEC_PER_SEC);
	timer_set(&early.timer, line, loop_now(loop));
	loop_run(loop);
	ck_assert_int_eq(order[0], 1);
	timer_clear(&late.timer);
	loop_free(&loop);
}
END_TEST

static atomic_uint clock_reads; /* by all threads */

/* Replaces the function of libc in the whole program, libevent included. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
	clock_reads += clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE;
	return (int)syscall(SYS_clock_gettime, clock, time);
}

struct turns {
	struct task task;
	struct loop *loop;
	unsigned int left;
};

static void take_turn(struct task *task)
{
	struct turns *turns = (struct turns *)task;

	loop_now(turns->loop);
	if (--turns->left)
		loop_defer(turns->loop, task);
	else
		loop_stop(turns->loop);
}

START_TEST(turn_reads_the_clock_once_also_with_timers)
{
	struct loop *loop = make_loop();
	struct timer timer = { .queue = NULL };
	struct turns turns = { .task.run = take_turn, .loop = loop, .left = 10 };

	timer_begin(&timer, loop, 3600 * USEC_PER_SEC, on_dated);
	loop_defer(loop, &turns.task);
	clock_reads = 0;
	loop_run(loop);
	ck_assert_uint_eq(clock_reads, 10);
	timer_clear(&timer);
	loop_free(&loop);
}
END_TEST

START_TEST(timer_whose_limit_changes_counts_from_when_it_was_set)
{
	struct loop *loop = make_loop();
	struct timer_queue *line = loop_timer_queue(loop, USEC_PER_SEC, on_dated);
	struct timer_queue *longer = loop_timer_queue(loop, 5 * USEC_PER_SEC, on_dated);
	struct timer timer = { .queue = NULL };
	usec_t from = loop_now(loop) - 100, before;

	timer_set(&timer, line, from);
	timer_change(&timer, longer);
	ck_assert_int_eq(timer.due, from + 5 * USEC_PER_SEC);
	timer_change(&timer, longer);
	ck_assert_int_eq(timer.due, from + 5 * USEC_PER_SEC);
	timer_change(&timer, line);
	ck_assert_int_eq(timer.due, from + USEC_PER_SEC);
	timer_change(&timer, NULL);
	ck_assert(!timer_is_set(&timer));
	before = loop_now(loop);
	timer_change(&timer, line); /* it was off: from now */
	ck_assert_int_ge(timer.due, before + USEC_PER_SEC);
	timer_clear(&timer);
	loop_free(&loop);
}
END_TEST

START_TEST(timer_beyond_the_end_of_time_is_harmless)
{
	struct loop *loop = make_loop();
	struct timer_queue *line = loop_timer_queue(loop, INT64_MAX, on_dated);
	struct timer timer = { 0 };

	timer_set(&timer, line, loop_now(loop));
	ck_assert_int_eq(timer.due, INT64_MAX);
	timer_clear(&timer);
	loop_free(&loop);
}
END_TEST

/* ---- polling ---- */

/* The first byte has been read; the loop polls for the next one. */
static void poll_from_now(struct loop *loop, struct noted *noted, int pair[2])
{
	make_pair(pair);
	watch_init(&noted->watch, loop, pair[0], note_and_stop);
	ck_assert(watch_set(&noted->watch, WATCH_READ));
	loop_poll(loop, 600 * USEC_PER_SEC);
	write_byte(pair[1]);
	loop_run(loop);
}

START_TEST(what_comes_soon_is_found_without_sleeping)
{
	struct loop *loop = make_loop();
	struct noted noted = { 0 };
	int pair[2];

	poll_from_now(loop, &noted, pair); /* nothing had come before: no polling */
	ck_assert_uint_eq(noted.count, 1);
	ck_assert_uint_eq(loop_poll_count(loop), 0);
	loop_run(loop);
	ck_assert_uint_eq(noted.count, 2);
	ck_assert_uint_eq(loop_poll_count(loop), 1);
	loop_poll(loop, 0);
	loop_run(loop);
	ck_assert_uint_eq(noted.count, 3);
	ck_assert_uint_eq(loop_poll_count(loop), 1);
	watch_done(&noted.watch);
	close(pair[0]);
	close(pair[1]);
	loop_free(&loop);
}
END_TEST

/* A byte arrives, then only a timer after `limit`, while the loop polls for `poll`. */
static unsigned long polls_until_timer(usec_t poll, usec_t limit)
{
	struct loop *loop = make_loop();
	struct timer_queue *line = loop_timer_queue(loop, limit, on_dated);
	struct noted noted = { 0 };
	int order[1], count = 0, pair[2];
	struct dated timer = { .loop = loop, .order = order, .count = &count, .stop_at = 1 };
	unsigned long polls;

	make_pair(pair);
	watch_init(&noted.watch, loop, pair[0], note_and_stop);
	ck_assert(watch_set(&noted.watch, WATCH_READ));
	loop_poll(loop, poll);
	write_byte(pair[1]);
	loop_run(loop);
	watch_done(&noted.watch);
	timer_set(&timer.timer, line, loop_now(loop));
	loop_run(loop);
	ck_assert_int_eq(count, 1);
	polls = loop_poll_count(loop);
	close(pair[0]);
	close(pair[1]);
	loop_free(&loop);
	return polls;
}

/* libevent may call a little early by our clock, and then once more. */
START_TEST(a_timer_ends_the_polling)
{
	ck_assert_uint_gt(polls_until_timer(600 * USEC_PER_SEC, 2 * USEC_PER_MS), 0);
}
END_TEST

START_TEST(what_does_not_come_soon_is_waited_for)
{
	ck_assert_uint_eq(polls_until_timer(1, 300 * USEC_PER_MS), 0);
}
END_TEST

static usec_t cpu_of(clockid_t clock)
{
	struct timespec time;

	ck_assert_int_eq(clock_gettime(clock, &time), 0);
	return time.tv_sec * USEC_PER_SEC + time.tv_nsec / 1000;
}

static usec_t own_cpu(void) { return cpu_of(CLOCK_THREAD_CPUTIME_ID); }

/* A timer that falls due again and again, until its thread has used so much processor time. */
struct spender {
	struct timer timer;
	struct loop *loop;
	usec_t works_for; /* processor time, each time */
	usec_t until;
};

static void on_spend(struct timer *timer)
{
	struct spender *spender = (struct spender *)timer;
	usec_t begun = own_cpu();

	while (own_cpu() - begun < spender->works_for)
		;
	if (own_cpu() >= spender->until)
		loop_stop(spender->loop);
	else
		timer_set(timer, loop_timer_queue(spender->loop, USEC_PER_MS, on_spend),
		          clock_now());
}

static void begin_polling(struct loop *loop)
{
	struct noted noted = { 0 };
	int pair[2];

	poll_from_now(loop, &noted, pair);
	watch_done(&noted.watch);
	close(pair[0]);
	close(pair[1]);
}

/* Polls until a thread has used 20 ms. Returns the percentage of it that counts. */
static usec_t percent_counted(usec_t works_for)
{
	struct loop *loop = make_loop();
	struct spender spender = { .loop = loop, .works_for = works_for };
	usec_t used, counted;

	begin_polling(loop);
	counted = loop_cpu(loop);
	used = own_cpu();
	spender.until = used + 20 * USEC_PER_MS;
	timer_set(&spender.timer, loop_timer_queue(loop, USEC_PER_MS, on_spend), clock_now());
	loop_run(loop);
	counted = loop_cpu(loop) - counted;
	used = own_cpu() - used;
	loop_free(&loop);
	return counted * 100 / used;
}

START_TEST(polling_in_vain_is_not_counted) { ck_assert_int_lt(percent_counted(0), 50); }
END_TEST

START_TEST(work_between_polling_is_counted)
{
	ck_assert_int_gt(percent_counted(20 * USEC_PER_MS), 70);
}
END_TEST

/* A loop that polls in a thread of its own until a byte arrives. */
struct poller {
	struct noted noted;
	struct loop *loop;
};

static void *run_poller(void *arg)
{
	struct poller *poller = arg;

	begin_polling(poller->loop);
	ck_assert(watch_set(&poller->noted.watch, WATCH_READ));
	loop_run(poller->loop);
	watch_done(&poller->noted.watch);
	return NULL;
}

static void wait_for_cpu(clockid_t clock, usec_t used)
{
	while (cpu_of(clock) < used)
		poll(NULL, 0, 1);
}

START_TEST(others_do_not_see_it_counted_meanwhile)
{
	struct poller poller = { .loop = make_loop() };
	usec_t used, counted;
	pthread_t thread;
	clockid_t clock;
	int pair[2];

	make_pair(pair);
	watch_init(&poller.noted.watch, poller.loop, pair[0], note_and_stop);
	ck_assert_int_eq(pthread_create(&thread, NULL, run_poller, &poller), 0);
	ck_assert_int_eq(pthread_getcpuclockid(thread, &clock), 0);
	wait_for_cpu(clock, 20 * USEC_PER_MS); /* it takes less to begin */
	used = cpu_of(clock);
	counted = loop_cpu(poller.loop);
	wait_for_cpu(clock, used + 20 * USEC_PER_MS);
	ck_assert_int_eq(loop_cpu(poller.loop), counted);
	write_byte(pair[1]);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_int_lt(loop_cpu(poller.loop), 20 * USEC_PER_MS);
	close(pair[0]);
	close(pair[1]);
	loop_free(&poller.loop);
}
END_TEST

START_TEST(timers_alone_are_waited_for)
{
	struct loop *loop = make_loop();
	struct timer_queue *line = loop_timer_queue(loop, USEC_PER_MS, on_dated);
	int order[2], count = 0;
	struct dated timers[] = {
		{ .loop = loop, .number = 0, .order = order, .count = &count, .stop_at = 1 },
		{ .loop = loop, .number = 1, .order = order, .count = &count, .stop_at = 2 },
	};

	loop_poll(loop, 600 * USEC_PER_SEC);
	for (int i = 0; i < 2; i++) {
		timer_set(&timers[i].timer, line, loop_now(loop));
		loop_run(loop);
		ck_assert_int_eq(count, i + 1);
	}
	ck_assert_uint_eq(loop_poll_count(loop), 0);
	loop_free(&loop);
}
END_TEST

/* ---- descriptors ---- */

START_TEST(watch_tells_what_was_wished_for)
{
	struct loop *loop = make_loop();
	struct noted noted = { 0 };
	int pair[2];

	make_pair(pair);
	watch_init(&noted.watch, loop, pair[0], note_and_stop);
	ck_assert(watch_set(&noted.watch, WATCH_READ | WATCH_WRITE));
	loop_run(loop);
	ck_assert_uint_eq(noted.what, WATCH_WRITE);
	write_byte(pair[1]);
	noted.what = 0;
	ck_assert(watch_set(&noted.watch, WATCH_READ));
	ck_assert(watch_set(&noted.watch, WATCH_READ));
	loop_run(loop);
	ck_assert_uint_eq(noted.what, WATCH_READ);
	close(pair[1]);
	loop_run(loop);
	ck_assert_uint_eq(noted.what, WATCH_READ);
	watch_done(&noted.watch);
	watch_done(&noted.watch);
	close(pair[0]);
	loop_free(&loop);
}
END_TEST

START_TEST(watch_at_rest_may_be_ended)
{
	struct watch watch = { 0 };

	watch_done(&watch);
	ck_assert_uint_eq(watch.wanted, 0);
}
END_TEST

/*
 * In one turn a watched descriptor is closed and its number is reused by another socket, with every
 * change of watched events: events of the new one must be reported, those of the old one not.
 */
static const struct {
	const char *says;
	unsigned int old, new;
} reuses[] = {
	{ "read, read", WATCH_READ, WATCH_READ },
	{ "read, write", WATCH_READ, WATCH_WRITE },
	{ "both, read", WATCH_READ | WATCH_WRITE, WATCH_READ },
	{ "read, both", WATCH_READ, WATCH_READ | WATCH_WRITE },
};

struct swap {
	struct task task;
	struct noted old;
	struct noted new;
	unsigned int wanted;
	int pair[2]; /* in: the old one; out: the new one */
};

static void run_swap(struct task *task)
{
	struct swap *swap = (struct swap *)task;
	int number = swap->pair[0];

	watch_done(&swap->old.watch);
	close(swap->pair[0]);
	close(swap->pair[1]);
	make_pair(swap->pair);
	ck_assert_int_eq(swap->pair[0], number);
	watch_init(&swap->new.watch, swap->old.watch.loop, number, note_and_stop);
	ck_assert(watch_set(&swap->new.watch, swap->wanted));
	write_byte(swap->pair[1]);
	loop_stop(swap->old.watch.loop);
}

START_TEST(watch_survives_that_a_number_comes_back)
{
	struct loop *loop = make_loop();
	struct swap swap = { .task.run = run_swap, .wanted = reuses[_i].new };

	make_pair(swap.pair);
	watch_init(&swap.old.watch, loop, swap.pair[0], note_and_stop);
	ck_assert(watch_set(&swap.old.watch, reuses[_i].old));
	/* The old one is registered in the first turn, and replaced at its end. */
	loop_defer(loop, &swap.task);
	loop_run(loop);
	swap.old.count = 0;
	loop_run(loop);
	ck_assert_msg(swap.new.count == 1 && swap.old.count == 0, "%s", reuses[_i].says);
	ck_assert_msg(swap.new.what &swap.wanted, "%s", reuses[_i].says);
	watch_done(&swap.new.watch);
	close(swap.pair[0]);
	close(swap.pair[1]);
	loop_free(&loop);
}
END_TEST

/* Both are ready in one turn; the first one closes and frees the other, which is not called.
 */
struct rival {
	struct watch watch;
	struct rival *other;
	int *count;
};

static void on_rival(struct watch *watch, unsigned int what)
{
	struct rival *rival = (struct rival *)watch;

	(void)what;
	(*rival->count)++;
	watch_done(&rival->other->watch);
	close(rival->other->watch.fd);
	free(rival->other);
	loop_stop(watch->loop);
	watch_done(watch);
	close(watch->fd);
	free(rival);
}

START_TEST(watch_ended_by_another_is_not_called)
{
	struct loop *loop = make_loop();
	struct rival *a = calloc(1, sizeof(*a)), *b = calloc(1, sizeof(*b));
	int first[2], second[2], count = 0;

	make_pair(first);
	make_pair(second);
	*a = (struct rival){ .other = b, .count = &count };
	*b = (struct rival){ .other = a, .count = &count };
	watch_init(&a->watch, loop, first[0], on_rival);
	watch_init(&b->watch, loop, second[0], on_rival);
	ck_assert(watch_set(&a->watch, WATCH_READ));
	ck_assert(watch_set(&b->watch, WATCH_READ));
	write_byte(first[1]);
	write_byte(second[1]);
	loop_run(loop);
	ck_assert_int_eq(count, 1);
	close(first[1]);
	close(second[1]);
	loop_free(&loop);
}
END_TEST

/* ---- the clock, signals ---- */

static void ask_time_twice(struct task *task)
{
	struct counted *counted = (struct counted *)task;
	usec_t first = loop_now(counted->loop), second;

	while ((second = clock_now()) == first)
		;
	ck_assert_int_ge(second, first);
	ck_assert_int_eq(loop_now(counted->loop), first);
	loop_stop(counted->loop);
}

struct leaving {
	struct task task;
	struct loop *loop;
	int fd;
};

static void close_it_later(struct task *task)
{
	const struct leaving *leaving = (struct leaving *)task;

	loop_close_later(leaving->loop, leaving->fd);
}

/* The far end must not wait for an event of anybody else. */
START_TEST(closed_later_means_before_the_loop_sleeps)
{
	struct loop *loop = make_loop();
	struct leaving leaving = { .task.run = close_it_later, .loop = loop };
	struct noted far_end = { .count = 0 };
	int pair[2];

	make_pair(pair);
	leaving.fd = pair[0];
	watch_init(&far_end.watch, loop, pair[1], note_and_stop);
	ck_assert(watch_set(&far_end.watch, WATCH_READ));
	loop_defer(loop, &leaving.task);
	loop_run(loop);
	ck_assert_uint_eq(far_end.count, 1);
	watch_done(&far_end.watch);
	close(pair[1]);
	loop_free(&loop);
}
END_TEST

START_TEST(clock_stands_still_within_a_turn)
{
	struct loop *loop = make_loop();
	struct counted task = { .task.run = ask_time_twice, .loop = loop };

	loop_defer(loop, &task.task);
	loop_run(loop);
	loop_free(&loop);
}
END_TEST

static void on_signal(int number, void *arg)
{
	struct counted *counted = arg;

	ck_assert_int_eq(number, SIGUSR1);
	if (++counted->count == counted->stop_at)
		loop_stop(counted->loop);
}

static void raise_signal(struct task *task)
{
	(void)task;
	raise(SIGUSR1);
}

START_TEST(signals_come_from_the_loop)
{
	struct loop *loop = make_loop();
	struct counted counted = { .loop = loop, .stop_at = 1 };
	struct task task = { .run = raise_signal };

	ck_assert(loop_on_signal(loop, SIGUSR1, on_signal, &counted, NULL));
	for (unsigned int i = 1; i <= 2; i++) {
		counted.count = 0;
		loop_defer(loop, &task);
		loop_run(loop);
		ck_assert_uint_eq(counted.count, 1);
	}
	loop_free(&loop);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("loop/loop");
	TCase *cases = tcase_create("loop");

	tcase_set_timeout(cases, 20);
	tcase_add_test(cases, task_runs_once_however_often_it_is_deferred);
	tcase_add_test(cases, task_taken_back_does_not_run);
	tcase_add_test(cases, task_that_defers_itself_lets_descriptors_be_seen);
	tcase_add_test(cases, timers_of_a_line_come_in_the_order_of_their_due_time);
	tcase_add_test(cases, timer_lines_are_found_by_limit_and_purpose);
	tcase_add_test(cases, timer_cleared_or_without_line_does_not_come);
	tcase_add_test(cases, timer_set_anew_within_its_callback_comes_again);
	tcase_add_test(cases, timer_due_earlier_than_the_armed_one_comes_first);
	tcase_add_test(cases, turn_reads_the_clock_once_also_with_timers);
	tcase_add_test(cases, timer_whose_limit_changes_counts_from_when_it_was_set);
	tcase_add_test(cases, timer_beyond_the_end_of_time_is_harmless);
	tcase_add_test(cases, what_comes_soon_is_found_without_sleeping);
	tcase_add_test(cases, a_timer_ends_the_polling);
	tcase_add_test(cases, timers_alone_are_waited_for);
	tcase_add_test(cases, what_does_not_come_soon_is_waited_for);
	tcase_add_test(cases, polling_in_vain_is_not_counted);
	tcase_add_test(cases, work_between_polling_is_counted);
	tcase_add_test(cases, others_do_not_see_it_counted_meanwhile);
	tcase_add_test(cases, watch_tells_what_was_wished_for);
	tcase_add_test(cases, watch_at_rest_may_be_ended);
	tcase_add_loop_test(cases, watch_survives_that_a_number_comes_back, 0, COUNT_OF(reuses));
	tcase_add_test(cases, watch_ended_by_another_is_not_called);
	tcase_add_test(cases, closed_later_means_before_the_loop_sleeps);
	tcase_add_test(cases, clock_stands_still_within_a_turn);
	tcase_add_test(cases, signals_come_from_the_loop);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
