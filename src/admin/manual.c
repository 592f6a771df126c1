/* SPDX-License-Identifier: ISC */
/*
 * Generates the console's part of the manual page.
 */
#include "pgweir/client/session.h"
#include "pgweir/config/settings.h"

#include "admin_priv.h"

static void add_commands(struct buf *out)
{
	for (const struct command *command = commands; command->words; command++)
		buf_printf(out, ".TP\n.B %s%s\n%s\n", command->words, command->usage,
		           command->help);
}

static void add_shows(struct buf *out)
{
	for (size_t i = 0; shows[i]; i++) {
		const struct show *show = shows[i];

		buf_printf(out, ".SS SHOW %s%s\n%s\n", show->item,
		           show_argument_name(show->argument), show->help);
		for (size_t j = 0; j < show->columns.count; j++) {
			const struct column *column = &show->columns.at[j];

			buf_printf(out, ".TP\n.BR %s \" (%s)\"\n%s\n", column->name,
			           rows_type_name(column->type), column->help);
		}
	}
}

static void add_features(struct buf *out)
{
	for (size_t i = 0; i < FEATURES; i++) {
		const struct feature *feature = &session_features[i];

		if (!feature->used)
			continue;
		buf_printf(out, ".TP\n.B %s\n%c%s.", feature->used,
		           (char)(feature->fate[0] - 'a' + 'A'), feature->fate + 1);
		if (feature->end)
			buf_printf(out, " Ended by %s.", feature->end);
		if (feature->error)
			buf_printf(out, " Where it is refused: %s", feature->way_out);
		buf_add_text(out, "\n");
	}
}

static const struct manual_mark marks[] = {
	{ "@commands@", add_commands },
	{ "@features@", add_features },
	{ "@shows@", add_shows },
};

void admin_manual_fill(struct bytes template, struct buf *out)
{
	manual_fill(marks, sizeof(marks) / sizeof(marks[0]), template, out);
}
