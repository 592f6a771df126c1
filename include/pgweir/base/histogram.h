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

#include <stdbool.h>
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

/* The bucket of a value below 1 << `max_bits`, or of the greatest one, of 1 << `bits` for each
 * power of two. */
static inline unsigned int histogram_bucket_of(uint64_t value, unsigned int bits,
                                               unsigned int max_bits)
{
	unsigned int shift;

	if (value >> max_bits)
		value = (UINT64_C(1) << max_bits) - 1;
	/* How many low bits of the value its bucket does not see; the same for all small values. */
	shift = 63 - bits - (unsigned int)__builtin_clzll(value | ((2u << bits) - 1));
	return (shift << bits) + (unsigned int)(value >> shift);
}

static inline unsigned int histogram_bucket(uint64_t value)
{
	return histogram_bucket_of(value, HISTOGRAM_LINEAR_BITS, HISTOGRAM_BITS);
}

/* The least value of a bucket; that of HISTOGRAM_BUCKETS is greater than all values. */
uint64_t histogram_least(unsigned int bucket);

uint64_t histogram_middle(unsigned int bucket);

static inline void histogram_add(struct histogram *histogram, unsigned int bucket, uint64_t value)
{
	histogram->counts[bucket]++;
	histogram->sum += value;
	if (value > histogram->max)
		histogram->max = value;
}

void histogram_merge(struct histogram *sum, const struct histogram *more);
void histogram_clear(struct histogram *histogram);

uint64_t histogram_count(const struct histogram *histogram);

/*
 * values[i] is what `perthousand[i]` of 1000 values do not exceed, by the nearest rank; 0 if
 * there are no values. They must be in rising order. Returns the number of values.
 */
uint64_t histogram_quantiles(const struct histogram *histogram, const unsigned int *perthousand,
                             uint64_t *values, size_t count);

/*
 * ---- sketch ----
 *
 * A sketch: about how large the values of a series were, in fixed memory of half a kilobyte. For
 * many series; one that deserves more has a histogram.
 *
 * Values below 8 have a bucket each. Above, each power of two has 8 buckets of one width. When a
 * bucket is full, all are halved: then a quantile is that of the last 65 000 values or more, the
 * later ones counting more.
 */

#define SKETCH_LINEAR_BITS 3
#define SKETCH_LINEAR (1u << SKETCH_LINEAR_BITS)
#define SKETCH_BITS 33 /* of the greatest value; greater ones count as that one: 2.3 hours */
#define SKETCH_BUCKETS ((SKETCH_BITS - SKETCH_LINEAR_BITS + 1) * SKETCH_LINEAR)

struct sketch {
	uint16_t counts[SKETCH_BUCKETS];
};

void sketch_halve(struct sketch *sketch);

static inline unsigned int sketch_bucket(uint64_t value)
{
	return histogram_bucket_of(value, SKETCH_LINEAR_BITS, SKETCH_BITS);
}

static inline void sketch_add(struct sketch *sketch, uint64_t value)
{
	uint16_t *count = &sketch->counts[sketch_bucket(value)];

	if (*count == UINT16_MAX)
		sketch_halve(sketch);
	(*count)++;
}

/*
 * Adds its values to a histogram, in the middle of their buckets: then they differ from what was
 * noted by less than 7 %. Their sum and the greatest one are for the caller to add.
 */
void sketch_add_to(const struct sketch *sketch, struct histogram *sum);

/* ---- sparse: counters, most of which are 0; the others are kept by their places ---- */

/* The place in the upper 16 bits, its count in the others: fifty years of a million a second. */
typedef uint64_t sparse_item;

#define SPARSE_COUNT_BITS 48

static inline sparse_item sparse_item_of(unsigned int place, uint64_t count)
{
	return (sparse_item)place << SPARSE_COUNT_BITS | count;
}

static inline unsigned int sparse_place(sparse_item item)
{
	return (unsigned int)(item >> SPARSE_COUNT_BITS);
}

static inline uint64_t sparse_count(sparse_item item)
{
	return item & ((UINT64_C(1) << SPARSE_COUNT_BITS) - 1);
}

/* A zeroed one is empty. */
struct sparse_sum {
	sparse_item *items; /* in rising order of places, none with a count of 0 */
	size_t count;
};

/* sum += more. false: no memory, and the sum is unchanged. */
bool sparse_sum_merge(struct sparse_sum *sum, const struct sparse_sum *more);

/* Counts one at this place. false: no memory, nothing is counted. */
bool sparse_sum_note(struct sparse_sum *sum, unsigned int place);

/* The index of the first item whose place is not below this one. */
size_t sparse_sum_find(const struct sparse_sum *sum, unsigned int place);

static inline uint64_t sparse_sum_at(const struct sparse_sum *sum, unsigned int place)
{
	size_t index = sparse_sum_find(sum, place);

	return index < sum->count && sparse_place(sum->items[index]) == place
	           ? sparse_count(sum->items[index])
	           : 0;
}

void sparse_sum_free(struct sparse_sum *sum);

#endif
