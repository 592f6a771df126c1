/* SPDX-License-Identifier: ISC */
/*
 * SHOW HISTOGRAMS and SHOW POOL_HISTOGRAMS: how many waits, statements, transactions and logins
 * took how long, for programs that calculate percentiles themselves, of several processes together.
 */
#include "show_priv.h"

#include "pgweir/base/banned.h"

/* Bounds of the buckets: names of the columns, and microseconds. */
#define BOUNDS(BOUND)          \
	BOUND(100us, 100)      \
	BOUND(250us, 250)      \
	BOUND(500us, 500)      \
	BOUND(1ms, 1000)       \
	BOUND(2500us, 2500)    \
	BOUND(5ms, 5000)       \
	BOUND(10ms, 10000)     \
	BOUND(25ms, 25000)     \
	BOUND(50ms, 50000)     \
	BOUND(100ms, 100000)   \
	BOUND(250ms, 250000)   \
	BOUND(500ms, 500000)   \
	BOUND(1s, 1000000)     \
	BOUND(2500ms, 2500000) \
	BOUND(5s, 5000000)     \
	BOUND(10s, 10000000)   \
	BOUND(30s, 30000000)

enum bound {
#define BOUND(name, microseconds) BOUND_##name,
	BOUNDS(BOUND)
#undef BOUND
	    BOUND_COUNT
};

static const uint64_t bounds[] = {
#define BOUND(name, microseconds) microseconds,
	BOUNDS(BOUND)
#undef BOUND
};

struct histogram_row {
	const char *database, *user, *kind;
	int64_t count, sum_us;
	int64_t le[BOUND_COUNT];
};
_Static_assert(sizeof(struct histogram_row) <= ROW_SIZE_MAX, "a row is too large");

#define BOUND(name, microseconds)                                                              \
	{ "le_" #name, VALUE_INT8, offsetof(struct histogram_row, le[BOUND_##name]),           \
	  "How many took no longer than that. Times that differ from it by less than 3 % may " \
	  "be counted on the wrong side." },
#define COUNTS                                                                                     \
	COLUMN(struct histogram_row, VALUE_TEXT, kind,                                             \
	       "wait, statement, transaction, server_login or client_login, as in SHOW LATENCY."), \
	    COLUMN(struct histogram_row, VALUE_INT8, count,                                        \
	           "How many there were since the process started."),                              \
	    COLUMN(struct histogram_row, VALUE_INT8, sum_us,                                       \
	           "Microseconds of all of them together."),                                       \
	    BOUNDS(BOUND)

static const struct column histogram_columns[] = {
	COLUMN(struct histogram_row, VALUE_TEXT, database, "Name of the database; NULL: all."),
	COUNTS
};

static const struct column pool_columns[] = {
	COLUMN(struct histogram_row, VALUE_TEXT, database, "Name of the database."),
	COLUMN(struct histogram_row, VALUE_TEXT, user, "User that the pool logs in as."), COUNTS
};
#undef COUNTS
#undef BOUND

/* A bucket counts for a bound if its middle does. */
static void fill(struct histogram_row *row, const struct histogram *sum)
{
	unsigned int bucket = 0;
	uint64_t count = 0;

	for (size_t i = 0; i < BOUND_COUNT; i++) {
		while (bucket < HISTOGRAM_BUCKETS && histogram_middle(bucket) <= bounds[i])
			count += sum->counts[bucket++];
		row->le[i] = (int64_t)count;
	}
	row->count = (int64_t)histogram_count(sum);
	row->sum_us = (int64_t)sum->sum;
}

/* The next row of what `ordered` names. */
static bool next_of_scope(struct cursor *cursor, struct histogram_row *row)
{
	const struct ordered *at = &cursor->ordered;
	struct histogram sum;
	enum latency_kind kind;

	while (cursor->index < LATENCY_KINDS) {
		kind = (enum latency_kind)cursor->index++;
		show_latency_sum(cursor, kind, &sum);
		fill(row, &sum);
		if (!row->count)
			continue;
		row->database = *at->first ? at->first : NULL;
		row->user = at->second;
		row->kind = latency_kind_name(kind);
		return true;
	}
	return false;
}

static bool next_of_database(struct cursor *cursor, void *row)
{
	return !*cursor->ordered.second && next_of_scope(cursor, row);
}

static bool next_of_pool(struct cursor *cursor, void *row)
{
	return *cursor->ordered.second && next_of_scope(cursor, row);
}

static bool next_histogram(struct cursor *cursor, void *row)
{
	return show_latency_next(cursor, row, next_of_database);
}

static bool next_pool_histogram(struct cursor *cursor, void *row)
{
	return show_latency_next(cursor, row, next_of_pool);
}

const struct show show_histograms = {
	.item = "HISTOGRAMS",
	.next = next_histogram,
	.columns = COLUMNS(histogram_columns),
	.help = "How many waits, statements, transactions and logins took how long, for all and "
		"each database.",
	.argument = SHOW_OF_DATABASE,
};

const struct show show_pool_histograms = {
	.item = "POOL_HISTOGRAMS",
	.next = next_pool_histogram,
	.columns = COLUMNS(pool_columns),
	.help = "The same for each pool.",
	.argument = SHOW_OF_DATABASE,
};
