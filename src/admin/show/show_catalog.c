/* SPDX-License-Identifier: ISC */
/*
 * SHOW CATALOG: what the catalogs of databases say about session state.
 *
 * Databases are shown in the order of their names: a row with the state, and one for each name.
 */
#include "show_priv.h"

#include "pgweir/pgwire/sql_touch.h"
#include "pgweir/pool/catalog.h"

#include "pgweir/base/banned.h"

struct catalog_row {
	const char *database, *state, *since, *why, *kind, *name, *touches;
	char since_buffer[TIME_TEXT_SIZE];
};
_Static_assert(sizeof(struct catalog_row) <= ROW_SIZE_MAX, "a row is too large");

#define TEXT(field, help) COLUMN(struct catalog_row, VALUE_TEXT, field, help)

static const struct column catalog_columns[] = {
	TEXT(database, "Name of the database."),
	TEXT(state, "quiet: nothing in it can touch session state. touches: only the names in the "
	            "next rows can. any text: any statement can, so the server is asked after "
	            "each. unread: not known, as definitions have just changed, or the catalog "
	            "cannot be read. NULL: a row about a name."),
	TEXT(since, "Time when the catalog was read."),
	TEXT(why, "Why any text can touch session state, or why it is not known."),
	TEXT(kind, "Kind of the name: function, procedure, aggregate, table, view, materialized "
	           "view, foreign table; parameter: functions may set it; event trigger: a word of "
	           "the statements that start one."),
	TEXT(name, "A name that can touch session state, or leads to what can, without schema."),
	TEXT(touches, "What it can touch: parameters, temporary objects, session locks, channels, "
	              "held cursors, notifications; what cannot be asked for; anything."),
};

#undef TEXT

static void list_kinds(unsigned int touches, struct buf *out)
{
	static const struct {
		unsigned int touch;
		const char *name;
	} kinds[] = {
		{ SQL_TOUCH_HIDDEN, "anything" },
		{ SQL_TOUCH_PARAMS, "parameters" },
		{ SQL_TOUCH_LISTEN, "channels" },
		{ SQL_TOUCH_CURSOR, "held cursors" },
		{ SQL_TOUCH_TEMP, "temporary objects" },
		{ SQL_TOUCH_LOCK, "session locks" },
		{ SQL_TOUCH_NOTIFY, "notifications" },
		{ SQL_TOUCH_EXTENSION, "what cannot be asked for" },
	};
	const char *between = "";

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!(touches & kinds[i].touch))
			continue;
		buf_add_text(out, between);
		buf_add_text(out, kinds[i].name);
		between = ", ";
	}
}

static void collect_databases(struct cursor *cursor)
{
	const struct lanes *lanes = show_source_lanes(cursor->source);
	const struct database *database;
	const struct lane *lane;

	LANES_EACH(lane, lanes)
	TAILQ_FOREACH (database, &lane->pools->databases, node) {
		if (database->reading && cursor_wants(cursor, database->name))
			ordered_offer(cursor,
			              (struct ordered_item){ database->name, "", database });
	}
}

/* All loops have the same reading, or will have it at once. */
static void fill_state(struct cursor *cursor, struct catalog_row *row,
                       const struct database *database)
{
	static const char *const names[] = { "quiet", "touches", "any text", "unread" };
	const struct catalog_reading *reading = cursor->reading;
	usec_t now = loop_now(cursor->source->with->loop);

	row->state = names[database->is_current ? reading->state : CATALOG_UNREAD];
	row->since =
	    show_time_text(now - (wall_now() - reading->since_wall), now, row->since_buffer);
	if (!database->is_current)
		row->why = "definitions have changed since";
	else if (*reading->why)
		row->why = reading->why;
}

static const char *next_parameter(const struct cursor *cursor)
{
	struct bytes left =
	    bytes_skip(buf_bytes(&cursor->reading->parameters), cursor->parameters_at);
	const char *name;

	return bytes_take_text(&left, &name) ? name : NULL;
}

/* The next row about a name. false: there are no more. */
static bool fill_name(struct cursor *cursor, struct catalog_row *row)
{
	const struct sql_touchers *names = &cursor->reading->names;
	const char *parameter;

	if (cursor->index < names->count) {
		const struct sql_toucher *toucher = &names->list[cursor->index];

		row->name = sql_touchers_name(names, cursor->index++);
		row->kind = catalog_kind_name((enum catalog_kind)toucher->kind);
		buf_clear(&cursor->text);
		list_kinds(toucher->bits, &cursor->text);
		row->touches = buf_text(&cursor->text);
		return true;
	}
	parameter = next_parameter(cursor);
	if (!parameter)
		return false;
	cursor->parameters_at += strlen(parameter) + 1;
	row->kind = "parameter";
	row->name = parameter;
	return true;
}

static bool next_catalog(struct cursor *cursor, void *at)
{
	struct catalog_row *row = at;
	struct ordered_item item;
	const struct database *database;

	*row = (struct catalog_row){ .database = cursor->ordered.first };
	if (cursor->reading && fill_name(cursor, row))
		return true;
	catalog_reading_release(&cursor->reading);
	if (!ordered_next(cursor, collect_databases, &item))
		return false;
	database = item.object;
	cursor->reading = catalog_reading_hold(database->reading);
	cursor->index = cursor->parameters_at = 0;
	row->database = cursor->ordered.first;
	fill_state(cursor, row, database);
	return true;
}

const struct show show_catalog = { .item = "CATALOG",
	                           .next = next_catalog,
	                           .columns = COLUMNS(catalog_columns),
	                           .help = "Functions and relations of each database that can "
	                                   "touch session state, as its catalog says.",
	                           .argument = SHOW_OF_DATABASE };
