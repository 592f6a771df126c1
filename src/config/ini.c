/* SPDX-License-Identifier: ISC */
/*
 * Reads ini files line by line. The lines of an included file replace the %include line: they
 * begin in the current section, and the including file continues in the section in which the
 * included file ended.
 */
#include "config_priv.h"

#include <ctype.h>
#include <string.h>

#include "pgweir/base/buf.h"
#include "pgweir/base/text.h"

static const struct {
	const char *name;
	int section;
} sections[] = {
	{ "pgbouncer", INI_SETTINGS },
	{ "pgweir", INI_SETTINGS },
	{ "databases", INI_ENTRIES + ENTRY_DATABASE },
	{ "users", INI_ENTRIES + ENTRY_USER },
	{ "peers", INI_ENTRIES + ENTRY_PEER },
	{ "listeners", INI_ENTRIES + ENTRY_LISTENER },
	{ "applications", INI_ENTRIES + ENTRY_APPLICATION },
	{ "statements", INI_ENTRIES + ENTRY_STATEMENT },
};

static void refuse_section(struct ini_reader *reader, struct source_pos pos, const char *name)
{
	struct nearest nearest = nearest_begin(name);

	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++)
		nearest_offer(&nearest, sections[i].name);
	if (nearest.found)
		problems_add(reader->problems, pos, "unknown section [%s]: did you mean [%s]?",
		             name, nearest.found);
	else
		problems_add(reader->problems, pos,
		             "unknown section [%s]: valid sections are [pgbouncer], [databases], "
		             "[users], [peers], [listeners], [applications] and [statements]",
		             name);
}

static void read_section(struct ini_reader *reader, struct source_pos pos, char *line)
{
	char *end = strchr(line, ']');

	reader->section = INI_SKIPPED;
	if (!end || *text_trim(end + 1)) {
		problems_add(reader->problems, pos,
		             "a section is written as [name], alone on its line");
		return;
	}
	*end = 0;
	line++;
	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
		if (strcmp(sections[i].name, line) == 0)
			reader->section = sections[i].section;
	}
	if (reader->section == INI_SETTINGS)
		reader->has_settings = true;
	if (reader->section == INI_SKIPPED)
		refuse_section(reader, pos, line);
}

static void read_include(struct ini_reader *reader, struct source_pos pos, char *line)
{
	static const char word[] = "%include";
	size_t count = sizeof(word) - 1;
	char *path;

	if (strncmp(line, word, count) != 0 || !strchr(" \t", line[count])) {
		problems_add(reader->problems, pos,
		             "a line beginning with %% must read: %%include path");
		return;
	}
	path = text_trim(line + count);
	if (!*path)
		problems_add(reader->problems, pos, "%%include needs the path of a file");
	else if (!reader->may_include)
		problems_add(reader->problems, pos, "%%include is not possible here");
	else if (reader->files.depth >= SOURCE_DEPTH_MAX)
		problems_add(reader->problems, pos,
		             "%%include %s: more than %d files within each other", path,
		             SOURCE_DEPTH_MAX);
	else
		ini_read_file(reader, path);
}

static bool is_name_char(char c) { return isalnum((unsigned char)c) || (c && strchr("_.-*", c)); }

static void read_pair(struct ini_reader *reader, struct source_pos pos, char *line)
{
	struct ini_pair pair = { reader->section, pos, line, NULL };
	char *at = line, *end;

	if (*line == '\'' || *line == '"') {
		pair.name = value_take_quoted(&at);
		if (!pair.name) {
			problems_add(reader->problems, pos, "the quote of the name has no end");
			return;
		}
	} else {
		while (is_name_char(*at))
			at++;
	}
	end = at;
	at += strspn(at, " \t");
	if (*at != '=') {
		problems_add(reader->problems, pos,
		             strchr(at, '=')
		                 ? "a name of other characters than letters, digits and "
		                   "_ . - * must stand in quotes"
		                 : "a line must read: name = value");
		return;
	}
	pair.value = text_trim(at + 1);
	*end = 0;
	if (!*pair.name) {
		problems_add(reader->problems, pos, "the name before = is missing");
		return;
	}
	reader->pair(reader, &pair);
}

static void read_line(struct ini_reader *reader, struct source_pos pos, char *line, size_t count)
{
	if (memchr(line, 0, count)) {
		problems_add(reader->problems, pos, "a zero byte: this is not a text file");
		return;
	}
	line = text_trim(line);
	if (!*line || *line == ';' || *line == '#')
		return;
	if (*line == '[') {
		read_section(reader, pos, line);
	} else if (*line == '%') {
		read_include(reader, pos, line);
	} else if (reader->section == INI_OUTSIDE) {
		problems_add(reader->problems, pos,
		             "a line before the first section: [pgbouncer] must come first");
		reader->section = INI_SKIPPED; /* report this once only */
	} else if (reader->section != INI_SKIPPED) {
		read_pair(reader, pos, line);
	}
}

/* `text` ends with a zero and is modified. */
static void read_lines(struct ini_reader *reader, char *text, size_t count, const char *name)
{
	static const char byte_order_mark[] = "\xEF\xBB\xBF";
	struct source_pos pos = { name, 0 };
	char *line = text, *end = text + count;

	if (strncmp(text, byte_order_mark, 3) == 0)
		line += 3;
	while (line < end) {
		char *stop = memchr(line, '\n', (size_t)(end - line));

		if (!stop)
			stop = end;
		*stop = 0;
		pos.line++;
		read_line(reader, pos, line, (size_t)(stop - line));
		line = stop + 1;
	}
}

void ini_read_file(struct ini_reader *reader, const char *path)
{
	struct buf text = { 0 };
	const char *name = source_read(&reader->files, path, false, &text, reader->problems);

	if (name) {
		reader->files.depth++;
		read_lines(reader, text.at, text.count, name);
		reader->files.depth--;
	}
	buf_wipe(&text); /* it may contain passwords */
}

void ini_read_bytes(struct ini_reader *reader, struct bytes text, const char *name)
{
	struct buf copy = { 0 };
	const char *kept = source_copy(&reader->files, name, text, &copy, reader->problems);

	if (kept)
		read_lines(reader, copy.at, copy.count, kept);
	buf_wipe(&copy);
}
