/* SPDX-License-Identifier: ISC */
/*
 * Where values come from. The names of files are stored with the entries, which all snapshots
 * of one load share.
 */
#include "pgweir/config/origin.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "entries_priv.h"
#include "origin_priv.h"
#include "pgweir/config/settings.h"

#include "pgweir/base/banned.h"

struct file_name {
	struct file_name *next;
	char text[];
};

const char *origins_file_name(struct config_entries *entries, const char *file)
{
	struct file_name *name;
	size_t size = strlen(file) + 1;

	for (name = entries->file_names; name; name = name->next) {
		if (strcmp(name->text, file) == 0)
			return name->text;
	}
	name = malloc(sizeof(*name) + size);
	if (!name)
		return NULL;
	memcpy(name->text, file, size);
	name->next = entries->file_names;
	entries->file_names = name;
	return name->text;
}

void origins_free_file_names(struct config_entries *entries)
{
	struct file_name *name;

	while ((name = entries->file_names)) {
		entries->file_names = name->next;
		free(name);
	}
}

static struct origin *find_origin(const struct config *config, const char *name)
{
	const struct setting *setting = setting_find(name);

	return setting ? &config->origins[setting - settings] : NULL;
}

struct origin config_origin(const struct config *config, const char *name)
{
	const struct origin *origin = find_origin(config, name);

	assert(origin);
	return *origin;
}

/*
 * The file that was loaded. It is in conffile, unless a line or SET gave that setting another
 * value.
 */
static const char *main_file(const struct config *config)
{
	struct origin origin = config_origin(config, "conffile");

	return origin.kind == ORIGIN_FILE ? origin.file : config->conffile;
}

struct source_pos config_source_pos(const struct config *config, const char *name)
{
	const struct origin *origin = find_origin(config, name);

	if (origin && origin->kind == ORIGIN_FILE)
		return (struct source_pos){ origin->file, origin->line };
	if (origin && origin->kind == ORIGIN_SET)
		return (struct source_pos){ NULL, 0 };
	return (struct source_pos){ main_file(config), 0 };
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
		if (pos.line || (is_first && !setting_find(name)))
			return pos;
		if (is_first)
			first = pos;
		text += count + strcspn(text + count, letters);
		count = strspn(text, letters);
	}
	return first;
}

bool origins_make(struct config *config, const struct config *old)
{
	config->origins = calloc(settings_count, sizeof(*config->origins));
	if (config->origins && old)
		memcpy(config->origins, old->origins, settings_count * sizeof(*config->origins));
	return config->origins != NULL;
}

void origins_note_file(struct config *config, const char *name, struct source_pos pos)
{
	struct origin *origin = find_origin(config, name);
	const char *file = origins_file_name(config->entries, pos.file);

	if (origin && file)
		*origin = (struct origin){ ORIGIN_FILE, file, pos.line };
}

void origins_note_set(struct config *config, const char *name)
{
	struct origin *origin = find_origin(config, name);

	if (origin)
		*origin = (struct origin){ ORIGIN_SET, NULL, 0 };
}

void origins_take(struct config *config, const struct config *from, const char *name)
{
	struct origin origin = config_origin(from, name);

	if (origin.kind == ORIGIN_FILE)
		origins_note_file(config, name, (struct source_pos){ origin.file, origin.line });
	else
		*find_origin(config, name) = origin;
}
