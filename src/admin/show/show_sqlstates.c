/* SPDX-License-Identifier: ISC */
/*
 * SHOW SQLSTATES: the errors that clients were sent, as base/sqlstates.h counts them.
 */
#include "show_priv.h"

#include <string.h>

#include "pgweir/base/sqlstates.h"
#include "pgweir/base/text.h"

#include "pgweir/base/banned.h"

struct sqlstate_row {
	const char *sqlstate, *name, *side, *severity, *last, *database, *user, *class;
	int64_t count;
	char time_buffer[TIME_TEXT_SIZE], class_buffer[8];
};
_Static_assert(sizeof(struct sqlstate_row) <= ROW_SIZE_MAX, "a row is too large");

#define TEXT(field, help) COLUMN(struct sqlstate_row, VALUE_TEXT, field, help)

static const struct column sqlstate_columns[] = {
	TEXT(sqlstate, "SQLSTATE of the errors; other: codes that PostgreSQL does not list, beyond "
	               "the first 64."),
	TEXT(name, "Name of the condition in PostgreSQL's manual; NULL: it lists none."),
	TEXT(side, "server: PostgreSQL sent the errors; pgweir: they are our own."),
	TEXT(severity, "ERROR, FATAL or PANIC."),
	COLUMN(struct sqlstate_row, VALUE_INT8, count,
	       "Number of errors that clients have got since the process started, without those of "
	       "this console."),
	TEXT(last, "Time of the last one."),
	TEXT(database, "Database of the last one."),
	TEXT(user, "User of the last one; of errors by PostgreSQL, the user of the server "
	           "connection."),
	TEXT(class, "Class of the SQLSTATE: its first two characters; or other."),
};

#undef TEXT

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
	usec_t now = loop_now(cursor->source->with->loop);
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
	row->last = show_time_text(now - (wall_now() - last->wall_last), now, row->time_buffer);
	row->database = last->database;
	row->user = last->user;
	return true;
}

const struct show show_sqlstates = { .item = "SQLSTATES",
	                             .next = next_sqlstate,
	                             .columns = COLUMNS(sqlstate_columns),
	                             .help = "Errors that clients were sent, by SQLSTATE, and by "
	                                     "who sent them." };
