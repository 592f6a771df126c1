/* SPDX-License-Identifier: ISC */
/*
 * Generates the console's part of the manual page.
 */

#include "pgweir/base/filter.h"

#include "admin_priv.h"

static void add_command(struct buf *out, const struct command *command)
{
	buf_printf(out, ".TP\n.B %s%s\n%s\n", command->words,
	           command_argument_name(command->argument), command->help);
}

static void add_commands(struct buf *out)
{
	for (size_t i = 0; i < commands_count; i++)
		add_command(out, &commands[i]);
}

static void add_show(struct buf *out, const struct show *show)
{
	buf_printf(out, ".SS SHOW %s%s\n%s\n", show->item, show_argument_name(show->argument),
	           show->help);
	for (size_t i = 0; i < show->columns.count; i++) {
		const struct column *column = &show->columns.at[i];

		buf_printf(out, ".TP\n.BR %s \" (%s)\"\n%s\n", column->name,
		           rows_type_name(column->type), column->help);
	}
}

static void add_shows(struct buf *out)
{
	for (size_t i = 0; shows[i]; i++)
		add_show(out, shows[i]);
}

static const struct filter_mark marks[] = {
	{ "@commands@", add_commands },
	{ "@shows@", add_shows },
};

void admin_manual_fill(struct bytes template, struct buf *out)
{
	filter_fill(marks, sizeof(marks) / sizeof(marks[0]), template, out);
}
