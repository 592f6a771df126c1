/* SPDX-License-Identifier: ISC */
/*
 * SHOW EVENTS: what has happened to the process lately, from the log's memory.
 */
#include "show_priv.h"

#include "pgweir/base/close_reason.h"
#include "pgweir/base/text.h"

#define EVENT_ROW(COLUMN)                                                                          \
	COLUMN(TEXT, at, cursor_print(cursor, "%s", text_utc(kept.at, at)),                        \
	       "When it happened, in UTC, as 2026-11-23T01:02:03.456Z.")                           \
	COLUMN(INT8, age_s, (wall_now() - kept.at) / USEC_PER_SEC,                                 \
	       "How many seconds ago that was.")                                                   \
	COLUMN(TEXT, kind, cursor_lower(cursor, kept.kind),                                        \
	       "Kind of the event: start, reload, set, take-over, shutdown, drain, suspend, host " \
	       "down, host up, host role, limit, reserve, secret, pool size (auto), or a command " \
	       "of the console in small letters: pause, resume, kill and so on.")                  \
	COLUMN(TEXT, level, log_level_name(kept.level), "Level of its line in the log.")           \
	COLUMN(TEXT, database, *kept.database ? cursor_print(cursor, "%s", kept.database) : NULL,  \
	       "Name of the database; NULL: the event concerns no single one.")                    \
	COLUMN(TEXT, user, *kept.user ? cursor_print(cursor, "%s", kept.user) : NULL,              \
	       "User; NULL: the event concerns no single one.")                                    \
	COLUMN(TEXT, text, cursor_print(cursor, "%s", kept.text),                                  \
	       "The line in the log, without its beginning; at most 480 bytes.")

SHOW_ROWS(events, "EVENTS", EVENT_ROW,
          "The last 1000 events of the process: reloads, commands, take-overs, hosts, limits.");

static bool next_events(struct cursor *cursor, void *row)
{
	uint64_t number = cursor->index;
	char at[TEXT_UTC_SIZE];
	struct log_kept kept;

	if (!log_kept_next(cursor->source->with->log, &number, &kept))
		return false;
	cursor->index = number;
	return ROW_FILL(row, struct events_shown, EVENT_ROW);
}

/* ---- how many ---- */

#define TOTAL_ROW(COLUMN)                                                                         \
	COLUMN(TEXT, event, cursor_lower(cursor, kind), "Kind of the events, as in SHOW EVENTS.") \
	COLUMN(INT8, count, (int64_t)count,                                                       \
	       "How many of them there have been since the process started.")

SHOW_ROWS(events_totals, "EVENTS_TOTALS", TOTAL_ROW,
          "How many events of each kind there have been.");

static bool next_events_totals(struct cursor *cursor, void *row)
{
	const char *kind;
	uint64_t count;

	if (!log_kept_kind(cursor->source->with->log, cursor->index, &kind, &count))
		return false;
	cursor->index++;
	return ROW_FILL(row, struct events_totals_shown, TOTAL_ROW);
}

/* ---- ERRORS: why connections ended, as base/close_reason.h counts it ---- */

#define REASON_ROW(COLUMN)                                                            \
	COLUMN(TEXT, type, index < CLOSE_REASONS ? "C" : "S",                         \
	       "C: client connections; S: server connections.")                       \
	COLUMN(TEXT, reason, reason->name, "Reason why the connections were closed.") \
	COLUMN(TEXT, is_error, reason->is_error ? "yes" : "no",                       \
	       "yes: the reason is an error; no: a normal disconnect.")

#define ERROR_ROW(COLUMN)                                                                          \
	REASON_ROW(COLUMN)                                                                         \
	COLUMN(INT8, count, (int64_t)total,                                                        \
	       "Number of connections closed for this reason since the process started.")          \
	COLUMN(TIME, last_time, last->wall_last, "Time of the last close for this reason.")        \
	COLUMN(TEXT, last_database, last->database,                                                \
	       "Database of the last connection closed for this reason.")                          \
	COLUMN(TEXT, last_user, last->user, "User of the last connection closed for this reason.") \
	COLUMN(TEXT, last_message, last->message,                                                  \
	       "Logged error message of the last connection closed for this reason, with its "     \
	       "detail.")

SHOW_ROWS(errors, "ERRORS", ERROR_ROW, "Why connections were closed, how often, and when last.");

/* The last close for this reason in any lane, or NULL, and the number of closes in all. */
static const struct close_count *sum(const struct lanes *lanes, bool of_servers, size_t reason,
                                     uint64_t *total)
{
	const struct close_count *last = NULL;

	*total = 0;
	LANES_EACH (lane, lanes) {
		const struct close_counts *closes =
		    of_servers ? &lane->pools->closes : &lane->clients->closes;
		const struct close_count *count = &closes->counts[reason];

		*total += count->count;
		if (count->count && (!last || count->wall_last > last->wall_last))
			last = count;
	}
	return last;
}

/* The reasons of clients first, then those of servers. Reasons that never occurred are left out. */
static bool next_errors(struct cursor *cursor, void *row)
{
	const struct close_count *last = NULL;
	const struct close_reason_row *reason;
	uint64_t total = 0;
	size_t index = 0;

	while (!last && cursor->index < 2 * CLOSE_REASONS) {
		index = cursor->index++;
		last = sum(cursor->lanes, index >= CLOSE_REASONS, index % CLOSE_REASONS, &total);
	}
	if (!last)
		return false;
	reason = close_reason_row((enum close_reason)(index % CLOSE_REASONS));
	return ROW_FILL(row, struct errors_shown, ERROR_ROW);
}

/* ---- CLOSES ---- */

#define CLOSES_ROW(COLUMN)                                                                  \
	COLUMN(TEXT, database, *name ? name : NULL,                                         \
	       "Database of the connections; NULL: none, such as one that does not exist.") \
	REASON_ROW(COLUMN)                                                                  \
	COLUMN(INT8, count, (int64_t)count, "Number of connections closed for this reason.")

SHOW_ITEMS(
    closes, "CLOSES", CLOSES_ROW,
    "How many connections of each database were closed, by reason, since the process started.");

static bool has_closes(const struct cursor *cursor, const struct database *database)
{
	(void)cursor;
	return database->client_closes.count || database->server_closes.count;
}

/* An empty name stands for no database. */
static void collect_closes(struct cursor *cursor)
{
	cursor_offer(cursor, "", "", cursor->source);
	cursor_offer_databases(cursor, has_closes);
}

static uint64_t count_closes(const struct lane *lane, const char *name, size_t index)
{
	unsigned int reason = (unsigned int)(index % CLOSE_REASONS);
	bool is_of_servers = index >= CLOSE_REASONS;
	const struct database *database;

	if (!*name)
		return sparse_sum_at(is_of_servers ? &lane->pools->closes.of_none
		                                   : &lane->clients->closes.of_none,
		                     reason);
	database = pools_find_any_database(lane->pools, name);
	if (!database)
		return 0;
	return sparse_sum_at(is_of_servers ? &database->server_closes : &database->client_closes,
	                     reason);
}

/* The next reason of the database that `ordered` names. */
static bool next_closes(struct cursor *cursor, void *row)
{
	const char *name = cursor->ordered.first;
	const struct close_reason_row *reason;
	uint64_t count = 0;
	size_t index = 0;

	if (cursor->index == 0)
		cursor->look_count += 2 * CLOSE_REASONS;
	while (cursor->index < 2 * CLOSE_REASONS && !count) {
		index = cursor->index++;
		LANES_EACH (lane, cursor->lanes)
			count += count_closes(lane, name, index);
	}
	reason = close_reason_row((enum close_reason)(index % CLOSE_REASONS));
	return ROW_FILL(row, struct closes_shown, CLOSES_ROW) && count;
}

/* ---- SQLSTATES: errors that clients were sent, as base/sqlstates.h counts them ---- */

#define SQLSTATE_ROW(COLUMN)                                                                      \
	COLUMN(TEXT, sqlstate, last->sqlstate,                                                    \
	       "SQLSTATE of the errors. After 500 different ones, others that PostgreSQL sends "  \
	       "are counted for their class, such as 57000, or as other if it has none such.")    \
	COLUMN(TEXT, side, sqlstate_is_ours(key) ? "pgweir" : "server",                           \
	       "server: PostgreSQL sent the errors; pgweir: they are our own.")                   \
	COLUMN(TEXT, severity, sqlstates_severity_name(sqlstate_severity(key)),                   \
	       "ERROR, FATAL or PANIC.")                                                          \
	COLUMN(INT8, count, (int64_t)total,                                                       \
	       "Number of errors that clients have got since the process started, without those " \
	       "of this console.")                                                                \
	COLUMN(TIME, last, last->wall_last, "Time of the last one.")                              \
	COLUMN(TEXT, database, last->database, "Database of the last one.")                       \
	COLUMN(                                                                                   \
	    TEXT, user, last->user,                                                               \
	    "User of the last one; of errors by PostgreSQL, the user of the server connection.")  \
	COLUMN(TEXT, class, cursor_print(cursor, "%.*s", is_other ? 5 : 2, last->sqlstate),       \
	       "Class of the SQLSTATE: its first two characters; or other.")

SHOW_ROWS(sqlstates, "SQLSTATES", SQLSTATE_ROW,
          "Errors that clients were sent, by SQLSTATE, and by who sent them.");

/* The next row is about the least of the keys that are next in the lanes. */
static bool next_sqlstates(struct cursor *cursor, void *row)
{
	const struct sqlstate_count *count, *last = NULL;
	uint64_t total = 0;
	sqlstate_key key;
	bool is_other;

	LANES_EACH (lane, cursor->lanes) {
		count = sqlstates_from(&lane->pools->sqlstates, cursor->slot);
		if (!count || (last && count->key > last->key))
			continue;
		if (last && count->key < last->key)
			last = NULL;
		total = count->count + (last ? total : 0);
		if (!last || count->wall_last > last->wall_last)
			last = count;
	}
	if (!last)
		return false;
	key = last->key;
	cursor->slot = key + 1;
	is_other = strcmp(last->sqlstate, SQLSTATES_OTHER) == 0;
	return ROW_FILL(row, struct sqlstates_shown, SQLSTATE_ROW);
}
