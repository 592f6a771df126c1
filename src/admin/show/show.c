/* SPDX-License-Identifier: ISC */
/*
 * The list of all SHOW tables.
 */
#include "show_priv.h"

#include <strings.h>

#define SHOW_ADDRESS(name) &show_##name,

/* clang-format off */
const struct show *const shows[] = {
	SHOW_TABLES(SHOW_ADDRESS)
	NULL,
};
/* clang-format on */

const struct show *show_find(const char *item)
{
	for (size_t i = 0; shows[i]; i++) {
		if (strcasecmp(shows[i]->item, item) == 0)
			return shows[i];
	}
	return NULL;
}

const char *show_argument_name(enum show_argument argument)
{
	static const char *const names[] = {
		[SHOW_ALONE] = "",
		[SHOW_OF_DATABASE] = " [db]",
		[SHOW_OF_TABLE] = " [table]",
		[SHOW_HIT] = " [HIT]",
		[SHOW_OF_STATEMENTS] = " [n] [BY time|calls|wait|rows|errors]",
	};

	return names[argument];
}

/* ---- COLUMNS ---- */

#define COLUMN_ROW(COLUMN)                                                                  \
	COLUMN(TEXT, item, shows[i]->item, "Name of the SHOW command that has the column.") \
	COLUMN(TEXT, column, rows_column_name(columns, column), "Name of the column.")      \
	COLUMN(TEXT, type, rows_type_name(column->type), "Type of the column.")             \
	COLUMN(TEXT, meaning, column->help, "Meaning of the column.")

SHOW_ROWS(columns, "COLUMNS", COLUMN_ROW,
          "Describes the columns of all SHOW commands, or of one table.",
          .argument = SHOW_OF_TABLE);

static bool next_columns(struct cursor *cursor, void *row)
{
	enum console_version version = show_source_config(cursor->source)->console_version;
	const char *wanted = cursor->asked.argument;
	size_t left = cursor->index++;

	for (size_t i = 0; shows[i]; i++) {
		struct columns columns = rows_columns(shows[i], version);
		const struct column *column = columns.at, *end = column + columns.count;

		if (wanted && strcasecmp(wanted, shows[i]->item) != 0)
			continue;
		for (; column < end; column++) {
			if ((columns.hidden >> (column - columns.at)) & 1 || left-- > 0)
				continue;
			ROW_FILL(row, struct columns_shown, COLUMN_ROW);
			return true;
		}
	}
	return false;
}
