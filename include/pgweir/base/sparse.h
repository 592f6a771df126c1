/* SPDX-License-Identifier: ISC */
/*
 * Arrays of counters, most of which are 0.
 *
 * A `sparse` counts quickly: blocks of 32 counters, each made when one of its counters is needed. A
 * `sparse_sum` is what is kept of it: the counters that are not 0, in the order of their places,
 * eight bytes each.
 */
#ifndef PGWEIR_BASE_SPARSE_H
#define PGWEIR_BASE_SPARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPARSE_BLOCK 32u
#define SPARSE_BLOCKS_MAX 255u
#define SPARSE_PLACES_MAX (SPARSE_BLOCKS_MAX * SPARSE_BLOCK) /* the greatest place is below */

/* A zeroed one is empty. */
struct sparse {
	uint32_t (*blocks)[SPARSE_BLOCK];
	uint8_t
	    block_of[SPARSE_BLOCKS_MAX]; /* by place / SPARSE_BLOCK: its number from 1; 0: none */
	uint8_t count, room;             /* blocks */
};

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
	size_t count, room;
};

/* Makes the block of a place. false: no memory. */
bool sparse_grow(struct sparse *sparse, unsigned int place);

/* Counts `count` at this place. false: it has no block yet, nothing is counted. */
static inline bool sparse_add_quickly(struct sparse *sparse, unsigned int place, uint32_t count)
{
	size_t block = sparse->block_of[place / SPARSE_BLOCK];

	if (__builtin_expect(block == 0, 0))
		return false;
	sparse->blocks[block - 1][place % SPARSE_BLOCK] += count;
	return true;
}

/* The same, and makes the block. false: no memory, nothing is counted. */
static inline bool sparse_add(struct sparse *sparse, unsigned int place, uint32_t count)
{
	return sparse_add_quickly(sparse, place, count) ||
	       (sparse_grow(sparse, place) && sparse_add_quickly(sparse, place, count));
}

/* The counters of the block of this place. NULL: all of them are 0. */
static inline const uint32_t *sparse_block(const struct sparse *sparse, unsigned int place)
{
	unsigned int block = sparse->block_of[place / SPARSE_BLOCK];

	return block ? sparse->blocks[block - 1] : NULL;
}

/* Sets all counts to 0, and keeps the memory. */
void sparse_clear(struct sparse *sparse);
void sparse_free(struct sparse *sparse);

/* sum += more. false: no memory, and the sum is unchanged. */
bool sparse_sum_add(struct sparse_sum *sum, const struct sparse *more);
bool sparse_sum_merge(struct sparse_sum *sum, const struct sparse_sum *more);

/* The index of the first item whose place is not below this one. */
size_t sparse_sum_find(const struct sparse_sum *sum, unsigned int place);

static inline uint64_t sparse_sum_at(const struct sparse_sum *sum, unsigned int place)
{
	size_t index = sparse_sum_find(sum, place);

	return index < sum->count && sparse_place(sum->items[index]) == place
	           ? sparse_count(sum->items[index])
	           : 0;
}

/* Empties it, and keeps the memory. */
static inline void sparse_sum_clear(struct sparse_sum *sum) { sum->count = 0; }
void sparse_sum_free(struct sparse_sum *sum);

/* Bytes of memory behind it. */
size_t sparse_memory(const struct sparse *sparse);
size_t sparse_sum_memory(const struct sparse_sum *sum);

#endif
