/* SPDX-License-Identifier: ISC */
/*
 * SHOW of what is configured: CONFIG, SOURCES, ALL, HBA, IDENT, PEERS, PEER_POOLS, and LIMITS: each
 * limit of each object: the value in force, its source, how much of it is
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
		                    .used = pools->with.broker->admitted_count,
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
	const struct config_user *user = config_entry(config, ENTRY_USER, cursor->ordered.first);
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

/*
 * ---- HBA, IDENT: the rules of auth_type hba ----
 *
 * Their columns are those of PostgreSQL's pg_hba_file_rules and pg_ident_file_mappings, with arrays
 * as text. A rule is found by its number, so that a reload between two rows does no harm.
 */

#define HBA_ROW(COLUMN)                                                                          \
	COLUMN(INT4, rule_number, (int64_t)++cursor->index,                                      \
	       "Position of the rule. The first rule that matches a client is used.")            \
	COLUMN(TEXT, file_name, rule->pos.file, "File that contains the line.")                  \
	COLUMN(INT4, line_number, rule->pos.line, "Line number in the file.")                    \
	COLUMN(TEXT, type, hba_type_name(rule->type),                                            \
	       "Connection type: local, host, hostssl, ...")                                     \
	COLUMN(TEXT, database, text[0], "Databases that the rule applies to, as an array.")      \
	COLUMN(TEXT, user_name, text[1], "Users that the rule applies to, as an array.")         \
	COLUMN(TEXT, address, text[2],                                                           \
	       "Client address: an IP address, all, samehost, samenet, or a host name.")         \
	COLUMN(TEXT, netmask, text[3], "Netmask of an IP address.")                              \
	COLUMN(TEXT, auth_method, auth_methods[rule->method].hba_name, "Authentication method.") \
	COLUMN(TEXT, options, text[4], "Options of the authentication method, as an array.")     \
	COLUMN(TEXT, error, rule->flaw.at, "Why the rule never allows a login; NULL if it can.")

SHOW_ROWS(hba, "HBA", HBA_ROW, "Rules of auth_hba_file, if auth_type is hba.");

/* "" in the texts of a rule: NULL. */
static const char *take_or_null(struct bytes *texts)
{
	const char *text;

	return bytes_take_text(texts, &text) && *text ? text : NULL;
}

static bool next_hba(struct cursor *cursor, void *row)
{
	const struct hba *hba = cursor->lanes->at->clients->shared->gates.main.rules.hba;
	const struct hba_rule *rule;
	struct buf *list = cursor_text(cursor);
	const char *text[5];
	struct bytes texts;

	if (!hba || cursor->index >= hba->count)
		return false;
	rule = &hba->rules[cursor->index];
	hba_rule_texts(rule, list);
	texts = buf_bytes(list);
	for (size_t i = 0; i < 5; i++)
		text[i] = take_or_null(&texts);
	return ROW_FILL(row, struct hba_shown, HBA_ROW);
}

#define IDENT_ROW(COLUMN)                                                          \
	COLUMN(INT4, map_number, (int64_t)++cursor->index,                         \
	       "Position of the map line among all lines, from 1.")                \
	COLUMN(TEXT, file_name, mapping->pos.file, "File that contains the line.") \
	COLUMN(INT4, line_number, mapping->pos.line, "Line number in the file.")   \
	COLUMN(TEXT, map_name, mapping->map, "Name of the map.")                   \
	COLUMN(TEXT, sys_name, mapping->system_user.text,                          \
	       "System user name, or the name in a client certificate.")           \
	COLUMN(TEXT, pg_username, mapping->user.text,                              \
	       "Database user that the system user may log in as.")

SHOW_ROWS(ident, "IDENT", IDENT_ROW, "User name maps of auth_ident_file, if auth_type is hba.");

static bool next_ident(struct cursor *cursor, void *row)
{
	const struct hba *hba = cursor->lanes->at->clients->shared->gates.main.rules.hba;
	const struct mapping *mapping;

	if (!hba || cursor->index >= hba->mapping_count)
		return false;
	mapping = &hba->mappings[cursor->index];
	return ROW_FILL(row, struct ident_shown, IDENT_ROW);
}

/* ---- PEERS and PEER_POOLS, in the order of their ids; a cursor keeps the last id ---- */

static const struct config_peer *next_entry(struct cursor *cursor)
{
	const struct config *config = cursor->lanes->at->pools->config;
	const struct config_peer *peer = NULL;

	do {
		peer = config_entry_next(config, ENTRY_PEER, peer);
	} while (peer && peer->id <= (int)cursor->index);
	if (peer)
		cursor->index = (size_t)peer->id;
	return peer;
}

#define PEER_ROW(COLUMN)                                                                     \
	COLUMN(INT4, peer_id, peer->id, "Number of the peer (its peer_id).")                 \
	COLUMN(TEXT, host, peer->host, "Host of the peer, or directory of its Unix socket.") \
	COLUMN(INT4, port, peer->port, "Port of the peer.")                                  \
	COLUMN(                                                                              \
	    INT4, pool_size, config_peer_pool_size(config, peer),                            \
	    "Maximum number of cancel requests sent to the peer at the same time; 0: no limit.")

SHOW_ROWS(peers, "PEERS", PEER_ROW, "Other instances to which cancel requests are forwarded.");

static bool next_peers(struct cursor *cursor, void *row)
{
	const struct config_peer *peer = next_entry(cursor);
	const struct config *config = cursor->lanes->at->pools->config;

	return peer && ROW_FILL(row, struct peers_shown, PEER_ROW);
}

#define PEER_POOL_ROW(COLUMN)                                                                 \
	COLUMN(INT4, peer_id, id, "Number of the peer (its peer_id); 0: those of peers_dns.") \
	COLUMN(INT4, cl_active_cancel_req, sent,                                              \
	       "Cancel requests that were sent to the peer and are not answered yet.")        \
	COLUMN(INT4, cl_waiting_cancel_req, waiting + connecting,                             \
	       "Cancel requests that wait in the queue or for a connection.")                 \
	COLUMN(INT4, sv_active_cancel, sent,                                                  \
	       "Connections that carry a cancel request to the peer.")                        \
	COLUMN(INT4, sv_login, connecting, "Connections to the peer that are being established.")

SHOW_ROWS(peer_pools, "PEER_POOLS", PEER_POOL_ROW,
          "Cancel requests that are being forwarded to other instances.");

/* false: no lane has a pool for this peer. */
static bool fill_peer_pool(void *row, const struct lanes *lanes, int id)
{
	unsigned int sent = 0, connecting = 0, waiting = 0;
	const struct peer_pool *pool;
	bool has_pool = false;

	LANES_EACH (lane, lanes) {
		pool = peer_pool_find(lane->pools, id);
		if (!pool)
			continue;
		has_pool = true;
		sent += pool->queue.counts[CANCEL_SENT];
		connecting += pool->queue.counts[CANCEL_CONNECTING];
		waiting += pool->queue.counts[CANCEL_WAITING];
	}
	return ROW_FILL(row, struct peer_pools_shown, PEER_POOL_ROW) && has_pool;
}

static bool next_peer_pools(struct cursor *cursor, void *row)
{
	const struct lanes *lanes = cursor->lanes;
	const struct config_peer *peer;

	if (cursor->slot++ == 0 && fill_peer_pool(row, lanes, PEER_BY_DNS))
		return true;
	while ((peer = next_entry(cursor))) {
		if (fill_peer_pool(row, lanes, peer->id))
			return true;
	}
	return false;
}
