/* SPDX-License-Identifier: ISC */
/*
 * SHOW LATENCY: how long waits, statements, transactions and logins take: of all pools together, of
 * each database, and of each pool.
 *
 * Hard here: a database may have thousands of pools. So the sums of a scope are made before its
 * first row, of some pools in a turn. If a pool is freed in the meantime, its counts have moved to
 * its database, and the sums are begun again.
 */
#include "show_priv.h"

#include <stdlib.h>

static const char *const kinds[] = {
	[LATENCY_WAIT] = "wait",
	[LATENCY_STATEMENT] = "statement",
	[LATENCY_XACT] = "transaction",
	[LATENCY_SERVER_LOGIN] = "server_login",
	[LATENCY_CLIENT_LOGIN] = "client_login",
};

static const char *const windows[] = {
	[LATENCY_MINUTE] = "minute",
	[LATENCY_TEN_MINUTES] = "ten_minutes",
	[LATENCY_START] = "start",
};

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
	COLUMN(TEXT, kind, kinds[kind],                                                            \
	       "wait: for a server connection, 0 if one was idle; statement: of a query (a "       \
	       "pipeline up to its Sync counts as one), with the wait; transaction: with the "     \
	       "wait; server_login, client_login: from connecting to the end of the login, if it " \
	       "succeeded.")                                                                       \
	COLUMN(TEXT, window, windows[window],                                                      \
	       "minute: the last 60 to 75 seconds; ten_minutes: the last 10 to 12.5 minutes; "     \
	       "start: since the process started, also after a take-over.")                        \
	COLUMN(INT8, count, (int64_t)count, "How many there were in the window.")                  \
	COLUMN(INT8, mean_us, (int64_t)(sum->sum / count),                                         \
	       "Arithmetic mean, exact, in microseconds.")                                         \
	COLUMN(INT8, p50_us, (int64_t)values[0],                                                   \
	       "Median in microseconds: half of them took no longer. As all percentiles, it "      \
	       "differs from the exact value by less than 2 %.")                                   \
	COLUMN(INT8, p90_us, (int64_t)values[1], "90th percentile in microseconds.")               \
	COLUMN(INT8, p95_us, (int64_t)values[2], "95th percentile in microseconds.")               \
	COLUMN(INT8, p99_us, (int64_t)values[3], "99th percentile in microseconds.")               \
	COLUMN(INT8, p999_us, (int64_t)values[4], "99.9th percentile in microseconds.")            \
	COLUMN(INT8, max_us, (int64_t)sum->max, "The longest one in microseconds, exact.")

SHOW_ITEMS(latency, "LATENCY", LATENCY_ROW,
           "Percentiles of waits, statements, transactions and logins, for all, each database and "
           "each pool.",
           .argument = SHOW_OF_DATABASE);

/* ---- the scopes, in the order of names: all is first, and a database comes before its pools ----
 */

static void offer_pools(struct cursor *cursor, const struct database *database)
{
	bool has_counted = latency_has_counted(&database->gone_latency);

	for (const struct pool *pool = database->pool_table; pool; pool = pool->hh.next) {
		if (!latency_has_counted(&pool->latency))
			continue;
		has_counted = true;
		cursor_offer(cursor, database->name, pool->role->name, pool);
	}
	if (has_counted)
		cursor_offer(cursor, database->name, "", database);
}

/* No database has an empty name: such an item is all of them. */
static void collect_latency(struct cursor *cursor)
{
	if (!cursor->argument)
		cursor_offer(cursor, "", "", cursor->source);
	LANES_EACH (lane, cursor->lanes)
		TAILQ_EACH (database, &lane->pools->databases, node) {
			if (cursor_wants(cursor, database->name))
				offer_pools(cursor, database);
		}
}

/* ---- the sums of a scope, over all lanes ---- */

#define BEGINS_MAX 4     /* then a pool that is freed in the meantime counts twice, or not */
#define LOOKS_OF_POOL 32 /* to add what a pool has counted takes as long as so many looks */

/* Of what `ordered` names. */
struct latency_walk {
	unsigned int begin_count; /* 0: not begun */
	uint64_t gone_count;      /* of all lanes, when it was begun */
	unsigned int lane, pool;  /* of the database: which pool comes next, in the order there */
	struct histogram sums[LATENCY_WINDOWS][LATENCY_KINDS];
};

/* SHOW LATENCY has all windows, the others the last one. */
static enum latency_window first_window(const struct cursor *cursor)
{
	return cursor->show == &show_latency ? LATENCY_MINUTE : LATENCY_START;
}

/* NULL: the lane has none of that name. */
static struct database *database_in(const struct cursor *cursor, const struct lane *lane)
{
	return pools_find_any_database(lane->pools, cursor->ordered.first);
}

static uint64_t gone_count(const struct cursor *cursor)
{
	uint64_t count = 0;

	LANES_EACH (lane, cursor->lanes)
		count += lane->pools->gone_count;
	return count;
}

static void begin_sums(struct cursor *cursor)
{
	struct latency_walk *walk = cursor->latency;

	for (int i = (int)first_window(cursor); i < LATENCY_WINDOWS; i++)
		memset(walk->sums[i], 0, sizeof(walk->sums[i]));
	walk->begin_count++;
	walk->gone_count = gone_count(cursor);
	walk->lane = walk->pool = 0;
}

/* Of one of the two. */
static void add(struct cursor *cursor, const struct latency *latency, const struct latency_all *all)
{
	usec_t now = loop_now(cursor->source->with->loop);

	for (int i = (int)first_window(cursor); i < LATENCY_WINDOWS; i++) {
		for (int k = 0; k < LATENCY_KINDS; k++) {
			struct histogram *sum = &cursor->latency->sums[i][k];

			if (all)
				latency_all_sum(all, (enum latency_kind)k, sum);
			else
				latency_sum(latency, (enum latency_kind)k, (enum latency_window)i,
				            now, sum);
		}
	}
}

/* false: go on in a later turn. */
static bool add_database(struct cursor *cursor)
{
	struct latency_walk *walk = cursor->latency;
	const struct database *database;
	const struct pool *pool;

	for (; walk->lane < cursor->lanes->count; walk->lane++, walk->pool = 0) {
		database = database_in(cursor, &cursor->lanes->at[walk->lane]);
		pool = database ? database->pool_table : NULL;
		for (unsigned int i = 0; pool && i < walk->pool; i++)
			pool = pool->hh.next;
		for (; pool; pool = pool->hh.next, walk->pool++) {
			cursor->look_count += LOOKS_OF_POOL;
			if (!cursor_may_look(cursor))
				return false;
			add(cursor, &pool->latency, NULL);
		}
		if (database)
			add(cursor, &database->gone_latency, NULL);
	}
	return true;
}

static bool add_scope(struct cursor *cursor)
{
	const struct ordered *at = &cursor->ordered;
	struct latency_walk *walk = cursor->latency;

	if (!*at->first) {
		add(cursor, &cursor->source->latency, NULL);
		LANES_EACH (lane, cursor->lanes)
			add(cursor, NULL, &lane->pools->latency);
		return true;
	}
	for (int i = 0; *at->second && i < POOL_PURPOSES; i++) {
		POOLS_EACH (pool, cursor, (enum pool_purpose)i)
			add(cursor, &pool->latency, NULL);
	}
	while (!*at->second && add_database(cursor)) {
		if (walk->begin_count == BEGINS_MAX || gone_count(cursor) == walk->gone_count)
			return true;
		begin_sums(cursor);
	}
	return *at->second;
}

/* Makes the sums. After that cursor->index counts rows from 1. false: they are not there yet. */
static bool make_sums(struct cursor *cursor)
{
	if (cursor->index)
		return true;
	if (!cursor->latency)
		cursor->latency = calloc(1, sizeof(*cursor->latency));
	if (!cursor->latency)
		return false;
	if (!cursor->latency->begin_count)
		begin_sums(cursor);
	if (!add_scope(cursor))
		return false;
	cursor->latency->begin_count = 0;
	cursor->index = 1;
	return true;
}

/* ---- rows ---- */

/* Of each scope, if everything has been counted. */
#define ROWS_EACH ((size_t)LATENCY_KINDS * LATENCY_WINDOWS)

/* The next row of the scope whose names `ordered` has. false: it has no more. */
static bool next_latency(struct cursor *cursor, void *row)
{
	static const unsigned int perthousand[] = { 500, 900, 950, 990, 999 };
	uint64_t values[sizeof(perthousand) / sizeof(perthousand[0])], count;
	const struct ordered *at = &cursor->ordered;

	while (make_sums(cursor) && cursor->index <= ROWS_EACH) {
		size_t index = cursor->index++ - 1;
		enum latency_kind kind = (enum latency_kind)(index / LATENCY_WINDOWS);
		enum latency_window window = (enum latency_window)(index % LATENCY_WINDOWS);
		const struct histogram *sum = &cursor->latency->sums[window][kind];

		count = histogram_quantiles(sum, perthousand, values,
		                            sizeof(values) / sizeof(values[0]));
		if (!count)
			continue;
		return ROW_FILL(row, struct latency_shown, LATENCY_ROW);
	}
	return false;
}

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

#define BOUND(name, microseconds) microseconds,
static const uint64_t bounds[] = { BOUNDS(BOUND) };
#undef BOUND

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
static bool next_histogram(struct cursor *cursor, void *to)
{
	const struct ordered *at = &cursor->ordered;
	struct histogram_row *row = to;

	if (!*at->second == (cursor->show == &show_pool_histograms))
		return false;
	while (make_sums(cursor) && cursor->index <= LATENCY_KINDS) {
		enum latency_kind kind = (enum latency_kind)(cursor->index++ - 1);

		fill(row, &cursor->latency->sums[LATENCY_START][kind]);
		if (!row->count)
			continue;
		row->database = *at->first ? at->first : NULL;
		row->user = at->second;
		row->kind = kinds[kind];
		return true;
	}
	return false;
}

SHOW(
    histograms, "HISTOGRAMS", next_histogram, histogram_columns,
    "How many waits, statements, transactions and logins took how long, for all and each database.",
    .collect = collect_latency, .argument = SHOW_OF_DATABASE);

SHOW(pool_histograms, "POOL_HISTOGRAMS", next_histogram, pool_columns, "The same for each pool.",
     .collect = collect_latency, .argument = SHOW_OF_DATABASE);
