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
#include <stdlib.h>

#include "pgweir/config/changes.h"
#include "pgweir/config/settings.h"

#define LIMIT_ROW(COLUMN)                                                                         \
	COLUMN(TEXT, limit, 0, "Name of the limit.")                                              \
	COLUMN(TEXT, database, 0,                                                                 \
	       "Database that the limit applies to; NULL: all databases together.")               \
	COLUMN(TEXT, user, 0, "User that the limit applies to; NULL: all users together.")        \
	COLUMN(INT4, value, 0,                                                                    \
	       "Value in effect; 0: no limit (max_pinned_servers: none; -1: no limit; "           \
	       "session_state: nothing that concerns the session is accepted).")                  \
	COLUMN(TEXT, source, 0,                                                                   \
	       "Source of the value: file and line (with the database or user whose entry sets "  \
	       "it), SET, default, or ulimit -n (systemd: LimitNOFILE=).")                        \
	COLUMN(INT4, used, 0,                                                                     \
	       "Number of connections that currently count towards the limit; open_files: files " \
	       "in use.")                                                                         \
	COLUMN(INT8, hits, 0,                                                                     \
	       "How often a client had to wait or was refused because of the limit.")             \
	COLUMN(TEXT, host, 0,                                                                     \
	       "Address of PostgreSQL that the limit applies to (max_host_connections), while "   \
	       "there are servers; NULL: all.")                                                   \
	COLUMN(INT4, waiting, 0, "Pools that wait because of the limit; for pool_size: clients.") \
	COLUMN(TEXT, statement, 0, "Digest of the statement that the limit applies to; NULL: all.")

ROW_DECLARE(struct limit_row, limit_columns, LIMIT_ROW, char source_buffer[SOURCE_POS_SIZE];);

/*
 * The object of a row, in one lane. Fields that do not belong to this kind of object are NULL.
 */
struct thing {
	const struct lane *lane;
	const struct config *config;
	const struct database *database;
	const struct config_database *entry;
	const struct role *role;
	const struct cap_host *host;
	const struct config_user *user; /* of [users] */
	const struct pool *pool;
	const struct statement_limit *statement; /* of [statements] */
};

/* ---- source of the value ---- */

static const char *by_pos(struct limit_row *row, const char *whose, const char *name,
                          struct source_pos pos)
{
	char where[SOURCE_POS_SIZE];

	snprintf(row->source_buffer, sizeof(row->source_buffer), "%s (%s %s)",
	         source_pos_text(pos, where), whose, name);
	return row->source_buffer;
}

static const char *by_setting(const struct config *config, const char *name,
                              char out[SOURCE_POS_SIZE])
{
	return source_pos_text(config_origin(config, name), out);
}

/* The first of user, database and setting that has a value, in the order of config/entries.c. */
static const char *source_of(struct limit_row *row, const struct thing *thing, int by_user,
                             int by_database, const char *setting)
{
	if (by_user != CONFIG_INHERIT)
		return by_pos(row, "user", thing->user->name, thing->user->pos);
	if (by_database != CONFIG_INHERIT)
		return by_pos(row, "database", thing->entry->name, thing->entry->pos);
	return by_setting(thing->config, setting, row->source_buffer);
}

#define SAID(entry, field) ((entry) ? (entry)->field : CONFIG_INHERIT)

static int said_state(const enum session_state_mode *mode)
{
	return mode && *mode != SESSION_STATE_INHERIT ? (int)*mode : CONFIG_INHERIT;
}

static int64_t above_size(const struct pool *pool)
{
	int64_t above = (int64_t)share_servers(&pool->share) - pool->limits.size;

	return pool->limits.size > 0 && above > 0 ? above : 0;
}

/*
 * ---- the limits ----
 *
 * Each is called for the object in each lane that has it, with the same row. The broker counts what
 * is used in all lanes; what each lane counts by itself is added up.
 */

#define LIMIT(name, setting, by_user, by_database, value_is, used_is, hit_count)    \
	static void name(struct limit_row *row, const struct thing *thing)          \
	{                                                                           \
		row->value = (value_is);                                            \
		row->source = source_of(row, thing, by_user, by_database, setting); \
		row->used = (used_is);                                              \
		row->hits += (int64_t)(hit_count);                                  \
	}

/* Of a setting, and of its field in the entry of a user or of a database. */
#define SET(name, ...) LIMIT(name, #name, CONFIG_INHERIT, CONFIG_INHERIT, __VA_ARGS__)
#define SET_FOR_DATABASE(name, ...) \
	LIMIT(name, #name, CONFIG_INHERIT, SAID(thing->entry, name), __VA_ARGS__)
#define SET_FOR_USER(name, ...) \
	LIMIT(name, #name, SAID(thing->user, name), CONFIG_INHERIT, __VA_ARGS__)

SET(max_client_conn, thing->config->max_client_conn,
    broker_admitted(thing->lane->pools->with.broker), thing->lane->clients->limit_hits)

/* The limit of the process: what is kept for servers and consoles is not part of it. */
static void open_files(struct limit_row *row, const struct thing *thing)
{
	const struct clients *clients = thing->lane->clients;

	row->value = clients->with.files_for_clients;
	row->source = "ulimit -n";
	row->used = clients_files_used();
	row->hits += (int64_t)clients->files_hits;
}

/* A limit on servers that pools share. NULL: this lane does not know it. */
static void fill_cap(struct limit_row *row, const struct cap *cap)
{
	if (!cap)
		return;
	row->used = share_servers(&cap->share);
	row->hits += (int64_t)cap->hits;
	row->waiting = share_blocked(&cap->share);
}

#define CAP(name, setting, by_user, by_database, value_is, cap_is)                 \
	LIMIT(name##_value, setting, by_user, by_database, value_is, row->used, 0) \
	static void name(struct limit_row *row, const struct thing *thing)         \
	{                                                                          \
		name##_value(row, thing);                                          \
		fill_cap(row, cap_is);                                             \
	}

CAP(max_server_connections, "max_server_connections", CONFIG_INHERIT, CONFIG_INHERIT,
    thing->config->max_server_connections, &thing->lane->pools->cap)
CAP(max_host_connections, "max_host_connections", CONFIG_INHERIT, CONFIG_INHERIT,
    thing->host->cap.limit, &thing->host->cap)
CAP(max_db_connections, "max_db_connections", CONFIG_INHERIT,
    SAID(thing->entry, max_db_connections), config_max_db_connections(thing->config, thing->entry),
    &thing->database->cap)
SET_FOR_DATABASE(max_db_client_connections,
                 config_max_db_client_connections(thing->config, thing->entry),
                 share_clients(&thing->database->cap.share), thing->database->client_limit_hits)

/* The limit of the console's database, which applies to users that are not in admin_users. */
LIMIT(max_guests, "max_db_client_connections", CONFIG_INHERIT, CONFIG_INHERIT,
      config_max_db_client_connections(thing->config, NULL),
      row->used + thing->lane->clients->guest_count, thing->lane->clients->guest_limit_hits)

/* Not every lane knows the user. */
CAP(max_user_connections, "max_user_connections", SAID(thing->user, max_user_connections),
    CONFIG_INHERIT, config_max_user_connections(thing->config, thing->user),
    thing->role ? &thing->role->cap : NULL)
SET_FOR_USER(max_user_client_connections,
             config_max_user_client_connections(thing->config, thing->user),
             thing->role ? share_clients(&thing->role->cap.share) : row->used,
             thing->role ? thing->role->client_limit_hits : 0)

LIMIT(pool_size_value, "default_pool_size", SAID(thing->user, pool_size),
      SAID(thing->entry, pool_size), thing->pool->limits.size, share_servers(&thing->pool->share),
      thing->pool->size_hits)

static void pool_size(struct limit_row *row, const struct thing *thing)
{
	pool_size_value(row, thing);
	if (row->value && row->used >= row->value)
		row->waiting += thing->pool->queues[BORROWER_WAITING].count;
}

LIMIT(reserve_pool_size, "reserve_pool_size", SAID(thing->user, reserve_pool_size),
      SAID(thing->entry, reserve_pool_size), thing->pool->limits.reserve_size,
      above_size(thing->pool), thing->pool->reserve_hits)
SET_FOR_DATABASE(max_pinned_servers,
                 thing->pool->limits.max_pinned == INT_MAX ? -1 : thing->pool->limits.max_pinned,
                 share_pins(&thing->pool->share), thing->pool->pins_refused)

LIMIT(database_waiting, "max_waiting", CONFIG_INHERIT, thing->entry->max_waiting,
      thing->entry->max_waiting, share_waiting(&thing->database->cap.share),
      thing->database->cap.queue_hits)

/* Not every lane knows the user. */
LIMIT(user_waiting, "max_waiting", thing->user->max_waiting, CONFIG_INHERIT,
      thing->user->max_waiting, thing->role ? share_waiting(&thing->role->cap.share) : row->used,
      thing->role ? thing->role->cap.queue_hits : 0)

LIMIT(max_waiting, "max_waiting", CONFIG_INHERIT, CONFIG_INHERIT, thing->pool->limits.max_waiting,
      share_waiting(&thing->pool->share), thing->pool->queue_hits)

/* In milliseconds; what is used is how long the first has waited. */
static void queue_target(struct limit_row *row, const struct thing *thing)
{
	const struct pool *pool = thing->pool;
	usec_t wait = pool_longest_wait(pool, loop_now(pool->pools->with.loop)) / USEC_PER_MS;

	row->value = (int32_t)(pool->limits.shed.target / USEC_PER_MS);
	row->source = by_setting(thing->config, "queue_target", row->source_buffer);
	row->used = wait > row->used ? (int32_t)wait : row->used;
	row->hits += (int64_t)pool->shed_count;
}

/* What is refused because it concerns the session. */
LIMIT(session_state, "session_state", said_state(thing->user ? &thing->user->session_state : NULL),
      said_state(thing->entry ? &thing->entry->session_state : NULL), 0, 0,
      thing->pool->state_refused)

/* Of the process: each lane says the same. */
static void of_statement(struct limit_row *row, const struct thing *thing)
{
	const struct statement_limit *limit = thing->statement;

	row->value = limit->entry->max_running;
	row->source = by_pos(row, "statement", limit->entry->name, limit->entry->pos);
	row->used = (int32_t)atomic_load(&limit->running);
	row->hits = (int64_t)atomic_load(&limit->refused_count);
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

static void collect_hosts(struct cursor *cursor)
{
	const struct lane *lane;

	LANES_EACH(lane, show_source_lanes(cursor->source))
	for (const struct cap_host *host = lane->pools->host_table; host; host = host->hh.next)
		cursor_offer(cursor, host->name, "", NULL);
}

static bool find_host(struct cursor *cursor, struct thing *thing)
{
	thing->host = pools_find_cap_host(thing->lane->pools, cursor->ordered.first);
	return thing->host != NULL;
}

static void collect_statements(struct cursor *cursor)
{
	const struct clients *clients = show_source_first(cursor->source)->clients;
	const struct statement_limit *limit = clients->with.limits->table;

	for (; limit; limit = limit->hh.next) {
		if (limit->entry)
			cursor_offer(cursor, limit->entry->name, "", NULL);
	}
}

static bool find_statement(struct cursor *cursor, struct thing *thing)
{
	thing->statement = statement_limits_find(thing->lane->clients->with.limits,
	                                         strtoull(cursor->ordered.first, NULL, 16));
	return thing->statement != NULL;
}

static bool is_blocked(const struct thing *thing) { return thing->statement->entry->block; }

static bool counts_running(const struct thing *thing)
{
	return !is_blocked(thing) && thing->statement->entry->max_running;
}

static bool is_limited(const struct pool *pool)
{
	return pool->database->entry && pool->purpose == POOL_FOR_CLIENTS;
}

static void collect_pools(struct cursor *cursor) { cursor_offer_pools(cursor, is_limited); }

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
	return pool_own_rules(thing->pool)->session_state == SESSION_STATE_FOLLOW;
}

static bool limits_waiting(const struct thing *thing)
{
	return thing->entry && thing->entry->max_waiting > 0;
}

static bool limits_waiting_of_user(const struct thing *thing)
{
	return thing->user && thing->user->max_waiting > 0;
}

static bool guards_queue(const struct thing *thing) { return thing->pool->limits.guards_queue; }

static bool sheds(const struct thing *thing) { return thing->pool->limits.shed.target > 0; }

static bool refuses_state(const struct thing *thing)
{
	return pool_own_rules(thing->pool)->session_state == SESSION_STATE_REFUSE;
}

/* The kinds of objects, each with its limits; a NULL name ends them. */
static const struct scope {
	void (*collect)(struct cursor *cursor); /* NULL: there is one object, without a name */
	bool (*find)(struct cursor *cursor, struct thing *thing);
	bool is_user;     /* the first name of an item is a user, */
	bool is_host;     /* or the address of a host, */
	bool is_digest;   /* or the digest of a statement */
	bool has_both;    /* the names are a database and a user */
	const char *name; /* of the database, if there is only one object; or NULL */
	struct {
		const char *name;
		void (*fill)(struct limit_row *row, const struct thing *thing);
		/* whether this object has the limit; NULL: each has it */
		bool (*applies)(const struct thing *thing);
	} limits[7];
} scopes[] = {
	{ .limits = { { "max_client_conn", max_client_conn, NULL },
	              { "max_server_connections", max_server_connections, NULL },
	              { "open_files", open_files, NULL } } },
	{ .collect = show_collect_databases,
	  .find = find_database,
	  .limits = { { "max_db_connections", max_db_connections, NULL },
	              { "max_db_client_connections", max_db_client_connections, NULL },
	              { "max_waiting", database_waiting, limits_waiting } } },
	{ .name = CONFIG_CONSOLE_DATABASE,
	  .limits = { { "max_db_client_connections", max_guests, NULL } } },
	{ .collect = show_collect_users,
	  .find = find_user,
	  .is_user = true,
	  .limits = { { "max_user_connections", max_user_connections, NULL },
	              { "max_user_client_connections", max_user_client_connections, NULL },
	              { "max_waiting", user_waiting, limits_waiting_of_user } } },
	{ .collect = collect_hosts,
	  .find = find_host,
	  .is_host = true,
	  .limits = { { "max_host_connections", max_host_connections, NULL } } },
	{ .collect = collect_statements,
	  .find = find_statement,
	  .is_digest = true,
	  .limits = { { "max_running", of_statement, counts_running },
	              { "block", of_statement, is_blocked } } },
	{ .collect = collect_pools,
	  .find = find_pool,
	  .has_both = true,
	  .limits = { { "pool_size", pool_size, NULL },
	              { "reserve_pool_size", reserve_pool_size, NULL },
	              { "max_waiting", max_waiting, guards_queue },
	              { "queue_target", queue_target, sheds },
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
		row->database =
		    scope->collect && !scope->is_user && !scope->is_host && !scope->is_digest
			? first
			: scope->name;
		row->statement = scope->is_digest ? first : NULL;
		row->host = scope->is_host ? first : NULL;
		row->user = scope->is_user ? first : scope->has_both ? second : NULL;
		/* HIT: it was hit, or the next client will hit it */
		if (!cursor->asked.argument || row->hits > 0 ||
		    (row->value > 0 && row->used >= row->value))
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
	const char *key, *value, *initial, *changeable, *source;
	struct setting_shown shown;
	char source_buffer[SOURCE_POS_SIZE];
};

static const struct column config_columns[] = {
	{ "key", VALUE_TEXT, ROW_NEXT, "Name of the setting." },
	{ "value", VALUE_TEXT, ROW_NEXT, "Value of the setting." },
	{ "default", VALUE_TEXT, ROW_NEXT, "Default of the setting." },
	{ "changeable", VALUE_TEXT, ROW_NEXT,
	  "yes: RELOAD and SET change the setting; no: only a restart does." },
};

static const struct column source_columns[] = {
	{ "key", VALUE_TEXT, ROW_NEXT, "Name of the setting." },
	{ "value", VALUE_TEXT, ROW_NEXT, "Value of the setting." },
	{ "source", VALUE_TEXT, offsetof(struct config_row, source),
	  "Source of the value: file and line, environment variable, SET, or default." },
};

static bool next_config(struct cursor *cursor, void *at)
{
	const struct config *config = show_source_config(cursor->source);
	struct config_row *row = at;

	if (!setting_show(config, cursor->index++, &row->shown))
		return false;
	row->key = row->shown.name;
	row->value = row->shown.value;
	row->initial = row->shown.initial;
	row->changeable = row->shown.is_changeable ? "yes" : "no";
	row->source = by_setting(config, row->key, row->source_buffer);
	return true;
}

SHOW(config, "CONFIG", next_config, config_columns, "All settings with their values.");
SHOW(sources, "SOURCES", next_config, source_columns,
     "All settings with the places that their values come from.");

/* ---- ALL, and one setting ---- */

#define SETTING_ROW(COLUMN)                                              \
	COLUMN(TEXT, name, 0, "Name of the setting.")                    \
	COLUMN(TEXT, setting, 0, "Value of the setting; NULL: not set.") \
	COLUMN(TEXT, description, 0, "Description of the setting.")

ROW_DECLARE(struct setting_row, setting_columns, SETTING_ROW, struct setting_shown shown;);

static bool next_described(struct cursor *cursor, void *at)
{
	struct setting_row *row = at;
	size_t index = cursor->index++;

	if (!setting_show(show_source_config(cursor->source), index, &row->shown))
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
	const struct setting *setting = setting_find(cursor->asked.argument);
	struct setting_row *row = at;

	if (cursor->index++)
		return false;
	setting_show(show_source_config(cursor->source), (size_t)(setting - settings), &row->shown);
	row->name = row->shown.value; /* its only column */
	return true;
}

/* The column has the setting's name: see request_columns(). */
const struct show show_setting = { .item = "",
	                           .next = next_setting,
	                           .columns = { .at = &setting_columns[1], .count = 1 } };
