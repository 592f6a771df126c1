/* SPDX-License-Identifier: ISC */
/*
 * SHOW EVENTS: what has happened to the process lately, from the log's memory.
 */
#include <ctype.h>

#include "pgweir/base/close_reason.h"

#include "show_priv.h"

#include "pgweir/base/text.h"

#define EVENT_ROW(COLUMN)                                                                          \
	COLUMN(TEXT, at, 0, "When it happened, in UTC, as 2026-11-23T01:02:03.456Z.")              \
	COLUMN(INT8, age_s, 0, "How many seconds ago that was.")                                   \
	COLUMN(TEXT, kind, 0,                                                                      \
	       "Kind of the event: start, reload, set, take-over, shutdown, drain, suspend, host " \
	       "down, host up, host role, limit, reserve, secret, pool size (auto), or a command " \
	       "of the console in small letters: pause, resume, kill and so on.")                  \
	COLUMN(TEXT, level, 0, "Level of its line in the log.")                                    \
	COLUMN(TEXT, database, 0, "Name of the database; NULL: the event concerns no single one.") \
	COLUMN(TEXT, user, 0, "User; NULL: the event concerns no single one.")                     \
	COLUMN(TEXT, text, 0, "The line in the log, without its beginning; at most 480 bytes.")

ROW_DECLARE(struct event_row, event_columns, EVENT_ROW, char time_buffer[TEXT_UTC_SIZE],
            kind_buffer[32];
            struct log_kept kept;);

static const char *const levels[LOG_LEVELS] = {
	[LOG_LEVEL_FATAL] = "FATAL", [LOG_LEVEL_ERROR] = "ERROR", [LOG_LEVEL_WARNING] = "WARNING",
	[LOG_LEVEL_INFO] = "LOG",    [LOG_LEVEL_DEBUG] = "DEBUG", [LOG_LEVEL_NOISE] = "NOISE",
};

/* Kinds that are commands have their words in capitals. */
static const char *lower(const char *text, char *out, size_t size)
{
	size_t count = 0;

	for (; text[count] && count + 1 < size; count++)
		out[count] = (char)tolower((unsigned char)text[count]);
	out[count] = 0;
	return out;
}

static bool next_event(struct cursor *cursor, void *at)
{
	struct event_row *row = at;
	uint64_t number = cursor->index;
	const struct log_kept *kept = &row->kept;

	if (!log_kept_next(cursor->source->with->log, &number, &row->kept))
		return false;
	cursor->index = number;
	row->at = text_utc(kept->at, row->time_buffer);
	row->age_s = (wall_now() - kept->at) / USEC_PER_SEC;
	row->kind = lower(kept->kind, row->kind_buffer, sizeof(row->kind_buffer));
	row->level = levels[kept->level];
	row->database = *kept->database ? kept->database : NULL;
	row->user = *kept->user ? kept->user : NULL;
	row->text = kept->text;
	return true;
}

SHOW(events, "EVENTS", next_event, event_columns,
     "The last 1000 events of the process: reloads, commands, take-overs, hosts, limits.");

/* ---- how many ---- */

#define TOTAL_ROW(COLUMN)                                                \
	COLUMN(TEXT, event, 0, "Kind of the events, as in SHOW EVENTS.") \
	COLUMN(INT8, count, 0, "How many of them there have been since the process started.")

ROW_DECLARE(struct event_total, total_columns, TOTAL_ROW, char event_buffer[32];);

static bool next_total(struct cursor *cursor, void *at)
{
	struct event_total *row = at;
	const char *kind;
	uint64_t count;

	if (!log_kept_kind(cursor->source->with->log, cursor->index, &kind, &count))
		return false;
	cursor->index++;
	row->event = lower(kind, row->event_buffer, sizeof(row->event_buffer));
	row->count = (int64_t)count;
	return true;
}

SHOW(events_totals, "EVENTS_TOTALS", next_total, total_columns,
     "How many events of each kind there have been.");

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

ROW_DECLARE(struct error_row, error_columns, ERROR_ROW);

/* The last close for this reason in any lane, or NULL, and the number of closes in all. */
static const struct close_count *sum(const struct lanes *lanes, bool of_servers, size_t reason,
                                     uint64_t *total)
{
	const struct close_count *last = NULL;
	const struct lane *lane;

	*total = 0;
	LANES_EACH(lane, lanes)
	{
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
static bool next_error(struct cursor *cursor, void *row)
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
	ROW_FILL(row, struct error_row, ERROR_ROW);
	return true;
}

SHOW(errors, "ERRORS", next_error, error_columns,
     "Why connections were closed, how often, and when last.");

/* ---- CLOSES ---- */

#define CLOSES_ROW(COLUMN)                                                                  \
	COLUMN(TEXT, database, *name ? name : NULL,                                         \
	       "Database of the connections; NULL: none, such as one that does not exist.") \
	REASON_ROW(COLUMN)                                                                  \
	COLUMN(INT8, count, (int64_t)count, "Number of connections closed for this reason.")

ROW_DECLARE(struct closes_row, closes_columns, CLOSES_ROW);

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
static bool next_of_database(struct cursor *cursor, void *row)
{
	const char *name = cursor->ordered.first;
	const struct close_reason_row *reason;
	const struct lane *lane;
	uint64_t count = 0;
	size_t index = 0;

	if (cursor->index == 0)
		cursor->look_count += 2 * CLOSE_REASONS;
	while (cursor->index < 2 * CLOSE_REASONS && !count) {
		index = cursor->index++;
		LANES_EACH(lane, cursor->lanes)
		count += count_closes(lane, name, index);
	}
	reason = close_reason_row((enum close_reason)(index % CLOSE_REASONS));
	ROW_FILL(row, struct closes_row, CLOSES_ROW);
	return count;
}

static bool next_closes(struct cursor *cursor, void *row)
{
	return cursor_next_each(cursor, row, collect_closes, next_of_database);
}

SHOW(closes, "CLOSES", next_closes, closes_columns,
     "How many connections of each database were closed, by reason, since the process started.");

/* ---- SQLSTATES: errors that clients were sent, as base/sqlstates.h counts them ---- */

#define SQLSTATE_ROW(COLUMN)                                                                      \
	COLUMN(TEXT, sqlstate, cursor->sqlstate.sqlstate,                                         \
	       "SQLSTATE of the errors. After 500 different ones, others that PostgreSQL sends "  \
	       "are counted for their class, such as 57000, or as other if it has none such.")    \
	COLUMN(TEXT, side, key.is_ours ? "pgweir" : "server",                                     \
	       "server: PostgreSQL sent the errors; pgweir: they are our own.")                   \
	COLUMN(TEXT, severity, sqlstates_severity_name((enum sqlstate_severity)key.severity),     \
	       "ERROR, FATAL or PANIC.")                                                          \
	COLUMN(INT8, count, (int64_t)total,                                                       \
	       "Number of errors that clients have got since the process started, without those " \
	       "of this console.")                                                                \
	COLUMN(TIME, last, last->wall_last, "Time of the last one.")                              \
	COLUMN(TEXT, database, last->database, "Database of the last one.")                       \
	COLUMN(                                                                                   \
	    TEXT, user, last->user,                                                               \
	    "User of the last one; of errors by PostgreSQL, the user of the server connection.")  \
	COLUMN(TEXT, class, row->class_buffer,                                                    \
	       "Class of the SQLSTATE: its first two characters; or other.")

ROW_DECLARE(struct sqlstate_row, sqlstate_columns, SQLSTATE_ROW, char class_buffer[8];);

/* The least key after `last` in any lane. false: there is none. */
static bool find_next(const struct lanes *lanes, const struct sqlstate_key *last,
                      struct sqlstate_key *next)
{
	const struct sqlstate_count *found;
	const struct lane *lane;
	bool has_next = false;

	LANES_EACH(lane, lanes)
	{
		found = sqlstates_after(&lane->pools->sqlstates, last);
		if (!found || (has_next && sqlstates_compare(&found->key, next) >= 0))
			continue;
		*next = found->key;
		has_next = true;
	}
	return has_next;
}

static bool next_sqlstate(struct cursor *cursor, void *at)
{
	const struct lanes *lanes = cursor->lanes;
	const struct sqlstate_count *count, *last = NULL;
	struct sqlstate_row *row = at;
	struct sqlstate_key key;
	const struct lane *lane;
	uint64_t total = 0;

	if (!find_next(lanes, &cursor->sqlstate, &key))
		return false;
	cursor->sqlstate = key;
	LANES_EACH(lane, lanes)
	{
		count = sqlstates_find(&lane->pools->sqlstates, &key);
		if (!count)
			continue;
		total += count->count;
		if (!last || count->wall_last > last->wall_last)
			last = count;
	}
	ROW_FILL(row, struct sqlstate_row, SQLSTATE_ROW);
	text_copy(row->class_buffer, strcmp(key.sqlstate, SQLSTATES_OTHER) == 0 ? 6 : 3,
	          key.sqlstate);
	return true;
}

SHOW(sqlstates, "SQLSTATES", next_sqlstate, sqlstate_columns,
     "Errors that clients were sent, by SQLSTATE, and by who sent them.");
