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
#include <stdlib.h>

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

SHOW_ROWS(
    limits, "LIMITS", LIMIT_ROW,
    "All limits, with source, current use, and how often each was hit. HIT: only limits that were "
    "hit or are reached now.",
    .argument = SHOW_HIT);

static const char *pos_text(struct cursor *cursor, struct source_pos pos)
{
	char text[SOURCE_POS_SIZE];

	return cursor_print(cursor, "%s", source_pos_text(pos, text));
}

/*
 * ---- the limits: each function has those of an object, as one lane knows it ----
 *
 * The broker counts what is used in all lanes; what each lane counts by itself is added up.
 */

/* An entry that has a value of its own. */
struct said {
	const char *whose; /* "user" ...; NULL: it has none */
	const char *name;
	struct source_pos pos;
};

#define SAID(of, entry, is_said) \
	((is_said) ? (struct said){ of, (entry)->name, (entry)->pos } : (struct said){ 0 })
#define BY_USER(field) SAID("user", user, user && user->field != CONFIG_INHERIT)
#define BY_STATE(of, entry) \
	SAID(of, entry, (entry) && (entry)->session_state != SESSION_STATE_INHERIT)
#define BY_DATABASE(field) SAID("database", entry, entry && entry->field != CONFIG_INHERIT)

#define LIMITS_MAX 6 /* of an object */

struct limit {
	const char *name;    /* NULL: the object, or the lane, does not have it */
	const char *setting; /* NULL: has the same name */
	struct said by[2];   /* come before the setting, in the order of config/entries.c */
	int64_t value;
	int64_t used, blocked; /* by all lanes; 0 if this one does not know it */
	uint64_t hits;         /* in this lane, as what follows */
	int64_t waiting;
};

/* Of a limit on servers that pools share. */
#define CAP(cap)                                                   \
	.used = share_servers(&(cap)->share), .hits = (cap)->hits, \
	.blocked = (cap)->share.tally->blocked_count

static const char *source_of(struct cursor *cursor, const struct config *config,
                             const struct limit *limit)
{
	const struct said *by = limit->by[0].whose ? &limit->by[0] : &limit->by[1];
	const char *setting = limit->setting ? limit->setting : limit->name;
	char where[SOURCE_POS_SIZE];

	if (strcmp(limit->name, "open_files") == 0)
		return "ulimit -n";
	if (!by->whose)
		return pos_text(cursor, config_origin(config, setting));
	return cursor_print(cursor, "%s (%s %s)", source_pos_text(by->pos, where), by->whose,
	                    by->name);
}

static void of_process(const struct cursor *cursor, const struct lane *lane, struct limit *limits)
{
	const struct clients *clients = lane->clients;
	const struct pools *pools = lane->pools;

	(void)cursor;
	limits[0] = (struct limit){ .name = "max_client_conn",
		                    .value = pools->config->max_client_conn,
		                    .used = broker_admitted(pools->with.broker),
		                    .hits = clients->limit_hits };
	limits[1] = (struct limit){ .name = "max_server_connections",
		                    .value = pools->config->max_server_connections,
		                    CAP(&pools->cap) };
	/* what is kept for servers and consoles is not part of it */
	limits[2] = (struct limit){ .name = "open_files",
		                    .value = clients->shared->files_for_clients,
		                    .used = clients_files_used(),
		                    .hits = clients->files_hits };
}

static void of_database(const struct cursor *cursor, const struct lane *lane, struct limit *limits)
{
	const struct database *database = pools_find_database(lane->pools, cursor->ordered.first);
	const struct config_database *entry = database ? database->entry : NULL;
	const struct config *config = lane->pools->config;

	/* The console's: it applies to users that are not in admin_users. */
	if (strcmp(cursor->ordered.first, CONFIG_CONSOLE_DATABASE) == 0)
		limits[0] = (struct limit){ .name = "max_db_client_connections",
			                    .value = config_max_db_client_connections(config, NULL),
			                    .used = lane->clients->guest_count,
			                    .hits = lane->clients->guest_limit_hits };
	if (!database)
		return;
	limits[0] = (struct limit){ .name = "max_db_connections",
		                    .by = { BY_DATABASE(max_db_connections) },
		                    .value = config_max_db_connections(config, entry),
		                    CAP(&database->cap) };
	limits[1] = (struct limit){ .name = "max_db_client_connections",
		                    .by = { BY_DATABASE(max_db_client_connections) },
		                    .value = config_max_db_client_connections(config, entry),
		                    .used = database->cap.share.tally->client_count,
		                    .hits = database->client_limit_hits };
	if (entry && entry->max_waiting > 0)
		limits[2] = (struct limit){ .name = "max_waiting",
			                    .by = { BY_DATABASE(max_waiting) },
			                    .value = entry->max_waiting,
			                    .used = share_waiting(&database->cap.share),
			                    .hits = database->cap.queue_hits };
}

/* Not every lane knows the user. */
static void of_user(const struct cursor *cursor, const struct lane *lane, struct limit *limits)
{
	const struct config *config = lane->pools->config;
	const struct config_user *user = config_user_find(config, cursor->ordered.first);
	const struct role *role = pools_find_role(lane->pools, cursor->ordered.first);
	const struct cap *cap = role ? &role->cap : NULL;

	limits[0] = (struct limit){ .name = "max_user_connections",
		                    .by = { BY_USER(max_user_connections) },
		                    .value = config_max_user_connections(config, user),
		                    .used = cap ? share_servers(&cap->share) : 0,
		                    .hits = cap ? cap->hits : 0,
		                    .blocked = cap ? cap->share.tally->blocked_count : 0 };
	limits[1] = (struct limit){ .name = "max_user_client_connections",
		                    .by = { BY_USER(max_user_client_connections) },
		                    .value = config_max_user_client_connections(config, user),
		                    .used = cap ? cap->share.tally->client_count : 0,
		                    .hits = role ? role->client_limit_hits : 0 };
	if (user && user->max_waiting > 0)
		limits[2] = (struct limit){ .name = "max_waiting",
			                    .by = { BY_USER(max_waiting) },
			                    .value = user->max_waiting,
			                    .used = cap ? share_waiting(&cap->share) : 0,
			                    .hits = cap ? cap->queue_hits : 0 };
}

static void of_host(const struct cursor *cursor, const struct lane *lane, struct limit *limits)
{
	const struct cap_host *host = pools_find_cap_host(lane->pools, cursor->ordered.first);

	if (host)
		limits[0] = (struct limit){ .name = "max_host_connections",
			                    .value = (int)host->cap.share.tally->most,
			                    CAP(&host->cap) };
}

/* Of the process: it is counted once. */
static void of_statement(const struct cursor *cursor, const struct lane *lane, struct limit *limits)
{
	const struct statement_limit *limit = statement_limits_find(
	    &lane->clients->shared->limits, strtoull(cursor->ordered.first, NULL, 16));

	if (limit && !lane->number)
		limits[0] = (struct limit){ .name = limit->entry->block ? "block" : "max_running",
			                    .by = { SAID("statement", limit->entry, true) },
			                    .value = limit->entry->max_running,
			                    .used = (int64_t)atomic_load(&limit->running),
			                    .hits = atomic_load(&limit->refused_count) };
}

static void of_pool(const struct cursor *cursor, const struct lane *lane, struct limit *limits)
{
	const struct pool *pool =
	    pools_find_pool(lane->pools, cursor->ordered.first, cursor->ordered.second);
	const struct config_database *entry = pool ? pool->database->entry : NULL;
	const struct config_user *user = pool ? pool->role->entry : NULL;
	int64_t size, servers;

	if (!entry)
		return;
	size = pool->limits.size;
	servers = share_servers(&pool->share);
	limits[0] = (struct limit){ .name = "pool_size",
		                    .setting = "default_pool_size",
		                    .by = { BY_USER(pool_size), BY_DATABASE(pool_size) },
		                    .value = size,
		                    .used = servers,
		                    .hits = pool->size_hits,
		                    .waiting = size && servers >= size
		                                   ? pool->queues[BORROWER_WAITING].count
		                                   : 0 };
	limits[1] =
	    (struct limit){ .name = "reserve_pool_size",
		            .by = { BY_USER(reserve_pool_size), BY_DATABASE(reserve_pool_size) },
		            .value = pool->limits.reserve_size,
		            .used = size && servers > size ? servers - size : 0,
		            .hits = pool->reserve_hits };
	if (pool->limits.guards_queue)
		limits[2] = (struct limit){ .name = "max_waiting",
			                    .value = pool->limits.max_waiting,
			                    .used = share_waiting(&pool->share),
			                    .hits = pool->queue_hits };
	/* in milliseconds; what is used is how long the first has waited */
	if (pool->limits.shed.target > 0)
		limits[3] = (struct limit){ .name = "queue_target",
			                    .value = pool->limits.shed.target / USEC_PER_MS,
			                    .used = pool_longest_wait(pool, loop_now(lane->loop)) /
			                            USEC_PER_MS,
			                    .hits = pool->shed_count };
	if (pool_own_rules(pool)->session_state == SESSION_STATE_FOLLOW)
		limits[4] = (struct limit){ .name = "max_pinned_servers",
			                    .by = { BY_DATABASE(max_pinned_servers) },
			                    .value = pool->limits.max_pinned == INT_MAX
			                                 ? -1
			                                 : pool->limits.max_pinned,
			                    .used = pool->share.tally->pinned_count,
			                    .hits = pool->pins_refused };
	/* what is refused because it concerns the session */
	if (pool_own_rules(pool)->session_state == SESSION_STATE_REFUSE)
		limits[5] =
		    (struct limit){ .name = "session_state",
			            .by = { BY_STATE("user", user), BY_STATE("database", entry) },
			            .hits = pool->state_refused };
}

/* ---- the objects ---- */

static void collect_hosts(struct cursor *cursor)
{
	LANES_EACH (lane, cursor->lanes)
		for (const struct cap_host *host = lane->pools->host_table; host;
		     host = host->hh.next)
			cursor_offer(cursor, host->name, "", NULL);
}

static void collect_statements(struct cursor *cursor)
{
	const struct statement_limit *limit = cursor->lanes->at->clients->shared->limits.table;

	for (; limit; limit = limit->hh.next) {
		if (limit->entry)
			cursor_offer(cursor, limit->entry->name, "", NULL);
	}
}

#define COLUMN_OF(name) offsetof(struct limits_shown, name)

static const struct scope {
	void (*collect)(struct cursor *cursor); /* NULL: there is one object, without a name */
	void (*fill)(const struct cursor *cursor, const struct lane *lane, struct limit *limits);
	size_t count;         /* of the limits that it fills */
	size_t first, second; /* the columns that its names go to; 0: it has no such name */
} scopes[] = {
	{ NULL, of_process, 3, 0, 0 },
	{ show_collect_databases, of_database, 3, COLUMN_OF(database), 0 },
	{ show_collect_users, of_user, 3, COLUMN_OF(user), 0 },
	{ collect_hosts, of_host, 1, COLUMN_OF(host), 0 },
	{ collect_statements, of_statement, 1, COLUMN_OF(statement), 0 },
	{ show_collect_own_pools, of_pool, 6, COLUMN_OF(database), COLUMN_OF(user) },
};

#define SCOPE_COUNT (sizeof(scopes) / sizeof(scopes[0]))

/*
 * Continues with the next limit, of the next object if needed. cursor->slot is the scope, and
 * cursor->index the limit. NULL: no more.
 */
static const struct scope *next_thing(struct cursor *cursor)
{
	for (; cursor->slot < SCOPE_COUNT; cursor->slot++) {
		const struct scope *scope = &scopes[cursor->slot];
		bool has_object = !scope->collect || cursor->ordered.has_last;

		if (has_object && cursor->index < scope->count)
			return scope;
		cursor->index = 0;
		if (scope->collect && cursor_next_ordered(cursor, scope->collect))
			return scope;
		cursor->ordered = (struct ordered){ 0 };
	}
	return NULL;
}

static void set_name(struct limits_shown *row, size_t column, const char *name)
{
	if (column)
		*(const char **)(void *)((char *)row + column) = name;
}

/* false: no lane has the object, or it does not have this limit. */
static bool fill_limit(struct cursor *cursor, struct limits_shown *row, const struct scope *scope,
                       size_t at)
{
	*row = (struct limits_shown){ 0 };
	cursor->text_count = 0;
	set_name(row, scope->first, cursor->ordered.first);
	set_name(row, scope->second, cursor->ordered.second);
	LANES_EACH (lane, cursor->lanes) {
		struct limit limits[LIMITS_MAX] = { 0 }, *limit = &limits[at];

		scope->fill(cursor, lane, limits);
		if (!limit->name)
			continue;
		if (!row->limit)
			row->source = source_of(cursor, lane->pools->config, limit);
		row->limit = limit->name;
		row->value = limit->value;
		row->used = limit->used > row->used ? limit->used : row->used;
		row->hits += (int64_t)limit->hits;
		row->waiting = limit->waiting + (limit->blocked ? limit->blocked : row->waiting);
	}
	return row->limit;
}

static bool next_limits(struct cursor *cursor, void *at)
{
	struct limits_shown *row = at;
	const struct scope *scope;

	while (cursor_may_look(cursor) && (scope = next_thing(cursor))) {
		/* HIT: it was hit, or the next client will hit it */
		if (fill_limit(cursor, row, scope, cursor->index++) &&
		    (!cursor->argument || row->hits > 0 ||
		     (row->value > 0 && row->used >= row->value)))
			return true;
	}
	return false;
}
/* ---- CONFIG, SOURCES, ALL, and one setting ---- */

struct config_row {
	const char *key, *value, *initial, *changeable, *source, *description;
	char buffer[SETTING_VALUE_SIZE];
};

#define CONFIG_COLUMN(name, field, help)                                   \
	{                                                                  \
		name, VALUE_TEXT, offsetof(struct config_row, field), help \
	}

static const struct column config_columns[] = {
	CONFIG_COLUMN("key", key, "Name of the setting."),
	CONFIG_COLUMN("value", value, "Value of the setting."),
	CONFIG_COLUMN("default", initial, "Default of the setting."),
	CONFIG_COLUMN("changeable", changeable,
	              "yes: RELOAD and SET change the setting; no: only a restart does."),
};

static const struct column source_columns[] = {
	CONFIG_COLUMN("key", key, "Name of the setting."),
	CONFIG_COLUMN("value", value, "Value of the setting."),
	CONFIG_COLUMN("source", source,
	              "Source of the value: file and line, environment variable, SET, or default."),
};

static const struct column setting_columns[] = {
	CONFIG_COLUMN("name", key, "Name of the setting."),
	CONFIG_COLUMN("setting", value, "Value of the setting; NULL: not set."),
	CONFIG_COLUMN("description", description, "Description of the setting."),
};

static bool fill_setting(struct cursor *cursor, struct config_row *row, size_t index)
{
	const struct config *config = show_source_config(cursor->source);
	const struct setting *setting = &settings[index];

	if (index >= settings_count)
		return false;
	row->key = setting->name;
	row->value = setting_value(config, setting, row->buffer);
	row->initial = setting->initial;
	row->changeable = setting->reload == RELOAD_LIVE ? "yes" : "no";
	row->source = pos_text(cursor, config_origin(config, row->key));
	row->description = setting->help;
	return true;
}

static bool next_config(struct cursor *cursor, void *row)
{
	return fill_setting(cursor, row, cursor->index++);
}

SHOW(config, "CONFIG", next_config, config_columns, "All settings with their values.");
SHOW(sources, "SOURCES", next_config, source_columns,
     "All settings with the places that their values come from.");
SHOW(all, "ALL", next_config, setting_columns,
     "All settings with values and descriptions, in the format of PostgreSQL's SHOW ALL.");

static bool next_setting(struct cursor *cursor, void *row)
{
	size_t index = (size_t)(setting_find(cursor->argument) - settings);

	return cursor->index++ == 0 && fill_setting(cursor, row, index);
}

/* The column has the setting's name: see read_show(). */
const struct show show_setting = { .item = "",
	                           .next = next_setting,
	                           .columns = { .at = &setting_columns[1], .count = 1 } };
