/* SPDX-License-Identifier: ISC */
/*
 * SHOW EVENTS: what has happened to the process lately, from the log's memory.
 */
#include <ctype.h>
#include <stdio.h>
#include <time.h>

#include "show_priv.h"

#include "pgweir/base/banned.h"

struct event_row {
	const char *at, *kind, *level, *database, *user, *text;
	int64_t age_s;
	char time_buffer[40], kind_buffer[32];
	struct log_kept kept;
};
_Static_assert(sizeof(struct event_row) <= ROW_SIZE_MAX, "a row is too large");

#define TEXT(field, help) COLUMN(struct event_row, VALUE_TEXT, field, help)

static const struct column event_columns[] = {
	TEXT(at, "When it happened, in UTC, as 2026-11-23T01:02:03.456Z."),
	COLUMN(struct event_row, VALUE_INT8, age_s, "How many seconds ago that was."),
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

#undef TEXT

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

const struct show show_events = {
	.item = "EVENTS",
	.next = next_event,
	.columns = COLUMNS(event_columns),
	.help =
	    "The last 1000 events of the process: reloads, commands, take-overs, hosts, limits.",
};

/* ---- how many ---- */

struct event_total {
	const char *event;
	int64_t count;
	char event_buffer[32];
};
_Static_assert(sizeof(struct event_total) <= ROW_SIZE_MAX, "a row is too large");

static const struct column total_columns[] = {
	COLUMN(struct event_total, VALUE_TEXT, event, "Kind of the events, as in SHOW EVENTS."),
	COLUMN(struct event_total, VALUE_INT8, count,
	       "How many of them there have been since the process started."),
};

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

const struct show show_events_totals = {
	.item = "EVENTS_TOTALS",
	.next = next_total,
	.columns = COLUMNS(total_columns),
	.help = "How many events of each kind there have been.",
};
