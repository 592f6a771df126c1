/* SPDX-License-Identifier: ISC */
/*
 * SHOW of counters: STATS, STATS_TOTALS, STATS_AVERAGES, TOTALS. All are made from struct
 * stats; they differ in the names of the columns.
 */
#include "show_priv.h"

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
	return database->pool_count || database->has_gone;
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
