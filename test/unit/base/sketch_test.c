/* SPDX-License-Identifier: ISC */
/*
 * base/histogram.c: quantiles are within the stated error, also after a bucket was full.
 */
#include "pgweir/base/histogram.h"

#include <string.h>

#include "../unit.h"

static uint64_t quantile(const struct sketch *sketch, unsigned int perthousand)
{
	struct sketch_sum sum = { 0 };

	sketch_sum_add(&sum, sketch);
	return sketch_sum_quantile(&sum, perthousand);
}

START_TEST(sketch_is_empty)
{
	struct sketch sketch = { 0 };

	ck_assert_uint_eq(quantile(&sketch, 950), 0);
}
END_TEST

/* Each value alone comes back within 6.3 %, and values below 16 exactly. */
START_TEST(sketch_has_each_value)
{
	for (uint64_t value = 0; value < (UINT64_C(1) << SKETCH_BITS);
	     value = value < 5000 ? value + 1 : value + value / 977) {
		struct sketch sketch = { 0 };
		uint64_t found;

		sketch_add(&sketch, value);
		found = quantile(&sketch, 950);
		if (value < 2 * SKETCH_LINEAR)
			unit_expect(found == value);
		unit_expect(found <= value + value / 16 && found + value / 16 >= value);
	}
}
END_TEST

START_TEST(sketch_has_a_greatest_value)
{
	struct sketch sketch = { 0 };

	sketch_add(&sketch, UINT64_MAX);
	ck_assert_uint_gt(quantile(&sketch, 1000), UINT64_C(7) << (SKETCH_BITS - 3));
	ck_assert_uint_eq(sketch_bucket(UINT64_MAX), SKETCH_BUCKETS - 1);
}
END_TEST

START_TEST(sketch_has_ranks)
{
	struct sketch sketch = { 0 };

	for (uint64_t value = 1; value <= 10; value++)
		sketch_add(&sketch, value);
	ck_assert_uint_eq(quantile(&sketch, 0), 1);
	ck_assert_uint_eq(quantile(&sketch, 100), 1);
	ck_assert_uint_eq(quantile(&sketch, 101), 2);
	ck_assert_uint_eq(quantile(&sketch, 500), 5);
	ck_assert_uint_eq(quantile(&sketch, 950), 10);
}
END_TEST

START_TEST(sketch_forgets_slowly)
{
	struct sketch sketch = { 0 };

	for (unsigned int i = 0; i < 1000000; i++)
		sketch_add(&sketch, i % 10 == 0 ? 5000 : 7);
	ck_assert_uint_eq(quantile(&sketch, 850), 7);
	ck_assert_uint_gt(quantile(&sketch, 950), 4600);
	for (unsigned int i = 0; i < 1000000; i++)
		sketch_add(&sketch, 3);
	ck_assert_uint_eq(quantile(&sketch, 950), 3);
}
END_TEST

START_TEST(sketch_sums)
{
	struct sketch one = { 0 }, two = { 0 };
	struct sketch_sum sum = { 0 };

	sketch_add(&one, 1);
	sketch_add(&two, 9);
	sketch_sum_add(&sum, &one);
	sketch_sum_add(&sum, &two);
	ck_assert_uint_eq(sketch_sum_quantile(&sum, 500), 1);
	ck_assert_uint_eq(sketch_sum_quantile(&sum, 501), 9);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/sketch");
	TCase *tests = tcase_create("sketch");

	tcase_add_test(tests, sketch_is_empty);
	tcase_add_test(tests, sketch_has_each_value);
	tcase_add_test(tests, sketch_has_a_greatest_value);
	tcase_add_test(tests, sketch_has_ranks);
	tcase_add_test(tests, sketch_forgets_slowly);
	tcase_add_test(tests, sketch_sums);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
