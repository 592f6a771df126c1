/* SPDX-License-Identifier: ISC */
/*
 * Generates the console's part of the manual page.
 */

#include "admin_priv.h"

static void add_commands(struct buf *out)
{
	for (size_t i = 0; i < commands_count; i++)
		buf_printf(out, ".TP\n.B %s%s\n%s\n", commands[i].words,
		           command_argument_name(commands[i].argument), commands[i].help);
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

void admin_manual_fill(struct bytes template, struct buf *out)
{
	while (template.count) {
		const char *end = memchr(template.at, '\n', template.count);
		size_t count = end ? (size_t)(end - template.at) + 1 : template.count;
		struct bytes line = bytes_of(template.at, count);

		if (bytes_are(line, "@commands@\n"))
			add_commands(out);
		else if (bytes_are(line, "@shows@\n"))
			add_shows(out);
		else
			buf_add(out, line.at, line.count);
		template = bytes_skip(template, count);
	}
}
