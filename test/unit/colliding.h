/* SPDX-License-Identifier: ISC */
/*
 * Texts of one size with the same unkeyed hash (uthash with HASH_OAT): pairs of blocks that lead
 * from one state to the same next state; each combination of choices is one text.
 */
#ifndef PGWEIR_UNIT_COLLIDING_H
#define PGWEIR_UNIT_COLLIDING_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define COLLIDING_BLOCK 6
#define COLLIDING_PAIRS 10
#define COLLIDING_COUNT (1 << COLLIDING_PAIRS)
#define COLLIDING_SIZE (COLLIDING_BLOCK * COLLIDING_PAIRS)
#define COLLIDING_TRIES (1 << 18)

struct colliding {
	char blocks[COLLIDING_PAIRS][2][COLLIDING_BLOCK];
};

struct colliding_try {
	uint32_t state;
	uint32_t number;
};

static void colliding_block(char *out, uint32_t number)
{
	for (int i = 0; i < COLLIDING_BLOCK; i++)
		out[i] = (char)('a' + (number >> (4 * i) & 15));
}

static uint32_t colliding_next(uint32_t state, const char *block)
{
	for (int i = 0; i < COLLIDING_BLOCK; i++) {
		state += (unsigned char)block[i];
		state += state << 10;
		state ^= state >> 6;
	}
	return state;
}

static int colliding_compare(const void *one, const void *other)
{
	const struct colliding_try *a = one, *b = other;

	return (a->state > b->state) - (a->state < b->state);
}

static void colliding_find(struct colliding *colliding)
{
	struct colliding_try *tries = malloc(COLLIDING_TRIES * sizeof(*tries));
	uint32_t state = 0;

	for (int pair = 0; pair < COLLIDING_PAIRS; pair++) {
		int at = 1;

		for (uint32_t number = 0; number < COLLIDING_TRIES; number++) {
			char block[COLLIDING_BLOCK];

			colliding_block(block, number);
			tries[number] =
			    (struct colliding_try){ colliding_next(state, block), number };
		}
		qsort(tries, COLLIDING_TRIES, sizeof(*tries), colliding_compare);
		while (at < COLLIDING_TRIES && tries[at].state != tries[at - 1].state)
			at++;
		ck_assert_int_lt(at, COLLIDING_TRIES); /* 8 pairs are expected */
		colliding_block(colliding->blocks[pair][0], tries[at].number);
		colliding_block(colliding->blocks[pair][1], tries[at - 1].number);
		state = tries[at].state;
	}
	free(tries);
}

/* Writes the text with this number, below COLLIDING_COUNT, without a terminating zero. */
static void colliding_text(const struct colliding *colliding, int number, char *out)
{
	for (int pair = 0; pair < COLLIDING_PAIRS; pair++)
		memcpy(out + pair * COLLIDING_BLOCK, colliding->blocks[pair][number >> pair & 1],
		       COLLIDING_BLOCK);
}

/* The longest chain of a table. */
#define COLLIDING_LONGEST(head, longest)                                               \
	do {                                                                           \
		(longest) = 0;                                                         \
		for (unsigned int at_ = 0; at_ < (head)->hh.tbl->num_buckets; at_++) { \
			if ((head)->hh.tbl->buckets[at_].count > (longest))            \
				(longest) = (head)->hh.tbl->buckets[at_].count;        \
		}                                                                      \
	} while (0)

#endif
