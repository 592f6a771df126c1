/* SPDX-License-Identifier: ISC */
/* pool/shed.c: a queue in front of some servers, with a clock of its own. */
#include "pgweir/pool/shed.h"

#include <stdint.h>
#include <stdlib.h>

#include "../unit.h"

#define QUEUE_MAX 100000

/* Customers come every `gap`, and each of `servers` takes `work` for one of them. */
struct queue {
	struct shed_rule rule;
	struct shed shed;
	unsigned int servers;
	usec_t gap, work;
	usec_t now, end;
	usec_t came[QUEUE_MAX]; /* a ring of those that wait */
	unsigned int first, waiting;
	usec_t free_at[64];
	unsigned int arrived, served, refused;
	usec_t longest; /* that one that was served has waited, behind `settled_at` */
	usec_t settled_at;
};

static void refuse(struct queue *queue)
{
	shed_refuse(&queue->shed, queue->now);
	queue->refused++;
}

static usec_t wait_of_first(const struct queue *queue)
{
	return queue->waiting ? queue->now - queue->came[queue->first % QUEUE_MAX] : 0;
}

static bool refuses(const struct queue *queue, unsigned int waiting)
{
	const struct shed_queue now = { waiting, queue->servers, wait_of_first(queue), queue->now };

	return shed_refuses(&queue->shed, &queue->rule, &now);
}

static bool is_late(const struct queue *queue)
{
	const struct shed_queue now = { queue->waiting, queue->servers, wait_of_first(queue),
		                        queue->now };

	return shed_is_late(&queue->shed, &queue->rule, &now);
}

static void serve(struct queue *queue)
{
	while (queue->waiting && is_late(queue)) {
		queue->first++;
		queue->waiting--;
		refuse(queue);
	}
	for (unsigned int i = 0; i < queue->servers && queue->waiting; i++) {
		usec_t wait;

		if (queue->free_at[i] > queue->now)
			continue;
		queue->free_at[i] = queue->now + queue->work;
		wait = queue->now - queue->came[queue->first++ % QUEUE_MAX];
		queue->waiting--;
		queue->served++;
		if (queue->now > queue->settled_at && wait > queue->longest)
			queue->longest = wait;
		if (queue->rule.target)
			shed_serve(&queue->shed, &queue->rule, queue->now);
	}
}

static void look(struct queue *queue)
{
	if (!queue->rule.target)
		return;
	shed_look(&queue->shed, &queue->rule, queue->now, wait_of_first(queue));
	while (refuses(queue, queue->waiting)) {
		queue->waiting--;
		refuse(queue);
	}
}

static void come(struct queue *queue)
{
	queue->arrived++;
	if (queue->rule.target && refuses(queue, queue->waiting + 1)) {
		refuse(queue);
		return;
	}
	ck_assert_uint_lt(queue->waiting, QUEUE_MAX);
	queue->came[(queue->first + queue->waiting++) % QUEUE_MAX] = queue->now;
}

static void run(struct queue *queue, usec_t time)
{
	usec_t next = queue->now;

	for (queue->end = queue->now + time; queue->now < queue->end; queue->now += 100) {
		while (next <= queue->now) {
			come(queue);
			next += queue->gap;
		}
		serve(queue);
		look(queue);
	}
}

static struct queue *queue_new(usec_t target, usec_t gap, usec_t work)
{
	struct queue *queue = calloc(1, sizeof(*queue));

	queue->rule = (struct shed_rule){ target, 100 * USEC_PER_MS };
	queue->servers = 4;
	queue->gap = gap;
	queue->work = work;
	queue->now = USEC_PER_SEC;
	queue->settled_at = 3 * USEC_PER_SEC;
	return queue;
}

/* Four servers of 2 ms serve 2000 in a second; ten times as many come. */
START_TEST(tenfold_overload)
{
	struct queue *queue = queue_new(20 * USEC_PER_MS, 50, 2 * USEC_PER_MS);

	run(queue, 10 * USEC_PER_SEC);
	ck_assert_int_le(queue->longest, 2 * queue->rule.target);
	ck_assert_uint_ge(queue->served, 2000 * 10 * 95 / 100);
	ck_assert_uint_gt(queue->refused, 100000);
	free(queue);
}
END_TEST

START_TEST(without_it_the_queue_only_grows)
{
	struct queue *queue = queue_new(0, 250, 2 * USEC_PER_MS);

	run(queue, 10 * USEC_PER_SEC);
	ck_assert_int_gt(queue->longest, USEC_PER_SEC);
	free(queue);
}
END_TEST

/* Nine tenths of what can be served, and a burst of 200, which takes 100 ms. */
START_TEST(a_burst_is_not_shed)
{
	struct queue *queue = queue_new(50 * USEC_PER_MS, 556, 2 * USEC_PER_MS);

	run(queue, USEC_PER_SEC);
	for (int i = 0; i < 200; i++)
		come(queue);
	queue->gap = 4000;
	run(queue, USEC_PER_SEC);
	ck_assert_uint_eq(queue->refused, 0);
	free(queue);
}
END_TEST

START_TEST(it_ends_when_the_load_does)
{
	struct queue *queue = queue_new(20 * USEC_PER_MS, 50, 2 * USEC_PER_MS);
	unsigned int refused;

	run(queue, 2 * USEC_PER_SEC);
	ck_assert_int_eq(queue->shed.phase, SHED_REFUSES);
	queue->gap = 1000;
	run(queue, USEC_PER_SEC);
	ck_assert_int_eq(queue->shed.phase, SHED_RESTS);
	refused = queue->refused;
	run(queue, USEC_PER_SEC);
	ck_assert_uint_eq(queue->refused, refused);
	free(queue);
}
END_TEST

/* Servers that hang serve nobody: as many may wait as there are servers. */
START_TEST(servers_that_hang)
{
	struct queue *queue = queue_new(20 * USEC_PER_MS, 1000, 3600 * USEC_PER_SEC);

	run(queue, 2 * USEC_PER_SEC);
	ck_assert_int_eq(queue->shed.phase, SHED_REFUSES);
	ck_assert_uint_eq(queue->waiting, queue->servers);
	free(queue);
}
END_TEST

/* What was served lately does not tell that each statement takes ten times as long from now on. */
START_TEST(servers_that_become_slow)
{
	struct queue *queue = queue_new(20 * USEC_PER_MS, 50, 2 * USEC_PER_MS);

	run(queue, 3 * USEC_PER_SEC);
	queue->work *= 10;
	run(queue, 2 * USEC_PER_SEC);
	ck_assert_int_gt(queue->longest, queue->rule.target);
	ck_assert_int_le(queue->longest, queue->rule.target * 3 / 2);
	ck_assert_uint_ge(queue->served, (3 * 2000 + 2 * 200) * 95 / 100);
	free(queue);
}
END_TEST

/* Behind a pause the queue is not that which stood. */
START_TEST(a_new_queue_is_not_shed)
{
	struct queue *queue = queue_new(20 * USEC_PER_MS, 1000, 3600 * USEC_PER_SEC);
	unsigned int refused;

	run(queue, 2 * USEC_PER_SEC);
	ck_assert_int_eq(queue->shed.phase, SHED_REFUSES);
	queue->waiting = 0;
	refused = queue->refused;
	for (int i = 0; i < 100; i++)
		come(queue);
	ck_assert_uint_eq(queue->refused, refused);
	run(queue, 50 * USEC_PER_MS);
	ck_assert_uint_eq(queue->waiting, queue->servers);
	free(queue);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/shed");
	TCase *tcase = tcase_create("shed");

	tcase_add_test(tcase, tenfold_overload);
	tcase_add_test(tcase, without_it_the_queue_only_grows);
	tcase_add_test(tcase, a_burst_is_not_shed);
	tcase_add_test(tcase, it_ends_when_the_load_does);
	tcase_add_test(tcase, servers_that_hang);
	tcase_add_test(tcase, servers_that_become_slow);
	tcase_add_test(tcase, a_new_queue_is_not_shed);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
