/* SPDX-License-Identifier: ISC */
/*
 * Histograms: sums and quantiles.
 */
#include "pgweir/base/histogram.h"

#include <stdlib.h>
#include <string.h>

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

/*
 * ---- sketch ----
 *
 * Sketches.
 */

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

/*
 * ---- sparse ----
 *
 * Arrays of counters, most of which are 0.
 */

/* Few allocations: values of one kind spread over some powers of two. */
#define ROOM_FIRST 8u
#define SUM_ROOM_FIRST 32u

/* ---- counting ---- */

bool sparse_grow(struct sparse *sparse, unsigned int place)
{
	unsigned int room = sparse->room ? sparse->room * 2u : ROOM_FIRST;
	void *blocks;

	if (sparse->count == sparse->room) {
		if (room > SPARSE_BLOCKS_MAX)
			room = SPARSE_BLOCKS_MAX;
		blocks = realloc(sparse->blocks, room * sizeof(sparse->blocks[0]));
		if (!blocks)
			return false;
		sparse->blocks = blocks;
		sparse->room = (uint8_t)room;
	}
	memset(sparse->blocks[sparse->count], 0, sizeof(sparse->blocks[0]));
	sparse->block_of[place / SPARSE_BLOCK] = ++sparse->count;
	return true;
}

void sparse_clear(struct sparse *sparse)
{
	if (sparse->count)
		memset(sparse->blocks, 0, sparse->count * sizeof(sparse->blocks[0]));
}

void sparse_free(struct sparse *sparse)
{
	free(sparse->blocks);
	*sparse = (struct sparse){ 0 };
}

size_t sparse_memory(const struct sparse *sparse)
{
	return sparse->room * sizeof(sparse->blocks[0]);
}

/* ---- sums ---- */

static bool make_room(struct sparse_sum *sum, size_t more)
{
	size_t room = sum->room ? sum->room : SUM_ROOM_FIRST;
	sparse_item *items;

	if (sum->count + more <= sum->room)
		return true;
	while (room < sum->count + more)
		room += room / 2;
	items = realloc(sum->items, room * sizeof(*items));
	if (!items)
		return false;
	sum->items = items;
	sum->room = room;
	return true;
}

/* The counters of a block that are not 0, as items. Returns how many. */
static size_t items_of_block(const struct sparse *sparse, unsigned int block,
                             sparse_item items[SPARSE_BLOCK])
{
	unsigned int place = block * SPARSE_BLOCK;
	const uint32_t *counts = sparse_block(sparse, place);
	size_t count = 0;

	for (unsigned int i = 0; counts && i < SPARSE_BLOCK; i++) {
		if (counts[i])
			items[count++] = sparse_item_of(place + i, counts[i]);
	}
	return count;
}

static size_t count_new(const struct sparse_sum *sum, const sparse_item *items, size_t count)
{
	size_t at = 0, new = 0;

	for (size_t i = 0; i < count; i++) {
		while (at < sum->count && sparse_place(sum->items[at]) < sparse_place(items[i]))
			at++;
		new += at == sum->count || sparse_place(sum->items[at]) != sparse_place(items[i]);
	}
	return new;
}

/* From the last item to the first, so that each moves once, within the array that has room. */
static void merge(struct sparse_sum *sum, const sparse_item *items, size_t count, size_t new)
{
	size_t left = sum->count, to = sum->count + new;

	sum->count = to;
	while (count) {
		if (left && sparse_place(sum->items[left - 1]) > sparse_place(items[count - 1])) {
			sum->items[--to] = sum->items[--left];
			continue;
		}
		to--;
		if (left && sparse_place(sum->items[left - 1]) == sparse_place(items[count - 1]))
			sum->items[to] = sum->items[--left] + sparse_count(items[count - 1]);
		else
			sum->items[to] = items[count - 1];
		count--;
	}
}

bool sparse_sum_merge(struct sparse_sum *sum, const struct sparse_sum *more)
{
	size_t new = count_new(sum, more->items, more->count);

	if (!make_room(sum, new))
		return false;
	merge(sum, more->items, more->count, new);
	return true;
}

bool sparse_sum_add(struct sparse_sum *sum, const struct sparse *more)
{
	sparse_item items[SPARSE_BLOCK];
	size_t count, new = 0;

	for (unsigned int block = 0; block < SPARSE_BLOCKS_MAX; block++) {
		count = items_of_block(more, block, items);
		new += count ? count_new(sum, items, count) : 0;
	}
	if (!make_room(sum, new))
		return false;
	for (unsigned int block = 0; block < SPARSE_BLOCKS_MAX; block++) {
		count = items_of_block(more, block, items);
		if (count)
			merge(sum, items, count, count_new(sum, items, count));
	}
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

size_t sparse_sum_memory(const struct sparse_sum *sum) { return sum->room * sizeof(*sum->items); }
