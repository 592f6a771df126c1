/* SPDX-License-Identifier: ISC */
/*
 * Latencies of a pool.
 *
 *   counts            the slice that has not ended: 15 s, one increment for each time
 *     |  its end
 *     +--> minutes    the last slices
 *     +--> tens       the last slices of 150 s
 *     +--> total      since the start
 *
 * Hard here: no timer ends a slice. Whoever counts next does it, so all slices have numbers, and a
 * reader takes those that its window has.
 */
#include "pgweir/pool/latency.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/base/sparse.h"

#include "pgweir/base/banned.h"

#define SLICE (15 * USEC_PER_SEC)
#define SLICES_OF_TEN 10 /* slices of `minutes` in one of `tens` */
#define SLICES 5         /* of a window, the one that has not ended included */

#define PLACES (LATENCY_KINDS * HISTOGRAM_BUCKETS)
_Static_assert(PLACES <= SPARSE_PLACES_MAX, "a sparse array is too small for all kinds");
_Static_assert(HISTOGRAM_BUCKETS % SPARSE_BLOCK == 0, "two kinds share a block");

struct slice {
	uint64_t number;
	uint64_t sums[LATENCY_KINDS], max[LATENCY_KINDS];
	struct sparse_sum counts; /* by place: kind and bucket */
};

struct latency {
	usec_t ends_at; /* when slice `number` ends */
	uint64_t number;
	uint64_t sums[LATENCY_KINDS], max[LATENCY_KINDS];
	struct sparse counts;
	struct slice minutes[SLICES], tens[SLICES]; /* by number, modulo SLICES */
	struct slice total;
};

/* clang-format off */
static const char *const kind_names[LATENCY_KINDS] = {
	[LATENCY_WAIT] = "wait",
	[LATENCY_STATEMENT] = "statement",
	[LATENCY_XACT] = "transaction",
	[LATENCY_SERVER_LOGIN] = "server_login",
	[LATENCY_CLIENT_LOGIN] = "client_login",
};

static const char *const window_names[LATENCY_WINDOWS] = {
	[LATENCY_MINUTE] = "minute",
	[LATENCY_TEN_MINUTES] = "ten_minutes",
	[LATENCY_START] = "start",
};
/* clang-format on */

const char *latency_kind_name(enum latency_kind kind) { return kind_names[kind]; }

const char *latency_window_name(enum latency_window window) { return window_names[window]; }

/* ---- slices ---- */

static uint64_t slice_at(usec_t now) { return (uint64_t)(now / SLICE); }

static void grow_max(uint64_t *max, uint64_t value)
{
	if (value > *max)
		*max = value;
}

/* The slice with this number, emptied if another one is in its place. NULL: a later one is. */
static struct slice *find_slice(struct slice slices[SLICES], uint64_t number)
{
	struct slice *slice = &slices[number % SLICES];

	if (slice->number > number)
		return NULL;
	if (slice->number < number) {
		slice->number = number;
		memset(slice->sums, 0, sizeof(slice->sums));
		memset(slice->max, 0, sizeof(slice->max));
		sparse_sum_clear(&slice->counts);
	}
	return slice;
}

/* Adds the slice that has ended. Without memory its counts are lost there. */
static void close_into(const struct latency *latency, struct slice *slice)
{
	if (!slice || !sparse_sum_add(&slice->counts, &latency->counts))
		return;
	for (int kind = 0; kind < LATENCY_KINDS; kind++) {
		slice->sums[kind] += latency->sums[kind];
		grow_max(&slice->max[kind], latency->max[kind]);
	}
}

static void turn(struct latency *latency, usec_t now)
{
	close_into(latency, find_slice(latency->minutes, latency->number));
	close_into(latency, find_slice(latency->tens, latency->number / SLICES_OF_TEN));
	close_into(latency, &latency->total);
	sparse_clear(&latency->counts);
	memset(latency->sums, 0, sizeof(latency->sums));
	memset(latency->max, 0, sizeof(latency->max));
	latency->number = slice_at(now);
	latency->ends_at = (usec_t)(latency->number + 1) * SLICE;
}

/* ---- counting ---- */

/* Ready to count. NULL: no memory. */
static struct latency *ready(struct latency **latency, usec_t now)
{
	if (__builtin_expect(!*latency, 0)) {
		*latency = calloc(1, sizeof(**latency));
		if (!*latency)
			return NULL;
	}
	if (__builtin_expect(now >= (*latency)->ends_at, 0))
		turn(*latency, now);
	return *latency;
}

void latency_note(struct latency **latencyp, struct latency_all *all, enum latency_kind kind,
                  usec_t time, usec_t now)
{
	uint64_t value = time > 0 ? (uint64_t)time : 0;
	unsigned int bucket = histogram_bucket(value);
	struct latency *latency = ready(latencyp, now);

	histogram_add(&all->kinds[kind], bucket, value);
	if (!latency || !sparse_add(&latency->counts, kind * HISTOGRAM_BUCKETS + bucket))
		return;
	latency->sums[kind] += value;
	grow_max(&latency->max[kind], value);
}

static void drain_kind(struct latency *latency, struct histogram *all, unsigned int kind)
{
	unsigned int place = kind * HISTOGRAM_BUCKETS;

	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++) {
		if (all->counts[i])
			sparse_add_many(&latency->counts, place + i, (uint32_t)all->counts[i]);
	}
	latency->sums[kind] += all->sum;
	grow_max(&latency->max[kind], all->max);
}

void latency_drain(struct latency **latencyp, struct latency_all *all, usec_t now)
{
	struct latency *latency = ready(latencyp, now);

	for (unsigned int kind = 0; latency && kind < LATENCY_KINDS; kind++)
		drain_kind(latency, &all->kinds[kind], kind);
	*all = (struct latency_all){ 0 };
}

/* ---- reading ---- */

static void add_slice(const struct slice *slice, unsigned int kind, struct histogram *sum)
{
	const struct sparse_sum *counts = &slice->counts;
	unsigned int first = kind * HISTOGRAM_BUCKETS;

	for (size_t i = sparse_sum_find(counts, first); i < counts->count; i++) {
		unsigned int place = sparse_place(counts->items[i]);

		if (place >= first + HISTOGRAM_BUCKETS)
			break;
		sum->counts[place - first] += sparse_count(counts->items[i]);
	}
	sum->sum += slice->sums[kind];
	grow_max(&sum->max, slice->max[kind]);
}

/* The slice that has not ended. */
static void add_counts(const struct latency *latency, unsigned int kind, struct histogram *sum)
{
	unsigned int first = kind * HISTOGRAM_BUCKETS;

	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i += SPARSE_BLOCK) {
		const uint32_t *counts = sparse_block(&latency->counts, first + i);

		for (unsigned int j = 0; counts && j < SPARSE_BLOCK; j++)
			sum->counts[i + j] += counts[j];
	}
	sum->sum += latency->sums[kind];
	grow_max(&sum->max, latency->max[kind]);
}

static bool is_in(uint64_t number, uint64_t last)
{
	return number + SLICES > last && number <= last;
}

void latency_sum(const struct latency *latency, enum latency_kind kind, enum latency_window window,
                 usec_t now, struct histogram *sum)
{
	unsigned int length = window == LATENCY_TEN_MINUTES ? SLICES_OF_TEN : 1;
	const struct slice *slices;
	uint64_t last = slice_at(now) / length;

	if (!latency)
		return;
	if (window == LATENCY_START) {
		add_slice(&latency->total, kind, sum);
		add_counts(latency, kind, sum);
		return;
	}
	slices = window == LATENCY_MINUTE ? latency->minutes : latency->tens;
	for (int i = 0; i < SLICES; i++) {
		if (is_in(slices[i].number, last))
			add_slice(&slices[i], kind, sum);
	}
	if (is_in(latency->number / length, last))
		add_counts(latency, kind, sum);
}

/* ---- moving ---- */

static void merge_slice(struct slice *to, const struct slice *from)
{
	if (!to || !sparse_sum_merge(&to->counts, &from->counts))
		return;
	for (int kind = 0; kind < LATENCY_KINDS; kind++) {
		to->sums[kind] += from->sums[kind];
		grow_max(&to->max[kind], from->max[kind]);
	}
}

void latency_move(struct latency **to, struct latency **from, usec_t now)
{
	if (!*from)
		return;
	if (!*to) {
		*to = *from;
		*from = NULL;
		return;
	}
	turn(*from, now);
	for (int i = 0; i < SLICES; i++) {
		const struct slice *minute = &(*from)->minutes[i], *ten = &(*from)->tens[i];

		merge_slice(find_slice((*to)->minutes, minute->number), minute);
		merge_slice(find_slice((*to)->tens, ten->number), ten);
	}
	merge_slice(&(*to)->total, &(*from)->total);
	latency_free(from);
}

static void free_slices(struct slice slices[SLICES])
{
	for (int i = 0; i < SLICES; i++)
		sparse_sum_free(&slices[i].counts);
}

void latency_free(struct latency **latencyp)
{
	struct latency *latency = *latencyp;

	if (!latency)
		return;
	*latencyp = NULL;
	sparse_free(&latency->counts);
	free_slices(latency->minutes);
	free_slices(latency->tens);
	sparse_sum_free(&latency->total.counts);
	free(latency);
}

size_t latency_memory(const struct latency *latency)
{
	size_t memory;

	if (!latency)
		return 0;
	memory = sizeof(*latency) + sparse_memory(&latency->counts) +
	         sparse_sum_memory(&latency->total.counts);
	for (int i = 0; i < SLICES; i++)
		memory += sparse_sum_memory(&latency->minutes[i].counts) +
		          sparse_sum_memory(&latency->tens[i].counts);
	return memory;
}
