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

#define COUNTS_SIZE (HISTOGRAM_BUCKETS * sizeof(uint16_t)) /* of a kind that is counted */

_Static_assert(LATENCY_COUNTED *HISTOGRAM_BUCKETS <= UINT16_MAX, "a place has 16 bits");

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

/* Of the same number, or of none. Without memory its counts are lost there. */
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

/* Files it under a slice of time and since the start, and frees it. */
static void file_counts(struct latency_slices *slices, uint64_t number, struct slice *counted)
{
	file_slice(slices->minutes, number, counted);
	file_slice(slices->tens, number / SLICES_OF_TEN, counted);
	add_slice_to(&slices->total, counted);
	sparse_sum_free(&counted->counts);
}

static void begin_slice(struct latency_open *open, usec_t now)
{
	open->number = slice_at(now);
	open->ends_at = (usec_t)(open->number + 1) * SLICE;
}

/* Adds what the slice that has not ended has of one counted kind. */
static void add_open(const void *part, unsigned int kind, struct histogram *sum)
{
	const struct latency *latency = part;
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
	for (int i = 0; sum && more && i < SLICES; i++) {
		file_slice(sum->minutes, more->minutes[i].number, &more->minutes[i]);
		file_slice(sum->tens, more->tens[i].number, &more->tens[i]);
	}
	if (sum && more)
		add_slice_to(&sum->total, &more->total);
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
	for (int i = 0; i < SLICES; i++) {
		sparse_sum_free(&slices->minutes[i].counts);
		sparse_sum_free(&slices->tens[i].counts);
	}
	sparse_sum_free(&slices->total.counts);
	free(slices);
}
