/* SPDX-License-Identifier: ISC */
/*
 * pool/handover_parts.c: counters between two versions that do not have the same ones.
 */
#include "../../../src/pool/handover_priv.h"

#include <string.h>

#include "../unit.h"

/* As the list has them, each with another value. */
static struct stats all_different(void)
{
	struct stats stats;

	for (size_t i = 0; i < STATS_FIELDS; i++)
		((uint64_t *)&stats)[i] = (UINT64_C(7) << 40) + i;
	return stats;
}

static bool read_counters(struct bytes counters, struct stats *stats)
{
	struct buf bytes = { 0 };
	struct record record;
	bool is_whole;

	record_add_bytes(&bytes, 'S', counters);
	record_add_number(&bytes, 'n', 5);
	record = (struct record){ .rest = buf_bytes(&bytes) };
	handover_read_stats(&record, stats);
	is_whole = record_number(&record, 'n') == 5 && record_is_whole(&record);
	buf_free(&bytes);
	return is_whole;
}

START_TEST(all_counters_arrive)
{
	struct stats stats = all_different(), arrived;
	struct buf bytes = { 0 };
	struct record record;

	handover_write_stats(&bytes, &stats);
	ck_assert(buf_ok(&bytes));
	record = (struct record){ .rest = buf_bytes(&bytes) };
	handover_read_stats(&record, &arrived);
	ck_assert(record_is_whole(&record));
	ck_assert_mem_eq(&arrived, &stats, sizeof(stats));
	buf_free(&bytes);
}
END_TEST

/* A letter means the same for all times: these stand in no list but this one. */
START_TEST(letters_stay)
{
	static const char letters[] = "axqcsXQWpPbl";
	struct stats stats = { 0 };
	struct buf counters = { 0 };

	ck_assert_uint_eq(strlen(letters), STATS_FIELDS);
	for (size_t i = 0; letters[i]; i++)
		record_add_number(&counters, letters[i], i + 1);
	ck_assert(read_counters(buf_bytes(&counters), &stats));
	ck_assert_uint_eq(stats.assignment_count, 1);
	ck_assert_uint_eq(stats.xact_count, 2);
	ck_assert_uint_eq(stats.query_count, 3);
	ck_assert_uint_eq(stats.client_bytes, 4);
	ck_assert_uint_eq(stats.server_bytes, 5);
	ck_assert_uint_eq(stats.xact_time, 6);
	ck_assert_uint_eq(stats.query_time, 7);
	ck_assert_uint_eq(stats.wait_time, 8);
	ck_assert_uint_eq(stats.client_parse_count, 9);
	ck_assert_uint_eq(stats.server_parse_count, 10);
	ck_assert_uint_eq(stats.bind_count, 11);
	ck_assert_uint_eq(stats.client_login_count, 12);
	buf_free(&counters);
}
END_TEST

START_TEST(unknown_ones_are_left_out_and_missing_ones_are_nothing)
{
	struct stats stats = all_different();
	struct buf counters = { 0 };

	record_add_number(&counters, '#', 1);
	record_add_number(&counters, 'q', 2);
	record_add_number(&counters, '$', 3);
	ck_assert(read_counters(buf_bytes(&counters), &stats));
	ck_assert_uint_eq(stats.query_count, 2);
	stats.query_count = 0;
	ck_assert_mem_eq(&stats, &(struct stats){ 0 }, sizeof(stats));
	ck_assert(read_counters(bytes_of("", 0), &stats));
	buf_free(&counters);
}
END_TEST

START_TEST(what_is_cut_is_bad)
{
	struct stats stats;
	struct buf counters = { 0 };

	record_add_number(&counters, 'x', 1);
	record_add_number(&counters, 'q', 2);
	for (size_t count = 1; count < counters.count; count++)
		ck_assert_msg(read_counters(bytes_of(counters.at, count), &stats) ==
		                  (count == counters.count / 2),
		              "%zu bytes", count);
	record_add_text(&counters, 'c', "short");
	ck_assert(!read_counters(buf_bytes(&counters), &stats));
	buf_free(&counters);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/handover_parts");
	TCase *tests = tcase_create("handover_parts");

	tcase_add_test(tests, all_counters_arrive);
	tcase_add_test(tests, letters_stay);
	tcase_add_test(tests, unknown_ones_are_left_out_and_missing_ones_are_nothing);
	tcase_add_test(tests, what_is_cut_is_bad);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
