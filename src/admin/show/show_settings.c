/* SPDX-License-Identifier: ISC */
/*
 * SHOW LIMITS: each limit of each object: the value in force, its source, how much of it is
 * used, and how often it made a client wait or refused one.
 *
 * Objects are shown in the order of their names, and found again by name for each row:
 * between two rows any of them may be freed.
 */
#include "show_priv.h"

#include <limits.h>
#include <stdio.h>

#include "pgweir/config/changes.h"
#include "pgweir/config/settings.h"

#define SOURCE_SIZE 512

struct limit_row {
	const char *limit, *database, *user, *source;
	int64_t value, used, hits;
	char source_buffer[SOURCE_SIZE];
};

#define ROW struct limit_row
static const struct column limit_columns[] = {
	TEXT(limit, "Name of the limit."),
	TEXT(database, "Database that the limit applies to; NULL: all databases together."),
	TEXT(user, "User that the limit applies to; NULL: all users together."),
	INT4(value, "Value in effect; 0: no limit (max_pinned_servers: none; -1: no limit; "
	            "session_state: nothing that concerns the session is accepted)."),
	TEXT(source, "Source of the value: file and line (with the database or user whose "
	             "entry sets it), SET, default, or ulimit -n (systemd: LimitNOFILE=)."),
	INT4(used, "Number of connections that currently count towards the limit; open_files: "
	           "files in use."),
	INT8(hits, "How often a client had to wait or was refused because of the limit."),
};
#undef ROW

/*
 * The object of a row, in one lane. Fields that do not belong to this kind of object are NULL.
 */
struct thing {
	const struct lane *lane;
	const struct config *config;
	const struct database *database;
	const struct config_database *entry;
	const struct role *role;
	const struct config_user *user; /* of [users] */
	const struct pool *pool;
};

/* ---- source of the value ---- */

static const char *by_pos(struct limit_row *row, const char *whose, const char *name,
                          struct source_pos pos)
{
	snprintf(row->source_buffer, sizeof(row->source_buffer), "%s:%d (%s %s)",
	         pos.file ? pos.file : "?", pos.line, whose, name);
	return row->source_buffer;
}

static const char *by_setting(struct limit_row *row, const struct config *config, const char *name)
{
	struct origin origin = config_origin(config, name);

	switch (origin.kind) {
	case ORIGIN_DEFAULT:
		return "default";
	case ORIGIN_SET:
		return "SET";
	case ORIGIN_FILE:
		break;
	}
	snprintf(row->source_buffer, sizeof(row->source_buffer), "%s:%d", origin.file, origin.line);
	return row->source_buffer;
}

/* The first of user, database and setting that has a value, in the order of config/entries.c. */
static const char *source_of(struct limit_row *row, const struct thing *thing, int by_user,
                             int by_database, const char *setting)
{
	if (by_user != CONFIG_INHERIT)
		return by_pos(row, "user", thing->user->name, thing->user->pos);
	if (by_database != CONFIG_INHERIT)
		return by_pos(row, "database", thing->entry->name, thing->entry->pos);
	return by_setting(row, thing->config, setting);
}

#define SAID(entry, field) ((entry) ? (entry)->field : CONFIG_INHERIT)

/*
 * ---- the limits ----
 *
 * Each is called for the object in each lane that has it, with the same row. The broker counts what
 * is used in all lanes; what each lane counts by itself is added up.
 */

static void max_client_conn(struct limit_row *row, const struct thing *thing)
{
	row->value = thing->config->max_client_conn;
	row->source = by_setting(row, thing->config, "max_client_conn");
	row->used = broker_admitted(thing->lane->pools->with.broker);
	row->hits += (int64_t)thing->lane->clients->limit_hits;
}

/* The limit of the process: what is kept for servers and consoles is not part of it. */
static void open_files(struct limit_row *row, const struct thing *thing)
{
	const struct clients *clients = thing->lane->clients;

	row->value = clients->with.files_for_clients;
	row->source = "ulimit -n";
	row->used = clients_files_used();
	row->hits += (int64_t)clients->files_hits;
}

static void max_db_connections(struct limit_row *row, const struct thing *thing)
{
	row->value = config_max_db_connections(thing->config, thing->entry);
	row->source = source_of(row, thing, CONFIG_INHERIT, SAID(thing->entry, max_db_connections),
	                        "max_db_connections");
	row->used = share_servers(&thing->database->share);
	row->hits += (int64_t)thing->database->server_limit_hits;
}

static void max_db_client_connections(struct limit_row *row, const struct thing *thing)
{
	row->value = config_max_db_client_connections(thing->config, thing->entry);
	row->source =
	    source_of(row, thing, CONFIG_INHERIT, SAID(thing->entry, max_db_client_connections),
	              "max_db_client_connections");
	row->used = share_clients(&thing->database->share);
	row->hits += (int64_t)thing->database->client_limit_hits;
}

/* The limit of the console's database, which applies to users that are not in admin_users. */
static void max_guests(struct limit_row *row, const struct thing *thing)
{
	row->value = config_max_db_client_connections(thing->config, NULL);
	row->source = by_setting(row, thing->config, "max_db_client_connections");
	row->used += thing->lane->clients->guest_count;
	row->hits += (int64_t)thing->lane->clients->guest_limit_hits;
}

static void max_user_connections(struct limit_row *row, const struct thing *thing)
{
	row->value = config_max_user_connections(thing->config, thing->user);
	row->source = source_of(row, thing, SAID(thing->user, max_user_connections), CONFIG_INHERIT,
	                        "max_user_connections");
	if (!thing->role)
		return;
	row->used = share_servers(&thing->role->share);
	row->hits += (int64_t)thing->role->server_limit_hits;
}

static void max_user_client_connections(struct limit_row *row, const struct thing *thing)
{
	row->value = config_max_user_client_connections(thing->config, thing->user);
	row->source = source_of(row, thing, SAID(thing->user, max_user_client_connections),
	                        CONFIG_INHERIT, "max_user_client_connections");
	if (!thing->role)
		return;
	row->used = share_clients(&thing->role->share);
	row->hits += (int64_t)thing->role->client_limit_hits;
}

static void pool_size(struct limit_row *row, const struct thing *thing)
{
	row->value = thing->pool->limits.size;
	row->source = source_of(row, thing, SAID(thing->user, pool_size),
	                        SAID(thing->entry, pool_size), "default_pool_size");
	row->used = share_servers(&thing->pool->share);
	row->hits += (int64_t)thing->pool->size_hits;
}

static void max_pinned_servers(struct limit_row *row, const struct thing *thing)
{
	const struct pool_limits *limits = &thing->pool->limits;

	row->value = limits->max_pinned == INT_MAX ? -1 : limits->max_pinned;
	row->source = source_of(row, thing, CONFIG_INHERIT, SAID(thing->entry, max_pinned_servers),
	                        "max_pinned_servers");
	row->used = share_pins(&thing->pool->share);
	row->hits += (int64_t)thing->pool->pins_refused;
}

/* Whether an entry sets session_state, as source_of() wants it. */
static int said_state(enum session_state_mode mode)
{
	return mode == SESSION_STATE_INHERIT ? CONFIG_INHERIT : (int)mode;
}

/* What is refused because it concerns the session. */
static void session_state(struct limit_row *row, const struct thing *thing)
{
	int user = thing->user ? said_state(thing->user->session_state) : CONFIG_INHERIT;
	int entry = thing->entry ? said_state(thing->entry->session_state) : CONFIG_INHERIT;

	row->source = source_of(row, thing, user, entry, "session_state");
	row->hits += (int64_t)thing->pool->state_refused;
}

static void reserve_pool_size(struct limit_row *row, const struct thing *thing)
{
	int64_t above = (int64_t)share_servers(&thing->pool->share) - thing->pool->limits.size;

	row->value = thing->pool->limits.reserve_size;
	row->source = source_of(row, thing, SAID(thing->user, reserve_pool_size),
	                        SAID(thing->entry, reserve_pool_size), "reserve_pool_size");
	row->used = thing->pool->limits.size > 0 && above > 0 ? above : 0;
	row->hits += (int64_t)thing->pool->reserve_hits;
}

/* ---- the objects ---- */

/* false: it no longer exists. */
static bool find_database(struct cursor *cursor, struct thing *thing)
{
	thing->database = pools_find_database(thing->lane->pools, cursor->ordered.first);
	thing->entry = thing->database ? thing->database->entry : NULL;
	return thing->database != NULL;
}

static bool find_user(struct cursor *cursor, struct thing *thing)
{
	const char *name = cursor->ordered.first;

	thing->role = pools_find_role(thing->lane->pools, name);
	thing->user = config_user_find(thing->config, name);
	return true;
}

static void collect_pools(struct cursor *cursor)
{
	const struct lanes *lanes = show_source_lanes(cursor->source);
	const struct lane *lane;
	const struct pool *pool;

	LANES_EACH(lane, lanes)
	TAILQ_FOREACH (pool, &lane->pools->list, node) {
		if (pool->database->entry && pool->purpose == POOL_FOR_CLIENTS)
			cursor_offer(cursor, (struct ordered_item){ pool->database->name,
			                                            pool->role->name, pool });
	}
}

static bool find_pool(struct cursor *cursor, struct thing *thing)
{
	thing->pool =
	    pools_find_pool(thing->lane->pools, cursor->ordered.first, cursor->ordered.second);
	if (!thing->pool || !thing->pool->database->entry)
		return false;
	thing->database = thing->pool->database;
	thing->entry = thing->database->entry;
	thing->user = thing->pool->role->entry;
	return true;
}

static bool follows_state(const struct thing *thing)
{
	return thing->pool->limits.session_state == SESSION_STATE_FOLLOW;
}

static bool refuses_state(const struct thing *thing)
{
	return thing->pool->limits.session_state == SESSION_STATE_REFUSE;
}

/* The kinds of objects, each with its limits; a NULL name ends them. */
static const struct scope {
	void (*collect)(struct cursor *cursor); /* NULL: there is one object, without a name */
	bool (*find)(struct cursor *cursor, struct thing *thing);
	bool is_user;     /* the first name of an item is a user */
	bool has_both;    /* the names are a database and a user */
	const char *name; /* of the database, if there is only one object; or NULL */
	struct {
		const char *name;
		void (*fill)(struct limit_row *row, const struct thing *thing);
		/* whether this object has the limit; NULL: each has it */
		bool (*applies)(const struct thing *thing);
	} limits[5];
} scopes[] = {
	{ .limits = { { "max_client_conn", max_client_conn, NULL },
	              { "open_files", open_files, NULL } } },
	{ .collect = show_collect_databases,
	  .find = find_database,
	  .limits = { { "max_db_connections", max_db_connections, NULL },
	              { "max_db_client_connections", max_db_client_connections, NULL } } },
	{ .name = CONFIG_CONSOLE_DATABASE,
	  .limits = { { "max_db_client_connections", max_guests, NULL } } },
	{ .collect = show_collect_users,
	  .find = find_user,
	  .is_user = true,
	  .limits = { { "max_user_connections", max_user_connections, NULL },
	              { "max_user_client_connections", max_user_client_connections, NULL } } },
	{ .collect = collect_pools,
	  .find = find_pool,
	  .has_both = true,
	  .limits = { { "pool_size", pool_size, NULL },
	              { "reserve_pool_size", reserve_pool_size, NULL },
	              { "max_pinned_servers", max_pinned_servers, follows_state },
	              { "session_state", session_state, refuses_state } } },
};

#define SCOPE_COUNT (sizeof(scopes) / sizeof(scopes[0]))

/* Continues with the next limit, of the next object if needed. NULL: no more. */
static const struct scope *next_thing(struct cursor *cursor)
{
	struct limits_walk *walk = &cursor->limits;
	struct ordered_item item;

	for (; walk->scope < SCOPE_COUNT; walk->scope++) {
		const struct scope *scope = &scopes[walk->scope];

		if (walk->has_begun && scope->limits[walk->limit].name)
			return scope;
		walk->limit = 0;
		walk->has_begun = scope->collect
		                      ? cursor_next_ordered(cursor, scope->collect, &item)
		                      : !walk->has_begun;
		if (walk->has_begun)
			return scope;
		cursor->ordered = (struct ordered){ 0 };
	}
	return NULL;
}

/* Whether the limit was hit, or the next client will hit it. */
static bool is_hit(const struct limit_row *row)
{
	return row->hits > 0 || (row->value > 0 && row->used >= row->value);
}

/* false: no lane has the object, or it has not this limit. */
static bool fill_limit(struct cursor *cursor, struct limit_row *row, const struct scope *scope,
                       size_t limit)
{
	const struct lane *lane;
	bool is_found = false;

	LANES_EACH(lane, show_source_lanes(cursor->source))
	{
		struct thing thing = { .lane = lane, .config = lane->pools->config };

		if (scope->find && !scope->find(cursor, &thing))
			continue;
		if (scope->limits[limit].applies && !scope->limits[limit].applies(&thing))
			continue;
		scope->limits[limit].fill(row, &thing);
		is_found = true;
	}
	return is_found;
}

static bool next_limit(struct cursor *cursor, void *at)
{
	const char *first = cursor->ordered.first, *second = cursor->ordered.second;
	struct limits_walk *walk = &cursor->limits;
	const struct scope *scope;
	struct limit_row *row = at;

	while (cursor_may_look(cursor) && (scope = next_thing(cursor))) {
		size_t limit = walk->limit++;

		*row = (struct limit_row){ 0 };
		if (!fill_limit(cursor, row, scope, limit))
			continue;
		row->limit = scope->limits[limit].name;
		row->database = scope->collect && !scope->is_user ? first : scope->name;
		row->user = scope->is_user ? first : scope->has_both ? second : NULL;
		if (!cursor->asked.argument || is_hit(row))
			return true;
	}
	return false;
}

SHOW(limits, "LIMITS", next_limit, limit_columns,
     "All limits, with source, current use, and how often each was hit. HIT: only limits that were "
     "hit or are reached now.",
     .argument = SHOW_HIT);
/* ---- CONFIG ---- */

struct config_row {
	const char *key, *value, *initial, *changeable;
	struct setting_shown shown;
};

#define ROW struct config_row
static const struct column config_columns[] = {
	TEXT(key, "Name of the setting."),
	TEXT(value, "Value of the setting."),
	{ "default", VALUE_TEXT, offsetof(struct config_row, initial), "Default of the setting." },
	TEXT(changeable, "yes: RELOAD and SET change the setting; no: only a restart does."),
};
#undef ROW

static const struct config *wanted(const struct show_source *source)
{
	return source->with->wanted(source->with->daemon);
}

static bool next_config(struct cursor *cursor, void *at)
{
	struct config_row *row = at;

	if (!setting_show(wanted(cursor->source), cursor->index++, &row->shown))
		return false;
	row->key = row->shown.name;
	row->value = row->shown.value;
	row->initial = row->shown.initial;
	row->changeable = row->shown.is_changeable ? "yes" : "no";
	return true;
}

SHOW(config, "CONFIG", next_config, config_columns, "All settings with their values.");

/* ---- ALL, and one setting ---- */

struct setting_row {
	const char *name, *setting, *description;
	struct setting_shown shown;
};

#define ROW struct setting_row
static const struct column setting_columns[] = {
	TEXT(name, "Name of the setting."),
	TEXT(setting, "Value of the setting; NULL: not set."),
	TEXT(description, "Description of the setting."),
};
#undef ROW

static bool next_described(struct cursor *cursor, void *at)
{
	struct setting_row *row = at;
	size_t index = cursor->index++;

	if (!setting_show(wanted(cursor->source), index, &row->shown))
		return false;
	row->name = row->shown.name;
	row->setting = row->shown.value;
	row->description = settings[index].help;
	return true;
}

SHOW(all, "ALL", next_described, setting_columns,
     "All settings with values and descriptions, in the format of PostgreSQL's SHOW ALL.");

static bool next_setting(struct cursor *cursor, void *at)
{
	const char *name = cursor->asked.argument;
	struct setting_row *row = at;

	if (cursor->index)
		return false;
	while (setting_show(wanted(cursor->source), cursor->index++, &row->shown)) {
		if (strcmp(row->shown.name, name) == 0)
			break;
	}
	row->setting = row->shown.value;
	return true;
}

/* The column has the setting's name: see request_columns(). */
const struct show show_setting = { .item = "",
	                           .next = next_setting,
	                           .columns = { &setting_columns[1], 1 } };

/* ---- PENDING ---- */

struct pending_row {
	const char *key, *value, *in_force, *reason;
	struct setting_shown taken, old;
};

#define ROW struct pending_row
static const struct column pending_columns[] = {
	TEXT(key, "Name of the setting."),
	TEXT(value, "Value given with SET."),
	TEXT(in_force, "Value in effect."),
	TEXT(reason, "Why the new value is not in effect yet."),
};
#undef ROW

static bool same_value(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool next_pending(struct cursor *cursor, void *at)
{
	const struct show_source *source = cursor->source;
	struct pending_row *row = at;

	while (setting_show(show_source_config(source), cursor->index++, &row->old)) {
		row->key = row->old.name;
		row->reason = source->with->why_held(source->with->daemon, row->key);
		if (!row->reason)
			continue;
		setting_show(wanted(source), cursor->index - 1, &row->taken);
		row->value = row->taken.value;
		row->in_force = row->old.value;
		if (!same_value(row->value, row->in_force))
			return true;
	}
	return false;
}

SHOW(pending, "PENDING", next_pending, pending_columns,
     "Settings whose new value takes effect only after another SET.");
