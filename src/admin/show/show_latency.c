/* SPDX-License-Identifier: ISC */
/*
 * SHOW LATENCY: how long waits, statements, transactions and logins take: of all pools together, of
 * each database, and of each pool.
 *
 * Hard here: a database may have thousands of pools. The sums of such a one are gathered in one
 * walk over all pools, some in a turn, before its first row. If a pool is freed in the meantime,
 * its counts have moved to its database, and the walk begins again.
 */
#include "show_priv.h"

#include <stdlib.h>

#define LATENCY_ROW(COLUMN)                                                                        \
	COLUMN(TEXT, scope,                                                                        \
	       !*at->first   ? "all"                                                               \
	       : *at->second ? "pool"                                                              \
	                     : "database",                                                         \
	       "all: of all pools; database: of the pools of a database, also of those that were " \
	       "removed; pool: of one pool, lookups by auth_query included.")                      \
	COLUMN(TEXT, database, *at->first ? at->first : NULL, "Name of the database; NULL: all.")  \
	COLUMN(TEXT, user, *at->second ? at->second : NULL,                                        \
	       "User that the pool logs in as; NULL: all.")                                        \
	COLUMN(TEXT, kind, latency_kind_name(asked.kind),                                          \
	       "wait: for a server connection, 0 if one was idle; statement: of a query (a "       \
	       "pipeline up to its Sync counts as one), with the wait; transaction: with the "     \
	       "wait; server_login, client_login: from connecting to the end of the login, if it " \
	       "succeeded.")                                                                       \
	COLUMN(TEXT, window, latency_window_name(asked.window),                                    \
	       "minute: the last 60 to 75 seconds; ten_minutes: the last 10 to 12.5 minutes; "     \
	       "start: since the process started, also after a take-over.")                        \
	COLUMN(INT8, count, (int64_t)count, "How many there were in the window.")                  \
	COLUMN(INT8, mean_us, (int64_t)(sum.sum / count),                                          \
	       "Arithmetic mean, exact, in microseconds.")                                         \
	COLUMN(INT8, p50_us, (int64_t)values[0],                                                   \
	       "Median in microseconds: half of them took no longer. As all percentiles, it "      \
	       "differs from the exact value by less than 2 %.")                                   \
	COLUMN(INT8, p90_us, (int64_t)values[1], "90th percentile in microseconds.")               \
	COLUMN(INT8, p95_us, (int64_t)values[2], "95th percentile in microseconds.")               \
	COLUMN(INT8, p99_us, (int64_t)values[3], "99th percentile in microseconds.")               \
	COLUMN(INT8, p999_us, (int64_t)values[4], "99.9th percentile in microseconds.")            \
	COLUMN(INT8, max_us, (int64_t)sum.max, "The longest one in microseconds, exact.")

ROW_DECLARE(struct latency_row, latency_columns, LATENCY_ROW);

/* ---- the scopes, in the order of names: all is first, and a database comes before its pools ----
 */

static void offer_pools(struct cursor *cursor, const struct database *database)
{
	const struct pool *pool;
	bool has_counted = latency_has_counted(&database->gone_latency);

	for (pool = database->pool_table; pool; pool = pool->hh.next) {
		if (!latency_has_counted(&pool->latency))
			continue;
		has_counted = true;
		cursor_offer(cursor, database->name, pool->role->name, pool);
	}
	if (has_counted)
		cursor_offer(cursor, database->name, "", database);
}

/* No database has an empty name: such an item is all of them. */
static void offer_scopes(struct cursor *cursor)
{
	const struct database *database;
	const struct lane *lane;

	if (!cursor->asked.argument)
		cursor_offer(cursor, "", "", cursor->source);
	LANES_EACH(lane, cursor->lanes)
	TAILQ_FOREACH (database, &lane->pools->databases, node) {
		if (cursor_wants(cursor, database->name))
			offer_pools(cursor, database);
	}
}

/* ---- sums over all lanes ---- */

/* The sums of the database that `ordered` names. */
struct latency_walk {
	bool is_done;
	unsigned int begin_count;
	uint64_t gone_count; /* of that database, when the walk began */
	struct histogram sums[LATENCY_KINDS][LATENCY_WINDOWS];
};

/* What a row is about. */
struct asked {
	enum latency_kind kind;
	enum latency_window window;
	usec_t now;
};

static void sum_one(const struct latency *latency, const struct asked *asked, struct histogram *sum)
{
	latency_sum(latency, asked->kind, asked->window, asked->now, sum);
}

static void sum_scope(const struct cursor *cursor, const struct asked *asked, struct histogram *sum)
{
	const struct ordered *at = &cursor->ordered;
	const struct database *database;
	const struct pool *pool;
	const struct lane *lane;

	if (cursor->latency) {
		*sum = cursor->latency->sums[asked->kind][asked->window];
		return;
	}
	*sum = (struct histogram){ 0 };
	if (!*at->first)
		sum_one(&cursor->source->latency, asked, sum);
	LANES_EACH(lane, cursor->lanes)
	{
		if (!*at->first) {
			latency_all_sum(&lane->pools->latency, asked->kind, sum);
		} else if (!*at->second) {
			database = pools_find_any_database(lane->pools, at->first);
			if (database)
				sum_one(&database->gone_latency, asked, sum);
			for (pool = database ? database->pool_table : NULL; pool;
			     pool = pool->hh.next)
				sum_one(&pool->latency, asked, sum);
		} else {
			for (int i = 0; i < POOL_PURPOSES; i++) {
				pool = pools_find_exact_pool(lane->pools, at->first, at->second,
				                             (enum pool_purpose)i);
				if (pool)
					sum_one(&pool->latency, asked, sum);
			}
		}
	}
}

/* ---- databases with many pools ---- */

#define MANY_POOLS 100
#define BEGINS_MAX 4     /* then a pool that is freed in the meantime counts twice, or not */
#define LOOKS_OF_POOL 32 /* to add what a pool has counted takes as long as so many looks */

static struct database *database_in(const struct cursor *cursor, const struct lane *lane)
{
	return pools_find_any_database(lane->pools, cursor->ordered.first);
}

static bool has_many_pools(const struct cursor *cursor)
{
	const struct database *database;
	const struct lane *lane;
	unsigned int count = 0;

	LANES_EACH(lane, cursor->lanes)
	{
		database = database_in(cursor, lane);
		count += database ? database->pool_count : 0;
	}
	return *cursor->ordered.first && !*cursor->ordered.second && count > MANY_POOLS;
}

static uint64_t gone_count(const struct cursor *cursor)
{
	const struct database *database;
	const struct lane *lane;
	uint64_t count = 0;

	LANES_EACH(lane, cursor->lanes)
	{
		database = database_in(cursor, lane);
		count += database ? database->gone_count : 0;
	}
	return count;
}

static void walk_begin(struct cursor *cursor)
{
	struct latency_walk *walk = cursor->latency;

	memset(walk->sums, 0, sizeof(walk->sums));
	walk->begin_count++;
	walk->gone_count = gone_count(cursor);
	cursor_first_pool(cursor);
}

/* To be called for each scope. Without memory its sums are made in one turn. */
static void walk_if_many(struct cursor *cursor)
{
	free(cursor->latency);
	cursor->latency = has_many_pools(cursor) ? calloc(1, sizeof(*cursor->latency)) : NULL;
	if (cursor->latency)
		walk_begin(cursor);
}

static void walk_add(struct cursor *cursor, const struct latency *latency)
{
	struct asked asked = { .now = loop_now(cursor->source->with->loop) };

	for (asked.kind = 0; asked.kind < LATENCY_KINDS; asked.kind++) {
		for (asked.window = 0; asked.window < LATENCY_WINDOWS; asked.window++)
			sum_one(latency, &asked, &cursor->latency->sums[asked.kind][asked.window]);
	}
}

/* false: the walk is not over; go on in a later turn. */
static bool walk_pools(struct cursor *cursor)
{
	const struct database *database;
	const struct pool *pool;
	const struct lane *lane;

	while ((pool = cursor_next_pool(cursor))) {
		if (strcmp(pool->database->name, cursor->ordered.first) != 0)
			continue;
		cursor->look_count += LOOKS_OF_POOL;
		walk_add(cursor, &pool->latency);
	}
	if (cursor->has_more)
		return false;
	LANES_EACH(lane, cursor->lanes)
	{
		database = database_in(cursor, lane);
		if (database)
			walk_add(cursor, &database->gone_latency);
	}
	return true;
}

/* false: the sums are not there yet; go on in a later turn. */
static bool walk_on(struct cursor *cursor)
{
	struct latency_walk *walk = cursor->latency;

	while (walk && !walk->is_done) {
		if (!walk_pools(cursor))
			return false;
		walk->is_done =
		    walk->begin_count == BEGINS_MAX || gone_count(cursor) == walk->gone_count;
		if (!walk->is_done)
			walk_begin(cursor);
	}
	return true;
}

/* ---- rows ---- */

/* Of each scope, if everything has been counted. */
#define ROWS_EACH ((size_t)LATENCY_KINDS * LATENCY_WINDOWS)

/* The next row of the scope whose names `ordered` has. false: it has no more. */
static bool next_of_latency(struct cursor *cursor, void *row)
{
	static const unsigned int perthousand[] = { 500, 900, 950, 990, 999 };
	uint64_t values[sizeof(perthousand) / sizeof(perthousand[0])], count;
	const struct ordered *at = &cursor->ordered;
	struct histogram sum;
	struct asked asked = { .now = loop_now(cursor->source->with->loop) };

	while (cursor->index < ROWS_EACH) {
		asked.kind = (enum latency_kind)(cursor->index / LATENCY_WINDOWS);
		asked.window = (enum latency_window)(cursor->index % LATENCY_WINDOWS);
		cursor->index++;
		sum_scope(cursor, &asked, &sum);
		count = histogram_quantiles(&sum, perthousand, values,
		                            sizeof(values) / sizeof(values[0]));
		if (!count)
			continue;
		ROW_FILL(row, struct latency_row, LATENCY_ROW);
		return true;
	}
	return false;
}

/* As cursor_next_each(); `ordered` has "" and "" for all, a name and "" for a database. */
static bool next_of_scopes(struct cursor *cursor, void *row,
                           bool (*next_of_scope)(struct cursor *cursor, void *row))
{
	struct ordered_item item;

	for (;;) {
		if (!walk_on(cursor))
			return false;
		if (cursor->ordered.has_last && next_of_scope(cursor, row))
			return true;
		if (!cursor_may_look(cursor) || !cursor_next_ordered(cursor, offer_scopes, &item))
			return false;
		cursor->index = 0;
		walk_if_many(cursor);
	}
}

static bool next_latency(struct cursor *cursor, void *row)
{
	return next_of_scopes(cursor, row, next_of_latency);
}

SHOW(latency, "LATENCY", next_latency, latency_columns,
     "Percentiles of waits, statements, transactions and logins, for all, each database and each "
     "pool.",
     .argument = SHOW_OF_DATABASE);

/* ---- HISTOGRAMS and POOL_HISTOGRAMS, for programs that add up several processes ---- */

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

static const uint64_t bounds[] = {
#define BOUND(name, microseconds) microseconds,
	BOUNDS(BOUND)
#undef BOUND
};

#define BOUND_COUNT (sizeof(bounds) / sizeof(bounds[0]))

struct histogram_row {
	const char *database, *user, *kind;
	int64_t count, sum_us;
	int64_t le[BOUND_COUNT];
};

#define BOUND(name, microseconds)                                                              \
	{ "le_" #name, VALUE_INT8, ROW_NEXT,                                                   \
	  "How many took no longer than that. Times that differ from it by less than 3 % may " \
	  "be counted on the wrong side." },
#define COUNTS                                                                                   \
	{ "kind", VALUE_TEXT, offsetof(struct histogram_row, kind),                              \
	  "wait, statement, transaction, server_login or client_login, as in SHOW LATENCY." },   \
	    { "count", VALUE_INT8, ROW_NEXT, "How many there were since the process started." }, \
	    { "sum_us", VALUE_INT8, ROW_NEXT, "Microseconds of all of them together." },         \
	    BOUNDS(BOUND)

static const struct column histogram_columns[] = {
	{ "database", VALUE_TEXT, ROW_NEXT, "Name of the database; NULL: all." }, COUNTS
};

static const struct column pool_columns[] = {
	{ "database", VALUE_TEXT, ROW_NEXT, "Name of the database." },
	{ "user", VALUE_TEXT, ROW_NEXT, "User that the pool logs in as." },
	COUNTS
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

/* The next row of what `ordered` names, if that is of this SHOW. */
static bool next_of_histograms(struct cursor *cursor, void *to)
{
	struct asked asked = { 0, LATENCY_START, loop_now(cursor->source->with->loop) };
	const struct ordered *at = &cursor->ordered;
	struct histogram_row *row = to;
	struct histogram sum;

	if (!*at->second == (cursor->asked.show == &show_pool_histograms))
		return false;
	while (cursor->index < LATENCY_KINDS) {
		asked.kind = (enum latency_kind)cursor->index++;
		sum_scope(cursor, &asked, &sum);
		fill(row, &sum);
		if (!row->count)
			continue;
		row->database = *at->first ? at->first : NULL;
		row->user = at->second;
		row->kind = latency_kind_name(asked.kind);
		return true;
	}
	return false;
}

static bool next_histogram(struct cursor *cursor, void *row)
{
	return next_of_scopes(cursor, row, next_of_histograms);
}

SHOW(
    histograms, "HISTOGRAMS", next_histogram, histogram_columns,
    "How many waits, statements, transactions and logins took how long, for all and each database.",
    .argument = SHOW_OF_DATABASE);

SHOW(pool_histograms, "POOL_HISTOGRAMS", next_histogram, pool_columns, "The same for each pool.",
     .argument = SHOW_OF_DATABASE);
