/* SPDX-License-Identifier: ISC */
/*
 * Session parameters: maps that are stored once.
 *
 *   struct params | offsets of the names, as numbers | name\0value\0name\0value\0
 *
 * The text is ordered by name, and is the map's key in the table. The offsets allow a binary search
 * for a name.
 *
 * Hard here: clients and servers send as many names and values as they like. So changes are made
 * together: sorted once, and merged with the map in one pass.
 */
#include "pgweir/pool/server/params.h"

#include <assert.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "pgweir/base/buf.h"
#include "pgweir/base/table.h"
#include "pgweir/pgwire/sql_touch.h"

/* Bytes of buffers that are kept for the next change. */
#define SCRATCH_SIZE ((size_t)4096)

struct params {
	UT_hash_handle hh;
	unsigned long owner_count;
	/* params_scope(): holds a reference, unless it is this map; NULL: was not asked for */
	const struct params *scope;
	unsigned int count;
	size_t size;       /* of the text */
	uint32_t starts[]; /* `count` of them, followed by the text */
};

struct params_table {
	struct params *maps;
	struct hash_key secret;
	struct buf text;    /* the map being looked up */
	struct buf changes; /* struct change, sorted */
	struct params none; /* must be the last member */
};

/* One of several changes that are made together. */
struct change {
	const char *name;
	const char *value; /* NULL: remove the name */
	size_t order;      /* position; the last change of a name counts */
};

struct params_table *params_table_new(void)
{
	struct params_table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->text.limit = PARAMS_SIZE_MAX;
	hash_key_draw(&table->secret);
	return table;
}

void params_table_free(struct params_table **table)
{
	if (*table) {
		assert(!(*table)->maps);
		buf_free(&(*table)->text);
		buf_free(&(*table)->changes);
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
	if (map->scope && map->scope != map)
		params_release(table, &map->scope);
	free(map);
}

static const char *text_of(const struct params *params)
{
	return (const char *)(params->starts + params->count);
}

struct bytes params_text(const struct params *params)
{
	return bytes_of(text_of(params), params->size);
}

bool params_next(const struct params *params, const char **at, const char **name,
                 const char **value)
{
	const char *next = *at ? *at : text_of(params);

	if (next == text_of(params) + params->size)
		return false;
	*name = next;
	*value = next + strlen(next) + 1;
	*at = *value + strlen(*value) + 1;
	return true;
}

const char *params_find(const struct params *params, const char *name)
{
	unsigned int from = 0, to = params->count;

	while (from < to) {
		unsigned int middle = from + (to - from) / 2;
		const char *found = text_of(params) + params->starts[middle];
		int order = strcasecmp(found, name);

		if (order == 0)
			return found + strlen(found) + 1;
		if (order < 0)
			from = middle + 1;
		else
			to = middle;
	}
	return NULL;
}

/* ---- changes ---- */

static int compare_params(const void *left, const void *right)
{
	const struct change *a = left, *b = right;
	int order = strcasecmp(a->name, b->name);

	return order ? order : (a->order > b->order) - (a->order < b->order);
}

static struct change *changes_of(struct params_table *table)
{
	return (struct change *)(void *)table->changes.at;
}

static void note(struct params_table *table, const char *name, const char *value, size_t order)
{
	struct change change = { name, value, order };

	buf_add(&table->changes, &change, sizeof(change));
}

static void add_pair(struct params_table *table, const char *name, const char *value,
                     unsigned int *count)
{
	buf_add_cstr(&table->text, name);
	buf_add_cstr(&table->text, value);
	++*count;
}

/* Writes the text of `params` with the sorted changes applied. Returns the number of names. */
static unsigned int write_changed(struct params_table *table, const struct params *params)
{
	const struct change *change = changes_of(table);
	const struct change *end = change + table->changes.count / sizeof(*change);
	const char *at = NULL, *name = NULL, *value = NULL;
	bool has = params_next(params, &at, &name, &value);
	unsigned int count = 0;

	for (; change < end; change++) {
		int order = 1;

		if (change + 1 < end && strcasecmp(change->name, change[1].name) == 0)
			continue;
		while (has && (order = strcasecmp(name, change->name)) < 0) {
			add_pair(table, name, value, &count);
			has = params_next(params, &at, &name, &value);
		}
		/* The spelling of a name is that of its last change. */
		if (has && order == 0 && change->value && strcmp(value, change->value) == 0)
			add_pair(table, name, value, &count);
		else if (change->value)
			add_pair(table, change->name, change->value, &count);
		if (has && order == 0)
			has = params_next(params, &at, &name, &value);
	}
	for (; has; has = params_next(params, &at, &name, &value))
		add_pair(table, name, value, &count);
	return count;
}

/* The map with the text in table->text. NULL: no memory. */
static struct params *find_or_add(struct params_table *table, unsigned int count)
{
	const struct buf *text = &table->text;
	size_t starts_size = count * sizeof(uint32_t);
	struct params *map;
	uint32_t *start;

	TABLE_FIND(hh, &table->secret, table->maps, text->at, text->count, map);
	if (map)
		return map;
	map = calloc(1, sizeof(*map) + starts_size + text->count);
	if (!map)
		return NULL;
	map->count = count;
	map->size = text->count;
	memcpy(map->starts + count, text->at, text->count);
	start = map->starts;
	PARAMS_EACH (name, value, map)
		*start++ = (uint32_t)(name - text_of(map));
	TABLE_ADD(hh, &table->secret, table->maps, text_of(map), map->size, map);
	return map;
}

static bool make_changes(struct params_table *table, const struct params **params)
{
	size_t change_count = table->changes.count / sizeof(struct change);
	bool is_noted = buf_ok(&table->changes);
	struct params *map = &table->none;
	unsigned int count;

	if (is_noted && change_count > 1)
		qsort(changes_of(table), change_count, sizeof(struct change), compare_params);
	count = is_noted ? write_changed(table, *params) : 0;
	if (!is_noted || !buf_ok(&table->text) || count > PARAMS_NAMES_MAX)
		map = NULL;
	else if (count)
		map = find_or_add(table, count);
	buf_reuse(&table->text, SCRATCH_SIZE);
	buf_reuse(&table->changes, SCRATCH_SIZE);
	if (!map)
		return false;
	params_hold(map);
	params_release(table, params);
	*params = map;
	return true;
}

bool params_change(struct params_table *table, const struct params **params, const char *name,
                   const char *value)
{
	const char *old = params_find(*params, name);

	if (old == value || (old && value && strcmp(old, value) == 0))
		return true;
	note(table, name, value, 0);
	return make_changes(table, params);
}

bool params_change_all(struct params_table *table, const struct params **params,
                       const struct params_pair *pairs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		note(table, pairs[i].name, pairs[i].value, i);
	return count == 0 || make_changes(table, params);
}

/* A server that comes from another loop mostly has a map that is known here. */
static bool take_known(const struct params_table *table, const struct params **params,
                       struct bytes text)
{
	const struct params *map;

	if (*params != &table->none || !text.count)
		return false;
	TABLE_FIND(hh, &table->secret, table->maps, text.at, text.count, map);
	if (map)
		*params = params_hold(map);
	return map != NULL;
}

bool params_add_text(struct params_table *table, const struct params **params, struct bytes text)
{
	const char *name, *value;
	size_t order = 0;

	if (take_known(table, params, text))
		return true;
	while (bytes_take_text(&text, &name) && bytes_take_text(&text, &value))
		note(table, name, value, order++);
	return order == 0 || make_changes(table, params);
}

unsigned int params_count(const struct params *params) { return params->count; }

size_t params_table_count(const struct params_table *table) { return HASH_COUNT(table->maps); }

/* ---- tracked parameters ---- */

/* Always tracked, in the order of the welcome: what some version reports and clients can set. */
static const char *const always[] = {
	"DateStyle",        "client_encoding",     "TimeZone",    "standard_conforming_strings",
	"application_name", "IntervalStyle",       "search_path", "default_transaction_read_only",
	"scram_iterations", SESSION_AUTHORIZATION,
};
#define ALWAYS_COUNT (sizeof(always) / sizeof(always[0]))

const char *tracked_at(const struct config *config, size_t index)
{
	const struct config_list *extra = &config->track_extra_parameters;

	if (index < ALWAYS_COUNT)
		return always[index];
	return index - ALWAYS_COUNT < extra->count ? extra->names[index - ALWAYS_COUNT] : NULL;
}

const char *tracked_find(const struct config *config, const char *name)
{
	const char *tracked;

	for (size_t i = 0; (tracked = tracked_at(config, i)); i++) {
		if (strcasecmp(tracked, name) == 0)
			return tracked;
	}
	return NULL;
}

/*
 * ---- scopes of statements ----
 *
 * Hard here: each Bind needs the scope, so a map keeps it. It is a map, too: clients whose maps
 * differ in other parameters share it.
 */

/* The manual's "Query Planning": a plan is kept with the statement. */
static const char *const planner_names[] = {
	"*_collapse_limit",
	"*_cost",
	"constraint_exclusion",
	"effective_cache_size",
	"enable_*",
	"geqo_*",
	"jit",
	"jit_*",
	"max_parallel_*",
	"min_parallel_*",
	"plan_cache_mode",
	"work_mem",
};

static bool is_in_scope(const char *name)
{
	for (size_t i = 0; i < sizeof(planner_names) / sizeof(planner_names[0]); i++) {
		if (fnmatch(planner_names[i], name, FNM_CASEFOLD) == 0)
			return true;
	}
	return sql_parameter_touches(name) != 0;
}

/* What of a text makes a parameter decide over how it is read first. */
struct reading {
	bool has_backslash;
	bool has_encoding; /* it is not ASCII */
};

static bool is_read_once(const char *name, struct reading reading)
{
	if (strcasecmp(name, "client_encoding") == 0)
		return reading.has_encoding;
	return reading.has_backslash && (strcasecmp(name, "standard_conforming_strings") == 0 ||
	                                 strcasecmp(name, "backslash_quote") == 0);
}

/* name NULL: the end of the list. */
static struct params_pair next_pair(struct bytes *list, bool is_once, struct reading reading)
{
	struct params_pair pair;

	while (bytes_take_text(list, &pair.name) && bytes_take_text(list, &pair.value)) {
		if (is_read_once(pair.name, reading) == is_once)
			return pair;
	}
	return (struct params_pair){ NULL, NULL };
}

bool text_scope_merge(struct bytes text, struct bytes first, struct bytes now, struct buf *out)
{
	struct reading reading = {
		.has_backslash = memchr(text.at, '\\', text.count) != NULL,
		.has_encoding = !bytes_are_ascii(text),
	};
	struct params_pair old = next_pair(&first, true, reading);
	struct params_pair new = next_pair(&now, false, reading);

	while (old.name || new.name) {
		bool is_old = old.name && (!new.name || strcasecmp(old.name, new.name) < 0);
		struct params_pair *pair = is_old ? &old : &new;

		buf_add_cstr(out, pair->name);
		buf_add_cstr(out, pair->value);
		*pair = next_pair(is_old ? &first : &now, is_old, reading);
	}
	return buf_ok(out);
}

bool params_scope(struct params_table *table, const struct params *params, struct bytes *scope)
{
	struct params *map = (struct params *)params;
	const struct params *found = &table->none;
	const char *at = NULL, *name, *value;
	size_t order = 0;

	while (!map->scope && params_next(map, &at, &name, &value)) {
		if (is_in_scope(name))
			note(table, name, value, order++);
	}
	if (order && !make_changes(table, &found))
		return false;
	if (!map->scope)
		map->scope = found;
	*scope = params_text(map->scope);
	if (found == map)
		params_release(table, &found);
	return true;
}
