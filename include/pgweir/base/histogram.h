/* SPDX-License-Identifier: ISC */
/*
 * Histograms: how often each value has occurred, in log-linear buckets.
 *
 * Values below 32 have a bucket each. Above, each power of two has 32 buckets of one width, so the
 * middle of a bucket differs from its values by less than 1.6 %. Greater values than
 * HISTOGRAM_VALUE_MAX count as that one: as microseconds, three days.
 */
#ifndef PGWEIR_BASE_HISTOGRAM_H
#define PGWEIR_BASE_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_LINEAR_BITS 5
#define HISTOGRAM_LINEAR (1u << HISTOGRAM_LINEAR_BITS) /* buckets for each power of two */
#define HISTOGRAM_BITS 38                              /* of the greatest value */
#define HISTOGRAM_VALUE_MAX ((UINT64_C(1) << HISTOGRAM_BITS) - 1)
#define HISTOGRAM_BUCKETS ((HISTOGRAM_BITS - HISTOGRAM_LINEAR_BITS + 1) * HISTOGRAM_LINEAR)

struct histogram {
	uint64_t sum; /* of all values, exact */
	uint64_t max; /* exact */
	uint64_t counts[HISTOGRAM_BUCKETS];
};

static inline unsigned int histogram_bucket(uint64_t value)
{
	unsigned int shift;

	if (value > HISTOGRAM_VALUE_MAX)
		value = HISTOGRAM_VALUE_MAX;
	/* How many low bits of the value its bucket does not see; the same for all small values. */
	shift = 63 - HISTOGRAM_LINEAR_BITS -
	        (unsigned int)__builtin_clzll(value | (2 * HISTOGRAM_LINEAR - 1));
	return shift * HISTOGRAM_LINEAR + (unsigned int)(value >> shift);
}

/* The least value of a bucket; that of HISTOGRAM_BUCKETS is greater than all values. */
uint64_t histogram_least(unsigned int bucket);

/* The value that stands for all of a bucket. */
uint64_t histogram_middle(unsigned int bucket);

static inline void histogram_add(struct histogram *histogram, unsigned int bucket, uint64_t value)
{
	histogram->counts[bucket]++;
	histogram->sum += value;
	if (value > histogram->max)
		histogram->max = value;
}

/* sum += more */
void histogram_merge(struct histogram *sum, const struct histogram *more);

uint64_t histogram_count(const struct histogram *histogram);

/*
 * Finds quantiles: values[i] is what `perthousand[i]` of 1000 values do not exceed, by the nearest
 * rank. They must be in rising order. All are 0 if there are no values. Returns the number of
 * values.
 */
uint64_t histogram_quantiles(const struct histogram *histogram, const unsigned int *perthousand,
                             uint64_t *values, size_t count);

#endif
