/* SPDX-License-Identifier: ISC */
/*
 * Histograms: sums and quantiles.
 */
#include "pgweir/base/histogram.h"

#include "pgweir/base/banned.h"

uint64_t histogram_least(unsigned int bucket)
{
	unsigned int shift;

	if (bucket < 2 * HISTOGRAM_LINEAR)
		return bucket;
	shift = bucket / HISTOGRAM_LINEAR - 1;
	return (uint64_t)(HISTOGRAM_LINEAR + bucket % HISTOGRAM_LINEAR) << shift;
}

uint64_t histogram_middle(unsigned int bucket)
{
	uint64_t least = histogram_least(bucket);

	return least + (histogram_least(bucket + 1) - least) / 2;
}

void histogram_merge(struct histogram *sum, const struct histogram *more)
{
	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++)
		sum->counts[i] += more->counts[i];
	sum->sum += more->sum;
	if (more->max > sum->max)
		sum->max = more->max;
}

uint64_t histogram_count(const struct histogram *histogram)
{
	uint64_t count = 0;

	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++)
		count += histogram->counts[i];
	return count;
}

/* How many values come before the one of that quantile, and it. Written so for large counts. */
static uint64_t rank_of(uint64_t total, unsigned int perthousand)
{
	uint64_t rank = total / 1000 * perthousand + (total % 1000 * perthousand + 999) / 1000;

	return rank ? rank : 1;
}

uint64_t histogram_quantiles(const struct histogram *histogram, const unsigned int *perthousand,
                             uint64_t *values, size_t count)
{
	uint64_t total = histogram_count(histogram), passed = 0, middle;
	unsigned int bucket = 0;

	for (size_t i = 0; i < count; i++) {
		values[i] = 0;
		if (!total)
			continue;
		while (passed + histogram->counts[bucket] < rank_of(total, perthousand[i]))
			passed += histogram->counts[bucket++];
		middle = histogram_middle(bucket);
		values[i] = middle < histogram->max ? middle : histogram->max;
	}
	return total;
}
