/* SPDX-License-Identifier: ISC */
/*
 * SHOW ERRORS: why connections ended, as base/close_reason.h counts it.
 */
#include "show_priv.h"

#include "pgweir/base/close_reason.h"

#include "pgweir/base/banned.h"

struct error_row {
	const char *type, *reason, *is_error, *last_time, *last_database, *last_user;
	const char *last_message;
	int64_t count;
	char time_buffer[TIME_TEXT_SIZE];
};
_Static_assert(sizeof(struct error_row) <= ROW_SIZE_MAX, "a row is too large");

#define TEXT(field, help) COLUMN(struct error_row, VALUE_TEXT, field, help)

static const struct column error_columns[] = {
	TEXT(type, "C: client connections; S: server connections."),
	TEXT(reason, "Reason why the connections were closed."),
	TEXT(is_error, "yes: the reason is an error; no: a normal disconnect."),
	COLUMN(struct error_row, VALUE_INT8, count,
	       "Number of connections closed for this reason since the process started."),
	TEXT(last_time, "Time of the last close for this reason."),
	TEXT(last_database, "Database of the last connection closed for this reason."),
	TEXT(last_user, "User of the last connection closed for this reason."),
	TEXT(last_message, "Logged error message of the last connection closed for this reason, "
	                   "with its detail."),
};

#undef TEXT

/* The reasons of clients first, then those of servers. Reasons that never occurred are left out. */
static const struct close_reason_row *next_reason(struct cursor *cursor, const char **type,
                                                  const struct close_count **count)
{
	const struct close_counts *both[] = { &cursor->source->clients->closes,
		                              &cursor->source->with->pools->closes };

	for (; cursor->index < 2 * CLOSE_REASONS; cursor->index++) {
		size_t side = cursor->index / CLOSE_REASONS, index = cursor->index % CLOSE_REASONS;

		*count = &both[side]->counts[index];
		*type = side ? "S" : "C";
		if (!(*count)->count)
			continue;
		cursor->index++;
		return close_reason_row((enum close_reason)index);
	}
	return NULL;
}

static bool next_error(struct cursor *cursor, void *at)
{
	usec_t now = loop_now(cursor->source->with->loop);
	const struct close_count *count;
	struct error_row *row = at;
	const struct close_reason_row *reason = next_reason(cursor, &row->type, &count);

	if (!reason)
		return false;
	row->reason = reason->name;
	row->is_error = reason->is_error ? "yes" : "no";
	row->count = (int64_t)count->count;
	row->last_time =
	    show_time_text(now - (wall_now() - count->wall_last), now, row->time_buffer);
	row->last_database = count->database;
	row->last_user = count->user;
	row->last_message = count->message;
	return true;
}

const struct show show_errors = { .item = "ERRORS",
	                          .next = next_error,
	                          .columns = COLUMNS(error_columns),
	                          .help =
	                              "Why connections were closed, how often, and when last." };
