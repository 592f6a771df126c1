/* SPDX-License-Identifier: ISC */
/*
 * The hosts of entries: those that a line names, and those that were found where hosts_from says.
 *
 * What was found is part of a snapshot, so a new list is applied like a reload: pairs of a source
 * (the text of hosts_from) and its list, each with its zero.
 */
#include "pgweir/config/hosts_from.h"

#include <string.h>

#include "pgweir/config/entries.h"

#include "config_priv.h"

static struct bytes found_of(const struct config *config) { return buf_bytes(&config->found); }

const char *config_found_hosts(const struct config *config, const char *source)
{
	struct bytes rest = found_of(config);
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

bool hosts_from_copy(struct config *to, const struct config *from, const char *but)
{
	struct bytes rest = found_of(from);
	const char *name, *list;

	while (bytes_take_text(&rest, &name) && bytes_take_text(&rest, &list)) {
		if ((but && strcmp(name, but) == 0) || !is_used(to, name))
			continue;
		buf_add_cstr(&to->found, name);
		buf_add_cstr(&to->found, list);
	}
	return buf_ok(&to->found);
}
