/* SPDX-License-Identifier: ISC */
/*
 * SHOW HISTORY: the seconds and the minutes of the timeline, the oldest first.
 */
#include "show_priv.h"

#include <time.h>

#include "timeline_priv.h"

#include "pgweir/base/banned.h"

struct history_row {
	const char *resolution, *at;
	int64_t age_s, xacts, queries, errors, received, sent;
	int64_t wait_p99_us, statement_p50_us, statement_p95_us, statement_p99_us, xact_p99_us;
	int64_t cl_active, cl_waiting, sv_active, sv_idle, maxwait_us, logins;
	char at_buffer[sizeof("2026-11-23T01:02:03.456Z") + 8];
};
_Static_assert(sizeof(struct history_row) <= ROW_SIZE_MAX, "a row is too large");

#define TEXT(field, help) COLUMN(struct history_row, VALUE_TEXT, field, help)
#define INT4(field, help) COLUMN(struct history_row, VALUE_INT4, field, help)
#define INT8(field, help) COLUMN(struct history_row, VALUE_INT8, field, help)

static const struct column history_columns[] = {
	TEXT(resolution, "second or minute: how long the time is that the row is about."),
	TEXT(at, "End of that time, in UTC."),
	INT4(age_s, "Seconds since then."),
	INT8(xacts, "Transactions that ended in that time, in all pools."),
	INT8(queries, "Queries that ended (a pipeline up to its Sync counts as one)."),
	INT8(errors, "Errors that clients got, as in SHOW SQLSTATES."),
	INT8(received, "Bytes received from clients and sent to servers."),
	INT8(sent, "Bytes received from servers."),
	INT8(wait_p99_us, "99th percentile of the waits for a server, in microseconds; 0 if one "
	                  "was idle for nearly all."),
	INT8(statement_p50_us, "Median of the queries' times, with their waits, in microseconds."),
	INT8(statement_p95_us, "Their 95th percentile."),
	INT8(statement_p99_us, "Their 99th percentile."),
	INT8(xact_p99_us, "99th percentile of the transactions' times, in microseconds."),
	INT4(cl_active, "Clients that did not wait for a server, at the end."),
	INT4(cl_waiting, "Clients that waited for a server, at the end."),
	INT4(sv_active, "Server connections that were assigned to a client, being checked or "
	                "reset, or waited for a cancel request, at the end."),
	INT4(sv_idle, "Idle server connections, at the end."),
	INT8(maxwait_us,
	     "How long the first client in a wait queue had waited, in microseconds, at "
	     "the end; of a minute: the longest of its seconds."),
	INT8(logins, "Client logins that ended in that time."),
};

#undef TEXT
#undef INT4
#undef INT8

static const char *iso_text(usec_t wall, char *buffer, size_t size)
{
	time_t seconds = (time_t)(wall / USEC_PER_SEC);
	struct strbuf text = strbuf_begin(buffer, size);
	unsigned int millis = (unsigned int)(wall % USEC_PER_SEC / USEC_PER_MS);
	char digits[4] = { (char)('0' + millis / 100), (char)('0' + millis / 10 % 10),
		           (char)('0' + millis % 10), 0 };
	char part[24];
	struct tm utc;

	gmtime_r(&seconds, &utc);
	strftime(part, sizeof(part), "%Y-%m-%dT%H:%M:%S.", &utc);
	strbuf_add(&text, part);
	strbuf_add(&text, digits);
	strbuf_add(&text, "Z");
	return buffer;
}

static void fill_slot(struct history_row *row, const struct timeline_slot *slot, usec_t now)
{
	row->at = iso_text(slot->wall_at, row->at_buffer, sizeof(row->at_buffer));
	row->age_s = (now - slot->at) / USEC_PER_SEC;
	row->xacts = slot->xacts;
	row->queries = slot->queries;
	row->errors = slot->errors;
	row->received = slot->received;
	row->sent = slot->sent;
	row->wait_p99_us = slot->wait_p99;
	row->statement_p50_us = slot->statement_p50;
	row->statement_p95_us = slot->statement_p95;
	row->statement_p99_us = slot->statement_p99;
	row->xact_p99_us = slot->xact_p99;
	row->cl_active = slot->cl_active;
	row->cl_waiting = slot->cl_waiting;
	row->sv_active = slot->sv_active;
	row->sv_idle = slot->sv_idle;
	row->maxwait_us = slot->maxwait;
	row->logins = slot->logins;
}

/* The timeline moves on while the reader reads, so the position is a number. */
static bool next_history(struct cursor *cursor, void *row)
{
	static const char *const names[] = {
		[TIMELINE_SECONDS] = "second", [TIMELINE_MINUTES] = "minute"
	};
	const struct timeline_slot *slot;

	for (; cursor->index < TIMELINE_RESOLUTIONS; cursor->index++, cursor->slot = 0) {
		slot = timeline_find(cursor->source->timeline,
		                     (enum timeline_resolution)cursor->index, &cursor->slot);
		if (!slot)
			continue;
		cursor->slot++;
		fill_slot(row, slot, loop_now(cursor->source->with->loop));
		((struct history_row *)row)->resolution = names[cursor->index];
		return true;
	}
	return false;
}

const struct show show_history = {
	.item = "HISTORY",
	.next = next_history,
	.columns = COLUMNS(history_columns),
	.help = "What all pools together did in each second of the last five minutes, and in each "
		"minute of the last hour.",
};
