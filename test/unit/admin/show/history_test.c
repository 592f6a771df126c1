/* SPDX-License-Identifier: ISC */
/*
 * admin/show/history.c: averages, with a clock controlled by the test.
 */
#include "../../../../src/admin/show/show_priv.h"

#include "../../unit.h"

#define SECOND USEC_PER_SEC

static struct history made, *history = &made;

static void set_up(void) { history_init(history, 0); }
static void tear_down(void) { history_done(history); }

static void tick(usec_t now, const char *name, const struct stats *counted)
{
	history_turn(history, now);
	if (name)
		history_note(history, name, counted);
	history_settle(history);
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

	history_average_between(&before, &after, 10 * SECOND, &average);
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

	history_average_between(&before, &after, SECOND, &average);
	ck_assert_uint_eq(average.xact_count, 0);
	ck_assert_uint_eq(average.xact_time, 0);
	history_average_between(&after, &before, 0, &average);
	ck_assert_uint_eq(average.xact_count, 0);
	ck_assert_uint_eq(average.xact_time, 1);
}
END_TEST

static uint64_t average_at(usec_t now, const char *name, uint64_t count)
{
	struct stats counted = { .query_count = count }, average;

	history_average(history, name, &counted, now, &average);
	return average.query_count;
}

START_TEST(the_window_begins_at_the_tick_before_last)
{
	/* Ten per second from 0 to 10, then a hundred per second. */
	ck_assert_uint_eq(average_at(5 * SECOND, "a", 50), 10);
	tick(10 * SECOND, "a", &(struct stats){ .query_count = 100 });
	ck_assert_uint_eq(average_at(10 * SECOND, "a", 100), 10);
	ck_assert_uint_eq(average_at(20 * SECOND, "a", 1100), 55);
	tick(20 * SECOND, "a", &(struct stats){ .query_count = 1100 });
	ck_assert_uint_eq(average_at(20 * SECOND, "a", 1100), 100);
	ck_assert_uint_eq(average_at(30 * SECOND, "a", 1100), 50);
	tick(30 * SECOND, "a", &(struct stats){ .query_count = 1100 });
	ck_assert_uint_eq(average_at(30 * SECOND, "a", 1100), 0);
}
END_TEST

START_TEST(each_name_counts_for_itself)
{
	history_turn(history, 10 * SECOND);
	history_note(history, "a", &(struct stats){ .query_count = 100 });
	history_note(history, "b", &(struct stats){ .query_count = 200 });
	history_settle(history);
	tick(20 * SECOND, "a", &(struct stats){ .query_count = 100 });
	ck_assert_uint_eq(average_at(20 * SECOND, "a", 100), 0);
	/* "b" was not recorded any more, so it starts again from zero. */
	ck_assert_uint_eq(average_at(20 * SECOND, "b", 50), 5);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("admin/show/history");
	TCase *tests = tcase_create("stats");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, counts_are_per_second_and_times_per_one);
	tcase_add_test(tests, nothing_is_less_than_nothing);
	tcase_add_test(tests, the_window_begins_at_the_tick_before_last);
	tcase_add_test(tests, each_name_counts_for_itself);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
