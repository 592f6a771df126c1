/* SPDX-License-Identifier: ISC */
/*
 * SHOW of databases, users and pools: DATABASES, USERS, POOLS, in the order of names. The
 * console's own database is among them.
 */
#include "show_priv.h"

#include <stdio.h>

/* ---- DATABASES ---- */

struct database_row {
	const char *name, *host, *database, *force_user, *pool_mode, *load_balance_hosts;
	int64_t port, pool_size, min_pool_size, reserve_pool_size, server_lifetime;
	int64_t max_connections, current_connections;
	int64_t max_client_connections, current_client_connections;
	int64_t paused, disabled;
};

#define ROW struct database_row
static const struct column database_columns[] = {
	TEXT(name, "Name of the database as clients request it."),
	TEXT(host, "Host of the server; NULL: Unix socket."),
	INT4(port, "Port of the server."),
	TEXT(database, "Name of the database on the server."),
	TEXT(force_user, "User that all server connections log in as; NULL: the client's user."),
	INT4(pool_size, "Maximum number of server connections per pool."),
	INT4(min_pool_size, "Minimum number of server connections per pool."),
	INT4(reserve_pool_size,
	     "Additional server connections per pool when clients have waited for "
	     "reserve_pool_timeout."),
	INT4(server_lifetime, "Seconds after which a server connection is replaced."),
	TEXT(pool_mode, "pool_mode of the database entry; NULL: not set there."),
	TEXT(load_balance_hosts,
	     "How one of several hosts is chosen; NULL: the database has one host."),
	INT4(max_connections, "Maximum number of server connections of the database; 0: no limit."),
	INT4(current_connections, "Number of server connections of the database."),
	INT4(max_client_connections,
	     "Maximum number of client connections of the database; 0: no limit."),
	INT4(current_client_connections, "Number of client connections of the database."),
	INT4(paused, "1: paused by PAUSE (of this database or of all) or KILL."),
	INT4(disabled, "1: DISABLE refuses new clients."),
};
#undef ROW

/* A database created from `*` that is not in use is not shown. */
static bool is_at_rest(const struct database *database)
{
	return database->is_auto && !database->client_count && !database->server_count &&
	       !database->is_paused && !database->is_disabled;
}

/* Beyond that many databases or users, those that were never used are left out of metrics. */
#define MANY_NAMES 1000

static bool are_many(const struct cursor *cursor)
{
	const struct pools *pools = show_source_first(cursor->source)->pools;

	return pools->database_count > MANY_NAMES || users_count(pools->users) > MANY_NAMES;
}

bool show_leaves_out(const struct cursor *cursor, const struct database *database)
{
	bool is_used = database->pool_count || database->has_gone || database->client_count ||
	               database->is_paused || database->is_disabled;

	return cursor->skips_unused && !is_used && are_many(cursor);
}

void show_collect_databases(struct cursor *cursor)
{
	const struct lanes *lanes = show_source_lanes(cursor->source);
	const struct database *database;
	const struct lane *lane;

	LANES_EACH(lane, lanes)
	TAILQ_FOREACH (database, &lane->pools->databases, node) {
		if (database->entry && !is_at_rest(database) && !show_leaves_out(cursor, database))
			cursor_offer(cursor, (struct ordered_item){ database->name, "", database });
	}
	cursor_offer(cursor, (struct ordered_item){ CONFIG_CONSOLE_DATABASE, "", NULL });
}

/* The values that all rows have. entry NULL: the console's database. */
static void fill_database(struct database_row *row, const struct config *config,
                          const struct config_database *entry)
{
	row->pool_size = config_pool_size(config, entry, NULL);
	row->min_pool_size = config_min_pool_size(config, entry);
	row->reserve_pool_size = config_reserve_pool_size(config, entry, NULL);
	row->server_lifetime = config_server_lifetime(config, entry) / USEC_PER_SEC;
	row->max_connections = config_max_db_connections(config, entry);
	row->max_client_connections = config_max_db_client_connections(config, entry);
}

static void fill_console(struct database_row *row, const struct show_source *source)
{
	fill_database(row, show_source_config(source), NULL);
	row->name = row->database = row->force_user = CONFIG_CONSOLE_DATABASE;
	row->port = show_source_config(source)->listen_port;
	row->pool_size = 2;
	row->pool_mode = config_pool_mode_name(POOL_MODE_STATEMENT);
	row->current_client_connections = show_source_console_count(source);
}

static int64_t count_clients(const struct show_source *source, const char *name)
{
	const struct database *database;
	const struct lane *lane;
	int64_t count = 0;

	LANES_EACH(lane, show_source_lanes(source))
	{
		database = pools_find_database(lane->pools, name);
		count += database ? database->client_count : 0;
	}
	return count;
}

static bool next_database(struct cursor *cursor, void *at)
{
	const struct pools *pools = show_source_first(cursor->source)->pools;
	struct database_row *row = at;
	const struct database *database;
	struct ordered_item item;

	if (!cursor_next_ordered(cursor, show_collect_databases, &item))
		return false;
	database = item.object;
	if (!database) {
		fill_console(row, cursor->source);
		return true;
	}
	fill_database(row, pools->config, database->entry);
	row->name = database->name;
	row->host = database->entry->host;
	row->port = database->entry->port;
	row->database = config_database_dbname(database->entry, database->name);
	row->force_user = database->entry->user;
	row->pool_mode = config_pool_mode_name(database->entry->pool_mode);
	row->load_balance_hosts = config_load_balance_hosts(database->entry);
	row->current_connections = share_servers(&database->share);
	row->current_client_connections = count_clients(cursor->source, database->name);
	row->paused = database->is_paused || pools->is_paused;
	row->disabled = database->is_disabled;
	return true;
}

SHOW(databases, "DATABASES", next_database, database_columns, "Databases and their limits.");

/* ---- USERS ---- */

struct user_row {
	const char *name, *pool_size, *reserve_pool_size, *pool_mode;
	int64_t max_user_connections, current_connections;
	int64_t max_user_client_connections, current_client_connections;
	char pool_size_buffer[24], reserve_buffer[24];
};

#define ROW struct user_row
static const struct column user_columns[] = {
	TEXT(name, "Name of the user."),
	TEXT(pool_size, "Maximum number of server connections of each of the user's pools; "
	                "empty: not set for the user."),
	TEXT(reserve_pool_size,
	     "Additional server connections per pool when clients have waited for "
	     "reserve_pool_timeout."),
	TEXT(pool_mode, "pool_mode of the user's entry; NULL: not set there."),
	INT4(max_user_connections,
	     "Maximum number of server connections of the user; 0: no limit."),
	INT4(current_connections, "Number of server connections of the user."),
	INT4(max_user_client_connections,
	     "Maximum number of client connections of the user; 0: no limit."),
	INT4(current_client_connections, "Number of client connections of the user."),
};
#undef ROW

static void offer_user(const struct user *user, void *arg)
{
	cursor_offer(arg, (struct ordered_item){ user->name, "", NULL });
}

/* The users of auth_file, those of [users], and those known from other sources. */
void show_collect_users(struct cursor *cursor)
{
	const struct pools *pools = show_source_first(cursor->source)->pools;
	const struct config_user *entry = NULL;
	const struct lane *lane;
	const struct role *role;

	if (!cursor->skips_unused || !are_many(cursor)) {
		users_each(pools->users, offer_user, cursor);
		while ((entry = config_user_next(pools->config, entry)))
			cursor_offer(cursor, (struct ordered_item){ entry->name, "", NULL });
	}
	LANES_EACH(lane, show_source_lanes(cursor->source))
	TAILQ_FOREACH (role, &lane->pools->roles, node)
		cursor_offer(cursor, (struct ordered_item){ role->name, "", NULL });
}

/* PgBouncer writes a size nine characters wide. An empty text if the size is not set. */
static const char *size_text(int size, char *buffer, size_t size_max)
{
	if (size == CONFIG_INHERIT)
		return "";
	snprintf(buffer, size_max, "%9d", size);
	return buffer;
}

static void count_connections(struct user_row *row, const struct lanes *lanes)
{
	const struct lane *lane;
	const struct role *role;

	LANES_EACH(lane, lanes)
	{
		role = pools_find_role(lane->pools, row->name);
		if (!role)
			continue;
		row->current_connections = share_servers(&role->share);
		row->current_client_connections += role->client_count;
	}
}

static bool next_user(struct cursor *cursor, void *at)
{
	const struct pools *pools = show_source_first(cursor->source)->pools;
	const struct config_user *entry;
	struct user_row *row = at;
	struct ordered_item item;

	if (!cursor_next_ordered(cursor, show_collect_users, &item))
		return false;
	entry = config_user_find(pools->config, item.first);
	row->name = item.first;
	row->pool_size = size_text(entry ? entry->pool_size : CONFIG_INHERIT, row->pool_size_buffer,
	                           sizeof(row->pool_size_buffer));
	row->reserve_pool_size = size_text(entry ? entry->reserve_pool_size : CONFIG_INHERIT,
	                                   row->reserve_buffer, sizeof(row->reserve_buffer));
	row->pool_mode = entry ? config_pool_mode_name(entry->pool_mode) : NULL;
	row->max_user_connections = config_max_user_connections(pools->config, entry);
	row->max_user_client_connections = config_max_user_client_connections(pools->config, entry);
	count_connections(row, show_source_lanes(cursor->source));
	return true;
}

SHOW(users, "USERS", next_user, user_columns, "Users and their limits.");

/* ---- POOLS ---- */

struct pool_row {
	const char *database, *user, *pool_mode, *load_balance_hosts;
	int64_t cl_active, cl_waiting, cl_active_cancel_req, cl_waiting_cancel_req;
	int64_t sv_active, sv_active_cancel, sv_being_canceled, sv_idle, sv_used, sv_tested;
	int64_t sv_login, maxwait, maxwait_us;
};

#define ROW struct pool_row
static const struct column pool_columns[] = {
	TEXT(database, "Name of the database."),
	TEXT(user, "User that the server connections log in as."),
	INT4(cl_active, "Clients that do not wait for a server."),
	INT4(cl_waiting, "Clients that wait for a server."),
	INT4(cl_active_cancel_req, "Cancel requests that are being delivered."),
	INT4(cl_waiting_cancel_req, "Cancel requests that wait to be delivered."),
	INT4(sv_active, "Server connections that are assigned to a client."),
	INT4(sv_active_cancel, "Connections that deliver a cancel request to a server."),
	INT4(sv_being_canceled,
	     "Server connections that wait until a cancel request has been delivered, or until "
	     "PostgreSQL has ended a statement that nobody waits for."),
	INT4(sv_idle, "Idle server connections, ready for use."),
	INT4(sv_used, "Idle server connections that must be checked before their next use."),
	INT4(sv_tested, "Server connections that are being checked or reset."),
	INT4(sv_login, "Server connections that are logging in; at least 1 for a minute after a "
	               "failed login."),
	INT4(maxwait, "Seconds that the first client in the wait queue has waited."),
	INT4(maxwait_us, "Microsecond part of the longest wait (column maxwait has the seconds)."),
	TEXT(pool_mode, "Pool mode: session, transaction or statement."),
	TEXT(load_balance_hosts,
	     "How one of several hosts is chosen; NULL: the database has one host."),
};
#undef ROW

static void collect_pools(struct cursor *cursor)
{
	const struct lanes *lanes = show_source_lanes(cursor->source);
	const struct lane *lane;
	const struct pool *pool;

	LANES_EACH(lane, lanes)
	TAILQ_FOREACH (pool, &lane->pools->list, node) {
		if (cursor_wants(cursor, pool->database->name))
			cursor_offer(cursor, (struct ordered_item){ pool->database->name,
			                                            pool->role->name, pool });
	}
	if (cursor_wants(cursor, CONFIG_CONSOLE_DATABASE))
		cursor_offer(cursor, (struct ordered_item){ CONFIG_CONSOLE_DATABASE,
		                                            CONFIG_CONSOLE_DATABASE, NULL });
}

static usec_t longest_wait(const struct pool *pool)
{
	usec_t now = loop_now(pool->pools->with.loop);
	const struct borrower *const first[] = {
		TAILQ_FIRST(&pool->waiting),        TAILQ_FIRST(&pool->newcomers),
		TAILQ_FIRST(&pool->wait_dedicated), TAILQ_FIRST(&pool->connect_dedicated),
		TAILQ_FIRST(&pool->wait_place),     TAILQ_FIRST(&pool->served_wait_place),
		TAILQ_FIRST(&pool->wait_own)
	};
	usec_t since = now;

	for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++) {
		if (first[i] && first[i]->waiting_since < since)
			since = first[i]->waiting_since;
	}
	return now - since;
}

static void fill_servers(struct pool_row *row, const struct pool *pool)
{
	const unsigned int *servers = pool->server_counts;

	row->sv_active +=
	    servers[SERVER_LENT] - (pool->listening_count - pool->listening_login_count);
	row->sv_active_cancel += pool->cancel_active_count;
	row->sv_being_canceled += servers[SERVER_CANCELED] + servers[SERVER_ENDING];
	row->sv_idle += servers[SERVER_IDLE];
	row->sv_used += servers[SERVER_USED];
	row->sv_tested += servers[SERVER_CHECKING] + servers[SERVER_RESETTING];
	row->sv_login += servers[SERVER_CONNECTING] + servers[SERVER_LOGIN];
}

/* What the pools of one row have in common. */
struct pool_sum {
	usec_t wait; /* the longest */
	bool has_failed;
};

static void add_pool(struct pool_row *row, struct pool_sum *sum, const struct pool *pool)
{
	unsigned int waiting;
	usec_t wait;

	if (!pool)
		return;
	waiting = pool->waiting_count + pool->newcomer_count + pool->wait_dedicated_count +
	          pool->connect_dedicated_count + pool->wait_place_count +
	          pool->served_wait_place_count + pool->wait_own_count;
	row->cl_waiting += waiting;
	row->cl_active += pool->member_count - waiting;
	row->cl_active_cancel_req += pool->cancel_active_count;
	row->cl_waiting_cancel_req += pool->cancel_waiting_count;
	fill_servers(row, pool);
	wait = longest_wait(pool);
	sum->wait = wait > sum->wait ? wait : sum->wait;
	sum->has_failed |= pool_has_failed_lately(pool);
	row->pool_mode = config_pool_mode_name(pool->limits.mode);
	if (pool->database->entry)
		row->load_balance_hosts = config_load_balance_hosts(pool->database->entry);
}

/* Those of a user on a database that are shown in one row; of the last one that exists its mode. */
static const enum pool_purpose purposes[] = { POOL_FOR_LOOKUPS, POOL_FOR_READS, POOL_FOR_CLIENTS };

/*
 * A row has the pools of these names in all lanes. The pool that auth_query uses and that of reads
 * on standbys are shown in one row with the pool of the clients of the same user.
 */
static bool next_pool(struct cursor *cursor, void *at)
{
	struct pool_sum sum = { 0 };
	struct pool_row *row = at;
	struct ordered_item item;
	const struct lane *lane;

	if (!cursor_next_ordered(cursor, collect_pools, &item))
		return false;
	row->database = item.first;
	row->user = item.second;
	if (!item.object) {
		row->cl_active = show_source_console_count(cursor->source);
		row->pool_mode = config_pool_mode_name(POOL_MODE_STATEMENT);
		return true;
	}
	LANES_EACH(lane, show_source_lanes(cursor->source))
	{
		for (size_t i = 0; i < sizeof(purposes) / sizeof(purposes[0]); i++)
			add_pool(row, &sum,
			         pools_find_exact_pool(lane->pools, row->database, row->user,
			                               purposes[i]));
	}
	if (row->sv_login == 0 && sum.has_failed)
		row->sv_login = 1;
	row->maxwait = sum.wait / USEC_PER_SEC;
	row->maxwait_us = sum.wait % USEC_PER_SEC;
	return true;
}

SHOW(pools, "POOLS", next_pool, pool_columns,
     "Pools: their clients and server connections, and how long clients wait.",
     .argument = SHOW_OF_DATABASE);
