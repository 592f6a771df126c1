/* SPDX-License-Identifier: ISC */
/*
 * base/histogram.c: quantiles are within the stated error, also after a bucket was full.
 */
#include "pgweir/base/histogram.h"

#include <string.h>

#include "../unit.h"

static uint64_t quantile(const struct sketch *sketch, unsigned int perthousand)
{
	struct histogram sum = { .max = HISTOGRAM_VALUE_MAX };
	uint64_t value;

	sketch_add_to(sketch, &sum);
	histogram_quantiles(&sum, &perthousand, &value, 1);
	return value;
}

START_TEST(sketch_is_empty)
{
	struct sketch sketch = { 0 };

	ck_assert_uint_eq(quantile(&sketch, 950), 0);
}
END_TEST

/* Each value alone comes back within 7 %, and values below 16 exactly. */
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
		unit_expect(found <= value + value * 7 / 100 && found + value * 7 / 100 >= value);
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

START_TEST(sketches_add_up)
{
	static const unsigned int asked[] = { 500, 501 };
	struct sketch one = { 0 }, two = { 0 };
	struct histogram sum = { .max = 8 };
	uint64_t values[2];

	sketch_add(&one, 1);
	sketch_add(&two, 9);
	sketch_add_to(&one, &sum);
	sketch_add_to(&two, &sum);
	ck_assert_uint_eq(histogram_quantiles(&sum, asked, values, 2), 2);
	ck_assert_uint_eq(values[0], 1);
	ck_assert_uint_eq(values[1], 8); /* not more than the greatest one */
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
	tcase_add_test(tests, sketches_add_up);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
