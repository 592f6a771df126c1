/* SPDX-License-Identifier: ISC */
/*
 * Session parameters, held once.
 *
 * A map is one run of text, "name\0value\0name\0value\0", ordered by name; that
 * run is the key under which the table knows it.
 */
#include "pgweir/pool/params.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "pgweir/base/table.h"

#include "pgweir/base/buf.h"

#include "pgweir/base/banned.h"

struct params {
	UT_hash_handle hh;
	unsigned long owner_count;
	unsigned int count;
	size_t size;
	char text[];
};

struct params_table {
	struct params *maps;
	struct buf text;    /* the map that params_change() looks for; its memory stays */
	struct params none; /* must be the last */
};

struct params_table *params_table_new(void)
{
	struct params_table *table = calloc(1, sizeof(*table));

	if (table)
		table->text.limit = PARAMS_SIZE_MAX;
	return table;
}

void params_table_free(struct params_table **table)
{
	if (*table) {
		assert(!(*table)->maps);
		buf_free(&(*table)->text);
	}
	free(*table);
	*table = NULL;
}

const struct params *params_none(const struct params_table *table) { return &table->none; }

const struct params *params_hold(const struct params *params)
{
	((struct params *)params)->owner_count++;
	return params;
}

void params_release(struct params_table *table, const struct params **params)
{
	struct params *map = (struct params *)*params;

	*params = &table->none;
	if (!map || map == &table->none)
		return;
	if (--map->owner_count)
		return;
	HASH_DEL(table->maps, map);
	free(map);
}

bool params_next(const struct params *params, const char **at, const char **name,
                 const char **value)
{
	const char *next = *at ? *at : params->text;

	if (next == params->text + params->size)
		return false;
	*name = next;
	*value = next + strlen(next) + 1;
	*at = *value + strlen(*value) + 1;
	return true;
}

const char *params_find(const struct params *params, const char *name)
{
	const char *at = NULL, *found, *value;

	while (params_next(params, &at, &found, &value)) {
		if (strcasecmp(found, name) == 0)
			return value;
	}
	return NULL;
}

/* The text of `params` with one name changed. */
static unsigned int write_changed(struct buf *text, const struct params *params, const char *name,
                                  const char *value)
{
	const char *at = NULL, *old_name, *old_value;
	unsigned int count = 0;

	while (params_next(params, &at, &old_name, &old_value)) {
		int order = strcasecmp(old_name, name);

		if (value && order > 0) {
			buf_add_cstr(text, name);
			buf_add_cstr(text, value);
			value = NULL;
			count++;
		}
		if (order == 0)
			continue;
		buf_add_cstr(text, old_name);
		buf_add_cstr(text, old_value);
		count++;
	}
	if (value) {
		buf_add_cstr(text, name);
		buf_add_cstr(text, value);
		count++;
	}
	return count;
}

/* The map that is written down in table->text. NULL: no memory. */
static struct params *find_or_add(struct params_table *table, unsigned int count)
{
	const struct buf *text = &table->text;
	struct params *map;

	HASH_FIND(hh, table->maps, text->at, text->count, map);
	if (map)
		return map;
	map = calloc(1, sizeof(*map) + text->count);
	if (!map)
		return NULL;
	map->count = count;
	map->size = text->count;
	memcpy(map->text, text->at, text->count);
	HASH_ADD_KEYPTR(hh, table->maps, map->text, map->size, map);
	return map;
}

bool params_change(struct params_table *table, const struct params **params, const char *name,
                   const char *value)
{
	const char *old = params_find(*params, name);
	struct params *map = &table->none;
	unsigned int count;

	if (old == value || (old && value && strcmp(old, value) == 0))
		return true;
	count = write_changed(&table->text, *params, name, value);
	if (!buf_ok(&table->text))
		map = NULL;
	else if (count)
		map = find_or_add(table, count);
	buf_clear(&table->text);
	if (!map)
		return false;
	params_hold(map);
	params_release(table, params);
	*params = map;
	return true;
}

unsigned int params_count(const struct params *params) { return params->count; }

size_t params_table_count(const struct params_table *table) { return HASH_COUNT(table->maps); }
