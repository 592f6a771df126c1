/* SPDX-License-Identifier: ISC */
/*
 * What psql's tab completion asks for after SHOW or SET: the names of settings and, for
 * SHOW, of tables; the type of a setting; its possible values. small_talk.c has the
 * queries; the strings that they contain are stored in the request.
 *
 * Source: the queries that psql 15 sends, and PostgreSQL's manual on pg_settings.
 */
#include "admin_priv.h"

#include <ctype.h>
#include <strings.h>

#include "pgweir/config/settings.h"

#include "pgweir/base/banned.h"

#define LIKE_MAX 64

struct name_row {
	const char *lower, *vartype, *val;
	char buffer[LIKE_MAX];
};
_Static_assert(sizeof(struct name_row) <= ROW_SIZE_MAX, "a row is too large");

static const struct column name_columns[] = {
	COLUMN(struct name_row, VALUE_TEXT, lower, "The name."),
};
static const struct column type_columns[] = {
	COLUMN(struct name_row, VALUE_TEXT, vartype, "The kind of its value."),
};
static const struct column value_columns[] = {
	COLUMN(struct name_row, VALUE_TEXT, val, "A value."),
};

/* The string of the query: a LIKE pattern for a prefix (`pool\_m%`), or a complete name. */
static const char *noted(const struct cursor *cursor) { return cursor->asked.argument; }

/*
 * Whether the name matches a pattern that is a prefix or a complete name. Other characters
 * that are special to LIKE match themselves only.
 */
static bool is_like(const char *name, const char *pattern)
{
	for (; *pattern && *pattern != '%'; pattern++, name++) {
		if (*pattern == '\\' && pattern[1])
			pattern++;
		if (tolower((unsigned char)*name) != tolower((unsigned char)*pattern))
			return false;
	}
	return *pattern == '%' || !*name;
}

/* Fills the row if the name matches. false: it does not. */
static bool offer(const struct cursor *cursor, struct name_row *row, const char *name)
{
	size_t i = 0;

	if (!is_like(name, noted(cursor)))
		return false;
	for (; name[i] && i + 1 < sizeof(row->buffer); i++)
		row->buffer[i] = (char)tolower((unsigned char)name[i]);
	row->buffer[i] = 0;
	row->lower = row->buffer;
	return true;
}

static size_t show_count(void)
{
	size_t count = 0;

	while (shows[count])
		count++;
	return count;
}

/* Tables first, then HELP, then settings. */
static bool next_name(struct cursor *cursor, void *row)
{
	size_t tables = show_count();

	while (cursor->index < tables + 1 + settings_count) {
		size_t index = cursor->index++;
		const char *name = index < tables    ? shows[index]->item
		                   : index == tables ? "HELP"
		                                     : settings[index - tables - 1].name;

		if (offer(cursor, row, name))
			return true;
	}
	return false;
}

static bool next_changeable(struct cursor *cursor, void *row)
{
	while (cursor->index < settings_count) {
		const struct setting *setting = &settings[cursor->index++];

		if (setting->reload == RELOAD_LIVE && offer(cursor, row, setting->name))
			return true;
	}
	return false;
}

static const struct setting *find_setting(const struct cursor *cursor)
{
	for (size_t i = 0; i < settings_count; i++) {
		if (strcasecmp(settings[i].name, noted(cursor)) == 0)
			return &settings[i];
	}
	return NULL;
}

static bool next_type(struct cursor *cursor, void *at)
{
	const struct setting *setting = cursor->index++ ? NULL : find_setting(cursor);

	if (setting)
		((struct name_row *)at)->vartype = setting_types[setting->type].vartype;
	return setting != NULL;
}

/*
 * The query has two strings: first the prefix of the value (in `other`), then the setting's
 * name.
 */
static bool next_value(struct cursor *cursor, void *at)
{
	const struct setting *setting = find_setting(cursor);
	struct name_row *row = at;

	while (setting && setting->words && setting->words[cursor->index]) {
		row->val = setting->words[cursor->index++];
		if (is_like(row->val, cursor->asked.other))
			return true;
	}
	return false;
}

const struct show show_names = { .item = "", .next = next_name, .columns = COLUMNS(name_columns) };
const struct show show_changeable_names = { .item = "",
	                                    .next = next_changeable,
	                                    .columns = COLUMNS(name_columns) };
const struct show show_type = { .item = "", .next = next_type, .columns = COLUMNS(type_columns) };
const struct show show_values = { .item = "",
	                          .next = next_value,
	                          .columns = COLUMNS(value_columns) };
