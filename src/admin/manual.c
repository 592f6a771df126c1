/* SPDX-License-Identifier: ISC */
/*
 * Generates the console's part of the manual page.
 */

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

static const struct {
	const char *mark;
	void (*add)(struct buf *out);
} marks[] = {
	{ "@commands@\n", add_commands },
	{ "@shows@\n", add_shows },
};

/* false: the line is not a mark. */
static bool add_marked(struct bytes line, struct buf *out)
{
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		if (bytes_are(line, marks[i].mark)) {
			marks[i].add(out);
			return true;
		}
	}
	return false;
}

void admin_manual_fill(struct bytes template, struct buf *out)
{
	while (template.count) {
		const char *end = memchr(template.at, '\n', template.count);
		size_t count = end ? (size_t)(end - template.at) + 1 : template.count;

		if (!add_marked(bytes_of(template.at, count), out))
			buf_add(out, template.at, count);
		template = bytes_skip(template, count);
	}
}
