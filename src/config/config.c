/* SPDX-License-Identifier: ISC */
/*
 * Configuration snapshots: reference counting, and copies with changed values.
 *
 * A snapshot is written only until it is handed out. A snapshot that differs in one value is a
 * copy of all settings and shares the entries.
 */
#include "pgweir/config/config.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/config/hosts_from.h"
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
