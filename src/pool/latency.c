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
 * Hard here: no timer ends a slice. The next count does it, so all slices have numbers, and a
 * reader takes those that its window has.
 */
#include "pgweir/pool/latency.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/base/histogram.h"

#define SLICE (15 * USEC_PER_SEC)
#define SLICES_OF_TEN 10 /* slices of `minutes` in one of `tens` */
#define SLICES 5         /* of a window, the one that has not ended included */

#define PLACES (LATENCY_COUNTED * HISTOGRAM_BUCKETS)
_Static_assert(PLACES <= SPARSE_PLACES_MAX, "a sparse array is too small for all kinds");
_Static_assert(HISTOGRAM_BUCKETS % SPARSE_BLOCK == 0, "two kinds share a block");

struct slice {
	uint64_t number;
	uint64_t sums[LATENCY_COUNTED], max[LATENCY_COUNTED];
	struct sparse_sum counts; /* by place: kind and bucket */
};

struct latency_slices {
	struct latency_open open;                   /* comes first: slices_of() */
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

static struct latency_slices *slices_of(const struct latency *latency)
{
	return (struct latency_slices *)(void *)latency->open;
}

static uint64_t slice_at(usec_t now) { return (uint64_t)(now / SLICE); }

static void grow_max(uint64_t *max, uint64_t value)
{
	if (value > *max)
		*max = value;
}

/* Adds the slice to one that has no number or the same. Without memory its counts are lost there.
 */
static void add_slice_to(struct slice *to, const struct slice *from)
{
	if (!sparse_sum_merge(&to->counts, &from->counts))
		return;
	for (int kind = 0; kind < LATENCY_COUNTED; kind++) {
		to->sums[kind] += from->sums[kind];
		grow_max(&to->max[kind], from->max[kind]);
	}
}

/* The same, into the place of its number, unless a later one is there. One of before leaves. */
static void file_slice(struct slice slices[SLICES], uint64_t number, const struct slice *from)
{
	struct slice *slice = &slices[number % SLICES];

	if (slice->number > number)
		return;
	if (slice->number < number) {
		sparse_sum_free(&slice->counts);
		*slice = (struct slice){ .number = number };
	}
	add_slice_to(slice, from);
}

static void begin_slice(struct latency_open *open, usec_t now)
{
	open->number = slice_at(now);
	open->ends_at = (usec_t)(open->number + 1) * SLICE;
}

/* Ends the slice. */
static void turn(struct latency *latency, usec_t now)
{
	struct latency_slices *slices = slices_of(latency);
	struct latency_open *open = &slices->open;
	struct slice closed = { 0 };

	if (latency->no_waits)
		sparse_add(&open->counts, LATENCY_WAIT * HISTOGRAM_BUCKETS, latency->no_waits);
	latency->no_waits = 0;
	if (sparse_sum_add(&closed.counts, &open->counts)) {
		memcpy(closed.sums, open->sums, sizeof(closed.sums));
		memcpy(closed.max, open->max, sizeof(closed.max));
	}
	file_slice(slices->minutes, open->number, &closed);
	file_slice(slices->tens, open->number / SLICES_OF_TEN, &closed);
	add_slice_to(&slices->total, &closed);
	sparse_sum_free(&closed.counts);
	sparse_clear(&open->counts);
	memset(open->sums, 0, sizeof(open->sums));
	memset(open->max, 0, sizeof(open->max));
	begin_slice(open, now);
}

/* ---- counting ---- */

/*
 * The slices, ready to count. What was counted before there are some belongs to the first one.
 * NULL: no memory.
 */
static struct latency_slices *ready(struct latency *latency, usec_t now)
{
	struct latency_slices *slices = slices_of(latency);

	if (!slices) {
		slices = calloc(1, sizeof(*slices));
		if (!slices)
			return NULL;
		begin_slice(&slices->open, now);
		latency->open = &slices->open;
	}
	if (now >= slices->open.ends_at)
		turn(latency, now);
	return slices;
}

void latency_note_slowly(struct latency *latency, struct latency_all *all, enum latency_kind kind,
                         usec_t time, usec_t now)
{
	uint64_t value = time > 0 ? (uint64_t)time : 0;
	struct latency_slices *slices = ready(latency, now);

	histogram_add(&all->kinds[kind], histogram_bucket(value), value);
	if (!slices || !sparse_add(&slices->open.counts, latency_place(kind, value), 1))
		return;
	slices->open.sums[kind] += value;
	grow_max(&slices->open.max[kind], value);
}

static void drain_kind(struct latency_slices *slices, struct histogram *all, unsigned int kind)
{
	unsigned int place = kind * HISTOGRAM_BUCKETS;
	/* If all were 0, the first bucket has them. */
	unsigned int last = all->sum ? HISTOGRAM_BUCKETS : 1;

	for (unsigned int i = 0; i < last; i++) {
		if (!all->counts[i])
			continue;
		sparse_add(&slices->open.counts, place + i, (uint32_t)all->counts[i]);
		all->counts[i] = 0;
	}
	slices->open.sums[kind] += all->sum;
	grow_max(&slices->open.max[kind], all->max);
	all->sum = all->max = 0;
}

void latency_drain(struct latency *latency, struct latency_all *all, usec_t now)
{
	struct latency_slices *slices = ready(latency, now);

	for (unsigned int kind = 0; slices && kind < LATENCY_COUNTED; kind++)
		drain_kind(slices, &all->kinds[kind], kind);
}

/* ---- reading ---- */

/* Adds what a part of the counts has of one counted kind. */
typedef void add_part(const void *part, unsigned int kind, struct histogram *sum);

/* What is counted for both is in each of the two. */
static void add_kind(add_part *add, const void *part, enum latency_kind kind, struct histogram *sum)
{
	add(part, kind, sum);
	if (kind == LATENCY_STATEMENT || kind == LATENCY_XACT)
		add(part, LATENCY_STATEMENT_XACT, sum);
}

static void add_slice(const void *part, unsigned int kind, struct histogram *sum)
{
	const struct slice *slice = part;
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
static void add_open(const void *part, unsigned int kind, struct histogram *sum)
{
	const struct latency *latency = part;
	const struct latency_slices *slices = slices_of(latency);
	unsigned int first = kind * HISTOGRAM_BUCKETS;

	if (kind == LATENCY_WAIT)
		sum->counts[0] += latency->no_waits;
	if (!slices)
		return;
	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i += SPARSE_BLOCK) {
		const uint32_t *counts = sparse_block(&slices->open.counts, first + i);

		for (unsigned int j = 0; counts && j < SPARSE_BLOCK; j++)
			sum->counts[i + j] += counts[j];
	}
	sum->sum += slices->open.sums[kind];
	grow_max(&sum->max, slices->open.max[kind]);
}

static void add_all(const void *part, unsigned int kind, struct histogram *sum)
{
	const struct latency_all *all = part;

	histogram_merge(sum, &all->kinds[kind]);
}

void latency_all_sum(const struct latency_all *all, enum latency_kind kind, struct histogram *sum)
{
	add_kind(add_all, all, kind, sum);
}

static bool is_in(uint64_t number, uint64_t last)
{
	return number + SLICES > last && number <= last;
}

void latency_sum(const struct latency *latency, enum latency_kind kind, enum latency_window window,
                 usec_t now, struct histogram *sum)
{
	const struct latency_slices *slices = slices_of(latency);
	unsigned int length = window == LATENCY_TEN_MINUTES ? SLICES_OF_TEN : 1;
	uint64_t last = slice_at(now) / length;
	const struct slice *closed;

	if (!slices || window == LATENCY_START || is_in(slices->open.number / length, last))
		add_kind(add_open, latency, kind, sum);
	if (!slices)
		return;
	if (window == LATENCY_START) {
		add_kind(add_slice, &slices->total, kind, sum);
		return;
	}
	closed = window == LATENCY_MINUTE ? slices->minutes : slices->tens;
	for (int i = 0; i < SLICES; i++) {
		if (is_in(closed[i].number, last))
			add_kind(add_slice, &closed[i], kind, sum);
	}
}

/* ---- moving ---- */

static void merge_slices(struct latency_slices *to, const struct latency_slices *from)
{
	for (int i = 0; i < SLICES; i++) {
		file_slice(to->minutes, from->minutes[i].number, &from->minutes[i]);
		file_slice(to->tens, from->tens[i].number, &from->tens[i]);
	}
	add_slice_to(&to->total, &from->total);
}

void latency_move(struct latency *to, struct latency *from, usec_t now)
{
	if (from->open)
		turn(from, now);
	if (from->open && to->open) {
		merge_slices(slices_of(to), slices_of(from));
	} else if (from->open) {
		to->open = from->open;
		from->open = NULL;
	}
	to->no_waits += from->no_waits;
	latency_done(from);
}

static void free_slices(struct slice slices[SLICES])
{
	for (int i = 0; i < SLICES; i++)
		sparse_sum_free(&slices[i].counts);
}

void latency_done(struct latency *latency)
{
	struct latency_slices *slices = slices_of(latency);

	*latency = (struct latency){ 0 };
	if (!slices)
		return;
	sparse_free(&slices->open.counts);
	free_slices(slices->minutes);
	free_slices(slices->tens);
	sparse_sum_free(&slices->total.counts);
	free(slices);
}

size_t latency_memory(const struct latency *latency)
{
	const struct latency_slices *slices = slices_of(latency);
	size_t memory;

	if (!slices)
		return 0;
	memory = sizeof(*slices) + sparse_memory(&slices->open.counts) +
	         sparse_sum_memory(&slices->total.counts);
	for (int i = 0; i < SLICES; i++)
		memory += sparse_sum_memory(&slices->minutes[i].counts) +
		          sparse_sum_memory(&slices->tens[i].counts);
	return memory;
}
