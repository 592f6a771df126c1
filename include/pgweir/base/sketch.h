/* SPDX-License-Identifier: ISC */
/*
 * A sketch: about how large the values of a series were, in fixed memory of half a kilobyte. For
 * many series; one that deserves more has a histogram.
 *
 * Values below 8 have a bucket each. Above, each power of two has 8 buckets of one width, and the
 * middle of a bucket differs from its values by less than 6.3 %. When a bucket is full, all are
 * halved: then a quantile is that of the last 65 000 values or more, the later ones counting more.
 */
#ifndef PGWEIR_BASE_SKETCH_H
#define PGWEIR_BASE_SKETCH_H

#include <stddef.h>
#include <stdint.h>

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
	unsigned int shift;

	if (value >> SKETCH_BITS)
		value = (UINT64_C(1) << SKETCH_BITS) - 1;
	/* How many low bits of the value its bucket does not see. */
	shift = 63 - SKETCH_LINEAR_BITS -
	        (unsigned int)__builtin_clzll(value | ((SKETCH_LINEAR << 1) - 1));
	return shift * SKETCH_LINEAR + (unsigned int)(value >> shift);
}

static inline void sketch_add(struct sketch *sketch, uint64_t value)
{
	uint16_t *count = &sketch->counts[sketch_bucket(value)];

	if (*count == UINT16_MAX)
		sketch_halve(sketch);
	(*count)++;
}

/* The sum of several sketches: a zeroed one is empty. */
struct sketch_sum {
	uint64_t counts[SKETCH_BUCKETS];
};

void sketch_sum_add(struct sketch_sum *sum, const struct sketch *sketch);

/*
 * What `perthousand` of 1000 values do not exceed, by the nearest rank: the middle of the bucket
 * where that is. 0: there are no values.
 */
uint64_t sketch_sum_quantile(const struct sketch_sum *sum, unsigned int perthousand);

#endif
