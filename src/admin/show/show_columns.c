/* SPDX-License-Identifier: ISC */
/*
 * SHOW COLUMNS: what each column of each SHOW means.
 */
#include "show_priv.h"

#include <strings.h>

#include "pgweir/base/banned.h"

struct column_row {
	const char *item, *column, *type, *meaning;
};

static const struct column column_columns[] = {
	COLUMN(struct column_row, VALUE_TEXT, item,
	       "Name of the SHOW command that has the column."),
	COLUMN(struct column_row, VALUE_TEXT, column, "Name of the column."),
	COLUMN(struct column_row, VALUE_TEXT, type, "Type of the column."),
	COLUMN(struct column_row, VALUE_TEXT, meaning, "Meaning of the column."),
};

static bool next_column(struct cursor *cursor, void *at)
{
	const char *wanted = cursor->asked.argument;
	struct column_row *row = at;
	size_t left = cursor->index++;

	for (size_t i = 0; shows[i]; i++) {
		struct columns columns = shows[i]->columns;

		if (wanted && strcasecmp(wanted, shows[i]->item) != 0)
			continue;
		if (left < columns.count) {
			*row = (struct column_row){ shows[i]->item, columns.at[left].name,
				                    rows_type_name(columns.at[left].type),
				                    columns.at[left].help };
			return true;
		}
		left -= columns.count;
	}
	return false;
}

const struct show show_columns = {
	.item = "COLUMNS",
	.next = next_column,
	.columns = COLUMNS(column_columns),
	.help = "Describes the columns of all SHOW commands, or of one table.",
	.argument = SHOW_OF_TABLE
};
