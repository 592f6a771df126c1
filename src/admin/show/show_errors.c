/* SPDX-License-Identifier: ISC */
/*
 * SHOW ERRORS and SHOW CLOSES: why connections ended, as base/close_reason.h counts it.
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
	usec_t now = loop_now(cursor->source->with->loop);
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
	row->last_time =
	    show_time_text(now - (wall_now() - last->wall_last), now, row->time_buffer);
	row->last_database = last->database;
	row->last_user = last->user;
	row->last_message = last->message;
	return true;
}

const struct show show_errors = { .item = "ERRORS",
	                          .next = next_error,
	                          .columns = COLUMNS(error_columns),
	                          .help =
	                              "Why connections were closed, how often, and when last." };

/* ---- CLOSES ---- */

struct closes_row {
	const char *database, *type, *reason, *is_error;
	int64_t count;
};

static const struct column closes_columns[] = {
	COLUMN(struct closes_row, VALUE_TEXT, database,
	       "Database of the connections; NULL: none, such as one that does not exist."),
	COLUMN(struct closes_row, VALUE_TEXT, type,
	       "C: client connections; S: server connections."),
	COLUMN(struct closes_row, VALUE_TEXT, reason, "Reason why the connections were closed."),
	COLUMN(struct closes_row, VALUE_TEXT, is_error,
	       "yes: the reason is an error; no: a normal disconnect."),
	COLUMN(struct closes_row, VALUE_INT8, count,
	       "Number of connections closed for this reason."),
};

/* An empty name stands for no database. */
static void collect_closes(struct cursor *cursor)
{
	const struct database *database;
	const struct lane *lane;

	ordered_offer(cursor, (struct ordered_item){ "", "", cursor->source });
	LANES_EACH(lane, show_source_lanes(cursor->source))
	TAILQ_FOREACH (database, &lane->pools->databases, node) {
		if (database->client_closes.count || database->server_closes.count)
			ordered_offer(cursor,
			              (struct ordered_item){ database->name, "", database });
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
		if (!cursor_may_look(cursor) || !ordered_next(cursor, collect_closes, &item))
			return false;
		cursor->index = 0;
		cursor->look_count += 2 * CLOSE_REASONS;
	}
}

const struct show show_closes = { .item = "CLOSES",
	                          .next = next_closes,
	                          .columns = COLUMNS(closes_columns),
	                          .help = "How many connections of each database were closed, by "
	                                  "reason, since the process started." };
