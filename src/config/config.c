/* SPDX-License-Identifier: ISC */
/*
 * Configuration snapshots: loading, reference counting, and copies with changed values.
 *
 * A snapshot is written only until it is handed out. A snapshot that differs in one value is a
 * copy of all settings and shares the entries.
 */
#include "pgweir/config/config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pgweir/config/hosts_from.h"
#include "pgweir/config/settings.h"

#include "config_priv.h"

#define EXTRA_FILE "PGWEIR_EXTRA" /* environment variables that add to the file */
#define EXTRA_SETTING "PGWEIR_SET_"

struct load {
	struct ini_reader reader;
	struct config *config;
	bool is_extra; /* what is read now may replace entries of the file */
};

/* Frees everything that is not shared with other snapshots. */
static void config_free(struct config *config)
{
	for (size_t i = 0; i < settings_count; i++)
		field_free(config, &settings[i]);
	entries_unref(&config->entries);
	buf_free(&config->found);
	free(config->origins);
	free(config);
}

static void free_snapshot(const struct config *config) { config_free((struct config *)config); }

REFS_FUNCTIONS(config_ref, config_unref, const struct config, free_snapshot)

/* Returns a snapshot with all settings at their defaults and no entries. NULL: no memory. */
static struct config *config_new(void)
{
	struct config *config = calloc(1, sizeof(*config));
	bool ok;

	if (!config)
		return NULL;
	config->entries = entries_new();
	ok = config->entries && origins_make(config, NULL);
	for (size_t i = 0; i < settings_count; i++)
		ok = ok && field_reset(config, &settings[i], NULL);
	if (ok)
		return config;
	config_free(config);
	return NULL;
}

/*
 * ---- hosts that were found where hosts_from says ----
 *
 * They are part of a snapshot, so a new list is applied like a reload: pairs of a source (the text
 * of hosts_from) and its list, each with its zero.
 */

const char *config_found_hosts(const struct config *config, const char *source)
{
	struct bytes rest = buf_bytes(&config->found);
	const char *name, *list;

	while (bytes_take_text(&rest, &name) && bytes_take_text(&rest, &list)) {
		if (strcmp(name, source) == 0)
			return list;
	}
	return NULL;
}

const char *config_hosts(const struct config *config, const struct config_database *database)
{
	const char *found =
	    database->hosts_from ? config_found_hosts(config, database->hosts_from) : NULL;

	if (found)
		return found;
	if (database->host)
		return database->host;
	return database->hosts_from ? "" : config->unix_socket_dir;
}

static bool is_used(const struct config *config, const char *source)
{
	const struct config_database *entry = NULL;

	while ((entry = config_database_each(config, entry))) {
		if (entry->hosts_from && strcmp(entry->hosts_from, source) == 0)
			return true;
	}
	return false;
}

/*
 * Copies them, but for those of the source `but` and of sources that no entry has. false: no
 * memory.
 */
static bool copy_found(struct config *to, const struct config *from, const char *but)
{
	struct bytes rest = buf_bytes(&from->found);
	const char *name, *list;

	while (bytes_take_text(&rest, &name) && bytes_take_text(&rest, &list)) {
		if ((but && strcmp(name, but) == 0) || !is_used(to, name))
			continue;
		buf_add_cstr(&to->found, name);
		buf_add_cstr(&to->found, list);
	}
	return buf_ok(&to->found);
}

/*
 * Returns a snapshot with copies of the settings and shared entries, and with the hosts found in
 * `running`, but for those of the source `but`. NULL: no memory.
 */
static struct config *config_copy(const struct config *old, const struct config *running,
                                  const char *but)
{
	struct config *config = calloc(1, sizeof(*config));
	bool ok = true;

	if (!config)
		return NULL;
	config->entries = entries_ref(old->entries);
	ok = origins_make(config, old);
	for (size_t i = 0; i < settings_count; i++)
		ok = ok && field_copy(config, old, &settings[i]);
	if (ok && copy_found(config, running, but))
		return config;
	config_free(config);
	return NULL;
}

/* Sets a value from text. *err names the setting. note: see field_put(). */
static bool put_setting(struct config *config, const char *name, const char *value,
                        struct err *note, struct err *err)
{
	const struct setting *setting = setting_find(name);

	if (!setting)
		return setting_refuse(name, err);
	return field_put(config, setting, value, note, err) ||
	       err_prefix(err, "setting \"%s\": ", name);
}

/* ---- lines ---- */

/* Only within one file: to set it again in another is one purpose of %include. */
static void warn_of_second_value(struct load *load, const struct ini_pair *pair)
{
	const struct setting *setting = setting_find(pair->name);
	struct source_pos origin;

	if (!setting)
		return;
	origin = config_origin(load->config, pair->name);
	if (origin.file && strcmp(origin.file, pair->pos.file) == 0)
		problems_warn(load->reader.problems, pair->pos,
		              "setting \"%s\" is set twice, the value in line %d is ignored",
		              pair->name, origin.line);
}

static void load_setting(struct load *load, const struct ini_pair *pair)
{
	struct err note = { 0 }, err;

	warn_of_second_value(load, pair);
	/* For an invalid line too: config_draft() continues without its value. */
	origins_note(load->config, pair->name, pair->pos);
	if (!put_setting(load->config, pair->name, pair->value, &note, &err))
		problems_add(load->reader.problems, pair->pos, "%s", err.text);
	else if (note.code != ERR_NONE)
		problems_warn(load->reader.problems, pair->pos, "setting \"%s\": %s", pair->name,
		              note.text);
}

/*
 * Whether the line is a setting and the header [pgbouncer] is missing. An entry may have the
 * name of a setting, but its value begins with key=value.
 */
static bool is_stray_setting(const struct load *load, const struct ini_pair *pair)
{
	const char *end = pair->value + strspn(pair->value, "abcdefghijklmnopqrstuvwxyz_");

	return *pair->value && !load->reader.has_settings && setting_find(pair->name) &&
	       (end == pair->value || end[strspn(end, " \t")] != '=');
}

/* Reports the missing header once and continues as if it were there. */
static void load_stray(struct load *load, const struct ini_pair *pair, const char *section)
{
	problems_add(load->reader.problems, pair->pos,
	             "\"%s\" is a setting, not a %s: the line [pgbouncer] is missing before it",
	             pair->name, section);
	load->reader.section = INI_SETTINGS;
	load->reader.has_settings = true;
	load_setting(load, pair);
}

static void load_entry(struct load *load, const struct ini_pair *pair, enum entry_kind_id kind)
{
	struct config_entries *entries = load->config->entries;
	const union config_entry *before = entries_find(entries, kind, pair->name);
	const char *what = entry_kinds[kind].what;
	struct problems *problems = load->reader.problems;
	struct buf notes = { 0 };
	struct err err;

	if (before && before->pos.file && !load->is_extra)
		problems_warn(problems, pair->pos,
		              "%s \"%s\" is defined twice, line %s:%d is ignored", what, pair->name,
		              before->pos.file, before->pos.line);
	if (!entries_add(entries, kind, pair->name, pair->value, &notes, &err))
		problems_add(problems, pair->pos, "%s", err.text);
	else
		entries_find(entries, kind, pair->name)->pos = pair->pos;
	if (notes.count)
		problems_warn(problems, pair->pos, "%s \"%s\": %s", what, pair->name,
		              buf_text(&notes));
	buf_free(&notes);
}

static void load_pair(struct ini_reader *reader, const struct ini_pair *pair)
{
	struct load *load = (struct load *)reader; /* `reader` is its first member */
	enum entry_kind_id kind = (enum entry_kind_id)(pair->section - INI_ENTRIES);

	if (pair->section == INI_SETTINGS)
		load_setting(load, pair);
	else if (is_stray_setting(load, pair))
		load_stray(load, pair, entry_kinds[kind].what);
	else
		load_entry(load, pair, kind);
}

/* What the environment adds: another file, and then single settings. */
static void load_environment(struct load *load)
{
	const char *extra = getenv(EXTRA_FILE);
	size_t count = sizeof(EXTRA_SETTING) - 1;

	load->is_extra = true;
	load->reader.section = INI_OUTSIDE;
	if (extra && *extra && access(extra, R_OK) == 0)
		ini_read_file(&load->reader, extra);
	else if (extra && *extra)
		problems_add(load->reader.problems,
		             (struct source_pos){ EXTRA_FILE, SOURCE_VARIABLE },
		             "cannot open %s: %s", extra, strerror(errno));
	for (char **at = environ; at && *at; at++) {
		char *value = strchr(*at, '='), *variable;
		struct source_pos pos = { NULL, SOURCE_VARIABLE };

		if (!value || strncmp(*at, EXTRA_SETTING, count) != 0)
			continue;
		variable = strndup(*at, (size_t)(value - *at));
		pos.file = variable ? source_name(&load->reader.files, variable) : NULL;
		if (pos.file)
			load_setting(load, &(struct ini_pair){ INI_SETTINGS, pos, variable + count,
			                                       value + 1 });
		else
			problems_add(load->reader.problems, pos, "no memory for " EXTRA_SETTING);
		free(variable);
	}
}

/* path NULL: reads the text. NULL: no memory. A bad line leaves its setting at the default. */
static struct config *load(const char *path, struct bytes text, const char *name,
                           struct problems *problems)
{
	struct load load = {
		.reader = { .pair = load_pair, .problems = problems, .may_include = path != NULL },
		.config = config_new(),
	};
	struct source_pos pos = { name, 0 };
	struct err err;

	if (!load.config) {
		problems_add(problems, pos, "no memory");
		return NULL;
	}
	if (path)
		ini_read_file(&load.reader, path);
	else
		ini_read_bytes(&load.reader, text, name);
	if (path)
		load_environment(&load);
	if (path && !load.config->conffile && !(load.config->conffile = strdup(path)))
		problems_add(problems, pos, "no memory");
	/* If a file could not be read, that has been reported already. */
	if (!load.reader.has_settings && !problems_any(problems))
		problems_add(problems, pos, "section [pgbouncer] is missing");
	peers_sort(load.config->entries);
	if (!entries_judge(load.config, &pos, &err))
		problems_add(problems, pos, "%s", err.text);
	load.config->entries->files = load.reader.files;
	return load.config;
}

static const struct config *if_good(struct config *config, const struct problems *problems)
{
	if (!config || !problems_any(problems))
		return config;
	config_free(config);
	return NULL;
}

const struct config *config_load(const char *path, struct problems *problems)
{
	return if_good(load(path, bytes_of("", 0), path, problems), problems);
}

const struct config *config_draft(const char *path, struct problems *problems)
{
	return load(path, bytes_of("", 0), path, problems);
}

const struct config *config_parse(struct bytes text, const char *name, struct problems *problems)
{
	return if_good(load(NULL, text, name, problems), problems);
}

const struct config *config_keep_boot_only(const struct config *fresh, const struct config *running,
                                           struct buf *differ)
{
	struct config *config = config_copy(fresh, running, NULL);
	const char *comma = "";

	for (size_t i = 0; config && i < settings_count; i++) {
		if (settings[i].reload != RELOAD_BOOT || field_equal(fresh, running, &settings[i]))
			continue;
		buf_printf(differ, "%s%s", comma, settings[i].name);
		comma = ", ";
		if (!field_copy(config, running, &settings[i])) {
			config_free(config);
			return NULL;
		}
		origins_take(config, running, settings[i].name);
	}
	return config;
}

const struct config *config_with_found(const struct config *old, const char *source,
                                       const char *list)
{
	struct config *config = config_copy(old, old, source);

	if (!config)
		return NULL;
	buf_add_cstr(&config->found, source);
	buf_add_cstr(&config->found, list);
	if (buf_ok(&config->found))
		return config;
	config_free(config);
	return NULL;
}

enum config_change config_with(const struct config *old, const char *name, const char *value,
                               const struct config **changed, struct err *err)
{
	const struct setting *setting = setting_find(name);
	struct config *config = config_copy(old, old, NULL);
	struct source_pos pos;

	if (!config) {
		err_set(err, ERR_MEMORY, "no memory");
		return CONFIG_REFUSED;
	}
	if (!put_setting(config, name, value, NULL, err) || !entries_judge(config, &pos, err)) {
		config_free(config);
		return CONFIG_REFUSED;
	}
	if (setting && setting->reload == RELOAD_BOOT) {
		config_free(config);
		return CONFIG_AT_RESTART;
	}
	origins_note(config, name, (struct source_pos){ NULL, SOURCE_SET });
	*changed = config;
	return CONFIG_CHANGED;
}

const struct config *config_of_listener(const struct config *config,
                                        const struct config_listener *listener, struct err *err)
{
	const struct entry_kind *kind = &entry_kinds[ENTRY_LISTENER];
	struct config *made = config_copy(config, config, NULL);

	err_set(err, ERR_MEMORY, "no memory");
	for (size_t i = 0; made && i < kind->key_count; i++) {
		const struct setting *key = &kind->keys[i], *setting = setting_find(key->name);
		const char *text = key->type == SETTING_TEXT && setting
		                       ? *(char *const *)((const char *)listener + key->at)
		                       : NULL;

		if (!text || field_put(made, setting, text, NULL, err))
			continue;
		err_prefix(err, "%s: ", key->name);
		config_free(made);
		made = NULL;
	}
	return made;
}

bool config_list_has(const struct config_list *list, const char *name)
{
	for (size_t i = 0; i < list->count; i++) {
		if (strcmp(list->names[i], name) == 0)
			return true;
	}
	return false;
}

const char *config_check_query(const struct config *config)
{
	const char *query = config->server_check_query;

	if (strcmp(query, "<empty>") == 0)
		return "";
	return *query ? query : NULL;
}

/* ---- dump ---- */

#define WIDTH 92

static void add_number(struct buf *out, const struct setting *setting, int64_t number)
{
	char text[32];

	field_number_text(setting, number, text, sizeof(text));
	buf_add_text(out, text);
}

static void add_kind(struct buf *out, const struct setting *setting)
{
	buf_add_text(out, "    kind: ");
	setting_kind(out, setting);
	if (setting_types[setting->type].is_number) {
		buf_add_text(out, "\n    range: ");
		add_number(out, setting, setting->min);
		if (setting->max) {
			buf_add_text(out, " to ");
			add_number(out, setting, setting->max);
		} else {
			buf_add_text(out, " or more");
		}
	}
	buf_add_text(out, "\n    default: ");
	if (!setting->initial)
		buf_add_text(out, "not set");
	else
		buf_add_text(out, *setting->initial ? setting->initial : "empty");
	buf_printf(out, "\n    changes with: %s\n",
	           setting->reload == RELOAD_BOOT ? "restart" : "RELOAD or SET");
	if (setting->since)
		buf_printf(out, "    since: %s\n", setting->since);
}

static void add_setting(struct buf *out, const struct setting *setting)
{
	buf_printf(out, "%s\n", setting->name);
	buf_add_wrapped(out, setting->help, WIDTH, "    ");
	add_kind(out, setting);
}

bool dump_setting(const char *name, struct buf *out, struct err *err)
{
	const struct setting *setting = setting_find(name);

	if (!setting)
		return setting_refuse(name, err);
	add_setting(out, setting);
	return true;
}

void dump_settings(struct buf *out)
{
	for (int group = 0; group < SETTING_GROUPS; group++) {
		buf_printf(out, "%s# %s\n", group ? "\n" : "",
		           setting_group_name((enum setting_group)group));
		for (size_t i = 0; i < settings_count; i++) {
			if (settings[i].group != (enum setting_group)group)
				continue;
			buf_add_byte(out, '\n');
			add_setting(out, &settings[i]);
		}
	}
}
