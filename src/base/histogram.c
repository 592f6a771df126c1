/* SPDX-License-Identifier: ISC */
/*
 * Histograms: sums and quantiles.
 */
#include "pgweir/base/histogram.h"

#include <stdlib.h>

#include "pgweir/base/buf.h"

/* The least value of a bucket, of 1 << `bits` for each power of two. */
static uint64_t least_of(unsigned int bucket, unsigned int bits)
{
	unsigned int shift = bucket >> (bits + 1) ? (bucket >> bits) - 1 : 0;

	return (uint64_t)(bucket - (shift << bits)) << shift;
}

uint64_t histogram_least(unsigned int bucket) { return least_of(bucket, HISTOGRAM_LINEAR_BITS); }

uint64_t histogram_middle(unsigned int bucket)
{
	uint64_t least = histogram_least(bucket);

	return least + (histogram_least(bucket + 1) - least) / 2;
}

/* Where nothing is counted nothing is written: most pages of a histogram have no memory. */
void histogram_merge(struct histogram *sum, const struct histogram *more)
{
	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++) {
		if (more->counts[i])
			sum->counts[i] += more->counts[i];
	}
	sum->sum += more->sum;
	if (more->max > sum->max)
		sum->max = more->max;
}

void histogram_clear(struct histogram *histogram)
{
	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++) {
		if (histogram->counts[i])
			histogram->counts[i] = 0;
	}
	histogram->sum = histogram->max = 0;
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
		while (total && passed + histogram->counts[bucket] < rank_of(total, perthousand[i]))
			passed += histogram->counts[bucket++];
		middle = total ? histogram_middle(bucket) : 0;
		values[i] = middle < histogram->max ? middle : histogram->max;
	}
	return total;
}

/* ---- sketches ---- */

void sketch_halve(struct sketch *sketch)
{
	for (size_t i = 0; i < SKETCH_BUCKETS; i++)
		sketch->counts[i] /= 2;
}

void sketch_add_to(const struct sketch *sketch, struct histogram *sum)
{
	for (unsigned int i = 0; i < SKETCH_BUCKETS; i++) {
		uint64_t least = least_of(i, SKETCH_LINEAR_BITS);
		uint64_t width = least_of(i + 1, SKETCH_LINEAR_BITS) - least;

		sum->counts[histogram_bucket(least + (width - 1) / 2)] += sketch->counts[i];
	}
}

/* ---- sparse ---- */

/* So that a sum which grows again and again leaves few gaps in the heap. */
static size_t room_for(size_t count) { return (count + 63) / 64 * 64; }

bool sparse_sum_merge(struct sparse_sum *sum, const struct sparse_sum *more)
{
	size_t from = more->count, at = sum->count, to = sum->count;
	sparse_item *items = sum->items;

	for (size_t i = 0; i < more->count; i++)
		to += sparse_sum_at(sum, sparse_place(more->items[i])) == 0;
	if (room_for(to) != room_for(at))
		items = realloc(items, room_for(to) * sizeof(*items));
	if (to && !items)
		return false;
	*sum = (struct sparse_sum){ items, to };
	/* from the end, as it moves there */
	while (from) {
		sparse_item item = more->items[from - 1];

		if (at && sparse_place(items[at - 1]) > sparse_place(item)) {
			items[--to] = items[--at];
			continue;
		}
		if (at && sparse_place(items[at - 1]) == sparse_place(item))
			item += sparse_count(items[--at]);
		items[--to] = item;
		from--;
	}
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
	return array_find(sum->items, sum->count, sizeof(*sum->items), sparse_item_of(place, 0));
}

void sparse_sum_free(struct sparse_sum *sum)
{
	free(sum->items);
	*sum = (struct sparse_sum){ 0 };
}
