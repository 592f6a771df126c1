/* SPDX-License-Identifier: ISC */
/*
 * Sketches.
 */
#include "pgweir/base/sketch.h"

#include "pgweir/base/banned.h"

void sketch_halve(struct sketch *sketch)
{
	for (size_t i = 0; i < SKETCH_BUCKETS; i++)
		sketch->counts[i] /= 2;
}

void sketch_sum_add(struct sketch_sum *sum, const struct sketch *sketch)
{
	for (size_t i = 0; i < SKETCH_BUCKETS; i++)
		sum->counts[i] += sketch->counts[i];
}

/* The middle of a bucket's least and greatest value, rounded down. */
static uint64_t middle_of(unsigned int bucket)
{
	unsigned int shift = bucket < 2 * SKETCH_LINEAR ? 0 : bucket / SKETCH_LINEAR - 1;
	uint64_t least = (uint64_t)(bucket - shift * SKETCH_LINEAR) << shift;

	return least + ((UINT64_C(1) << shift) - 1) / 2;
}

uint64_t sketch_sum_quantile(const struct sketch_sum *sum, unsigned int perthousand)
{
	uint64_t total = 0, rank, seen = 0;

	for (unsigned int i = 0; i < SKETCH_BUCKETS; i++)
		total += sum->counts[i];
	if (total == 0)
		return 0;
	rank = (total * perthousand + 999) / 1000;
	for (unsigned int i = 0; i < SKETCH_BUCKETS; i++) {
		seen += sum->counts[i];
		if (seen >= rank && seen)
			return middle_of(i);
	}
	return middle_of(SKETCH_BUCKETS - 1);
}
