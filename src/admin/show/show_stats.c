/* SPDX-License-Identifier: ISC */
/*
 * SHOW of what was counted: STATS, STATS_TOTALS, STATS_AVERAGES, TOTALS; LATENCY, HISTOGRAMS,
 * POOL_HISTOGRAMS; STATEMENTS. The first three are made from struct stats, and differ in the names
 * of the columns.
 */
#include "show_priv.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

struct stats_row {
	const char *database;
	struct stats total, average;
};

/*
 * A counter: its field; its names as a total and as an average in SHOW STATS, and in the tables
 * that have only totals or averages; the help of both.
 */
#define NUMBER(COUNTER, field, name, in_averages, help) \
	COUNTER(field, "total_" name, "avg_" name, name, in_averages, help, help ", per second.")
#define BYTES(COUNTER, field, name, average, help)                                 \
	COUNTER(field, "total_" name, average, "bytes_" name, "bytes_" name, help, \
	        help ", per second.")
#define TIME(COUNTER, name, help, each) \
	COUNTER(name, "total_" #name, "avg_" #name, #name, #name, help, each)
#define COUNTERS(COUNTER)                                                                       \
	NUMBER(COUNTER, assignment_count, "server_assignment_count", "server_assignment_count", \
	       "Number of times a server was assigned to a client")                             \
	NUMBER(COUNTER, xact_count, "xact_count", "xact_count", "Number of transactions")       \
	NUMBER(COUNTER, query_count, "query_count", "query_count",                              \
	       "Number of queries (a pipeline up to its Sync counts as one)")                   \
	BYTES(COUNTER, client_bytes, "received", "avg_recv", "Bytes received from clients")     \
	BYTES(COUNTER, server_bytes, "sent", "avg_sent", "Bytes received from servers")         \
	TIME(COUNTER, xact_time,                                                                \
	     "Microseconds spent in transactions, including the wait for a server",             \
	     "Microseconds per transaction, including the wait for a server.")                  \
	TIME(COUNTER, query_time,                                                               \
	     "Microseconds spent in queries, including the wait for a server",                  \
	     "Microseconds per query, including the wait for a server.")                        \
	TIME(COUNTER, wait_time, "Microseconds that clients waited for a server",               \
	     "Microseconds that a client waited per server assignment.")                        \
	NUMBER(COUNTER, client_parse_count, "client_parse_count", "avg_client_parse_count",     \
	       "Number of prepared statements created by clients")                              \
	NUMBER(COUNTER, server_parse_count, "server_parse_count", "avg_server_parse_count",     \
	       "Number of prepared statements created on servers")                              \
	NUMBER(COUNTER, bind_count, "bind_count", "avg_bind_count",                             \
	       "Number of prepared statements bound")                                           \
	NUMBER(COUNTER, client_login_count, "client_login_count", "avg_client_login_count",     \
	       "Number of client logins")

#define COLUMN(part, field, name, help) \
	{ name, VALUE_NUMERIC, offsetof(struct stats_row, part.field), help },
#define STATS_TOTAL(field, name, avg_name, in_totals, in_averages, help, avg_help) \
	COLUMN(total, field, name, help ", since the process started.")
#define STATS_AVERAGE(field, name, avg_name, in_totals, in_averages, help, avg_help) \
	COLUMN(average, field, avg_name, avg_help)
#define IN_TOTALS(field, name, avg_name, in_totals, in_averages, help, avg_help) \
	COLUMN(total, field, in_totals, help ", since the process started.")
#define IN_AVERAGES(field, name, avg_name, in_totals, in_averages, help, avg_help) \
	COLUMN(average, field, in_averages, avg_help)
#define DATABASE { "database", VALUE_TEXT, ROW_NEXT, "Name of the database." },

/* clang-format off */
static const struct column stats_columns[] = {
	DATABASE COUNTERS(STATS_TOTAL) COUNTERS(STATS_AVERAGE)
};
static const struct column total_columns[] = { DATABASE COUNTERS(IN_TOTALS) };
static const struct column average_columns[] = { DATABASE COUNTERS(IN_AVERAGES) };
/* clang-format on */

/* Each counter must have its columns: a new counter without them fails to compile here. */
#define COLUMN_COUNT(columns) (sizeof(columns) / sizeof(columns[0]))
_Static_assert(COLUMN_COUNT(stats_columns) == 1 + 2 * STATS_FIELDS, "a counter has no column");
_Static_assert(COLUMN_COUNT(total_columns) == 1 + STATS_FIELDS, "a counter has no column");
_Static_assert(COLUMN_COUNT(average_columns) == 1 + STATS_FIELDS, "a counter has no column");

/*
 * ---- averages ----
 *
 * Counters are kept as they were at the last tick and at the one before. An average covers the
 * time since the older one, which is one to two stats_periods.
 */

static void note(struct stats_past *past, const struct stats *counted)
{
	past->older = past->newer;
	past->newer = *counted;
}

static uint64_t grown(uint64_t before, uint64_t after)
{
	return after > before ? after - before : 0;
}

#define GROWN(field) grown(older->field, counted->field)
#define AVERAGE_COUNT(field, ...) \
	average->field =          \
	    time > 0 ? (uint64_t)((double)GROWN(field) * (double)USEC_PER_SEC / (double)time) : 0;
#define AVERAGE_TIME(field, letter, name, count) \
	average->field = GROWN(count) ? GROWN(field) / GROWN(count) : 0;

/*
 * Averages over the window until `now`: counts and bytes per second; times per query, per
 * transaction and per assignment of a server. A difference below zero counts as zero: counters
 * decrease when pools are freed.
 */
static void average_of(const struct show_source *source, const struct stats *older,
                       const struct stats *counted, usec_t now, struct stats *average)
{
	usec_t time = now - source->history.older_at;

	STATS_COUNTERS(AVERAGE_COUNT, AVERAGE_TIME)
}

/* ---- counting ---- */

/* A database that never had a pool has no counters to show. */
static bool has_counted(const struct cursor *cursor, const struct database *database)
{
	(void)cursor;
	return database->pool_table || database->has_gone;
}

static void add_database(const struct database *database, struct stats *counted)
{
	stats_add(counted, &database->gone);
	for (const struct pool *pool = database->pool_table; pool; pool = pool->hh.next)
		stats_add(counted, &pool->stats);
}

/* The counters of this database in all lanes, now and at the older tick. */
static void count_database(const struct show_source *source, const char *name,
                           struct stats *counted, struct stats *older)
{
	const struct database *database;

	LANES_EACH (lane, source->with->lanes) {
		database = pools_find_any_database(lane->pools, name);
		if (!database)
			continue;
		add_database(database, counted);
		stats_add(older, &database->past.older);
	}
}

static void count_all(const struct show_source *source, struct stats *counted)
{
	*counted = source->own;
	LANES_EACH (lane, source->with->lanes) {
		stats_add(counted, &lane->pools->gone);
		TAILQ_EACH (database, &lane->pools->databases, node)
			add_database(database, counted);
	}
}

void show_stats_average_all(const struct show_source *source, usec_t now, struct stats *average)
{
	struct stats counted;

	count_all(source, &counted);
	average_of(source, &source->history.all.older, &counted, now, average);
}

void show_stats_tick(struct show_source *source, usec_t now)
{
	struct stats counted;

	source->history.older_at = source->history.newer_at;
	source->history.newer_at = now;
	LANES_EACH (lane, source->with->lanes)
		TAILQ_EACH (database, &lane->pools->databases, node) {
			counted = (struct stats){ 0 };
			add_database(database, &counted);
			note(&database->past, &counted);
		}
	note(&source->history.own, &source->own);
	count_all(source, &counted);
	note(&source->history.all, &counted);
}

/* ---- one row per database ---- */

static void collect(struct cursor *cursor)
{
	cursor_offer_databases(cursor, has_counted);
	cursor_offer(cursor, CONFIG_CONSOLE_DATABASE, "", NULL);
}

static bool next_stats(struct cursor *cursor, void *at)
{
	const struct show_source *source = cursor->source;
	struct stats older = { 0 };
	struct stats_row *row = at;

	row->database = cursor->ordered.first;
	if (cursor->ordered.object) {
		count_database(source, row->database, &row->total, &older);
	} else {
		row->total = source->own;
		older = source->history.own.older;
	}
	average_of(source, &older, &row->total, loop_now(source->with->loop), &row->average);
	return true;
}

SHOW(stats, "STATS", next_stats, stats_columns,
     "Statistics for each database: totals and averages.", .collect = collect, .has_one_row = true);
SHOW(stats_totals, "STATS_TOTALS", next_stats, total_columns,
     "Statistics for each database: totals since the process started.", .collect = collect,
     .has_one_row = true);
SHOW(stats_averages, "STATS_AVERAGES", next_stats, average_columns,
     "Statistics for each database: averages over the last stats_period.", .collect = collect,
     .has_one_row = true);

/* ---- one row per counter ---- */

#define TOTAL_ROW(COLUMN)                                                          \
	COLUMN(TEXT, name, counters[index], "Name of the counter.")                \
	COLUMN(NUMERIC, value, (int64_t)((const uint64_t *)cursor->totals)[index], \
	       "Statistics for all databases together.")

SHOW_ROWS(totals, "TOTALS", TOTAL_ROW, "Statistics for all databases together.");

#define TOTAL_NAME(field, letter, name, ...) "total_" name,
#define AVERAGE_NAME(field, letter, name, ...) "avg_" name,

/* clang-format off */
static const char *const counters[] = {
	STATS_COUNTERS(TOTAL_NAME, TOTAL_NAME)
	STATS_COUNTERS(AVERAGE_NAME, AVERAGE_NAME)
};
/* clang-format on */
_Static_assert(sizeof(counters) / sizeof(counters[0]) == 2 * STATS_FIELDS,
               "each counter has two rows");

/* All rows are of one moment. To count for each of them would take many walks of all pools. */
static bool next_totals(struct cursor *cursor, void *row)
{
	const struct show_source *source = cursor->source;
	enum console_version version = show_source_config(source)->console_version;
	size_t index = cursor->index++;

	if (index == 0) {
		count_all(source, &cursor->totals[0]);
		average_of(source, &source->history.all.older, &cursor->totals[0],
		           loop_now(source->with->loop), &cursor->totals[1]);
	}
	while (index < 2 * STATS_FIELDS && !rows_have("STATS", counters[index], version))
		index = cursor->index++;
	if (index >= 2 * STATS_FIELDS)
		return false;
	return ROW_FILL(row, struct totals_shown, TOTAL_ROW);
}

/*
 * ---- LATENCY: how long waits, statements, transactions and logins take ----
 *
 * Of all pools together, of each database, and of each pool.
 *
 * Hard here: a database may have thousands of pools. So the sums of a scope are made before its
 * first row, of some pools in a turn. If a pool is freed in the meantime, its counts have moved to
 * its database, and the sums are begun again.
 */

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

/* SHOW LATENCY shows every window, the others show the last one. */
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
static bool sum_database(struct cursor *cursor)
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
	while (!*at->second && sum_database(cursor)) {
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

/*
 * ---- STATEMENTS: what clients execute, the most expensive first (track_statements) ----
 *
 *   the tables of all lanes --> the first n by one number --> rows
 *
 * Hard here: the tables change between two turns, and there may be very many statements. Only the
 * numbers and keys of twice as many as will be shown are kept, and they are gathered in pieces. A
 * row has the values of the turn in which it is made; a statement that has left before is not
 * shown.
 */

#define DEFAULT_COUNT 50

#define STATEMENT_ROW(COLUMN)                                                                     \
	COLUMN(TEXT, digest, cursor_print(cursor, "%016" PRIx64, statement->digest),              \
	       "Digest of the statement, the same for all texts that differ in constants, "       \
	       "comments and white space only; as in the log, and in [statements].")              \
	COLUMN(TEXT, database, statement->database, "Database of the pool that executed it.")     \
	COLUMN(TEXT, user, statement->user, "User of that pool.")                                 \
	COLUMN(TEXT, application, statement->application,                                         \
	       "application_name of the last client that executed it.")                           \
	COLUMN(INT8, calls, (int64_t)sum.calls, "How often it was executed, errors included.")    \
	COLUMN(INT8, errors, (int64_t)sum.errors,                                                 \
	       "How often it failed, errors of its Parse included.")                              \
	COLUMN(TEXT, sqlstate, sum.sqlstate, "SQLSTATE of the last error; NULL: there was none.") \
	COLUMN(INT8, total_us, (int64_t)sum.running.sum,                                          \
	       "Microseconds of all calls from sending to the last reply, without waiting for a " \
	       "server. In a pipeline, from the last reply of the call before.")                  \
	COLUMN(INT8, mean_us, mean_of(sum.running.sum, sum.calls), "The mean of these times.")    \
	COLUMN(INT8, max_us, (int64_t)sum.running.max, "The longest of these times.")             \
	COLUMN(INT8, p95_us, p95_of(&sum.running),                                                \
	       "95 % of the calls took no longer, within 7 %.")                                   \
	COLUMN(INT8, wait_total_us, (int64_t)sum.waiting.sum,                                     \
	       "Microseconds that all calls have waited for a server.")                           \
	COLUMN(INT8, wait_mean_us, mean_of(sum.waiting.sum, sum.calls),                           \
	       "The mean of these times.")                                                        \
	COLUMN(INT8, wait_p95_us, p95_of(&sum.waiting),                                           \
	       "95 % of the calls waited no longer, within 7 %.")                                 \
	COLUMN(INT8, rows, (int64_t)sum.rows,                                                     \
	       "Rows that were returned or affected, by the tags of its replies.")                \
	COLUMN(INT8, bytes, (int64_t)sum.bytes, "Bytes of its replies.")                          \
	COLUMN(INT8, error_bound, (int64_t)sum.bound,                                             \
	       "How many calls may be missing, because it has left the table before. 0: none.")   \
	COLUMN(TIME, since, show_wall(sum.since, loop_now(cursor->source->with->loop)),           \
	       "Since when it is counted.")                                                       \
	COLUMN(TEXT, query, statement->text,                                                      \
	       "Beginning of its text, with $n in place of constants.")

SHOW_ROWS(
    statements, "STATEMENTS", STATEMENT_ROW,
    "What clients execute, how often, and what that takes; the first 50 by total time, or n by "
    "another number. Empty unless track_statements is set.",
    .argument = SHOW_OF_STATEMENTS);

/* ---- what is asked for ---- */

/* The first one is the default. */
static const struct {
	const char *word;
	size_t at; /* of the number, in struct calls_statement */
} orders[] = {
	{ "time", offsetof(struct calls_statement, running_time) },
	{ "calls", offsetof(struct calls_statement, call_count) },
	{ "wait", offsetof(struct calls_statement, wait_time) },
	{ "rows", offsetof(struct calls_statement, row_count) },
	{ "errors", offsetof(struct calls_statement, error_count) },
};

#define ORDERS (sizeof(orders) / sizeof(orders[0]))

/* [n] [BY order] */
static bool read_asked(const char *text, size_t *limit, unsigned int *order)
{
	bool has_number = text && isdigit((unsigned char)*text);
	char by[4] = "", word[16] = "", more;
	unsigned int number = DEFAULT_COUNT;
	int count = 0;

	if (has_number)
		count = sscanf(text, "%8u %3s %15s %c", &number, by, word, &more) - 1;
	else if (text && *text)
		count = sscanf(text, "%3s %15s %c", by, word, &more);
	*limit = number;
	*order = 0;
	while (count && *order < ORDERS && strcasecmp(orders[*order].word, word) != 0)
		(*order)++;
	return number >= 1 && number <= CONFIG_TRACK_MAX && *order < ORDERS &&
	       (count == 0 || (count == 2 && strcasecmp(by, "BY") == 0));
}

bool show_statements_takes(const char *argument)
{
	unsigned int order;
	size_t limit;

	return read_asked(argument, &limit, &order);
}

/* ---- choosing ---- */

/* A statement that may be shown. */
struct statements_pick {
	uint64_t value; /* what the order is by */
	uint64_t key;
};

/* The greatest first. */
static int compare_picks(const void *first, const void *second)
{
	const struct statements_pick *a = first, *b = second;

	if (a->value != b->value)
		return a->value < b->value ? 1 : -1;
	return (a->key < b->key) - (a->key > b->key);
}

/* Sorts what was offered, and drops what is not wanted. */
static void sort_picks(struct statements_walk *walk)
{
	if (walk->count)
		qsort(walk->picks, walk->count, sizeof(*walk->picks), compare_picks);
	if (walk->count > walk->limit)
		walk->count = walk->limit;
}

static const struct calls *calls_of(const struct cursor *cursor, unsigned int lane)
{
	return &cursor->lanes->at[lane].clients->calls;
}

static uint64_t number_of(const struct calls_statement *statement, unsigned int order)
{
	return *(const uint64_t *)(const void *)((const char *)statement + orders[order].at);
}

/* Offers a statement, unless a lane before has it, too. */
static void pick_statement(struct cursor *cursor, const struct calls_statement *statement)
{
	struct statements_walk *walk = &cursor->statements;
	struct statements_pick pick = { .value = number_of(statement, walk->order),
		                        .key = statement->key };

	for (unsigned int i = 0; i < cursor->lanes->count; i++) {
		const struct calls_statement *other;

		if (i == walk->lane)
			continue;
		cursor->look_count++;
		other = calls_find(calls_of(cursor, i), pick.key);
		if (other && i < walk->lane)
			return;
		if (other)
			pick.value += number_of(other, walk->order);
	}
	walk->picks[walk->count++] = pick;
	if (walk->count == 2 * walk->limit)
		sort_picks(walk);
}

/* false: the rest in a later turn. */
static bool pick_all(struct cursor *cursor)
{
	struct statements_walk *walk = &cursor->statements;
	const struct calls_statement *statement;

	while (walk->lane < cursor->lanes->count) {
		if (!cursor_may_look(cursor))
			return false;
		statement = calls_next(calls_of(cursor, walk->lane), &walk->slot);
		if (statement) {
			pick_statement(cursor, statement);
			continue;
		}
		walk->lane++;
		walk->slot = 0;
	}
	sort_picks(walk);
	return true;
}

/* ---- rows ---- */

/* What all lanes know of one statement. */
struct statement_sum {
	const struct calls_statement *last; /* where it was executed last; NULL: nowhere */
	const char *sqlstate;
	usec_t since;
	uint64_t calls, errors, rows, bytes, bound;
	struct histogram running, waiting;
};

static void add_statement(struct statement_sum *sum, const struct calls_statement *statement)
{
	bool is_later = !sum->last || statement->last_at > sum->last->last_at;

	if (*statement->sqlstate && (!sum->sqlstate || is_later))
		sum->sqlstate = statement->sqlstate;
	if (!sum->last || statement->since < sum->since)
		sum->since = statement->since;
	if (is_later)
		sum->last = statement;
	sum->calls += statement->call_count;
	sum->errors += statement->error_count;
	sum->running.sum += statement->running_time;
	if (statement->longest > sum->running.max)
		sum->running.max = statement->longest;
	sum->waiting.sum += statement->wait_time;
	sum->waiting.max = sum->waiting.sum; /* none of them was longer */
	sum->rows += statement->row_count;
	sum->bytes += statement->byte_count;
	sum->bound += statement->missed_count;
	sketch_add_to(&statement->running, &sum->running);
	sketch_add_to(&statement->waiting, &sum->waiting);
}

static void sum_statement(const struct cursor *cursor, uint64_t key, struct statement_sum *sum)
{
	memset(sum, 0, sizeof(*sum));
	for (unsigned int i = 0; i < cursor->lanes->count; i++) {
		const struct calls *calls = calls_of(cursor, i);
		const struct calls_statement *statement = calls_find(calls, key);

		if (statement)
			add_statement(sum, statement);
		else
			sum->bound += calls->floor;
	}
}

static int64_t mean_of(uint64_t total, uint64_t count)
{
	return count ? (int64_t)(total / count) : 0;
}

static int64_t p95_of(const struct histogram *times)
{
	static const unsigned int asked = 950;
	uint64_t value;

	histogram_quantiles(times, &asked, &value, 1);
	return (int64_t)value;
}

static bool next_statements(struct cursor *cursor, void *row)
{
	struct statements_walk *walk = &cursor->statements;
	const struct calls_statement *statement;
	struct statement_sum sum;

	if (!walk->picks) {
		read_asked(cursor->argument, &walk->limit, &walk->order);
		walk->picks = calloc(2 * walk->limit, sizeof(*walk->picks));
	}
	if (!walk->picks || (walk->lane < cursor->lanes->count && !pick_all(cursor)))
		return false;
	while (walk->shown < walk->count) {
		if (!cursor_may_look(cursor))
			return false;
		sum_statement(cursor, walk->picks[walk->shown++].key, &sum);
		statement = sum.last;
		if (!statement)
			continue;
		return ROW_FILL(row, struct statements_shown, STATEMENT_ROW);
	}
	return false;
}
