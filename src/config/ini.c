/* SPDX-License-Identifier: ISC */
/*
 * Loads ini files, line by line. The lines of an included file replace the %include line: they
 * begin in the current section, and the including file continues in the section in which the
 * included file ended.
 */
#include "config_priv.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pgweir/base/buf.h"
#include "pgweir/base/text.h"

#define EXTRA_FILE "PGWEIR_EXTRA" /* environment variables that add to the file */
#define EXTRA_SETTING "PGWEIR_SET_"

/* What lines are of: these, and enum entry_kind_id. */
enum {
	SECTION_SETTINGS = -1, /* [pgbouncer], [pgweir] */
	SECTION_NONE = -2,     /* before the first section header */
	SECTION_SKIPPED = -3   /* invalid header, which has been reported: lines are ignored */
};

struct load {
	struct config *config;
	struct problems *problems;
	struct source_files files;
	int section;
	bool has_settings; /* a section [pgbouncer] or [pgweir] was found */
	bool is_extra;     /* what is read now may replace entries of the file */
};

/* ---- name = value ---- */

static void load_setting(struct load *load, struct source_pos pos, const char *name,
                         const char *value)
{
	const struct setting *setting = setting_find(name);
	struct source_pos *origin;
	struct err note, err;

	if (!setting) {
		setting_refuse(name, &err);
		problems_add(load->problems, pos, "%s", err.text);
		return;
	}
	origin = &load->config->origins[setting - settings];
	/* Only within one file: to set it again in another is one purpose of %include. */
	if (origin->file && strcmp(origin->file, pos.file) == 0)
		problems_warn(load->problems, pos,
		              "setting \"%s\" is set twice, the value in line %d is ignored", name,
		              origin->line);
	/* Of an invalid line too: config_draft() continues without its value. */
	*origin = pos;
	if (!field_put(load->config, setting, value, &note, &err))
		problems_add(load->problems, pos, "setting \"%s\": %s", name, err.text);
	else if (note.code != ERR_NONE)
		problems_warn(load->problems, pos, "setting \"%s\": %s", name, note.text);
}

/*
 * Whether the line is a setting and the header [pgbouncer] is missing. An entry may have the
 * name of a setting, but its value begins with key=value.
 */
static bool is_stray_setting(const struct load *load, const char *name, const char *value)
{
	const char *end = value + strspn(value, "abcdefghijklmnopqrstuvwxyz_");

	return *value && !load->has_settings && setting_find(name) &&
	       (end == value || end[strspn(end, " \t")] != '=');
}

static void load_pair(struct load *load, struct source_pos pos, const char *name, char *value)
{
	if (load->section >= 0 && is_stray_setting(load, name, value)) {
		/* Reports it once and continues as if the header were there. */
		problems_add(load->problems, pos,
		             "\"%s\" is a setting, not a %s: the line [pgbouncer] is missing "
		             "before it",
		             name, entry_kinds[load->section].what);
		load->section = SECTION_SETTINGS;
		load->has_settings = true;
	}
	if (load->section == SECTION_SETTINGS)
		load_setting(load, pos, name, value);
	else
		entries_add(load->config->entries, (enum entry_kind_id)load->section, pos, name,
		            value, load->is_extra, load->problems);
}

static bool is_name_char(char c) { return isalnum((unsigned char)c) || (c && strchr("_.-*", c)); }

static void read_pair(struct load *load, struct source_pos pos, char *line)
{
	const char *name = line;
	char *at = line, *end, *value;

	if (*line == '\'' || *line == '"') {
		name = value_take_quoted(&at);
		if (!name) {
			problems_add(load->problems, pos, "the quote of the name has no end");
			return;
		}
	} else {
		while (is_name_char(*at))
			at++;
	}
	end = at;
	at += strspn(at, " \t");
	if (*at != '=') {
		problems_add(load->problems, pos,
		             strchr(at, '=')
		                 ? "a name of other characters than letters, digits and "
		                   "_ . - * must stand in quotes"
		                 : "a line must read: name = value");
		return;
	}
	value = text_trim(at + 1);
	*end = 0;
	if (*name)
		load_pair(load, pos, name, value);
	else
		problems_add(load->problems, pos, "the name before = is missing");
}

/* ---- other lines ---- */

static void refuse_section(struct load *load, struct source_pos pos, const char *name)
{
	struct nearest nearest = nearest_begin(name);

	nearest_offer(&nearest, "pgbouncer");
	nearest_offer(&nearest, "pgweir");
	for (int kind = 0; kind < ENTRY_KINDS; kind++)
		nearest_offer(&nearest, entry_kinds[kind].section);
	if (nearest.found)
		problems_add(load->problems, pos, "unknown section [%s]: did you mean [%s]?", name,
		             nearest.found);
	else
		problems_add(load->problems, pos,
		             "unknown section [%s]: valid sections are [pgbouncer], [databases], "
		             "[users], [peers], [listeners], [applications] and [statements]",
		             name);
}

static void read_section(struct load *load, struct source_pos pos, char *line)
{
	char *end = strchr(line, ']');

	load->section = SECTION_SKIPPED;
	if (!end || *text_trim(end + 1)) {
		problems_add(load->problems, pos,
		             "a section is written as [name], alone on its line");
		return;
	}
	*end = 0;
	line++;
	if (strcmp(line, "pgbouncer") == 0 || strcmp(line, "pgweir") == 0) {
		load->section = SECTION_SETTINGS;
		load->has_settings = true;
	}
	for (int kind = 0; kind < ENTRY_KINDS; kind++) {
		if (strcmp(entry_kinds[kind].section, line) == 0)
			load->section = kind;
	}
	if (load->section == SECTION_SKIPPED)
		refuse_section(load, pos, line);
}

static void read_file(struct load *load, const char *path);

static void read_include(struct load *load, struct source_pos pos, char *line)
{
	static const char word[] = "%include";
	size_t count = sizeof(word) - 1;
	char *path;

	if (strncmp(line, word, count) != 0 || !strchr(" \t", line[count])) {
		problems_add(load->problems, pos,
		             "a line beginning with %% must read: %%include path");
		return;
	}
	path = text_trim(line + count);
	if (!*path)
		problems_add(load->problems, pos, "%%include needs the path of a file");
	else if (load->files.depth >= SOURCE_DEPTH_MAX)
		problems_add(load->problems, pos,
		             "%%include %s: more than %d files within each other", path,
		             SOURCE_DEPTH_MAX);
	else
		read_file(load, path);
}

static void read_line(struct load *load, struct source_pos pos, char *line, size_t count)
{
	if (memchr(line, 0, count)) {
		problems_add(load->problems, pos, "a zero byte: this is not a text file");
		return;
	}
	line = text_trim(line);
	if (!*line || *line == ';' || *line == '#')
		return;
	if (*line == '[') {
		read_section(load, pos, line);
	} else if (*line == '%') {
		read_include(load, pos, line);
	} else if (load->section == SECTION_NONE) {
		problems_add(load->problems, pos,
		             "a line before the first section: [pgbouncer] must come first");
		load->section = SECTION_SKIPPED; /* report this once only */
	} else if (load->section != SECTION_SKIPPED) {
		read_pair(load, pos, line);
	}
}

/* ---- files ---- */

/* `text` ends with a zero and is modified. */
static void read_lines(struct load *load, char *text, size_t count, const char *name)
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
		read_line(load, pos, line, (size_t)(stop - line));
		line = stop + 1;
	}
}

static void read_file(struct load *load, const char *path)
{
	struct buf text = { .is_secret = true }; /* it may contain passwords */
	const char *name = source_read(&load->files, path, false, &text, load->problems);

	if (name) {
		load->files.depth++;
		read_lines(load, text.at, text.count, name);
		load->files.depth--;
	}
	buf_free(&text);
}

/* What the environment adds: another file, and then single settings. */
static void load_environment(struct load *load)
{
	const char *extra = getenv(EXTRA_FILE);
	size_t count = sizeof(EXTRA_SETTING) - 1;

	load->is_extra = true;
	load->section = SECTION_NONE;
	if (extra && *extra && access(extra, R_OK) == 0)
		read_file(load, extra);
	else if (extra && *extra)
		problems_add(load->problems, (struct source_pos){ EXTRA_FILE, SOURCE_VARIABLE },
		             "cannot open %s: %s", extra, strerror(errno));
	for (char **at = environ; at && *at; at++) {
		char *value = strchr(*at, '='), *variable;
		struct source_pos pos = { NULL, SOURCE_VARIABLE };

		if (!value || strncmp(*at, EXTRA_SETTING, count) != 0)
			continue;
		variable = strndup(*at, (size_t)(value - *at));
		pos.file = variable ? source_name(&load->files, variable) : NULL;
		if (pos.file)
			load_setting(load, pos, variable + count, value + 1);
		else
			problems_add(load->problems, pos, "no memory for " EXTRA_SETTING);
		free(variable);
	}
}

const struct config *config_draft(const char *path, struct problems *problems)
{
	struct config *config = config_new();
	struct load load = { .config = config, .problems = problems, .section = SECTION_NONE };
	struct source_pos pos = { path, 0 };
	struct err err;

	if (!config) {
		problems_add(problems, pos, "no memory");
		return NULL;
	}
	read_file(&load, path);
	load_environment(&load);
	if (!config->conffile && !(config->conffile = strdup(path)))
		problems_add(problems, pos, "no memory");
	/* If a file could not be read, that has been reported already. */
	if (!load.has_settings && !problems_any(problems))
		problems_add(problems, pos, "section [pgbouncer] is missing");
	peers_sort(config->entries);
	if (!entries_judge(config, &pos, &err))
		problems_add(problems, pos, "%s", err.text);
	config->entries->files = load.files;
	return config;
}

const struct config *config_load(const char *path, struct problems *problems)
{
	const struct config *config = config_draft(path, problems);

	if (problems_any(problems))
		config_unref(&config);
	return config;
}
