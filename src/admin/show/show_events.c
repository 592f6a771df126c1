/* SPDX-License-Identifier: ISC */
/*
 * SHOW EVENTS: what has happened to the process lately, from the log's memory.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "pgweir/base/close_reason.h"
#include "pgweir/base/sqlstates.h"

#include "show_priv.h"

#include "pgweir/base/text.h"

struct event_row {
	const char *at, *kind, *level, *database, *user, *text;
	int64_t age_s;
	char time_buffer[40], kind_buffer[32];
	struct log_kept kept;
};

#define ROW struct event_row
static const struct column event_columns[] = {
	TEXT(at, "When it happened, in UTC, as 2026-11-23T01:02:03.456Z."),
	INT8(age_s, "How many seconds ago that was."),
	TEXT(
	    kind,
	    "Kind of the event: start, reload, set, take-over, shutdown, drain, suspend, "
	    "host down, host up, host role, limit, reserve, secret, or a command of the console in "
	    "small letters: pause, resume, kill and so on."),
	TEXT(level, "Level of its line in the log."),
	TEXT(database, "Name of the database; NULL: the event concerns no single one."),
	TEXT(user, "User; NULL: the event concerns no single one."),
	TEXT(text, "The line in the log, without its beginning; at most 480 bytes."),
};
#undef ROW

static const char *const levels[LOG_LEVELS] = {
	[LOG_LEVEL_FATAL] = "FATAL", [LOG_LEVEL_ERROR] = "ERROR", [LOG_LEVEL_WARNING] = "WARNING",
	[LOG_LEVEL_INFO] = "LOG",    [LOG_LEVEL_DEBUG] = "DEBUG", [LOG_LEVEL_NOISE] = "NOISE",
};

static void format_time(usec_t at, char *out, size_t size)
{
	time_t second = (time_t)(at / USEC_PER_SEC);
	char text[32];
	struct tm utc;

	gmtime_r(&second, &utc);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(out, size, "%s.%03dZ", text, (int)(at % USEC_PER_SEC / USEC_PER_MS));
}

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
	format_time(kept->at, row->time_buffer, sizeof(row->time_buffer));
	row->at = row->time_buffer;
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

struct event_total {
	const char *event;
	int64_t count;
	char event_buffer[32];
};

#define ROW struct event_total
static const struct column total_columns[] = {
	TEXT(event, "Kind of the events, as in SHOW EVENTS."),
	INT8(count, "How many of them there have been since the process started."),
};
#undef ROW

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

/*
 * ---- show errors ----
 *
 * SHOW ERRORS: why connections ended, as base/close_reason.h counts it.
 */

struct error_row {
	const char *type, *reason, *is_error, *last_database, *last_user;
	const char *last_message;
	int64_t count;
	usec_t last_time;
};

#define ROW struct error_row
static const struct column error_columns[] = {
	TEXT(type, "C: client connections; S: server connections."),
	TEXT(reason, "Reason why the connections were closed."),
	TEXT(is_error, "yes: the reason is an error; no: a normal disconnect."),
	INT8(count, "Number of connections closed for this reason since the process started."),
	TIME(last_time, "Time of the last close for this reason."),
	TEXT(last_database, "Database of the last connection closed for this reason."),
	TEXT(last_user, "User of the last connection closed for this reason."),
	TEXT(last_message, "Logged error message of the last connection closed for this reason, "
	                   "with its detail."),
};
#undef ROW

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
static bool next_error(struct cursor *cursor, void *at)
{
	const struct close_count *last = NULL;
	const struct close_reason_row *reason;
	struct error_row *row = at;
	uint64_t total = 0;
	size_t index = 0;

	while (!last && cursor->index < 2 * CLOSE_REASONS) {
		index = cursor->index++;
		last = sum(show_source_lanes(cursor->source), index >= CLOSE_REASONS,
		           index % CLOSE_REASONS, &total);
	}
	if (!last)
		return false;
	reason = close_reason_row((enum close_reason)(index % CLOSE_REASONS));
	row->type = index < CLOSE_REASONS ? "C" : "S";
	row->reason = reason->name;
	row->is_error = reason->is_error ? "yes" : "no";
	row->count = (int64_t)total;
	row->last_time = last->wall_last;
	row->last_database = last->database;
	row->last_user = last->user;
	row->last_message = last->message;
	return true;
}

SHOW(errors, "ERRORS", next_error, error_columns,
     "Why connections were closed, how often, and when last.");

/* ---- CLOSES ---- */

struct closes_row {
	const char *database, *type, *reason, *is_error;
	int64_t count;
};

#define ROW struct closes_row
static const struct column closes_columns[] = {
	TEXT(database, "Database of the connections; NULL: none, such as one that does not exist."),
	TEXT(type, "C: client connections; S: server connections."),
	TEXT(reason, "Reason why the connections were closed."),
	TEXT(is_error, "yes: the reason is an error; no: a normal disconnect."),
	INT8(count, "Number of connections closed for this reason."),
};
#undef ROW

/* An empty name stands for no database. */
static void collect_closes(struct cursor *cursor)
{
	const struct database *database;
	const struct lane *lane;

	cursor_offer(cursor, (struct ordered_item){ "", "", cursor->source });
	LANES_EACH(lane, show_source_lanes(cursor->source))
	TAILQ_FOREACH (database, &lane->pools->databases, node) {
		if (database->client_closes.count || database->server_closes.count)
			cursor_offer(cursor, (struct ordered_item){ database->name, "", database });
	}
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
static bool next_of_database(struct cursor *cursor, struct closes_row *row)
{
	const struct close_reason_row *reason;
	const struct lane *lane;
	size_t index;

	while (cursor->index < 2 * CLOSE_REASONS && !row->count) {
		index = cursor->index++;
		LANES_EACH(lane, show_source_lanes(cursor->source))
		row->count += (int64_t)count_closes(lane, cursor->ordered.first, index);
		reason = close_reason_row((enum close_reason)(index % CLOSE_REASONS));
		row->type = index < CLOSE_REASONS ? "C" : "S";
		row->reason = reason->name;
		row->is_error = reason->is_error ? "yes" : "no";
	}
	row->database = *cursor->ordered.first ? cursor->ordered.first : NULL;
	return row->count > 0;
}

static bool next_closes(struct cursor *cursor, void *row)
{
	struct ordered_item item;

	for (;;) {
		if (cursor->ordered.has_last && next_of_database(cursor, row))
			return true;
		if (!cursor_may_look(cursor) || !cursor_next_ordered(cursor, collect_closes, &item))
			return false;
		cursor->index = 0;
		cursor->look_count += 2 * CLOSE_REASONS;
	}
}

SHOW(closes, "CLOSES", next_closes, closes_columns,
     "How many connections of each database were closed, by reason, since the process started.");

/*
 * ---- show sqlstates ----
 *
 * SHOW SQLSTATES: the errors that clients were sent, as base/sqlstates.h counts them.
 */

struct sqlstate_row {
	const char *sqlstate, *name, *side, *severity, *database, *user, *class;
	usec_t last;
	int64_t count;
	char class_buffer[8];
};

#define ROW struct sqlstate_row
static const struct column sqlstate_columns[] = {
	TEXT(sqlstate, "SQLSTATE of the errors; other: codes that PostgreSQL does not list, beyond "
	               "the first 64."),
	TEXT(name, "Name of the condition in PostgreSQL's manual; NULL: it lists none."),
	TEXT(side, "server: PostgreSQL sent the errors; pgweir: they are our own."),
	TEXT(severity, "ERROR, FATAL or PANIC."),
	INT8(count,
	     "Number of errors that clients have got since the process started, without those of "
	     "this console."),
	TIME(last, "Time of the last one."),
	TEXT(database, "Database of the last one."),
	TEXT(user, "User of the last one; of errors by PostgreSQL, the user of the server "
	           "connection."),
	TEXT(class, "Class of the SQLSTATE: its first two characters; or other."),
};
#undef ROW

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
	const struct lanes *lanes = show_source_lanes(cursor->source);
	const struct sqlstate_count *count, *last = NULL;
	struct sqlstate_row *row = at;
	struct sqlstate_key key;
	const struct lane *lane;

	if (!find_next(lanes, &cursor->sqlstate, &key))
		return false;
	cursor->sqlstate = key;
	LANES_EACH(lane, lanes)
	{
		count = sqlstates_find(&lane->pools->sqlstates, &key);
		if (!count)
			continue;
		row->count += (int64_t)count->count;
		if (!last || count->wall_last > last->wall_last)
			last = count;
	}
	row->sqlstate = cursor->sqlstate.sqlstate;
	row->class = row->class_buffer;
	text_copy(row->class_buffer, strcmp(key.sqlstate, SQLSTATES_OTHER) == 0 ? 6 : 3,
	          key.sqlstate);
	row->name = sqlstates_name(key.sqlstate);
	row->side = key.is_ours ? "pgweir" : "server";
	row->severity = sqlstates_severity_name((enum sqlstate_severity)key.severity);
	row->last = last->wall_last;
	row->database = last->database;
	row->user = last->user;
	return true;
}

SHOW(sqlstates, "SQLSTATES", next_sqlstate, sqlstate_columns,
     "Errors that clients were sent, by SQLSTATE, and by who sent them.");
