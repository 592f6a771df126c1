/* SPDX-License-Identifier: ISC */
/*
 * pool/latency.c: windows, sums, and the memory they need.
 */
#include "pgweir/pool/latency.h"

#include <malloc.h>
#include <string.h>

#include "../unit.h"

#define SECOND USEC_PER_SEC
#define MINUTE (60 * SECOND)
#define BEGIN (1000 * MINUTE) /* not 0, as the clock of a machine */

static struct latency_all all;
static struct latency latency;
static usec_t now;

/* Where a sanitizer counts what is allocated, malloc() does not. */
extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static size_t allocated(void)
{
	return __sanitizer_get_current_allocated_bytes ? __sanitizer_get_current_allocated_bytes()
	                                               : mallinfo2().uordblks;
}

static size_t allocated_before;

static void set_up(void)
{
	memset(&all, 0, sizeof(all));
	now = BEGIN;
	allocated_before = allocated();
}

static void tear_down(void) { latency_done(&latency); }

static void note(enum latency_kind kind, usec_t time)
{
	latency_note(&latency, &all, kind, time, now);
}

static struct histogram sum_of(const struct latency *of, enum latency_kind kind,
                               enum latency_window window)
{
	struct histogram sum = { 0 };

	latency_sum(of, kind, window, now, &sum);
	return sum;
}

static unsigned long count(enum latency_window window)
{
	struct histogram sum = sum_of(&latency, LATENCY_STATEMENT, window);

	return histogram_count(&sum);
}

START_TEST(nothing_counted_is_nothing)
{
	ck_assert_uint_eq(count(LATENCY_START), 0);
	ck_assert_ptr_null(latency.open);
	ck_assert(!latency_has_counted(&latency));
}
END_TEST

START_TEST(kinds_are_apart)
{
	struct histogram sum;

	for (int kind = 0; kind < LATENCY_KINDS; kind++) {
		for (int i = 0; i <= kind; i++)
			note((enum latency_kind)kind, 1000 * (kind + 1));
	}
	/* the edges of a kind */
	note(LATENCY_STATEMENT, 0);
	note(LATENCY_STATEMENT, INT64_MAX);
	for (int kind = 0; kind < LATENCY_KINDS; kind++) {
		uint64_t counted = (unsigned int)kind + 1 + (kind == LATENCY_STATEMENT ? 2 : 0);

		for (int window = 0; window < LATENCY_WINDOWS; window++) {
			sum =
			    sum_of(&latency, (enum latency_kind)kind, (enum latency_window)window);
			ck_assert_uint_eq(histogram_count(&sum), counted);
		}
		ck_assert_uint_eq(histogram_count(&all.kinds[kind]), counted);
		ck_assert(kind == LATENCY_STATEMENT ||
		          sum.sum == (uint64_t)(1000 * (kind + 1) * (kind + 1)));
	}
}
END_TEST

START_TEST(a_statement_that_is_a_transaction_is_both)
{
	struct histogram of_all = { 0 };

	note(LATENCY_STATEMENT, 5);
	note(LATENCY_STATEMENT_XACT, 8);
	note(LATENCY_XACT, 6);
	note(LATENCY_XACT, 7);
	for (int window = 0; window < LATENCY_WINDOWS; window++) {
		struct histogram sum =
		    sum_of(&latency, LATENCY_STATEMENT, (enum latency_window)window);

		ck_assert_uint_eq(histogram_count(&sum), 2);
		ck_assert_uint_eq(sum.sum, 13);
		sum = sum_of(&latency, LATENCY_XACT, (enum latency_window)window);
		ck_assert_uint_eq(histogram_count(&sum), 3);
		ck_assert_uint_eq(sum.sum, 21);
		ck_assert_uint_eq(sum.max, 8);
	}
	latency_all_sum(&all, LATENCY_XACT, &of_all);
	ck_assert_uint_eq(histogram_count(&of_all), 3);
	latency_all_sum(&all, LATENCY_STATEMENT, &of_all);
	ck_assert_uint_eq(of_all.sum, 13 + 21);
}
END_TEST

START_TEST(waits_of_no_time_are_counted)
{
	struct latency drained = { 0 };
	struct histogram sum;

	for (int i = 0; i < 5; i++)
		latency_note_no_wait(&latency, &all);
	ck_assert(latency_has_counted(&latency));
	sum = sum_of(&latency, LATENCY_WAIT, LATENCY_MINUTE);
	ck_assert_uint_eq(sum.counts[0], 5);
	note(LATENCY_WAIT, 100);
	latency_note_no_wait(&latency, &all);
	sum = sum_of(&latency, LATENCY_WAIT, LATENCY_MINUTE);
	ck_assert_uint_eq(histogram_count(&sum), 7);
	latency_drain(&drained, &all, now);
	now += 16 * SECOND;
	note(LATENCY_WAIT, 100);
	for (int window = 0; window < LATENCY_WINDOWS; window++) {
		sum = sum_of(&latency, LATENCY_WAIT, (enum latency_window)window);
		ck_assert_uint_eq(sum.counts[0], 6);
		ck_assert_uint_eq(histogram_count(&sum), 8);
		sum = sum_of(&drained, LATENCY_WAIT, (enum latency_window)window);
		ck_assert_uint_eq(sum.counts[0], 6);
	}
	now += 100 * SECOND;
	sum = sum_of(&latency, LATENCY_WAIT, LATENCY_MINUTE);
	ck_assert_uint_eq(histogram_count(&sum), 0);
	latency_done(&drained);
}
END_TEST

/* Waits are all that a pool of long sessions counts for a while. */
START_TEST(moved_waits_of_no_time_are_kept)
{
	struct latency gone = { 0 };

	latency_note_no_wait(&latency, &all);
	latency_move(&gone, &latency, now);
	ck_assert(!latency_has_counted(&latency));
	latency_note_no_wait(&latency, &all);
	note(LATENCY_STATEMENT, 5);
	latency_move(&gone, &latency, now);
	ck_assert_uint_eq(sum_of(&gone, LATENCY_WAIT, LATENCY_START).counts[0], 2);
	ck_assert_uint_eq(sum_of(&gone, LATENCY_STATEMENT, LATENCY_START).sum, 5);
	latency_done(&gone);
}
END_TEST

START_TEST(a_clock_that_goes_back_counts_as_zero)
{
	note(LATENCY_STATEMENT, -5);
	ck_assert_uint_eq(sum_of(&latency, LATENCY_STATEMENT, LATENCY_START).sum, 0);
	ck_assert_uint_eq(count(LATENCY_START), 1);
}
END_TEST

/* When a time counted at BEGIN has left a window for good. */
static const struct {
	const char *says;
	usec_t after;
	bool is_in_minute, is_in_ten;
} ages[] = {
	{ "at once", 0, true, true },
	{ "after less than a minute", 59 * SECOND, true, true },
	{ "after a minute", MINUTE - 1, true, true },
	{ "after 75 seconds", 75 * SECOND, false, true },
	{ "after ten minutes", 10 * MINUTE - 1, false, true },
	{ "after twelve and a half", 750 * SECOND, false, false },
	{ "after a day", 1440 * MINUTE, false, false },
};

START_TEST(windows_forget)
{
	note(LATENCY_STATEMENT, 10);
	now = BEGIN + ages[_i].after;
	ck_assert_msg(count(LATENCY_MINUTE) == ages[_i].is_in_minute, "%s", ages[_i].says);
	ck_assert_msg(count(LATENCY_TEN_MINUTES) == ages[_i].is_in_ten, "%s", ages[_i].says);
	ck_assert_msg(count(LATENCY_START) == 1, "%s", ages[_i].says);
	/* the same if something has been counted since */
	note(LATENCY_WAIT, 0);
	ck_assert_msg(count(LATENCY_MINUTE) == ages[_i].is_in_minute, "%s", ages[_i].says);
	ck_assert_msg(count(LATENCY_TEN_MINUTES) == ages[_i].is_in_ten, "%s", ages[_i].says);
	ck_assert_msg(count(LATENCY_START) == 1, "%s", ages[_i].says);
}
END_TEST

/* One each second for an hour: beside a plain list of when each was. */
START_TEST(windows_are_as_long_as_they_say)
{
	for (unsigned long second = 0; second < 3600; second++) {
		now = BEGIN + (usec_t)second * SECOND;
		note(LATENCY_STATEMENT, (usec_t)second);
		ck_assert_uint_eq(count(LATENCY_START), second + 1);
		if (second < 60) {
			ck_assert_uint_eq(count(LATENCY_MINUTE), second + 1);
		} else {
			ck_assert_uint_ge(count(LATENCY_MINUTE), 60);
			ck_assert_uint_le(count(LATENCY_MINUTE), 75);
		}
		if (second < 600) {
			ck_assert_uint_eq(count(LATENCY_TEN_MINUTES), second + 1);
		} else {
			ck_assert_uint_ge(count(LATENCY_TEN_MINUTES), 600);
			ck_assert_uint_le(count(LATENCY_TEN_MINUTES), 750);
		}
		ck_assert_uint_eq(sum_of(&latency, LATENCY_STATEMENT, LATENCY_MINUTE).max, second);
	}
}
END_TEST

START_TEST(the_longest_leaves_with_its_window)
{
	note(LATENCY_STATEMENT, 999);
	now += 100 * SECOND;
	note(LATENCY_STATEMENT, 5);
	ck_assert_uint_eq(sum_of(&latency, LATENCY_STATEMENT, LATENCY_MINUTE).max, 5);
	ck_assert_uint_eq(sum_of(&latency, LATENCY_STATEMENT, LATENCY_TEN_MINUTES).max, 999);
	ck_assert_uint_eq(sum_of(&latency, LATENCY_STATEMENT, LATENCY_MINUTE).sum, 5);
}
END_TEST

START_TEST(all_is_emptied)
{
	struct latency drained_all = { 0 };

	for (int i = 0; i < 5; i++)
		note(LATENCY_STATEMENT, 77 + i);
	latency_drain(&drained_all, &all, now);
	ck_assert_uint_eq(histogram_count(&all.kinds[LATENCY_STATEMENT]), 0);
	note(LATENCY_STATEMENT, 3);
	now += SECOND;
	latency_drain(&drained_all, &all, now);
	for (int window = 0; window < LATENCY_WINDOWS; window++) {
		struct histogram drained =
		    sum_of(&drained_all, LATENCY_STATEMENT, (enum latency_window)window);
		struct histogram counted =
		    sum_of(&latency, LATENCY_STATEMENT, (enum latency_window)window);

		ck_assert_uint_eq(histogram_count(&drained), 6);
		ck_assert(memcmp(&drained, &counted, sizeof(drained)) == 0);
	}
	latency_done(&drained_all);
}
END_TEST

/* Two pools are freed at different times: their database has what a common one would have. */
START_TEST(moved_counts_keep_their_times)
{
	struct latency one = { 0 }, two = { 0 }, together = { 0 }, gone = { 0 };
	struct latency_all unused = { 0 };

	for (int i = 0; i < 2000; i++) {
		now += SECOND;
		if (i % 3 == 0 || i > 1500)
			latency_note(&one, &unused, LATENCY_STATEMENT, i, now);
		else if (i < 1990)
			latency_note(&two, &unused, LATENCY_STATEMENT, i, now);
		latency_note(&together, &unused, LATENCY_STATEMENT, i, now);
	}
	latency_move(&gone, &two, now);
	ck_assert(!latency_has_counted(&two));
	latency_move(&gone, &two, now);
	latency_move(&gone, &one, now);
	ck_assert(!latency_has_counted(&one));
	for (int i = 0; i < 900; i += 30) {
		for (int window = 0; window < LATENCY_WINDOWS; window++) {
			struct histogram moved =
			    sum_of(&gone, LATENCY_STATEMENT, (enum latency_window)window);
			struct histogram counted =
			    sum_of(&together, LATENCY_STATEMENT, (enum latency_window)window);

			ck_assert(memcmp(&moved, &counted, sizeof(moved)) == 0);
		}
		now += 30 * SECOND;
	}
	latency_done(&gone);
	latency_done(&together);
}
END_TEST

/* More times of one bucket in a slice than its counter holds. */
START_TEST(a_full_counter_loses_nothing)
{
	for (int i = 0; i < 200000; i++)
		note(LATENCY_STATEMENT, 100);
	for (int window = 0; window < LATENCY_WINDOWS; window++)
		ck_assert_uint_eq(count((enum latency_window)window), 200000);
	now += 2 * MINUTE;
	ck_assert_uint_eq(count(LATENCY_MINUTE), 0);
	ck_assert_uint_eq(count(LATENCY_TEN_MINUTES), 200000);
}
END_TEST

/* A busy pool for an hour, with times from 100 us to some seconds. */
START_TEST(memory_is_bounded)
{
	uint64_t state = 1;

	for (int i = 0; i < 360000; i++) {
		usec_t time;

		now += SECOND / 100;
		state = state * 6364136223846793005u + 1442695040888963407u;
		time = 100 + (usec_t)((state >> 40) % 2000) +
		       ((state >> 33) % 100 ? 0 : (usec_t)(state >> 42));
		note(LATENCY_STATEMENT, time);
		note(LATENCY_XACT, time);
		note(LATENCY_WAIT, time / 10);
	}
	ck_assert_uint_gt(allocated(), allocated_before);
	ck_assert_uint_lt(allocated() - allocated_before, 96 * 1024);
}
END_TEST

/* Every value there is, in each slice. */
START_TEST(memory_has_a_maximum)
{
	for (int slice = 0; slice < 16; slice++) {
		for (int kind = 0; kind < LATENCY_KINDS; kind++) {
			for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++)
				note((enum latency_kind)kind, (usec_t)histogram_least(i));
		}
		now += slice < 8 ? 15 * SECOND : 150 * SECOND;
	}
	ck_assert_uint_gt(allocated(), allocated_before);
	ck_assert_uint_lt(allocated() - allocated_before, 800 * 1024);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("latency");
	TCase *cases = tcase_create("latency");

	tcase_add_checked_fixture(cases, set_up, tear_down);
	tcase_add_test(cases, nothing_counted_is_nothing);
	tcase_add_test(cases, kinds_are_apart);
	tcase_add_test(cases, a_statement_that_is_a_transaction_is_both);
	tcase_add_test(cases, waits_of_no_time_are_counted);
	tcase_add_test(cases, moved_waits_of_no_time_are_kept);
	tcase_add_test(cases, a_clock_that_goes_back_counts_as_zero);
	tcase_add_loop_test(cases, windows_forget, 0, COUNT_OF(ages));
	tcase_add_test(cases, windows_are_as_long_as_they_say);
	tcase_add_test(cases, the_longest_leaves_with_its_window);
	tcase_add_test(cases, all_is_emptied);
	tcase_add_test(cases, moved_counts_keep_their_times);
	tcase_add_test(cases, a_full_counter_loses_nothing);
	tcase_add_test(cases, memory_is_bounded);
	tcase_add_test(cases, memory_has_a_maximum);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
