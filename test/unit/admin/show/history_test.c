/* SPDX-License-Identifier: ISC */
/*
 * admin/show/history.c: averages, with a clock controlled by the test.
 */
#include "../../../../src/admin/show/show_priv.h"

#include "../../unit.h"

#define SECOND USEC_PER_SEC

static struct history history;
static struct stats_past past;

static void tick(usec_t now, uint64_t count)
{
	history_turn(&history, now);
	history_note(&past, &(struct stats){ .query_count = count });
}

START_TEST(counts_are_per_second_and_times_per_one)
{
	struct stats before = { .xact_count = 10, .query_count = 20, .wait_time = 100 };
	struct stats after = { .xact_count = 30,
		               .query_count = 60,
		               .assignment_count = 5,
		               .client_bytes = 100000,
		               .xact_time = 4000,
		               .query_time = 400,
		               .wait_time = 600,
		               .client_login_count = 7 };
	struct stats average;

	history_average(&history, &before, &after, 10 * SECOND, &average);
	ck_assert_uint_eq(average.xact_count, 2);
	ck_assert_uint_eq(average.query_count, 4);
	ck_assert_uint_eq(average.client_bytes, 10000);
	ck_assert_uint_eq(average.client_login_count, 0);
	ck_assert_uint_eq(average.xact_time, 4000 / 20);
	ck_assert_uint_eq(average.query_time, 400 / 40);
	ck_assert_uint_eq(average.wait_time, 500 / 5);
}
END_TEST

START_TEST(nothing_is_less_than_nothing)
{
	struct stats before = { .xact_count = 10, .xact_time = 10 }, after = { 0 }, average;

	history_average(&history, &before, &after, SECOND, &average);
	ck_assert_uint_eq(average.xact_count, 0);
	ck_assert_uint_eq(average.xact_time, 0);
	history_average(&history, &after, &before, 0, &average);
	ck_assert_uint_eq(average.xact_count, 0);
	ck_assert_uint_eq(average.xact_time, 1);
}
END_TEST

static uint64_t average_at(usec_t now, uint64_t count)
{
	struct stats counted = { .query_count = count }, average;

	history_average(&history, &past.older, &counted, now, &average);
	return average.query_count;
}

START_TEST(the_window_begins_at_the_tick_before_last)
{
	/* Ten per second from 0 to 10, then a hundred per second. */
	ck_assert_uint_eq(average_at(5 * SECOND, 50), 10);
	tick(10 * SECOND, 100);
	ck_assert_uint_eq(average_at(10 * SECOND, 100), 10);
	ck_assert_uint_eq(average_at(20 * SECOND, 1100), 55);
	tick(20 * SECOND, 1100);
	ck_assert_uint_eq(average_at(20 * SECOND, 1100), 100);
	ck_assert_uint_eq(average_at(30 * SECOND, 1100), 50);
	tick(30 * SECOND, 1100);
	ck_assert_uint_eq(average_at(30 * SECOND, 1100), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("admin/show/history");
	TCase *tests = tcase_create("stats");

	tcase_add_test(tests, counts_are_per_second_and_times_per_one);
	tcase_add_test(tests, nothing_is_less_than_nothing);
	tcase_add_test(tests, the_window_begins_at_the_tick_before_last);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
