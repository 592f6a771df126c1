/* SPDX-License-Identifier: ISC */
/*
 * SHOW of databases, users and pools, in the order of names: DATABASES, USERS, POOLS, SHARES,
 * HOSTS, READS, ADVICE. The console's own database is among them.
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

	return HASH_COUNT(pools->database_table) > MANY_NAMES ||
	       users_count(pools->users) > MANY_NAMES;
}

/* Whether the cursor skips this database, as it was never used and there are many. */
static bool leaves_out(const struct cursor *cursor, const struct database *database)
{
	bool is_used = database->pool_table || database->has_gone || database->client_count ||
	               database->is_paused || database->is_disabled;

	return cursor->skips_unused && !is_used && are_many(cursor);
}

static bool is_shown(const struct cursor *cursor, const struct database *database)
{
	/* created from `*` and not in use */
	bool is_at_rest = database->is_auto && !database->client_count && !database->server_count &&
	                  !database->is_paused && !database->is_disabled;

	return database->entry && !is_at_rest && !leaves_out(cursor, database);
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

/* ---- HOSTS: what is known of each address of each host of each entry ---- */

#define HOST_ROW(COLUMN)                                                                           \
	COLUMN(TEXT, entry, cursor->ordered.first, "Name of the entry in [databases].")            \
	COLUMN(TEXT, host, cursor_print(cursor, "%.*s", (int)shown->name.count, shown->name.at),   \
	       "The host as in the entry.")                                                        \
	COLUMN(TEXT, address, address ? cursor_host(cursor, address) : NULL,                       \
	       "One of its addresses; NULL: a Unix socket, or not looked up yet.")                 \
	COLUMN(TEXT, role, roster_role_name(known->known.role), "primary, standby, or unknown.")   \
	COLUMN(INT8, timeline, known->known.timeline, "Timeline of its WAL; 0: not known.")        \
	COLUMN(TEXT, position, position_text(cursor, known->known.position),                       \
	       "Position in the WAL: of a primary what it has written to disk, of a standby what " \
	       "it has replayed; NULL: not known.")                                                \
	COLUMN(INT8, lag_us, is_known ? known->lag : ROWS_NULL,                                    \
	       "For how many microseconds a standby may lack what the primary has written; NULL: " \
	       "not known.")                                                                       \
	COLUMN(INT8, lag_bytes, is_known ? (int64_t)known->lag_bytes : ROWS_NULL,                  \
	       "How many bytes of the primary's WAL a standby has not replayed; NULL: not known.") \
	COLUMN(TEXT, state, 0,                                                                     \
	       "up; unknown (never asked); lost (does not answer); fenced (says that it is "       \
	       "primary, but another host counts); foreign (fenced, as it is of another "          \
	       "cluster); diverged (a standby on an older timeline that does not follow the "      \
	       "primary); lagging (a standby that is behind for more than max_standby_lag, or it " \
	       "is not known for how long); draining; drained; disabled.")                         \
	COLUMN(TIME, since, known->since ? show_wall(known->since, now) : 0,                       \
	       "Since when it has this role; NULL: not known.")                                    \
	COLUMN(INT4, servers, 0, "Number of server connections of the entry there.")               \
	COLUMN(INT8, latency_us, known->known.latency,                                             \
	       "How many microseconds its last answer about its role took; 0: it was not asked "   \
	       "by a host watch.")                                                                 \
	COLUMN(TEXT, watch, watch_of(shown),                                                       \
	       "Whether a host watch asks it: yes, or no and why. Without one, a host that hangs " \
	       "is not noticed.")                                                                  \
	COLUMN(INT8, lost_bytes, (int64_t)known->lost_bytes,                                       \
	       "How many bytes of WAL that its predecessor had written it lacked when it was "     \
	       "first seen as primary: at least so many are lost.")                                \
	COLUMN(TEXT, last_error, cursor_print(cursor, "%s", known->error),                         \
	       "The last error of its host watch; empty: none.")                                   \
	COLUMN(INT8, reads, 0,                                                                     \
	       "How often a server of the host was lent for a read (route_reads), for all its "    \
	       "addresses together.")                                                              \
	COLUMN(TEXT, hosts_from, source_text(cursor, shown->entry),                                \
	       "Where its hosts are found, and if that fails now, for how long and why; NULL: in " \
	       "the entry.")

SHOW_ITEMS(hosts, "HOSTS", HOST_ROW, "Roles, lag and states of the hosts of each entry.",
           .argument = SHOW_OF_DATABASE);

static bool has_entry(const struct cursor *cursor, const struct database *database)
{
	return database->entry && !leaves_out(cursor, database);
}

static void collect_hosts(struct cursor *cursor) { cursor_offer_databases(cursor, has_entry); }

/* What a row is about. */
struct shown_host {
	const struct config_database *entry;
	struct cluster *cluster; /* NULL: it has no pool, and needs no roles */
	struct roster_row row;
	struct bytes name;
};

/* The row of this position: the rows of each host, or one if it has none. */
static bool find_host(const struct pools *pools, size_t position, struct shown_host *shown)
{
	const char *list = config_hosts(pools->config, shown->entry);

	shown->cluster = clusters_find(pools->with.broker, pools->config, shown->entry);
	for (unsigned int host = 0; config_host_next(&list, &shown->name); host++) {
		bool has_any = false;

		for (unsigned int i = 0;
		     shown->cluster &&
		     roster_row_at(cluster_roster(shown->cluster), i, &shown->row);
		     i++) {
			if (shown->row.host != host)
				continue;
			has_any = true;
			if (position-- == 0)
				return true;
		}
		if (!has_any && position-- == 0) {
			shown->row = (struct roster_row){ .host = host, .lag = ROSTER_LAG_UNKNOWN };
			return true;
		}
	}
	return false;
}

static const char *shown_state(const struct show_source *source, const struct hosts_shown *row,
                               const struct shown_host *shown)
{
	const struct config *config = source->with->lanes->at->pools->config;
	const struct roster_limit limit = { config_max_standby_lag(config, shown->entry),
		                            config_max_standby_lag_bytes(config, shown->entry) };
	const struct roster_row *known = &shown->row;
	unsigned int busy_count = 0;

	switch (clusters_admin(source->with->lanes->at->pools->with.broker, row->host)) {
	case HOST_DISABLED:
		return "disabled";
	case HOST_DRAINING:
		LANES_EACH (lane, source->with->lanes)
			busy_count += pools_busy_at(lane->pools, row->host);
		return busy_count ? "draining" : "drained";
	case HOST_ENABLED:
		break;
	}
	if (known->is_lost)
		return "lost";
	if (known->is_fenced)
		return known->is_foreign ? "foreign" : "fenced";
	if (known->is_diverged)
		return "diverged";
	if (roster_row_is_behind(known, &limit))
		return "lagging";
	return known->seen_at ? "up" : "unknown";
}

static const char *watch_of(const struct shown_host *shown)
{
	if (shown->row.is_watched)
		return "yes";
	return shown->cluster ? cluster_watch_lack(shown->cluster) : "no: it has no pool yet";
}

static const char *position_text(struct cursor *cursor, uint64_t position)
{
	if (!position)
		return NULL;
	return cursor_print(cursor, "%X/%X", (unsigned int)(position >> 32),
	                    (unsigned int)position);
}

static const char *source_text(struct cursor *cursor, const struct config_database *entry)
{
	char text[FINDERS_TEXT_SIZE];

	if (!finders_tell(cursor->lanes->at->pools, entry->hosts_from, text))
		return NULL;
	return cursor_print(cursor, "%s", text);
}

static void fill_host(struct cursor *cursor, struct hosts_shown *row,
                      const struct shown_host *shown)
{
	const struct roster_row *known = &shown->row;
	usec_t now = loop_now(cursor->source->with->loop);
	const struct address *address = known->address.family == AF_UNSPEC ? NULL : &known->address;
	bool is_known = known->lag != ROSTER_LAG_UNKNOWN;

	*row = (struct hosts_shown){ HOST_ROW(ROW_VALUE) };
	row->state = shown_state(cursor->source, row, shown);
	LANES_EACH (lane, cursor->lanes) {
		row->servers += pools_servers_at(lane->pools, row->entry, known->host, address);
		row->reads += (int64_t)pools_reads_at(lane->pools, row->entry, row->host);
	}
}

static bool next_hosts(struct cursor *cursor, void *row)
{
	const struct pools *pools = cursor->lanes->at->pools;
	/* a database of entry `*` need not be known in the first loop */
	struct shown_host shown = {
		.entry = config_database_of(pools->config, cursor->ordered.first),
	};

	if (!shown.entry || !find_host(pools, cursor->index, &shown))
		return false;
	cursor->index++;
	fill_host(cursor, row, &shown);
	return true;
}

/* ---- READS ---- */

#define READS_SUMS(COLUMN)                                                                     \
	COLUMN(INT4, servers, pool_live_count(pool), "Server connections to standbys.")        \
	COLUMN(INT8, on_standby, (int64_t)(pool->reads.routed - pool->reads.behind),           \
	       "Reads that a standby has served.")                                             \
	COLUMN(INT8, no_standby, (int64_t)pool->reads.elsewhere,                               \
	       "Reads that the primary has served, as no standby could be used.")              \
	COLUMN(INT8, behind, (int64_t)pool->reads.behind,                                      \
	       "Reads that the primary has served, as the standby was behind for longer than " \
	       "causal_reads_wait, or was not known to show what the client has seen.")        \
	COLUMN(INT8, waits, (int64_t)pool->reads.wait_count,                                   \
	       "Reads that have waited for their standby (causal_reads).")                     \
	COLUMN(INT8, wait_us, (int64_t)pool->reads.wait_time,                                  \
	       "Microseconds that they have waited, in sum.")

#define READS_ROW(COLUMN)                                  \
	COLUMN(TEXT, database, 0, "Database of the pool.") \
	COLUMN(TEXT, user, 0, "User of the pool.")         \
	READS_SUMS(COLUMN)

SHOW_ITEMS(reads, "READS", READS_ROW,
           "Where reads were served (route_reads), since their pool exists.",
           .argument = SHOW_OF_DATABASE, .has_one_row = true);

static bool is_for_reads(const struct pool *pool) { return pool->purpose == POOL_FOR_READS; }

static void collect_reads(struct cursor *cursor) { cursor_offer_pools(cursor, is_for_reads); }

static bool next_reads(struct cursor *cursor, void *at)
{
	struct reads_shown *row = at;

	row->database = cursor->ordered.first;
	row->user = cursor->ordered.second;
	POOLS_EACH (pool, cursor, POOL_FOR_READS) {
		ROW_ADD(READS_SUMS)
	}
	return true;
}

/*
 * ---- ADVICE: how many servers each pool would need ----
 *
 * From how many its clients have wanted at once: a request that finds `wanted` clients with it,
 * itself included, among those that have or want one of the servers, waits until wanted - servers
 * of them are done: with all servers at work, that takes (wanted - servers) * used / servers. So
 * for a wait of `target` it needs wanted * used / (used + target) servers.
 */

#define REQUESTS_MIN 100
#define TARGET (10 * USEC_PER_MS) /* without queue_target */

#define ADVICE_ROW(COLUMN)                                                                         \
	COLUMN(TEXT, database, cursor->ordered.first, "Name of the database.")                     \
	COLUMN(TEXT, user, cursor->ordered.second, "User that the server connections log in as.")  \
	COLUMN(TEXT, pool_mode, config_pool_modes[sum.mode], "Pool mode of the pool.")             \
	COLUMN(INT4, pool_size, sum.size, "Size of the pool now; 0: no limit.")                    \
	COLUMN(INT4, servers, sum.servers, "Servers that it has.")                                 \
	COLUMN(INT4, pinned, sum.pinned, "Servers that stay with clients (SHOW PINNED).")          \
	COLUMN(INT8, requests, (int64_t)sum.requests,                                              \
	       "How many requests for a server were looked at, since the pool was made or "        \
	       "pool_size was set; of many only the later ones.")                                  \
	COLUMN(INT8, used_us, (int64_t)sum.used,                                                   \
	       "How long a client has had a server each time, on average, in microseconds.")       \
	COLUMN(INT8, wait_p50_us, (int64_t)sum.waits[0],                                           \
	       "Half of the requests of the last ten minutes waited no longer, in microseconds.")  \
	COLUMN(INT8, wait_p99_us, (int64_t)sum.waits[1],                                           \
	       "99 % of the requests of these ten minutes waited no longer, in microseconds.")     \
	COLUMN(INT4, wanted_p50, sum.wanted[0],                                                    \
	       "Half of the requests came when no more clients than that had or wanted a server, " \
	       "this one included.")                                                               \
	COLUMN(INT4, wanted_p99, sum.wanted[1],                                                    \
	       "99 % of the requests came when no more clients than that had or wanted a server.") \
	COLUMN(INT4, wanted_max, sum.wanted[2],                                                    \
	       "No request came when more clients than that had or wanted a server.")              \
	COLUMN(INT4, needed_p50, sum.needed[0],                                                    \
	       "With so many servers, half of the requests would have waited less than "           \
	       "queue_target, or 10 ms if that is 0.")                                             \
	COLUMN(INT4, needed_p99, sum.needed[1],                                                    \
	       "With so many servers, 99 % of the requests would have waited less than "           \
	       "queue_target.")                                                                    \
	COLUMN(INT8, idle_us, sum.idle,                                                            \
	       "How long the server that was used least has been idle now, in microseconds; 0: "   \
	       "none is idle.")                                                                    \
	COLUMN(TEXT, advice, advice, "What follows from these numbers.")                           \
	COLUMN(TEXT, setting, value ? cursor_print(cursor, "%s = %u", name, value) : NULL,         \
	       "The setting to write; NULL: none need be changed.")

SHOW_ROWS(advice, "ADVICE", ADVICE_ROW,
          "How many servers each pool would need for short waits, and why.",
          .collect = show_collect_own_pools, .argument = SHOW_OF_DATABASE, .has_one_row = true);

struct sum {
	enum pool_mode mode;
	struct sizing_bounds sizes; /* most 0: not auto */
	unsigned int size, servers, pinned;
	unsigned int wanted[3], needed[2];
	uint64_t requests, waits[2], used;
	usec_t target, idle;
};

/* ---- what the loops have counted ---- */

static uint64_t part_of(uint64_t count, uint64_t all)
{
	return (count * 10000 + all - 1) / all; /* whatever was counted stays above 0 */
}

/* The loops are independent of each other: each number of one meets each one of another. */
static void combine(struct histogram *sum, const struct histogram *more)
{
	uint64_t sum_count = histogram_count(sum), more_count = histogram_count(more);
	struct histogram both = { 0 };

	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++) {
		for (unsigned int j = 0; sum->counts[i] && j < HISTOGRAM_BUCKETS; j++) {
			if (!more->counts[j])
				continue;
			both.counts[histogram_bucket(histogram_middle(i) + histogram_middle(j))] +=
			    part_of(sum->counts[i], sum_count) *
			    part_of(more->counts[j], more_count);
		}
	}
	*sum = both;
}

static void add_wanted(struct histogram *sum, const struct demand *demand, uint64_t *requests)
{
	struct histogram one = { 0 };
	uint64_t count;

	sketch_add_to(&demand->wanted, &one);
	count = histogram_count(&one);
	if (count && *requests)
		combine(sum, &one);
	else if (count)
		*sum = one;
	*requests += count;
}

static void find_wanted(struct sum *sum, struct histogram *wanted)
{
	static const unsigned int perthousand[] = { 500, 990, 1000 };
	uint64_t values[3];

	wanted->max = HISTOGRAM_VALUE_MAX; /* it is not known */
	histogram_quantiles(wanted, perthousand, values, 3);
	for (int i = 0; i < 3; i++)
		sum->wanted[i] = (unsigned int)values[i];
	for (int i = 0; i < 2; i++)
		sum->needed[i] =
		    (unsigned int)((values[i] * sum->used + sum->used + (uint64_t)sum->target - 1) /
		                   (sum->used + (uint64_t)sum->target));
}

/* The one that was used least is at an end of its list: with server_round_robin the first. */
static void find_idle(struct sum *sum, const struct pool *pool, usec_t now)
{
	static const enum server_state states[] = { SERVER_IDLE, SERVER_USED };

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		const struct server_list *list = &pool->servers[states[i]];
		const struct server *ends[] = { TAILQ_FIRST(list), TAILQ_LAST(list, server_list) };

		for (size_t j = 0; j < 2; j++) {
			if (ends[j] && now - ends[j]->used_at > sum->idle)
				sum->idle = now - ends[j]->used_at;
		}
	}
}

/* false: no pool has these names any more. */
static bool add_up(const struct cursor *cursor, struct sum *sum)
{
	static const unsigned int perthousand[] = { 500, 990 };
	struct histogram wanted = { 0 }, waits = { 0 };
	uint64_t used = 0, lent = 0;
	bool is_there = false;

	LANES_EACH (lane, cursor->lanes) {
		const struct pool *pool =
		    pools_find_pool(lane->pools, cursor->ordered.first, cursor->ordered.second);
		usec_t now;

		if (!pool || !pool->database->entry)
			continue;
		is_there = true;
		now = loop_now(lane->pools->shared.loop);
		sum->mode = pool_own_rules(pool)->mode;
		sum->sizes = pool->limits.sizes;
		sum->size = (unsigned int)pool->limits.size;
		sum->servers = share_servers(&pool->share);
		sum->pinned = pool->share.tally->pinned_count;
		sum->target = pool->limits.shed.target ? pool->limits.shed.target : TARGET;
		find_idle(sum, pool, now);
		add_wanted(&wanted, &pool->demand, &sum->requests);
		latency_sum(&pool->latency, LATENCY_WAIT, LATENCY_TEN_MINUTES, now, &waits);
		used += pool_used_time(pool, now) - pool->demand.used_before;
		if (pool->stats.assignment_count > pool->demand.lent_before)
			lent += pool->stats.assignment_count - pool->demand.lent_before;
	}
	sum->used = lent ? used / lent : 0;
	histogram_quantiles(&waits, perthousand, sum->waits, 2);
	if (is_there)
		find_wanted(sum, &wanted);
	return is_there;
}

/* ---- what follows ---- */

#define MS(time) ((double)(time) / USEC_PER_MS)

/* *value: what to set the size to; 0: it need not be changed. */
static const char *advise(struct cursor *cursor, const struct sum *sum, unsigned int *value)
{
	bool is_late = sum->waits[1] > (uint64_t)sum->target;
	bool is_small = is_late && sum->size && sum->needed[1] > sum->size;

	*value = 0;
	if (sum->requests < REQUESTS_MIN)
		return cursor_print(cursor, "fewer than %d requests: too few to tell",
		                    REQUESTS_MIN);
	if (is_small && sum->size < sum->sizes.most)
		return cursor_print(cursor, "auto, %u to %u: SHOW EVENTS has why it is not larger",
		                    sum->sizes.least, sum->sizes.most);
	if (is_small)
		*value = sum->needed[1];
	if (is_small && sum->pinned * 2 >= sum->size)
		return cursor_print(cursor,
		                    "%u of %u servers stay with clients: SHOW PINNED has why; "
		                    "without that they may be enough",
		                    sum->pinned, sum->size);
	if (is_small)
		return cursor_print(cursor,
		                    "too small: 1 %% of the requests waited longer than %.1f ms; "
		                    "with %u servers 99 %% would wait less than %.0f ms, if "
		                    "PostgreSQL is as fast with them",
		                    MS(sum->waits[1]), sum->needed[1], MS(sum->target));
	if (is_late)
		return cursor_print(cursor,
		                    "1 %% of the requests waited longer than %.1f ms, but not "
		                    "because of pool_size: SHOW WAITING and SHOW LIMITS have what "
		                    "is in the way",
		                    MS(sum->waits[1]));
	if (sum->size && (sum->sizes.most || sum->wanted[2] * 2 >= sum->size))
		return cursor_print(cursor, "it fits: 99 %% of the requests waited at most %.1f ms",
		                    MS(sum->waits[1]));
	*value = sum->wanted[2] + (sum->wanted[2] + 3) / 4;
	return cursor_print(cursor, "%s: never more than %u servers were wanted at once",
	                    sum->size ? "too large" : "no limit", sum->wanted[2]);
}

static bool next_advice(struct cursor *cursor, void *row)
{
	struct sum sum = { 0 };
	const char *name, *advice;
	unsigned int value;

	if (!add_up(cursor, &sum))
		return false;
	name = sum.sizes.most ? "max_pool_size" : "pool_size";
	advice = advise(cursor, &sum, &value);
	return ROW_FILL(row, struct advice_shown, ADVICE_ROW);
}
