/* SPDX-License-Identifier: ISC */
/*
 * Histograms: sums and quantiles.
 */
#include "pgweir/base/histogram.h"

#include <stdlib.h>
#include <string.h>

/* The least value of a bucket, of 1 << `bits` for each power of two. */
static uint64_t least_of(unsigned int bucket, unsigned int bits)
{
	unsigned int shift = bucket >> (bits + 1) ? (bucket >> bits) - 1 : 0;

	return (uint64_t)(bucket - (shift << bits)) << shift;
}

static uint64_t middle_of(unsigned int bucket, unsigned int bits)
{
	uint64_t least = least_of(bucket, bits);

	return least + (least_of(bucket + 1, bits) - least) / 2;
}

uint64_t histogram_least(unsigned int bucket) { return least_of(bucket, HISTOGRAM_LINEAR_BITS); }

uint64_t histogram_middle(unsigned int bucket) { return middle_of(bucket, HISTOGRAM_LINEAR_BITS); }

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

/* The middles of the buckets that have these quantiles; 0 if total is. */
static void find_quantiles(const uint64_t *counts, uint64_t total, unsigned int bits,
                           const unsigned int *perthousand, uint64_t *values, size_t count)
{
	unsigned int bucket = 0;
	uint64_t passed = 0;

	for (size_t i = 0; i < count; i++) {
		while (total && passed + counts[bucket] < rank_of(total, perthousand[i]))
			passed += counts[bucket++];
		values[i] = total ? middle_of(bucket, bits) : 0;
	}
}

uint64_t histogram_quantiles(const struct histogram *histogram, const unsigned int *perthousand,
                             uint64_t *values, size_t count)
{
	uint64_t total = histogram_count(histogram);

	find_quantiles(histogram->counts, total, HISTOGRAM_LINEAR_BITS, perthousand, values, count);
	for (size_t i = 0; i < count; i++)
		values[i] = values[i] < histogram->max ? values[i] : histogram->max;
	return total;
}

/* ---- sketches ---- */

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

uint64_t sketch_sum_quantile(const struct sketch_sum *sum, unsigned int perthousand)
{
	uint64_t total = 0, value;

	for (unsigned int i = 0; i < SKETCH_BUCKETS; i++)
		total += sum->counts[i];
	find_quantiles(sum->counts, total, SKETCH_LINEAR_BITS, &perthousand, &value, 1);
	return value;
}

/* ---- sparse ---- */

bool sparse_sum_merge(struct sparse_sum *sum, const struct sparse_sum *more)
{
	size_t at = 0, to = 0;
	sparse_item *items;

	if (!more->count)
		return true;
	items = malloc((sum->count + more->count) * sizeof(*items));
	if (!items)
		return false;
	for (size_t i = 0; i < more->count; i++) {
		while (at < sum->count &&
		       sparse_place(sum->items[at]) < sparse_place(more->items[i]))
			items[to++] = sum->items[at++];
		items[to] = more->items[i];
		if (at < sum->count && sparse_place(sum->items[at]) == sparse_place(more->items[i]))
			items[to] += sparse_count(sum->items[at++]);
		to++;
	}
	while (at < sum->count)
		items[to++] = sum->items[at++];
	free(sum->items);
	*sum = (struct sparse_sum){ realloc(items, to * sizeof(*items)), to };
	if (!sum->items)
		sum->items = items; /* it could not be made smaller */
	return true;
}

bool sparse_sum_note(struct sparse_sum *sum, unsigned int place)
{
	sparse_item one = sparse_item_of(place, 1);
	size_t index = sparse_sum_find(sum, place);

	if (index == sum->count || sparse_place(sum->items[index]) != place)
		return sparse_sum_merge(sum, &(struct sparse_sum){ &one, 1 });
	sum->items[index]++;
	return true;
}

size_t sparse_sum_find(const struct sparse_sum *sum, unsigned int place)
{
	size_t low = 0, high = sum->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (sparse_place(sum->items[middle]) < place)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void sparse_sum_free(struct sparse_sum *sum)
{
	free(sum->items);
	*sum = (struct sparse_sum){ 0 };
}

size_t sparse_sum_memory(const struct sparse_sum *sum) { return sum->count * sizeof(*sum->items); }
