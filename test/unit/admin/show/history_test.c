/* SPDX-License-Identifier: ISC */
/*
 * admin/show/show_stats.c: averages, with a clock controlled by the test, and without lanes: only
 * the console itself has counted something.
 */
#include "../../../../src/admin/show/show_priv.h"

#include <stdlib.h>

#include "../../../lib/config_text.h"
#include "../../unit.h"

#define SECOND USEC_PER_SEC

static struct pools pools;
static struct lane lane = { .pools = &pools };
static struct lanes lanes = { .at = &lane };
static struct console_with with = { .lanes = &lanes };
static struct show_source *source;

static void set_up(void)
{
	source = calloc(1, sizeof(*source));
	source->with = &with;
}

static void tear_down(void) { free(source); }

static void tick(usec_t now, struct stats counted)
{
	source->own = counted;
	show_stats_tick(source, now);
}

static struct stats average_at(usec_t now, struct stats counted)
{
	struct stats average;

	source->own = counted;
	show_stats_average_all(source, now, &average);
	return average;
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

	tick(0, before);
	tick(5 * SECOND, before);
	average = average_at(10 * SECOND, after);
	ck_assert_uint_eq(average.xact_count, 2);
	ck_assert_uint_eq(average.query_count, 4);
	ck_assert_uint_eq(average.client_bytes, 10000);
	ck_assert_uint_eq(average.client_login_count, 0);
	ck_assert_uint_eq(average.xact_time, 4000 / 20);
	ck_assert_uint_eq(average.query_time, 400 / 40);
	ck_assert_uint_eq(average.wait_time, 500 / 5);
}
END_TEST

/* Whatever is counted between two rows of SHOW TOTALS. */
START_TEST(totals_are_of_one_moment)
{
	struct problems problems = { 0 };
	const struct config *config = config_parse(bytes_text("[pgbouncer]\n"), "f", &problems);
	struct cursor cursor = { .show = &show_totals, .source = source, .lanes = &lanes };
	union {
		struct {
			const char *name;
			int64_t value;
		};
		char room[ROW_SIZE_MAX];
	} row;
	int64_t wanted[] = { 3, 10, 20 };

	pools.config = config;
	with.loop = loop_new(NULL);
	source->own = (struct stats){ .assignment_count = 3, .xact_count = 10, .query_count = 20 };
	for (size_t i = 0; i < COUNT_OF(wanted); i++) {
		ck_assert(cursor_next(&cursor, &row));
		ck_assert_int_eq(row.value, wanted[i]);
		source->own.xact_count = source->own.query_count = 1000;
	}
	ck_assert_str_eq(row.name, "total_query_count");
	loop_free(&with.loop);
	config_unref(&config);
}
END_TEST

START_TEST(nothing_is_less_than_nothing)
{
	struct stats counted = { .xact_count = 10, .xact_time = 10 }, none = { 0 }, average;

	tick(0, counted);
	tick(0, counted);
	average = average_at(SECOND, none);
	ck_assert_uint_eq(average.xact_count, 0);
	ck_assert_uint_eq(average.xact_time, 0);
	tick(0, none);
	tick(0, none);
	average = average_at(0, counted);
	ck_assert_uint_eq(average.xact_count, 0);
	ck_assert_uint_eq(average.xact_time, 1);
}
END_TEST

#define QUERIES(number) ((struct stats){ .query_count = (number) })

static uint64_t queries_at(usec_t now, uint64_t count)
{
	return average_at(now, QUERIES(count)).query_count;
}

START_TEST(the_window_begins_at_the_tick_before_last)
{
	/* Ten per second from 0 to 10, then a hundred per second. */
	ck_assert_uint_eq(queries_at(5 * SECOND, 50), 10);
	tick(10 * SECOND, QUERIES(100));
	ck_assert_uint_eq(queries_at(10 * SECOND, 100), 10);
	ck_assert_uint_eq(queries_at(20 * SECOND, 1100), 55);
	tick(20 * SECOND, QUERIES(1100));
	ck_assert_uint_eq(queries_at(20 * SECOND, 1100), 100);
	ck_assert_uint_eq(queries_at(30 * SECOND, 1100), 50);
	tick(30 * SECOND, QUERIES(1100));
	ck_assert_uint_eq(queries_at(30 * SECOND, 1100), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("admin/show/history");
	TCase *tests = tcase_create("stats");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, counts_are_per_second_and_times_per_one);
	tcase_add_test(tests, totals_are_of_one_moment);
	tcase_add_test(tests, nothing_is_less_than_nothing);
	tcase_add_test(tests, the_window_begins_at_the_tick_before_last);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
