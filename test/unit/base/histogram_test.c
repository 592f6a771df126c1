/* SPDX-License-Identifier: ISC */
/*
 * base/histogram.c: buckets, and quantiles beside the exact ones of the same values.
 */
#include "pgweir/base/histogram.h"

#include <stdlib.h>
#include <string.h>

#include "../unit.h"

#define DAY (UINT64_C(24) * 3600 * 1000 * 1000)

/* Values of all sizes, the same ones in each run. */
static uint64_t draw(uint64_t *state, unsigned int bits)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state >> (64 - bits);
}

static const struct {
	const char *says;
	uint64_t value, least, next;
} buckets[] = {
	{ "zero has its own bucket", 0, 0, 1 },
	{ "small values are exact", 31, 31, 32 },
	{ "the first power of two with several buckets is exact, too", 63, 63, 64 },
	{ "then two values share one", 65, 64, 66 },
	{ "four values", 130, 128, 132 },
	{ "the last bucket of a power of two", 127, 126, 128 },
	{ "the greatest value is in the last bucket", HISTOGRAM_VALUE_MAX,
	  UINT64_C(63) << (HISTOGRAM_BITS - 6), UINT64_C(1) << HISTOGRAM_BITS },
	{ "greater ones, too", UINT64_MAX, UINT64_C(63) << (HISTOGRAM_BITS - 6),
	  UINT64_C(1) << HISTOGRAM_BITS },
};

START_TEST(buckets_have_bounds)
{
	unsigned int bucket = histogram_bucket(buckets[_i].value);

	ck_assert_msg(bucket < HISTOGRAM_BUCKETS, "%s", buckets[_i].says);
	ck_assert_msg(histogram_least(bucket) == buckets[_i].least, "%s", buckets[_i].says);
	ck_assert_msg(histogram_least(bucket + 1) == buckets[_i].next, "%s", buckets[_i].says);
}
END_TEST

START_TEST(buckets_follow_each_other)
{
	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++) {
		unit_expect(histogram_bucket(histogram_least(i)) == i);
		unit_expect(histogram_bucket(histogram_least(i + 1) - 1) == i);
		unit_expect(histogram_bucket(histogram_middle(i)) == i);
	}
}
END_TEST

START_TEST(the_middle_is_near_each_value)
{
	uint64_t state = 88172645463325252;

	ck_assert(HISTOGRAM_VALUE_MAX > DAY);
	for (int i = 0; i < 1000000; i++) {
		uint64_t value = draw(&state, 1 + (unsigned int)i % HISTOGRAM_BITS);
		uint64_t middle = histogram_middle(histogram_bucket(value));
		uint64_t off = middle > value ? middle - value : value - middle;

		unit_expect(off * 1000 <= value * 16);
	}
}
END_TEST

static int compare(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

static const unsigned int perthousand[] = { 0, 1, 500, 900, 950, 990, 999, 1000 };

/* How the values of a case are made: up to `bits` wide, skewed to small or to great ones. */
static const struct {
	const char *says;
	size_t count;
	unsigned int bits, tail_bits, tail_each; /* each tail_each-th value has tail_bits */
} samples[] = {
	{ "one value", 1, 20, 20, 1 },
	{ "two values", 2, 20, 20, 1 },
	{ "nine values", 9, 12, 30, 3 },
	{ "a thousand", 1000, 14, 24, 100 },
	{ "a hundred thousand with a long tail", 100000, 10, 37, 500 },
	{ "great ones only", 100000, 37, 37, 1 },
	{ "small ones only", 100000, 3, 3, 1 },
};

START_TEST(quantiles_are_near_the_exact_ones)
{
	struct histogram *histogram = calloc(1, sizeof(*histogram));
	size_t count = samples[_i].count;
	uint64_t *values = calloc(count, sizeof(*values)), found[COUNT_OF(perthousand)];
	uint64_t state = 0x9e3779b97f4a7c15, sum = 0;

	ck_assert(histogram && values);
	for (size_t i = 0; i < count; i++) {
		values[i] = draw(&state, i % samples[_i].tail_each ? samples[_i].bits
		                                                   : samples[_i].tail_bits);
		histogram_add(histogram, histogram_bucket(values[i]), values[i]);
		sum += values[i];
	}
	qsort(values, count, sizeof(*values), compare);
	ck_assert_uint_eq(histogram_quantiles(histogram, perthousand, found, COUNT_OF(perthousand)),
	                  count);
	for (size_t i = 0; i < COUNT_OF(perthousand); i++) {
		size_t rank = (count * perthousand[i] + 999) / 1000;
		uint64_t exact = values[rank ? rank - 1 : 0];
		uint64_t off = found[i] > exact ? found[i] - exact : exact - found[i];

		ck_assert_msg(off * 1000 <= exact * 16, "%s: %u of 1000 is %lu, not %lu",
		              samples[_i].says, perthousand[i], (unsigned long)found[i],
		              (unsigned long)exact);
	}
	ck_assert_uint_eq(histogram->sum, sum);
	ck_assert_uint_eq(histogram->max, values[count - 1]);
	free(values);
	free(histogram);
}
END_TEST

START_TEST(quantiles_of_nothing_are_zero)
{
	static const struct histogram nothing;
	uint64_t found[COUNT_OF(perthousand)];

	memset(found, 1, sizeof(found));
	ck_assert_uint_eq(histogram_quantiles(&nothing, perthousand, found, COUNT_OF(perthousand)),
	                  0);
	for (size_t i = 0; i < COUNT_OF(perthousand); i++)
		ck_assert_uint_eq(found[i], 0);
}
END_TEST

START_TEST(quantiles_bear_large_counts)
{
	static struct histogram histogram;
	unsigned int asked[] = { 500, 999, 1000 };
	uint64_t found[3];

	histogram.counts[10] = UINT64_C(1) << 62;
	histogram.counts[20] = UINT64_C(1) << 62;
	histogram.max = 20;
	ck_assert_uint_eq(histogram_quantiles(&histogram, asked, found, 3), UINT64_C(1) << 63);
	ck_assert_uint_eq(found[0], 10);
	ck_assert_uint_eq(found[1], 20);
	ck_assert_uint_eq(found[2], 20);
}
END_TEST

START_TEST(a_sum_is_as_if_counted_together)
{
	static struct histogram parts[2], together;
	uint64_t state = 42;

	for (int i = 0; i < 10000; i++) {
		uint64_t value = draw(&state, 1 + (unsigned int)i % 30);

		histogram_add(&parts[i % 2], histogram_bucket(value), value);
		histogram_add(&together, histogram_bucket(value), value);
	}
	histogram_merge(&parts[0], &parts[1]);
	ck_assert(memcmp(&parts[0], &together, sizeof(together)) == 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("histogram");
	TCase *cases = tcase_create("histogram");

	tcase_add_loop_test(cases, buckets_have_bounds, 0, COUNT_OF(buckets));
	tcase_add_test(cases, buckets_follow_each_other);
	tcase_add_test(cases, the_middle_is_near_each_value);
	tcase_add_loop_test(cases, quantiles_are_near_the_exact_ones, 0, COUNT_OF(samples));
	tcase_add_test(cases, quantiles_of_nothing_are_zero);
	tcase_add_test(cases, quantiles_bear_large_counts);
	tcase_add_test(cases, a_sum_is_as_if_counted_together);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
