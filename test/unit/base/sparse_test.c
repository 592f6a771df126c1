/* SPDX-License-Identifier: ISC */
/*
 * base/histogram.c: sparse sums beside plain arrays.
 */
#include "pgweir/base/histogram.h"

#include <string.h>

#include "../unit.h"

#define PLACES 65535

/* Random places in groups, the same ones in each run. */
static unsigned int draw(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned int)((*state >> 33) % 7 * 700 + (*state >> 40) % 100);
}

static void expect_sum(const struct sparse_sum *sum, const uint64_t *plain)
{
	size_t used = 0;

	for (size_t i = 0; i < sum->count; i++) {
		unit_expect(i == 0 ||
		            sparse_place(sum->items[i - 1]) < sparse_place(sum->items[i]));
		unit_expect(sparse_count(sum->items[i]) == plain[sparse_place(sum->items[i])]);
	}
	for (unsigned int i = 0; i < PLACES; i++) {
		unit_expect(sparse_sum_find(sum, i) == used);
		used += plain[i] != 0;
	}
	ck_assert_uint_eq(sum->count, used);
}

START_TEST(an_empty_one_has_no_memory)
{
	struct sparse_sum sum = { 0 }, more = { 0 };

	ck_assert(sparse_sum_merge(&sum, &more));
	ck_assert_uint_eq(sum.count, 0);
	ck_assert_ptr_null(sum.items);
}
END_TEST

START_TEST(the_last_place_is_counted)
{
	struct sparse_sum sum = { 0 };

	ck_assert(sparse_sum_note(&sum, PLACES - 1));
	ck_assert(sparse_sum_note(&sum, 0));
	ck_assert_uint_eq(sum.count, 2);
	ck_assert_uint_eq(sparse_sum_at(&sum, PLACES - 1), 1);
	ck_assert_uint_eq(sparse_sum_at(&sum, PLACES - 2), 0);
	sparse_sum_free(&sum);
}
END_TEST

START_TEST(sums_are_as_if_counted_together)
{
	static uint64_t plain[PLACES], twice[PLACES];
	struct sparse_sum sum = { 0 }, both = { 0 };
	uint64_t state = 1;

	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 1000; i++) {
			unsigned int place = draw(&state);

			unit_expect(sparse_sum_note(&sum, place));
			plain[place]++;
		}
		expect_sum(&sum, plain);
		ck_assert(sparse_sum_merge(&both, &sum));
		for (unsigned int i = 0; i < PLACES; i++)
			twice[i] += plain[i];
		expect_sum(&both, twice);
	}
	sparse_sum_free(&sum);
	sparse_sum_free(&both);
}
END_TEST

START_TEST(counts_may_be_large)
{
	struct sparse_sum sum = { 0 }, more = { 0 };

	ck_assert(sparse_sum_note(&more, 4000));
	for (int i = 0; i < 30; i++)
		ck_assert(sparse_sum_merge(&sum, &more) && sparse_sum_merge(&more, &sum));
	ck_assert_uint_eq(sparse_place(sum.items[0]), 4000);
	ck_assert_uint_gt(sparse_count(sum.items[0]), UINT64_C(1) << 40);
	sparse_sum_free(&sum);
	ck_assert_uint_eq(sum.count, 0);
	sparse_sum_free(&more);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sparse");
	TCase *cases = tcase_create("sparse");

	tcase_add_test(cases, an_empty_one_has_no_memory);
	tcase_add_test(cases, the_last_place_is_counted);
	tcase_add_test(cases, sums_are_as_if_counted_together);
	tcase_add_test(cases, counts_may_be_large);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
