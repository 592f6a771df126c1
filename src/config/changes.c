/* SPDX-License-Identifier: ISC */
/*
 * Compares configurations: settings by the table of settings, entries by the tables of their
 * keys.
 */
#include "pgweir/config/changes.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/text.h"
#include "pgweir/config/settings.h"

#include "config_priv.h"

#define VALUE_SHOWN_MAX 200 /* bytes of a value in one line */

struct teller {
	config_tell *tell;
	void *arg;
	size_t count;
};

static void tell_change(struct teller *teller, const char *name, struct buf *line)
{
	const char *text = buf_text(line);

	if (teller->count++ < CONFIG_CHANGES_MAX && buf_ok(line))
		teller->tell(teller->arg, name, text);
	buf_free(line);
}

/* ---- settings ---- */

static void add_value(struct buf *line, const char *value)
{
	size_t count = value ? strlen(value) : 0;

	if (!value)
		buf_add_text(line, "not set");
	else if (!*value)
		buf_add_text(line, "empty");
	else
		buf_add(line, value, count > VALUE_SHOWN_MAX ? VALUE_SHOWN_MAX : count);
	if (count > VALUE_SHOWN_MAX)
		buf_add_text(line, "...");
}

static void tell_setting(struct teller *teller, const struct setting *setting, const char *from,
                         const char *to)
{
	struct buf line = { 0 };

	buf_printf(&line, "%s: ", setting->name);
	add_value(&line, from);
	buf_add_text(&line, " -> ");
	add_value(&line, to);
	if (setting->reload == RELOAD_BOOT)
		buf_add_text(&line, " (needs a restart)");
	tell_change(teller, setting->name, &line);
}

void config_compare_shown(const char *name, const char *shown, const struct config *fresh,
                          config_tell *tell_one, void *arg)
{
	const struct setting *setting = setting_find(name);
	struct teller teller = { tell_one, arg, 0 };
	char buffer[SETTING_VALUE_SIZE];
	const char *to;

	if (!setting)
		return;
	to = setting_value(fresh, setting, buffer);
	if (!text_same(shown, to))
		tell_setting(&teller, setting, shown, to);
}

/* ---- entries ---- */

/* `old` or `fresh` may be NULL: the entry is new or gone. */
static void compare_entry(struct teller *teller, enum entry_kind_id kind,
                          const union config_entry *old, const union config_entry *fresh)
{
	const struct entry_kind *row = &entry_kinds[kind];
	const char *comma = "changed ", *name = old ? old->name : fresh->name;
	struct buf who = { 0 }, line = { 0 };

	buf_printf(&who, "%s \"%s\"", row->what, name);
	buf_printf(&line, "%s: ", buf_text(&who));
	for (size_t i = 0; old && fresh && i < row->key_count; i++) {
		if (field_equal(old, fresh, &row->keys[i]))
			continue;
		buf_printf(&line, "%s%s", comma, row->keys[i].name);
		comma = ", ";
	}
	if (!old || !fresh)
		buf_add_text(&line, old ? "gone" : "new");
	else if (*comma == ',' && kind == ENTRY_DATABASE &&
	         !config_database_same_server(&old->database, &fresh->database, name))
		buf_add_text(&line, " (its servers are replaced)");
	if (!old || !fresh || *comma == ',')
		tell_change(teller, buf_text(&who), &line);
	buf_free(&line);
	buf_free(&who);
}

static void compare_entries(struct teller *teller, enum entry_kind_id kind,
                            const struct config_entries *old, const struct config_entries *fresh)
{
	const union config_entry *at;

	for (at = old->tables[kind]; at; at = at->hh.next)
		compare_entry(teller, kind, at, entries_find(fresh, kind, at->name));
	for (at = fresh->tables[kind]; at; at = at->hh.next) {
		if (!entries_find(old, kind, at->name))
			compare_entry(teller, kind, NULL, at);
	}
	if (kind == ENTRY_DATABASE && (old->automatic || fresh->automatic))
		compare_entry(teller, kind, old->automatic, fresh->automatic);
}

void config_compare(const struct config *old, const struct config *fresh, config_tell *tell_one,
                    void *arg)
{
	struct teller teller = { tell_one, arg, 0 };
	char from[SETTING_VALUE_SIZE], to[SETTING_VALUE_SIZE];
	struct buf line = { 0 };

	for (size_t i = 0; i < settings_count; i++) {
		if (!field_equal(old, fresh, &settings[i]))
			tell_setting(&teller, &settings[i], setting_value(old, &settings[i], from),
			             setting_value(fresh, &settings[i], to));
	}
	for (int kind = 0; kind < ENTRY_KINDS; kind++)
		compare_entries(&teller, (enum entry_kind_id)kind, old->entries, fresh->entries);
	if (teller.count <= CONFIG_CHANGES_MAX)
		return;
	buf_printf(&line, "and %zu more changes", teller.count - CONFIG_CHANGES_MAX);
	tell_one(arg, "...", buf_text(&line));
	buf_free(&line);
}

/* ---- origins ---- */

static const struct source_pos *find_origin(const struct config *config, const char *name)
{
	const struct setting *setting = setting_find(name);

	return setting ? &config->origins[setting - settings] : NULL;
}

struct source_pos config_origin(const struct config *config, const char *name)
{
	const struct source_pos *origin = find_origin(config, name);

	assert(origin);
	return *origin;
}

struct source_pos config_source_pos(const struct config *config, const char *name)
{
	const struct source_pos *origin = find_origin(config, name), *main;

	if (origin && (origin->file || origin->line == SOURCE_SET))
		return *origin;
	/* The file that was loaded: in conffile, unless a line or SET gave that another value. */
	main = find_origin(config, "conffile");
	return (struct source_pos){ main->file ? main->file : config->conffile, 0 };
}

struct source_pos config_source_pos_of_text(const struct config *config, const char *text)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz_0123456789";
	size_t count = strspn(text, letters);
	struct source_pos first = { NULL, 0 };
	char name[64];

	for (bool is_first = true; *text; is_first = false) {
		struct source_pos pos;

		snprintf(name, sizeof(name), "%.*s", (int)count, text);
		pos = config_source_pos(config, name);
		if ((pos.file && pos.line) || (is_first && !setting_find(name)))
			return pos;
		if (is_first)
			first = pos;
		text += count + strcspn(text + count, letters);
		count = strspn(text, letters);
	}
	return first;
}
