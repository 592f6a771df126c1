/* SPDX-License-Identifier: ISC */
/*
 * Configuration snapshots: reference counting, copies with changed values, and what differs between
 * two of them.
 *
 * A snapshot is written only until it is handed out. A snapshot that differs in one value is a
 * copy of all settings and shares the entries.
 */
#include "pgweir/config/config.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/text.h"
#include "pgweir/config/entries.h"
#include "pgweir/config/settings.h"

#include "config_priv.h"

/* Frees everything that is not shared with other snapshots. Returns NULL. */
static struct config *config_free(struct config *config)
{
	for (size_t i = 0; i < settings_count; i++)
		field_free(config, &settings[i]);
	entries_unref(&config->entries);
	buf_free(&config->found);
	free(config);
	return NULL;
}

static void free_snapshot(const struct config *config) { config_free((struct config *)config); }

REFS_FUNCTIONS(config_ref, config_unref, const struct config, free_snapshot)

struct config *config_new(void)
{
	struct config *config = calloc(1, sizeof(*config));
	bool ok;

	if (!config)
		return NULL;
	config->entries = entries_new();
	ok = config->entries != NULL;
	for (size_t i = 0; i < settings_count; i++)
		ok = ok && field_reset(config, &settings[i], NULL);
	return ok ? config : config_free(config);
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
	memcpy(config->origins, old->origins, sizeof(config->origins));
	for (size_t i = 0; i < settings_count; i++)
		ok = ok && field_copy(config, old, &settings[i]);
	return ok && copy_found(config, running, but) ? config : config_free(config);
}

const struct config *config_keep_boot_only(const struct config *fresh, const struct config *running,
                                           struct buf *differ)
{
	struct config *config = config_copy(fresh, running, NULL);
	const char *comma = "";

	for (size_t i = 0; config && i < settings_count; i++) {
		struct source_pos *origin = &config->origins[i];

		if (settings[i].reload != RELOAD_BOOT || field_equal(fresh, running, &settings[i]))
			continue;
		buf_printf(differ, "%s%s", comma, settings[i].name);
		comma = ", ";
		if (!field_copy(config, running, &settings[i]))
			return config_free(config);
		*origin = running->origins[i];
		/* The entries that own this name may be freed before. */
		if (origin->file)
			origin->file = source_name(&config->entries->files, origin->file);
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
	return buf_ok(&config->found) ? config : config_free(config);
}

enum config_change config_with(const struct config *old, const char *name, const char *value,
                               const struct config **changed, struct err *err)
{
	const struct setting *setting = setting_find(name);
	struct config *config = setting ? config_copy(old, old, NULL) : NULL;
	enum config_change result = CONFIG_REFUSED;
	struct source_pos pos;

	if (!setting)
		setting_refuse(name, err);
	else if (!config)
		err_set(err, ERR_MEMORY, "no memory");
	else if (!field_put(config, setting, value, NULL, err))
		err_prefix(err, "setting \"%s\": ", name);
	else if (entries_judge(config, &pos, err))
		result = setting->reload == RELOAD_BOOT ? CONFIG_AT_RESTART : CONFIG_CHANGED;
	if (result == CONFIG_CHANGED) {
		config->origins[setting - settings] = (struct source_pos){ NULL, SOURCE_SET };
		*changed = config;
	} else if (config) {
		config_free(config);
	}
	return result;
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
		made = config_free(made);
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

/*
 * ---- changes ----
 *
 * Settings are compared by the table of settings, entries by the tables of their keys.
 */

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

struct source_pos config_origin(const struct config *config, const char *name)
{
	const struct setting *setting = setting_find(name);

	assert(setting);
	return config->origins[setting - settings];
}

struct source_pos config_source_pos(const struct config *config, const char *name)
{
	/* The file that was loaded: in conffile, unless a line or SET gave that another value. */
	struct source_pos origin = { 0 }, main = config_origin(config, "conffile");

	if (setting_find(name))
		origin = config_origin(config, name);
	if (origin.file || origin.line == SOURCE_SET)
		return origin;
	return (struct source_pos){ main.file ? main.file : config->conffile, 0 };
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
