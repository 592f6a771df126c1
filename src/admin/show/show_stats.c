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

#define DATABASE                                                              \
	{                                                                     \
		"database", VALUE_TEXT, offsetof(struct stats_row, database), \
		    "Name of the database."                                   \
	}
#define TOTAL(name, field, help)                                              \
	{                                                                     \
		name, VALUE_NUMERIC, offsetof(struct stats_row, total.field), \
		    help ", since the process started."                       \
	}
#define AVERAGE(name, field, help)                                                   \
	{                                                                            \
		name, VALUE_NUMERIC, offsetof(struct stats_row, average.field), help \
	}

#define ASSIGNMENTS "Number of times a server was assigned to a client"
#define XACTS "Number of transactions"
#define QUERIES "Number of queries (a pipeline up to its Sync counts as one)"
#define RECEIVED "Bytes received from clients"
#define SENT "Bytes received from servers"
#define XACT_TIME "Microseconds spent in transactions, including the wait for a server"
#define QUERY_TIME "Microseconds spent in queries, including the wait for a server"
#define WAIT_TIME "Microseconds that clients waited for a server"
#define CLIENT_PARSES "Number of prepared statements created by clients"
#define SERVER_PARSES "Number of prepared statements created on servers"
#define BINDS "Number of prepared statements bound"
#define LOGINS "Number of client logins"

/* Of averages. */
#define PER_SECOND ", per second."
#define XACT_TIME_EACH "Microseconds per transaction, including the wait for a server."
#define QUERY_TIME_EACH "Microseconds per query, including the wait for a server."
#define WAIT_TIME_EACH "Microseconds that a client waited per server assignment."

static const struct column stats_columns[] = {
	DATABASE,
	TOTAL("total_server_assignment_count", assignment_count, ASSIGNMENTS),
	TOTAL("total_xact_count", xact_count, XACTS),
	TOTAL("total_query_count", query_count, QUERIES),
	TOTAL("total_received", client_bytes, RECEIVED),
	TOTAL("total_sent", server_bytes, SENT),
	TOTAL("total_xact_time", xact_time, XACT_TIME),
	TOTAL("total_query_time", query_time, QUERY_TIME),
	TOTAL("total_wait_time", wait_time, WAIT_TIME),
	TOTAL("total_client_parse_count", client_parse_count, CLIENT_PARSES),
	TOTAL("total_server_parse_count", server_parse_count, SERVER_PARSES),
	TOTAL("total_bind_count", bind_count, BINDS),
	TOTAL("total_client_login_count", client_login_count, LOGINS),
	AVERAGE("avg_server_assignment_count", assignment_count, ASSIGNMENTS PER_SECOND),
	AVERAGE("avg_xact_count", xact_count, XACTS PER_SECOND),
	AVERAGE("avg_query_count", query_count, QUERIES PER_SECOND),
	AVERAGE("avg_recv", client_bytes, RECEIVED PER_SECOND),
	AVERAGE("avg_sent", server_bytes, SENT PER_SECOND),
	AVERAGE("avg_xact_time", xact_time, XACT_TIME_EACH),
	AVERAGE("avg_query_time", query_time, QUERY_TIME_EACH),
	AVERAGE("avg_wait_time", wait_time, WAIT_TIME_EACH),
	AVERAGE("avg_client_parse_count", client_parse_count, CLIENT_PARSES PER_SECOND),
	AVERAGE("avg_server_parse_count", server_parse_count, SERVER_PARSES PER_SECOND),
	AVERAGE("avg_bind_count", bind_count, BINDS PER_SECOND),
	AVERAGE("avg_client_login_count", client_login_count, LOGINS PER_SECOND),
};

static const struct column totals_columns[] = {
	DATABASE,
	TOTAL("server_assignment_count", assignment_count, ASSIGNMENTS),
	TOTAL("xact_count", xact_count, XACTS),
	TOTAL("query_count", query_count, QUERIES),
	TOTAL("bytes_received", client_bytes, RECEIVED),
	TOTAL("bytes_sent", server_bytes, SENT),
	TOTAL("xact_time", xact_time, XACT_TIME),
	TOTAL("query_time", query_time, QUERY_TIME),
	TOTAL("wait_time", wait_time, WAIT_TIME),
	TOTAL("client_parse_count", client_parse_count, CLIENT_PARSES),
	TOTAL("server_parse_count", server_parse_count, SERVER_PARSES),
	TOTAL("bind_count", bind_count, BINDS),
	TOTAL("client_login_count", client_login_count, LOGINS),
};

static const struct column averages_columns[] = {
	DATABASE,
	AVERAGE("server_assignment_count", assignment_count, ASSIGNMENTS PER_SECOND),
	AVERAGE("xact_count", xact_count, XACTS PER_SECOND),
	AVERAGE("query_count", query_count, QUERIES PER_SECOND),
	AVERAGE("bytes_received", client_bytes, RECEIVED PER_SECOND),
	AVERAGE("bytes_sent", server_bytes, SENT PER_SECOND),
	AVERAGE("xact_time", xact_time, XACT_TIME_EACH),
	AVERAGE("query_time", query_time, QUERY_TIME_EACH),
	AVERAGE("wait_time", wait_time, WAIT_TIME_EACH),
	AVERAGE("avg_client_parse_count", client_parse_count, CLIENT_PARSES PER_SECOND),
	AVERAGE("avg_server_parse_count", server_parse_count, SERVER_PARSES PER_SECOND),
	AVERAGE("avg_bind_count", bind_count, BINDS PER_SECOND),
	AVERAGE("avg_client_login_count", client_login_count, LOGINS PER_SECOND),
};

/* Each counter must have its columns: a new counter without them fails to compile here. */
#define COLUMN_COUNT(columns) (sizeof(columns) / sizeof(columns[0]))
_Static_assert(COLUMN_COUNT(stats_columns) == 1 + 2 * STATS_FIELDS, "a counter has no column");
_Static_assert(COLUMN_COUNT(totals_columns) == 1 + STATS_FIELDS, "a counter has no column");
_Static_assert(COLUMN_COUNT(averages_columns) == 1 + STATS_FIELDS, "a counter has no column");

/* ---- counting ---- */

/* A database that never had a pool has no counters to show. */
static bool has_counted(const struct cursor *cursor, const struct database *database)
{
	(void)cursor;
	return database->pool_count || database->has_gone;
}

static void add_database(const struct database *database, struct stats *counted)
{
	const struct pool *pool;

	stats_add(counted, &database->gone);
	for (pool = database->pool_table; pool; pool = pool->hh.next)
		stats_add(counted, &pool->stats);
}

/* The counters of this database in all lanes. */
static void count_database(const struct show_source *source, const char *name,
                           struct stats *counted)
{
	const struct database *database;
	const struct lane *lane;

	*counted = (struct stats){ 0 };
	LANES_EACH(lane, show_source_lanes(source))
	{
		database = pools_find_any_database(lane->pools, name);
		if (database)
			add_database(database, counted);
	}
}

static void count_all(const struct show_source *source, struct stats *counted)
{
	const struct database *database;
	const struct lane *lane;

	*counted = source->own;
	LANES_EACH(lane, show_source_lanes(source))
	{
		stats_add(counted, &lane->pools->gone);
		TAILQ_FOREACH (database, &lane->pools->databases, node) {
			if (has_counted(NULL, database))
				add_database(database, counted);
		}
	}
}

/* The name of all databases together in the history: no database can have an empty name. */
#define STATS_ALL ""

void show_stats_average_all(const struct show_source *source, usec_t now, struct stats *average)
{
	struct stats counted;

	count_all(source, &counted);
	history_average(&source->history, STATS_ALL, &counted, now, average);
}

/* Whether a lane before this one has counters of the database. */
static bool is_noted(const struct show_source *source, const struct lane *before, const char *name)
{
	const struct database *database;
	const struct lane *lane;

	for (lane = show_source_first(source); lane < before; lane++) {
		database = pools_find_any_database(lane->pools, name);
		if (database && has_counted(NULL, database))
			return true;
	}
	return false;
}

void show_stats_note(struct show_source *source)
{
	const struct database *database;
	const struct lane *lane;
	struct stats counted;

	LANES_EACH(lane, show_source_lanes(source))
	TAILQ_FOREACH (database, &lane->pools->databases, node) {
		if (!has_counted(NULL, database) || is_noted(source, lane, database->name))
			continue;
		count_database(source, database->name, &counted);
		history_note(&source->history, database->name, &counted);
	}
	history_note(&source->history, CONFIG_CONSOLE_DATABASE, &source->own);
	count_all(source, &counted);
	history_note(&source->history, STATS_ALL, &counted);
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
	struct stats_row *row = at;
	struct ordered_item item;

	if (!cursor_next_ordered(cursor, collect, &item))
		return false;
	row->database = item.first;
	if (item.object)
		count_database(source, item.first, &row->total);
	else
		row->total = source->own;
	history_average(&source->history, row->database, &row->total, loop_now(source->with->loop),
	                &row->average);
	return true;
}

SHOW(stats, "STATS", next_stats, stats_columns,
     "Statistics for each database: totals and averages.");
SHOW(stats_totals, "STATS_TOTALS", next_stats, totals_columns,
     "Statistics for each database: totals since the process started.");
SHOW(stats_averages, "STATS_AVERAGES", next_stats, averages_columns,
     "Statistics for each database: averages over the last stats_period.");

/* ---- one row per counter ---- */

#define TOTAL_ROW(COLUMN)                             \
	COLUMN(TEXT, name, 0, "Name of the counter.") \
	COLUMN(NUMERIC, value, 0, "Statistics for all databases together.")

ROW_DECLARE(struct total_row, total_columns, TOTAL_ROW);

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

static bool next_total(struct cursor *cursor, void *at)
{
	const struct show_source *source = cursor->source;
	enum console_version version = show_source_config(source)->console_version;
	size_t index = cursor->index++;
	struct stats counted, average;
	struct total_row *row = at;

	while (index < 2 * STATS_FIELDS && !rows_have("STATS", counters[index], version))
		index = cursor->index++;
	if (index >= 2 * STATS_FIELDS)
		return false;
	count_all(source, &counted);
	show_stats_average_all(source, loop_now(source->with->loop), &average);
	row->name = counters[index];
	row->value =
	    (int64_t)(index < STATS_FIELDS ? ((const uint64_t *)&counted)[index]
	                                   : ((const uint64_t *)&average)[index - STATS_FIELDS]);
	return true;
}

SHOW(totals, "TOTALS", next_total, total_columns, "Statistics for all databases together.");
