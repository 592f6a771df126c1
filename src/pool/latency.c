/* SPDX-License-Identifier: ISC */
/*
 * Latencies of a pool.
 *
 *   open              the slice that has not ended: 15 s, one increment for each time
 *     |  its end
 *     +--> closed     of each window: the last slices, those of 150 s, the one since the start
 *
 * Hard here: no timer ends a slice. The next count does it, so all slices have numbers, and a
 * reader takes those that its window has.
 */
#include "pgweir/pool/latency.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/base/histogram.h"

#define SLICE (15 * USEC_PER_SEC)
#define SLICES 5 /* of a window, the one that has not ended included */
#define CLOSED (2 * SLICES + 1)

#define COUNTS_SIZE (HISTOGRAM_BUCKETS * sizeof(uint16_t)) /* of a kind that is counted */

_Static_assert(LATENCY_COUNTED *HISTOGRAM_BUCKETS <= UINT16_MAX, "a place has 16 bits");

struct slice {
	uint64_t number;
	uint64_t sums[LATENCY_COUNTED], max[LATENCY_COUNTED];
	struct sparse_sum counts; /* by place: kind and bucket */
};

struct latency_slices {
	struct latency_open open; /* comes first: slices_of() */
	/* by window, and there by number modulo SLICES; all since the start is one slice */
	struct slice closed[CLOSED];
};

/* ---- slices ---- */

static struct latency_slices *slices_of(const struct latency *latency)
{
	return (struct latency_slices *)(void *)latency->open;
}

static uint64_t slice_at(usec_t now) { return (uint64_t)(now / SLICE); }

/* The number of the window's slice that has this one. */
static uint64_t number_in(unsigned int window, uint64_t number)
{
	static const uint64_t lengths[] = { [LATENCY_MINUTE] = 1, [LATENCY_TEN_MINUTES] = 10 };

	return window == LATENCY_START ? 0 : number / lengths[window];
}

/* Of a window whose last slice is that one. */
static bool is_in(uint64_t number, uint64_t last)
{
	return number + SLICES > last && number <= last;
}

static void grow_max(uint64_t *max, uint64_t value)
{
	if (value > *max)
		*max = value;
}

/*
 * Adds a slice to the one of this number in its window, unless a later one is at its place. One of
 * before leaves. Without memory its counts are lost there.
 */
static void file_slice(struct latency_slices *slices, unsigned int window, uint64_t number,
                       const struct slice *from)
{
	struct slice *slice = &slices->closed[window * SLICES + number % SLICES];

	if (slice->number > number)
		return;
	if (slice->number < number) {
		sparse_sum_free(&slice->counts);
		*slice = (struct slice){ .number = number };
	}
	if (!sparse_sum_merge(&slice->counts, &from->counts))
		return;
	for (int kind = 0; kind < LATENCY_COUNTED; kind++) {
		slice->sums[kind] += from->sums[kind];
		grow_max(&slice->max[kind], from->max[kind]);
	}
}

static void add_counts(struct slice *slice, unsigned int kind, const struct histogram *counted)
{
	sparse_item items[HISTOGRAM_BUCKETS];
	size_t count = 0;

	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++) {
		if (counted->counts[i])
			items[count++] =
			    sparse_item_of(kind * HISTOGRAM_BUCKETS + i, counted->counts[i]);
	}
	if (!sparse_sum_merge(&slice->counts, &(struct sparse_sum){ items, count }))
		return;
	slice->sums[kind] += counted->sum;
	grow_max(&slice->max[kind], counted->max);
}

/* Files it in each window, and frees it. */
static void file_counts(struct latency_slices *slices, uint64_t number, struct slice *counted)
{
	for (unsigned int window = 0; window < LATENCY_WINDOWS; window++)
		file_slice(slices, window, number_in(window, number), counted);
	sparse_sum_free(&counted->counts);
}

static void begin_slice(struct latency_open *open, usec_t now)
{
	open->number = slice_at(now);
	open->ends_at = (usec_t)(open->number + 1) * SLICE;
}

/* Adds what the slice that has not ended has of one counted kind. */
static void add_open(const struct latency *latency, unsigned int kind, struct histogram *sum)
{
	const struct latency_open *open = latency->open;

	if (kind == LATENCY_WAIT)
		sum->counts[0] += latency->no_waits;
	if (!open)
		return;
	for (unsigned int i = 0; open->counts[kind] && i < HISTOGRAM_BUCKETS; i++)
		sum->counts[i] += open->counts[kind][i];
	sum->sum += open->sums[kind];
	grow_max(&sum->max, open->max[kind]);
}

/* Ends the slice. */
static void turn(struct latency *latency, usec_t now)
{
	struct latency_open *open = latency->open;
	struct slice closed = { 0 };

	for (unsigned int kind = 0; kind < LATENCY_COUNTED; kind++) {
		struct histogram counted = { 0 };

		add_open(latency, kind, &counted);
		add_counts(&closed, kind, &counted);
		if (open->counts[kind])
			memset(open->counts[kind], 0, COUNTS_SIZE);
	}
	latency->no_waits = 0;
	file_counts(slices_of(latency), open->number, &closed);
	memset(open->sums, 0, sizeof(open->sums));
	memset(open->max, 0, sizeof(open->max));
	begin_slice(open, now);
}

/* ---- counting ---- */

/* Ready to count; what was counted before belongs to the first one. NULL: no memory. */
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
	unsigned int bucket = histogram_bucket(value);
	struct latency_open *open = latency->open;

	histogram_add(&all->kinds[kind], bucket, value);
	if (slices && !open->counts[kind])
		open->counts[kind] = calloc(1, COUNTS_SIZE);
	if (!slices || !open->counts[kind])
		return;
	if (open->counts[kind][bucket] == UINT16_MAX)
		turn(latency, now);
	open->counts[kind][bucket]++;
	open->sums[kind] += value;
	grow_max(&open->max[kind], value);
}

void latency_drain(struct latency *latency, struct latency_all *all, usec_t now)
{
	struct latency_slices *slices = ready(latency, now);
	struct slice counted = { 0 };

	if (!slices)
		return;
	for (unsigned int kind = 0; kind < LATENCY_COUNTED; kind++) {
		add_counts(&counted, kind, &all->kinds[kind]);
		histogram_clear(&all->kinds[kind]);
	}
	file_counts(slices, slices->open.number, &counted);
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

static void add_window(const struct latency *latency, unsigned int kind, unsigned int window,
                       usec_t now, struct histogram *sum)
{
	const struct latency_slices *slices = slices_of(latency);
	uint64_t last = number_in(window, slice_at(now));

	if (!slices || is_in(number_in(window, slices->open.number), last))
		add_open(latency, kind, sum);
	for (size_t i = 0; slices && i < CLOSED; i++) {
		if (i / SLICES == window && is_in(slices->closed[i].number, last))
			add_slice(&slices->closed[i], kind, sum);
	}
}

/* What is counted for both is in each of the two. */
static bool is_of_both(enum latency_kind kind)
{
	return kind == LATENCY_STATEMENT || kind == LATENCY_XACT;
}

void latency_sum(const struct latency *latency, enum latency_kind kind, enum latency_window window,
                 usec_t now, struct histogram *sum)
{
	add_window(latency, kind, window, now, sum);
	if (is_of_both(kind))
		add_window(latency, LATENCY_STATEMENT_XACT, window, now, sum);
}

void latency_all_sum(const struct latency_all *all, enum latency_kind kind, struct histogram *sum)
{
	histogram_merge(sum, &all->kinds[kind]);
	if (is_of_both(kind))
		histogram_merge(sum, &all->kinds[LATENCY_STATEMENT_XACT]);
}

/* ---- moving ---- */

void latency_move(struct latency *to, struct latency *from, usec_t now)
{
	struct latency_slices *sum = slices_of(to);
	const struct latency_slices *more = slices_of(from);

	if (more)
		turn(from, now);
	if (!sum) {
		to->open = from->open;
		from->open = NULL;
	}
	for (unsigned int i = 0; sum && more && i < CLOSED; i++)
		file_slice(sum, i / SLICES, more->closed[i].number, &more->closed[i]);
	to->no_waits += from->no_waits;
	latency_done(from);
}

void latency_done(struct latency *latency)
{
	struct latency_slices *slices = slices_of(latency);

	*latency = (struct latency){ 0 };
	if (!slices)
		return;
	for (int kind = 0; kind < LATENCY_COUNTED; kind++)
		free(slices->open.counts[kind]);
	for (size_t i = 0; i < CLOSED; i++)
		sparse_sum_free(&slices->closed[i].counts);
	free(slices);
}
