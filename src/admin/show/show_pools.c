/* SPDX-License-Identifier: ISC */
/*
 * SHOW of databases, users and pools: DATABASES, USERS, POOLS, SHARES, in the order of names. The
 * console's own database is among them.
 */
#include "show_priv.h"

/* ---- DATABASES ---- */

#define DATABASE_ROW(COLUMN)                                                                       \
	COLUMN(TEXT, name, cursor->ordered.first, "Name of the database as clients request it.")   \
	COLUMN(TEXT, host, entry ? host_of(config, entry) : NULL,                                  \
	       "Host of the server; NULL: Unix socket.")                                           \
	COLUMN(INT4, port, entry ? entry->port : config->listen_port, "Port of the server.")       \
	COLUMN(TEXT, database,                                                                     \
	       entry ? config_database_dbname(entry, cursor->ordered.first)                        \
	             : cursor->ordered.first,                                                      \
	       "Name of the database on the server.")                                              \
	COLUMN(TEXT, force_user, entry ? entry->user : cursor->ordered.first,                      \
	       "User that all server connections log in as; NULL: the client's user.")             \
	COLUMN(INT4, pool_size, entry ? config_greatest_pool_size(config, entry, NULL) : 2,        \
	       "Maximum number of server connections per pool.")                                   \
	COLUMN(INT4, min_pool_size, config_min_pool_size(config, entry),                           \
	       "Minimum number of server connections per pool.")                                   \
	COLUMN(INT4, reserve_pool_size, config_reserve_pool_size(config, entry, NULL),             \
	       "Additional server connections per pool when clients have waited for "              \
	       "reserve_pool_timeout.")                                                            \
	COLUMN(INT4, server_lifetime, config_server_lifetime(config, entry) / USEC_PER_SEC,        \
	       "Seconds after which a server connection is replaced.")                             \
	COLUMN(TEXT, pool_mode, config_pool_modes[entry ? entry->pool_mode : POOL_MODE_STATEMENT], \
	       "pool_mode of the database entry; NULL: not set there.")                            \
	COLUMN(TEXT, load_balance_hosts, entry ? config_load_balance_hosts(entry) : NULL,          \
	       "How one of several hosts is chosen; NULL: the database has one host.")             \
	COLUMN(INT4, max_connections, config_max_db_connections(config, entry),                    \
	       "Maximum number of server connections of the database; 0: no limit.")               \
	COLUMN(INT4, current_connections, entry ? share_servers(&database->cap.share) : 0,         \
	       "Number of server connections of the database.")                                    \
	COLUMN(INT4, max_client_connections, config_max_db_client_connections(config, entry),      \
	       "Maximum number of client connections of the database; 0: no limit.")               \
	COLUMN(INT4, current_client_connections, count_clients(cursor->source, database),          \
	       "Number of client connections of the database.")                                    \
	COLUMN(INT4, paused, entry && (database->is_paused || pools->is_paused),                   \
	       "1: paused by PAUSE (of this database or of all) or KILL.")                         \
	COLUMN(INT4, disabled, entry && database->is_disabled, "1: DISABLE refuses new clients.")

SHOW_ROWS(databases, "DATABASES", DATABASE_ROW, "Databases and their limits.",
          .collect = show_collect_databases, .has_one_row = true);

/* Beyond that many databases or users, those that were never used are left out of metrics. */
#define MANY_NAMES 1000

static bool are_many(const struct cursor *cursor)
{
	const struct pools *pools = cursor->lanes->at->pools;

	return pools->database_count > MANY_NAMES || users_count(pools->users) > MANY_NAMES;
}

bool show_leaves_out(const struct cursor *cursor, const struct database *database)
{
	bool is_used = database->pool_count || database->has_gone || database->client_count ||
	               database->is_paused || database->is_disabled;

	return cursor->skips_unused && !is_used && are_many(cursor);
}

static bool is_shown(const struct cursor *cursor, const struct database *database)
{
	/* created from `*` and not in use */
	bool is_at_rest = database->is_auto && !database->client_count && !database->server_count &&
	                  !database->is_paused && !database->is_disabled;

	return database->entry && !is_at_rest && !show_leaves_out(cursor, database);
}

void show_collect_databases(struct cursor *cursor)
{
	cursor_offer_databases(cursor, is_shown);
	cursor_offer(cursor, CONFIG_CONSOLE_DATABASE, "", NULL);
}

/* database NULL: the console. */
static int64_t count_clients(const struct show_source *source, const struct database *database)
{
	const struct database *of_lane;
	int64_t count = 0;

	if (!database)
		return show_source_console_count(source);
	LANES_EACH (lane, source->with->lanes) {
		of_lane = pools_find_database(lane->pools, database->name);
		count += of_lane ? of_lane->client_count : 0;
	}
	return count;
}

/* NULL: a Unix socket in unix_socket_dir. */
static const char *host_of(const struct config *config, const struct config_database *entry)
{
	return entry->hosts_from ? config_hosts(config, entry) : entry->host;
}

static bool next_databases(struct cursor *cursor, void *row)
{
	const struct pools *pools = cursor->lanes->at->pools;
	const struct config *config = pools->config;
	/* NULL: the console's database */
	const struct database *database = cursor->ordered.object;
	const struct config_database *entry = database ? database->entry : NULL;

	return ROW_FILL(row, struct databases_shown, DATABASE_ROW);
}

/* ---- USERS ---- */

#define USER_ROW(COLUMN)                                                                           \
	COLUMN(TEXT, name, cursor->ordered.first, "Name of the user.")                             \
	COLUMN(TEXT, pool_size, size_text(cursor, entry ? entry->pool_size : CONFIG_INHERIT),      \
	       "Maximum number of server connections of each of the user's pools; empty: not set " \
	       "for the user.")                                                                    \
	COLUMN(TEXT, reserve_pool_size,                                                            \
	       size_text(cursor, entry ? entry->reserve_pool_size : CONFIG_INHERIT),               \
	       "Additional server connections per pool when clients have waited for "              \
	       "reserve_pool_timeout.")                                                            \
	COLUMN(TEXT, pool_mode, entry ? config_pool_modes[entry->pool_mode] : NULL,                \
	       "pool_mode of the user's entry; NULL: not set there.")                              \
	COLUMN(INT4, max_user_connections, config_max_user_connections(config, entry),             \
	       "Maximum number of server connections of the user; 0: no limit.")                   \
	COLUMN(INT4, current_connections, servers, "Number of server connections of the user.")    \
	COLUMN(INT4, max_user_client_connections,                                                  \
	       config_max_user_client_connections(config, entry),                                  \
	       "Maximum number of client connections of the user; 0: no limit.")                   \
	COLUMN(INT4, current_client_connections, clients,                                          \
	       "Number of client connections of the user.")

SHOW_ROWS(users, "USERS", USER_ROW, "Users and their limits.", .collect = show_collect_users,
          .has_one_row = true);

static void offer_user(const struct user *user, void *arg)
{
	cursor_offer(arg, user->name, "", NULL);
}

/* The users of auth_file, those of [users], and those known from other sources. */
void show_collect_users(struct cursor *cursor)
{
	const struct pools *pools = cursor->lanes->at->pools;
	const struct config_user *entry = NULL;

	if (!cursor->skips_unused || !are_many(cursor)) {
		users_each(pools->users, offer_user, cursor);
		while ((entry = config_entry_next(pools->config, ENTRY_USER, entry)))
			cursor_offer(cursor, entry->name, "", NULL);
	}
	LANES_EACH (lane, cursor->lanes)
		TAILQ_EACH (role, &lane->pools->roles, node)
			cursor_offer(cursor, role->name, "", NULL);
}

/* PgBouncer writes a size nine characters wide. An empty text if the size is not set. */
static const char *size_text(struct cursor *cursor, int size)
{
	if (size == CONFIG_INHERIT)
		return "";
	return size == CONFIG_AUTO ? "auto" : cursor_print(cursor, "%9d", size);
}

static bool next_users(struct cursor *cursor, void *row)
{
	const struct config *config = cursor->lanes->at->pools->config;
	const struct config_user *entry = config_entry(config, ENTRY_USER, cursor->ordered.first);
	unsigned int servers = 0, clients = 0;
	const struct role *role;

	LANES_EACH (lane, cursor->lanes) {
		role = pools_find_role(lane->pools, cursor->ordered.first);
		if (!role)
			continue;
		servers = share_servers(&role->cap.share);
		clients += role->client_count;
	}
	return ROW_FILL(row, struct users_shown, USER_ROW);
}

/* ---- POOLS ---- */

/* What is added up of the pools of a row. */
#define POOL_SUMS(COLUMN)                                                                          \
	COLUMN(INT4, cl_active, pool->member_count - pool_waiting_count(pool),                     \
	       "Clients that do not wait for a server.")                                           \
	COLUMN(INT4, cl_waiting, pool_waiting_count(pool), "Clients that wait for a server.")      \
	COLUMN(INT4, cl_active_cancel_req, cancels, "Cancel requests that are being delivered.")   \
	COLUMN(INT4, cl_waiting_cancel_req, pool->cancels.counts[CANCEL_WAITING],                  \
	       "Cancel requests that wait to be delivered.")                                       \
	COLUMN(INT4, sv_active,                                                                    \
	       servers[SERVER_LENT] - (pool->listening_count - pool->listening_login_count),       \
	       "Server connections that are assigned to a client.")                                \
	COLUMN(INT4, sv_active_cancel, cancels,                                                    \
	       "Connections that deliver a cancel request to a server.")                           \
	COLUMN(INT4, sv_being_canceled, servers[SERVER_CANCELED] + servers[SERVER_ENDING],         \
	       "Server connections that wait until a cancel request has been delivered, or until " \
	       "PostgreSQL has ended a statement or a session that nobody waits for.")             \
	COLUMN(INT4, sv_idle, servers[SERVER_IDLE], "Idle server connections, ready for use.")     \
	COLUMN(INT4, sv_used, servers[SERVER_USED],                                                \
	       "Idle server connections that must be checked before their next use.")              \
	COLUMN(INT4, sv_tested, servers[SERVER_CHECKING] + servers[SERVER_RESETTING],              \
	       "Server connections that are being checked or reset.")                              \
	COLUMN(INT4, sv_login, servers[SERVER_CONNECTING] + servers[SERVER_LOGIN],                 \
	       "Server connections that are logging in; at least 1 for a minute after a failed "   \
	       "login.")

#define POOL_ROW(COLUMN)                                                                        \
	COLUMN(TEXT, database, 0, "Name of the database.")                                      \
	COLUMN(TEXT, user, 0, "User that the server connections log in as.")                    \
	POOL_SUMS(COLUMN)                                                                       \
	COLUMN(INT4, maxwait, 0, "Seconds that the first client in the wait queue has waited.") \
	COLUMN(INT4, maxwait_us, 0,                                                             \
	       "Microsecond part of the longest wait (column maxwait has the seconds).")        \
	COLUMN(TEXT, pool_mode, 0, "Pool mode: session, transaction or statement.")             \
	COLUMN(TEXT, load_balance_hosts, 0,                                                     \
	       "How one of several hosts is chosen; NULL: the database has one host.")

SHOW_ITEMS(pools, "POOLS", POOL_ROW,
           "Pools: their clients and server connections, and how long clients wait.",
           .argument = SHOW_OF_DATABASE, .has_one_row = true);

static void collect_pools(struct cursor *cursor)
{
	cursor_offer_pools(cursor, NULL);
	if (cursor_wants(cursor, CONFIG_CONSOLE_DATABASE))
		cursor_offer(cursor, CONFIG_CONSOLE_DATABASE, CONFIG_CONSOLE_DATABASE, NULL);
}

static bool is_own(const struct pool *pool)
{
	return pool->database->entry && pool->purpose == POOL_FOR_CLIENTS;
}

void show_collect_own_pools(struct cursor *cursor) { cursor_offer_pools(cursor, is_own); }

/* *longest: their longest wait. *has_failed: a login of one of them has failed lately. */
static void add_pool(struct pools_shown *row, struct pool *pool, usec_t *longest, bool *has_failed)
{
	const unsigned int *servers = pool->server_counts;
	unsigned int cancels = pool->cancels.count - pool->cancels.counts[CANCEL_WAITING];
	usec_t wait = pool_longest_wait(pool, loop_now(pool->pools->shared.loop));

	ROW_ADD(POOL_SUMS)
	*longest = wait > *longest ? wait : *longest;
	*has_failed |= pool_has_failed_lately(pool);
	row->pool_mode = config_pool_modes[pool_own_rules(pool)->mode];
	if (pool->database->entry)
		row->load_balance_hosts = config_load_balance_hosts(pool->database->entry);
}

/* Those of a user on a database that are shown in one row; of the last one that exists its mode. */
static const enum pool_purpose purposes[] = { POOL_FOR_LOOKUPS, POOL_FOR_READS, POOL_FOR_CLIENTS };

#define PURPOSES (sizeof(purposes) / sizeof(purposes[0]))

/*
 * A row has the pools of these names in all lanes. The pool that auth_query uses and that of reads
 * on standbys are shown in one row with the pool of the clients of the same user.
 */
static bool next_pools(struct cursor *cursor, void *at)
{
	struct pools_shown *row = at;
	bool has_failed = false;
	usec_t wait = 0;

	row->database = cursor->ordered.first;
	row->user = cursor->ordered.second;
	if (!cursor->ordered.object) {
		row->cl_active = show_source_console_count(cursor->source);
		row->pool_mode = config_pool_modes[POOL_MODE_STATEMENT];
		return true;
	}
	for (size_t i = 0; i < PURPOSES; i++) {
		POOLS_EACH (pool, cursor, purposes[i])
			add_pool(row, pool, &wait, &has_failed);
	}
	if (row->sv_login == 0 && has_failed)
		row->sv_login = 1;
	row->maxwait = wait / USEC_PER_SEC;
	row->maxwait_us = wait % USEC_PER_SEC;
	return true;
}

/* ---- SHARES ---- */

#define SHARE_ROW(COLUMN)                                                                         \
	COLUMN(TEXT, database, cursor->ordered.first, "Name of the database.")                    \
	COLUMN(TEXT, user, cursor->ordered.second, "User that the server connections log in as.") \
	COLUMN(TEXT, group, buf_text(&cursor->group) + 1,                                         \
	       "The user, application or address that fair_by tells apart; empty: all others.")   \
	COLUMN(TEXT, priority, config_priorities[sum.priority], "priority of the group.")         \
	COLUMN(INT4, weight, sum.weight, "Weight of the group, as set for the user.")             \
	COLUMN(INT4, cl_waiting, sum.waiting, "Clients of the group that wait for a server.")     \
	COLUMN(INT4, sv_active, sum.served, "Servers that clients of the group have.")            \
	COLUMN(                                                                                   \
	    INT8, used_us, sum.used,                                                              \
	    "Microseconds that its clients have used servers, up to their last return. It "       \
	    "begins anew when none of them waits or has a server, and others have used as much.")

SHOW_ITEMS(shares, "SHARES", SHARE_ROW,
           "Between whom fair_by and priority share the servers of each pool.",
           .argument = SHOW_OF_DATABASE);

static bool is_shared(const struct pool *pool) { return pool->fair != NULL; }

static void collect_shares(struct cursor *cursor) { cursor_offer_pools(cursor, is_shared); }

/* Walks the pools of clients, and those for reads on standbys, of all lanes. */
#define SHARED_EACH(pool, cursor)                      \
	for (size_t i = 1; i < PURPOSES; i++)          \
		POOLS_EACH (pool, cursor, purposes[i]) \
			if (pool->fair)

static bool next_shares(struct cursor *cursor, void *row)
{
	const char *next = NULL, *key;
	struct fair_sum sum = { 0 };

	if (cursor->index++ == 0)
		buf_clear(&cursor->group);
	SHARED_EACH (pool, cursor) {
		key = fair_key_after(pool->fair, buf_text(&cursor->group));
		if (key && (!next || strcmp(key, next) < 0))
			next = key;
	}
	if (!next)
		return false;
	buf_clear(&cursor->group);
	buf_add_text(&cursor->group, next);
	if (!buf_ok(&cursor->group))
		return false;
	SHARED_EACH (pool, cursor)
		fair_add_up(pool->fair, next, &sum);
	return ROW_FILL(row, struct shares_shown, SHARE_ROW);
}
