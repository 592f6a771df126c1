/* SPDX-License-Identifier: ISC */
/*
 * client/calls.c: the table keeps the frequent statements within its bound, whatever comes.
 */
#include "pgweir/client/calls.h"

#include <stdio.h>

#include "../unit.h"

static struct calls calls;

static void begin(void) { ck_assert(calls_resize(&calls, 16)); }

static void end(void) { calls_done(&calls); }

/* Bits that depend on all of the number, as those of a digest do. */
static uint64_t key_of(uint64_t number)
{
	number = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
	return number ^ number >> 29;
}

static struct calls_statement *enter(uint64_t number)
{
	char text[32];
	int size = snprintf(text, sizeof(text), "SELECT %llu", (unsigned long long)number);

	return calls_enter(&calls, &(struct calls_new){ .key = key_of(number),
	                                                .digest = number,
	                                                .database = "app",
	                                                .user = "alice",
	                                                .text = bytes_of(text, (size_t)size),
	                                                .has_text = true,
	                                                .now = 5 });
}

static struct calls_statement *call(uint64_t number)
{
	struct calls_statement *statement = calls_find(&calls, key_of(number));

	if (!statement)
		statement = enter(number);
	unit_expect(statement);
	calls_sent(&calls, statement);
	calls_ended(statement, &(struct server_call_end){ .running = 3, .rows = 1, .bytes = 2 }, 0);
	return statement;
}

static uint64_t count_of(uint64_t number)
{
	const struct calls_statement *statement = calls_find(&calls, key_of(number));

	return statement ? statement->call_count : 0;
}

START_TEST(calls_are_counted)
{
	struct calls_statement *statement = call(1);

	call(1);
	calls_ended(statement,
	            &(struct server_call_end){
			.now = 9, .running = 100, .rows = 10, .bytes = 20, .sqlstate = "22012" },
	            7);
	ck_assert_uint_eq(statement->call_count, 3);
	ck_assert_uint_eq(statement->running_time, 106);
	ck_assert_uint_eq(statement->longest, 100);
	ck_assert_uint_eq(statement->wait_time, 7);
	ck_assert_uint_eq(statement->row_count, 12);
	ck_assert_uint_eq(statement->byte_count, 24);
	ck_assert_uint_eq(statement->error_count, 1);
	ck_assert_str_eq(statement->sqlstate, "22012");
	ck_assert_str_eq(statement->database, "app");
	ck_assert_str_eq(statement->user, "alice");
	ck_assert_str_eq(statement->text, "SELECT 1");
	ck_assert_int_eq(statement->since, 5);
	ck_assert_int_eq(statement->last_at, 9);
	calls_failed(statement, "42P01");
	ck_assert_uint_eq(statement->call_count, 3);
	ck_assert_uint_eq(statement->error_count, 2);
	/* a clock that went back */
	calls_ended(statement, &(struct server_call_end){ .running = -5 }, 0);
	ck_assert_uint_eq(statement->running_time, 106);
}
END_TEST

START_TEST(calls_has_places)
{
	uint64_t place = calls_place(&calls, call(1));

	ck_assert_ptr_eq(calls_at(&calls, place), calls_find(&calls, key_of(1)));
	for (uint64_t i = 100; i < 200; i++)
		call(i);
	ck_assert_ptr_null(calls_at(&calls, place));
	ck_assert_ptr_null(calls_at(&calls, 0));
	place = calls_place(&calls, call(300));
	calls_reset(&calls);
	ck_assert_ptr_null(calls_at(&calls, place));
	call(300);
	ck_assert_ptr_null(calls_at(&calls, place));
	place = calls_place(&calls, call(300));
	ck_assert(calls_resize(&calls, 0));
	ck_assert(calls_resize(&calls, 16));
	call(300);
	ck_assert_ptr_null(calls_at(&calls, place));
}
END_TEST

START_TEST(calls_keeps_a_long_text_in_part)
{
	char text[CALLS_TEXT_MAX + 10];
	struct calls_statement *statement;

	memset(text, 'x', sizeof(text));
	statement = calls_enter(
	    &calls, &(struct calls_new){
			.key = 1, .database = "", .user = "", .text = bytes_of("(none)", 6) });
	ck_assert(!statement->has_text);
	ck_assert(calls_explain(statement, bytes_of(text, sizeof(text))));
	ck_assert(statement->has_text);
	ck_assert_uint_eq(strlen(statement->text), CALLS_TEXT_MAX);
	calls_by(statement, 7,
	         "an application with a name that is longer than the field that has it");
	ck_assert_uint_eq(strlen(statement->application), APPLICATION_NAME_SIZE - 1);
}
END_TEST

/*
 * Against exact counts: each statement's calls are at most `missed_count` too few, no statement
 * that is not there was sent more often than the floor, and the floor is at most the share of all.
 */
#define NUMBERS 400

static void check_bounds(const uint64_t *exact, uint64_t total)
{
	uint32_t slot = 0, seen = 0;

	unit_expect(calls.floor <= total / calls.capacity);
	while (calls_next(&calls, &slot))
		seen++;
	unit_expect(seen == calls.count && seen <= calls.capacity);
	for (uint64_t i = 0; i < NUMBERS; i++) {
		const struct calls_statement *statement = calls_find(&calls, key_of(i));

		if (!statement) {
			unit_expect(exact[i] <= calls.floor);
			continue;
		}
		unit_expect(statement->call_count <= exact[i]);
		unit_expect(statement->call_count + statement->missed_count >= exact[i]);
	}
}

START_TEST(calls_keeps_its_bounds)
{
	static const uint32_t sizes[] = { 16, 16, 5, 40, 40, 1, 16 };
	uint64_t exact[NUMBERS] = { 0 }, total = 0, seed = (uint64_t)_i;

	for (size_t round = 0; round < COUNT_OF(sizes); round++) {
		if (round && sizes[round] != sizes[round - 1]) {
			/* the bound of another size is another one */
			calls_reset(&calls);
			memset(exact, 0, sizeof(exact));
			total = 0;
		}
		ck_assert(calls_resize(&calls, sizes[round]));
		for (unsigned int i = 0; i < 5000; i++) {
			uint64_t number;

			seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
			number = (seed >> 33) % NUMBERS;
			number = number * number / NUMBERS * number / NUMBERS;
			call(number);
			exact[number]++;
			total++;
			if (i % 100 == 0)
				check_bounds(exact, total);
		}
	}
}
END_TEST

START_TEST(calls_keeps_the_frequent_in_a_storm)
{
	for (uint64_t i = 0; i < 100000; i++) {
		call(1000 + i);
		call(i % 5);
	}
	for (uint64_t i = 0; i < 5; i++) {
		const struct calls_statement *statement = calls_find(&calls, key_of(i));

		ck_assert_ptr_nonnull(statement);
		ck_assert_uint_le(statement->call_count, 20000);
		ck_assert_uint_ge(statement->call_count + statement->missed_count, 20000);
	}
	ck_assert_uint_eq(calls.count, 16);
	ck_assert_uint_le(calls.floor, 200000 / 16);
	ck_assert_uint_gt(calls.evict_count, 99900);
}
END_TEST

START_TEST(calls_of_equal_frequency_leave_in_turn)
{
	for (uint64_t i = 0; i < 16; i++)
		call(i);
	call(0);
	call(100);
	ck_assert_uint_eq(count_of(1), 0);
	ck_assert_uint_eq(count_of(2), 1);
	ck_assert_uint_eq(count_of(0), 2);
}
END_TEST

START_TEST(calls_changes_its_size)
{
	for (uint64_t i = 0; i < 16; i++) {
		for (uint64_t n = 0; n <= i; n++)
			call(i);
	}
	ck_assert(calls_resize(&calls, 4));
	for (uint64_t i = 0; i < 16; i++)
		ck_assert_uint_eq(count_of(i), i < 12 ? 0 : i + 1);
	ck_assert_uint_eq(calls.floor, 12);
	ck_assert(calls_resize(&calls, 100));
	ck_assert_uint_eq(call(77)->missed_count, 12);
	ck_assert_uint_eq(calls.count, 5);
	ck_assert(calls_resize(&calls, 0));
	ck_assert_ptr_null(calls_find(&calls, key_of(15)));
	ck_assert_ptr_null(enter(1));
}
END_TEST

/* Many fall into one place. */
static uint64_t hash_of(uint64_t number) { return (number << 11 | (number & 3)) + 1; }

START_TEST(names_are_found)
{
	struct calls_names names = { 0 };

	ck_assert_uint_eq(calls_names_get(&names, 5), 0);
	for (uint64_t i = 1; i <= 1000; i++)
		calls_names_put(&names, hash_of(i), i);
	calls_names_put(&names, hash_of(7), 70);
	for (uint64_t i = 1; i <= 1000; i++)
		unit_expect(calls_names_get(&names, hash_of(i)) == (i == 7 ? 70 : i));
	ck_assert_uint_eq(HASH_COUNT(names.table), 1000);
	ck_assert_uint_eq(calls_names_get(&names, hash_of(1001)), 0);
	calls_names_done(&names);
	ck_assert_ptr_null(names.table);
}
END_TEST

START_TEST(names_are_bounded)
{
	struct calls_names names = { 0 };

	for (uint64_t i = 1; i <= 100000; i++) {
		calls_names_put(&names, hash_of(i), i);
		unit_expect(calls_names_get(&names, hash_of(i)) == i);
		unit_expect(HASH_COUNT(names.table) <= 1024);
	}
	calls_names_done(&names);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/calls");
	TCase *tests = tcase_create("calls");

	tcase_add_checked_fixture(tests, begin, end);
	tcase_add_test(tests, calls_are_counted);
	tcase_add_test(tests, calls_has_places);
	tcase_add_test(tests, calls_keeps_a_long_text_in_part);
	tcase_add_loop_test(tests, calls_keeps_its_bounds, 0, 5);
	tcase_add_test(tests, calls_keeps_the_frequent_in_a_storm);
	tcase_add_test(tests, calls_of_equal_frequency_leave_in_turn);
	tcase_add_test(tests, calls_changes_its_size);
	tcase_add_test(tests, names_are_found);
	tcase_add_test(tests, names_are_bounded);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
