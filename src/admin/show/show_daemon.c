/* SPDX-License-Identifier: ISC */
/*
 * SHOW of the daemon itself: VERSION, STATE, LISTS, MEM, CERTIFICATES, DNS_HOSTS, DNS_ZONES and the
 * like; of what has happened lately: EVENTS, from the log's memory, ERRORS, CLOSES, SQLSTATES, as
 * they were counted, and HISTORY, with its timeline; and the list of all SHOW tables, with COLUMNS.
 */
#include "show_priv.h"

#include <strings.h>

#include "pgweir/base/close_reason.h"
#include "pgweir/base/text.h"
#include "pgweir/config/entries.h"

/* ---- VERSION ---- */

#define VERSION_ROW(COLUMN)                                        \
	COLUMN(TEXT, version, rows_release(cursor->source)->shown, \
	       "The PgBouncer version that pgweir is compatible with, and pgweir's own version.")

SHOW_ROWS(version, "VERSION", VERSION_ROW, "Version of PgBouncer and of pgweir.");

static bool next_version(struct cursor *cursor, void *row)
{
	return ROW_FILL(row, struct version_shown, VERSION_ROW) && cursor->index++ == 0;
}

/* ---- STATE ---- */

#define STATE_ROW(COLUMN)                                                                 \
	COLUMN(TEXT, key, keys[index], "Name of the state: active, paused or suspended.") \
	COLUMN(TEXT, value, values[index] ? "yes" : "no",                                 \
	       "Whether the process is in this state: yes or no.")

SHOW_ROWS(state, "STATE", STATE_ROW,
          "Whether the whole process is paused or suspended. Not active during a DRAIN either.");

static bool next_state(struct cursor *cursor, void *row)
{
	static const char *const keys[] = { "active", "paused", "suspended" };
	const struct lane *first = cursor->lanes->at;
	const struct pools *pools = first->pools;
	bool is_draining = first->clients->drain.is_on;
	const bool values[] = { !pools_are_held(pools) && !is_draining, pools->is_paused,
		                pools->suspend != SUSPEND_NONE };
	size_t index = cursor->index++;

	return index < 3 && ROW_FILL(row, struct state_shown, STATE_ROW);
}

/* ---- LISTS ---- */

#define LIST_ROW(COLUMN)                                         \
	COLUMN(TEXT, list, 0, "Kind of object that is counted.") \
	COLUMN(INT4, items, 0, "Number of objects of this kind.")

SHOW_ROWS(lists, "LISTS", LIST_ROW, "Number of internal objects of each kind.");

/* What several lanes have by one name is counted once. */

static int64_t databases(const struct lane *lane)
{
	int64_t count = lane->number == 0; /* the console's own */

	TAILQ_EACH (database, &lane->pools->databases, node)
		count += share_is_first(&database->cap.share);
	return count;
}

/* The users of auth_file, and those known from other sources. */
static int64_t users(const struct lane *lane)
{
	const struct users *users = lane->pools->users;
	int64_t count = lane->number ? 0 : (int64_t)users_count(users);

	TAILQ_EACH (role, &lane->pools->roles, node)
		count += share_is_first(&role->cap.share) && !users_find(users, role->name);
	return count;
}

static int64_t pools(const struct lane *lane)
{
	int64_t count = lane->number == 0;

	TAILQ_EACH (pool, &lane->pools->list, node)
		count += share_is_first(&pool->share) && pool->purpose != POOL_FOR_READS;
	return count;
}

static int64_t login_clients(const struct lane *lane)
{
	const unsigned int *counts = lane->clients->state_counts;

	return (int64_t)counts[CLIENT_STARTUP] + counts[CLIENT_AUTHENTICATION] +
	       counts[CLIENT_LOOKING] + counts[CLIENT_DELAYED] + counts[CLIENT_NEWCOMER];
}

/* ---- the rows ---- */

/*
 * Name, and the part of a `lane`. The resolver of the first loop has the names and zones of all.
 * Of used_clients, those that only read their last error are not counted.
 */
#define LISTS(LIST)                                                                                \
	LIST("databases", databases(lane))                                                         \
	LIST("users", users(lane))                                                                 \
	LIST("peers", lane->number ? 0 : config_entry_count(lane->pools->config, ENTRY_PEER))      \
	LIST("pools", pools(lane))                                                                 \
	LIST("peer_pools", HASH_COUNT(lane->pools->peers.table))                                   \
	LIST("free_clients", lane->clients->slab.free_count)                                       \
	LIST("used_clients", lane->clients->count - lane->clients->state_counts[CLIENT_LINGERING]) \
	LIST("login_clients", login_clients(lane))                                                 \
	LIST("free_servers", lane->pools->server_slab.free_count)                                  \
	LIST("used_servers", lane->pools->server_count)                                            \
	LIST("dns_names", lane->number ? 0 : resolver_name_count(lane->resolver))                  \
	LIST("dns_zones", lane->number ? 0 : resolver_zone_count(lane->resolver))                  \
	LIST("dns_queries", resolver_query_count(lane->resolver))                                  \
	LIST("dns_pending", 0)

static bool next_lists(struct cursor *cursor, void *at)
{
	struct lists_shown *row = at;
	size_t index = 0;

#define LIST(name, count)                       \
	if (index++ == cursor->index) {         \
		row->list = name;               \
		row->items += (int64_t)(count); \
	}
	LANES_EACH (lane, cursor->lanes) {
		index = 0;
		LISTS(LIST)
	}
#undef LIST
	return cursor->index++ < index;
}

/* ---- MEM ---- */

#define MEM_ROW(COLUMN)                                                 \
	COLUMN(TEXT, name, 0, "Name of the object cache.")              \
	COLUMN(INT4, size, 0, "Size of one object, in bytes.")          \
	COLUMN(INT4, used, 0, "Number of objects in use.")              \
	COLUMN(INT4, free, 0, "Number of free objects kept for reuse.") \
	COLUMN(INT4, memtotal, 0, "Memory of used and free objects, in bytes.")

SHOW_ROWS(mem, "MEM", MEM_ROW, "Memory of the object caches.");

/* The caches in PgBouncer's order. A cache that pgweir does not have is a row of zeros. */
static struct slab mem_of_lane(const struct lane *lane, size_t index)
{
	const struct pools *pools = lane->pools;
	const struct clients *clients = lane->clients;
	const struct slab caches[] = {
		pools->role_slab,
		{ .name = "credentials_cache" },
		pools->database_slab,
		/* the configuration is the same in all lanes */
		{ .name = "peer_cache",
		  .size = sizeof(struct config_peer),
		  .used_count = lane->number ? 0 : config_entry_count(pools->config, ENTRY_PEER) },
		pools->peers.pool_slab,
		pools->pool_slab,
		{ .name = "outstanding_request_cache" },
		pools->server_slab,
		clients->slab,
		lane->streams.buffers,
		{ .name = "var_list_cache", .used_count = params_table_count(lane->params) },
		{ .name = "server_prepared_statement_cache" },
		pools->cancel_slab,
		pools->peers.forward_slab,
		clients->late_slab,
		clients->keys.long_slab,
		lane->streams.tls,
	};

	return index < sizeof(caches) / sizeof(caches[0]) ? caches[index] : (struct slab){ 0 };
}

static bool next_mem(struct cursor *cursor, void *at)
{
	size_t index = cursor->index++;
	struct mem_shown *row = at;

	LANES_EACH (lane, cursor->lanes) {
		struct slab slab = mem_of_lane(lane, index);

		row->name = slab.name;
		row->size = (int64_t)slab.size;
		row->used += (int64_t)slab.used_count;
		row->free += (int64_t)slab.free_count;
	}
	row->memtotal = row->size * (row->used + row->free);
	return row->name != NULL;
}

/* ---- CERTIFICATES ---- */

#define CERTIFICATE_ROW(COLUMN)                                                                  \
	COLUMN(TEXT, setting, shown.setting, "Setting that names the file.")                     \
	COLUMN(TEXT, file, shown.certificate.file, "File of the certificate.")                   \
	COLUMN(INT8, seconds_left, shown.certificate.seconds_left,                               \
	       "Seconds until the certificate that was read from the file expires; below 0: it " \
	       "has expired. A new file is read by RELOAD.")

SHOW_ROWS(certificates, "CERTIFICATES", CERTIFICATE_ROW,
          "Certificates of ours that are in use, and when they expire.");

static bool next_certificates(struct cursor *cursor, void *row)
{
	const struct console_with *with = cursor->source->with;
	struct certificate_shown shown;

	return with->certificate(with->daemon, cursor->index++, &shown) &&
	       ROW_FILL(row, struct certificates_shown, CERTIFICATE_ROW);
}

/* ---- DNS_HOSTS ---- */

#define DNS_ROW(COLUMN)                                             \
	COLUMN(TEXT, hostname, name.host, "Host name of a server.") \
	COLUMN(INT8, ttl, name.ttl_left / USEC_PER_SEC,             \
	       "Seconds until the cached addresses expire.")        \
	COLUMN(TEXT, addrs, buf_text(addresses),                    \
	       "Addresses of the host, separated by commas; empty: the host was not found.")

SHOW_ROWS(dns_hosts, "DNS_HOSTS", DNS_ROW, "Cached results of DNS lookups.");

/* The resolver of the first loop hears what the others have found. */
static bool next_dns_hosts(struct cursor *cursor, void *row)
{
	struct resolver_row name;
	struct buf *addresses;
	char text[ADDRESS_TEXT_SIZE];

	if (!resolver_next_row(cursor->lanes->at[0].resolver, &cursor->dns, &name))
		return false;
	addresses = cursor_text(cursor);
	for (unsigned int i = 0; i < name.address_count; i++)
		buf_printf(addresses, "%s%s", i ? "," : "",
		           address_format(&name.addresses[i], text, sizeof(text)));
	return ROW_FILL(row, struct dns_hosts_shown, DNS_ROW);
}

/* ---- DNS_ZONES ---- */

#define ZONE_ROW(COLUMN)                                                                  \
	COLUMN(TEXT, zonename, zone.zone,                                                 \
	       "Name of the zone: the part of host names after the first dot.")           \
	COLUMN(INT8, serial, zone.serial, "Serial number of the zone; 0: not known yet.") \
	COLUMN(INT4, count, zone.count, "Number of server host names in the zone.")

SHOW_ROWS(dns_zones, "DNS_ZONES", ZONE_ROW,
          "DNS zones whose serial numbers are checked (dns_zone_check_period).");

static bool next_dns_zones(struct cursor *cursor, void *row)
{
	struct resolver_zone_row zone;

	return resolver_next_zone(cursor->lanes->at[0].resolver, &cursor->dns, &zone) &&
	       ROW_FILL(row, struct dns_zones_shown, ZONE_ROW);
}

/* ---- READY, for probes ---- */

#define READY_ROW(COLUMN)                                                                         \
	COLUMN(TEXT, ready, i < count ? "no" : "yes", "Whether new work is accepted: yes or no.") \
	COLUMN(TEXT, reason, i < count ? hindrances[i].words : "",                                \
	       "Why no new work is accepted; empty if it is.")

SHOW_ROWS(ready, "READY", READY_ROW, "Whether new work is accepted now, and if not, why.");

/* Whether each named database is paused or disabled, and there is no `*` for other names. */
static bool is_all_shut(const struct pools *pools)
{
	if (config_database_auto(pools->config))
		return false;
	TAILQ_EACH (database, &pools->databases, node) {
		if (!database->is_paused && !database->is_disabled)
			return false;
	}
	return !TAILQ_EMPTY(&pools->databases);
}

static bool next_ready(struct cursor *cursor, void *row)
{
	const struct console_with *with = cursor->source->with;
	const struct lane *first = cursor->lanes->at;
	const struct pools *pools = first->pools;
	const struct {
		bool is_so;
		const char *words;
	} hindrances[] = {
		{ with->is_shutting_down(with->daemon), "shutting down" },
		{ first->clients->drain.is_on, "draining" },
		{ pools->is_paused, "paused" },
		{ pools->suspend != SUSPEND_NONE, "suspended" },
		{ is_all_shut(pools), "every database is paused or disabled" },
	};
	size_t i = 0, count = sizeof(hindrances) / sizeof(hindrances[0]);

	while (i < count && !hindrances[i].is_so)
		i++;
	return ROW_FILL(row, struct ready_shown, READY_ROW) && cursor->index++ == 0;
}

/* ---- DRAIN ---- */

#define DRAIN_ROW(COLUMN)                                                                        \
	COLUMN(TEXT, state, drain_state(&sum),                                                   \
	       "State of the DRAIN: no, draining, overdue (the deadline has passed) or drained " \
	       "(no client is left).")                                                           \
	COLUMN(INT4, clients, sum.left, "Number of clients that are still connected.")           \
	COLUMN(INT4, working, sum.working,                                                       \
	       "Number of clients that are still connected and have a server.")                  \
	COLUMN(INT4, waiting, (int64_t)sum.waiting + sum.newcomers,                              \
	       "Number of clients that are still connected and wait for a server.")              \
	COLUMN(INT8, closed, (int64_t)sum.closed,                                                \
	       "Number of clients that were disconnected between two transactions.")             \
	COLUMN(INT8, cut, (int64_t)sum.cut,                                                      \
	       "Number of clients that were disconnected because of the deadline.")              \
	COLUMN(INT4, seconds_left,                                                               \
	       left == DRAIN_NO_LIMIT ? -1 : (left + USEC_PER_SEC - 1) / USEC_PER_SEC,           \
	       "Seconds until the deadline; -1: no deadline.")

SHOW_ROWS(drain, "DRAIN", DRAIN_ROW, "Progress of a DRAIN.");

static const char *drain_state(const struct drain_progress *sum)
{
	if (!sum->is_on)
		return "no";
	if (!sum->left)
		return "drained";
	return sum->is_overdue ? "overdue" : "draining";
}

static bool next_drain(struct cursor *cursor, void *row)
{
	struct drain_progress sum = lanes_drain(cursor->lanes);
	usec_t left = sum.is_on ? sum.time_left : DRAIN_NO_LIMIT;

	return ROW_FILL(row, struct drain_shown, DRAIN_ROW) && cursor->index++ == 0;
}

/* ---- LOOPS ---- */

#define LOOP_ROW(COLUMN)                                                                           \
	COLUMN(INT4, loop, lane->number,                                                           \
	       "Number of the event loop, from 0. The first one also accepts connections, and "    \
	       "serves the console.")                                                              \
	COLUMN(INT4, clients, lane->clients->count,                                                \
	       "Number of its client connections, including those that are logging in.")           \
	COLUMN(INT4, servers, lane->pools->server_count, "Number of its server connections.")      \
	COLUMN(INT4, idle_servers, count_idle(lane->pools),                                        \
	       "Number of its idle server connections.")                                           \
	COLUMN(INT4, active_servers, lane->pools->busy_count,                                      \
	       "Number of its server connections that are assigned to a client, being checked or " \
	       "reset, or that wait for a cancel request.")                                        \
	COLUMN(INT8, turns, (int64_t)loop_turn_count(lane->loop),                                  \
	       "How often the loop has waited for events and handled them.")                       \
	COLUMN(INT8, cpu_time, loop_cpu(lane->loop),                                               \
	       "Processor time of the loop's thread, in microseconds, without polling that found " \
	       "nothing (busy_poll).")                                                             \
	COLUMN(INT8, servers_in, (int64_t)lane->pools->moved_in,                                   \
	       "Number of server connections that came from other loops.")                         \
	COLUMN(INT8, servers_out, (int64_t)lane->pools->moved_out,                                 \
	       "Number of server connections that went to other loops.")

SHOW_ROWS(
    loops, "LOOPS", LOOP_ROW,
    "Event loops: the connections of each, its processor time, and the server connections that "
    "came from and went to others.");

static int64_t count_idle(const struct pools *pools)
{
	int64_t count = 0;

	TAILQ_EACH (pool, &pools->list, node)
		count += pool->server_counts[SERVER_IDLE] + pool->server_counts[SERVER_USED];
	return count;
}

static bool next_loops(struct cursor *cursor, void *row)
{
	const struct lane *lane = cursor->lanes->at + cursor->index++;

	if (lane == cursor->lanes->at + cursor->lanes->count)
		return false;
	return ROW_FILL(row, struct loops_shown, LOOP_ROW);
}

/* ---- EVENTS ---- */

#define EVENT_ROW(COLUMN)                                                                          \
	COLUMN(TEXT, at, cursor_print(cursor, "%s", text_utc(kept.at, at)),                        \
	       "When it happened, in UTC, as 2026-11-23T01:02:03.456Z.")                           \
	COLUMN(INT8, age_s, (wall_now() - kept.at) / USEC_PER_SEC,                                 \
	       "How many seconds ago that was.")                                                   \
	COLUMN(TEXT, kind, cursor_lower(cursor, kept.kind),                                        \
	       "Kind of the event: start, reload, set, take-over, shutdown, drain, suspend, host " \
	       "down, host up, host role, limit, reserve, secret, pool size (auto), or a command " \
	       "of the console in small letters: pause, resume, kill and so on.")                  \
	COLUMN(TEXT, level, log_level_name(kept.level), "Level of its line in the log.")           \
	COLUMN(TEXT, database, *kept.database ? cursor_print(cursor, "%s", kept.database) : NULL,  \
	       "Name of the database; NULL: the event concerns no single one.")                    \
	COLUMN(TEXT, user, *kept.user ? cursor_print(cursor, "%s", kept.user) : NULL,              \
	       "User; NULL: the event concerns no single one.")                                    \
	COLUMN(TEXT, text, cursor_print(cursor, "%s", kept.text),                                  \
	       "The line in the log, without its beginning; at most 480 bytes.")

SHOW_ROWS(events, "EVENTS", EVENT_ROW,
          "The last 1000 events of the process: reloads, commands, take-overs, hosts, limits.");

static bool next_events(struct cursor *cursor, void *row)
{
	uint64_t number = cursor->index;
	char at[TEXT_UTC_SIZE];
	struct log_kept kept;

	if (!log_kept_next(cursor->lanes->at->pools->shared.log, &number, &kept))
		return false;
	cursor->index = number;
	return ROW_FILL(row, struct events_shown, EVENT_ROW);
}

/* ---- how many ---- */

#define TOTAL_ROW(COLUMN)                                                                         \
	COLUMN(TEXT, event, cursor_lower(cursor, kind), "Kind of the events, as in SHOW EVENTS.") \
	COLUMN(INT8, count, (int64_t)count,                                                       \
	       "How many of them there have been since the process started.")

SHOW_ROWS(events_totals, "EVENTS_TOTALS", TOTAL_ROW,
          "How many events of each kind there have been.");

static bool next_events_totals(struct cursor *cursor, void *row)
{
	const char *kind;
	uint64_t count;

	if (!log_kept_kind(cursor->lanes->at->pools->shared.log, cursor->index, &kind, &count))
		return false;
	cursor->index++;
	return ROW_FILL(row, struct events_totals_shown, TOTAL_ROW);
}

/* ---- ERRORS: why connections ended, as base/close_reason.h counts it ---- */

#define REASON_ROW(COLUMN)                                                            \
	COLUMN(TEXT, type, index < CLOSE_REASONS ? "C" : "S",                         \
	       "C: client connections; S: server connections.")                       \
	COLUMN(TEXT, reason, reason->name, "Reason why the connections were closed.") \
	COLUMN(TEXT, is_error, reason->is_error ? "yes" : "no",                       \
	       "yes: the reason is an error; no: a normal disconnect.")

#define ERROR_ROW(COLUMN)                                                                          \
	REASON_ROW(COLUMN)                                                                         \
	COLUMN(INT8, count, (int64_t)total,                                                        \
	       "Number of connections closed for this reason since the process started.")          \
	COLUMN(TIME, last_time, last->wall_last, "Time of the last close for this reason.")        \
	COLUMN(TEXT, last_database, last->database,                                                \
	       "Database of the last connection closed for this reason.")                          \
	COLUMN(TEXT, last_user, last->user, "User of the last connection closed for this reason.") \
	COLUMN(TEXT, last_message, last->message,                                                  \
	       "Logged error message of the last connection closed for this reason, with its "     \
	       "detail.")

SHOW_ROWS(errors, "ERRORS", ERROR_ROW, "Why connections were closed, how often, and when last.");

/* The last close for this reason in any lane, or NULL, and the number of closes in all. */
static const struct close_count *sum(const struct lanes *lanes, bool of_servers, size_t reason,
                                     uint64_t *total)
{
	const struct close_count *last = NULL;

	*total = 0;
	LANES_EACH (lane, lanes) {
		const struct close_counts *closes =
		    of_servers ? &lane->pools->closes : &lane->clients->closes;
		const struct close_count *count = &closes->counts[reason];

		*total += count->count;
		if (count->count && (!last || count->wall_last > last->wall_last))
			last = count;
	}
	return last;
}

/* The reasons of clients first, then those of servers. Reasons that never occurred are left out. */
static bool next_errors(struct cursor *cursor, void *row)
{
	const struct close_count *last = NULL;
	const struct close_reason_row *reason;
	uint64_t total = 0;
	size_t index = 0;

	while (!last && cursor->index < 2 * CLOSE_REASONS) {
		index = cursor->index++;
		last = sum(cursor->lanes, index >= CLOSE_REASONS, index % CLOSE_REASONS, &total);
	}
	if (!last)
		return false;
	reason = close_reason_row((enum close_reason)(index % CLOSE_REASONS));
	return ROW_FILL(row, struct errors_shown, ERROR_ROW);
}

/* ---- CLOSES ---- */

#define CLOSES_ROW(COLUMN)                                                                  \
	COLUMN(TEXT, database, *name ? name : NULL,                                         \
	       "Database of the connections; NULL: none, such as one that does not exist.") \
	REASON_ROW(COLUMN)                                                                  \
	COLUMN(INT8, count, (int64_t)count, "Number of connections closed for this reason.")

SHOW_ITEMS(
    closes, "CLOSES", CLOSES_ROW,
    "How many connections of each database were closed, by reason, since the process started.");

static bool has_closes(const struct cursor *cursor, const struct database *database)
{
	(void)cursor;
	return database->client_closes.count || database->server_closes.count;
}

/* An empty name stands for no database. */
static void collect_closes(struct cursor *cursor)
{
	cursor_offer(cursor, "", "", cursor->source);
	cursor_offer_databases(cursor, has_closes);
}

static uint64_t count_closes(const struct lane *lane, const char *name, size_t index)
{
	unsigned int reason = (unsigned int)(index % CLOSE_REASONS);
	bool is_of_servers = index >= CLOSE_REASONS;
	const struct database *database;

	if (!*name)
		return sparse_sum_at(is_of_servers ? &lane->pools->closes.of_none
		                                   : &lane->clients->closes.of_none,
		                     reason);
	database = pools_find_any_database(lane->pools, name);
	if (!database)
		return 0;
	return sparse_sum_at(is_of_servers ? &database->server_closes : &database->client_closes,
	                     reason);
}

/* The next reason of the database that `ordered` names. */
static bool next_closes(struct cursor *cursor, void *row)
{
	const char *name = cursor->ordered.first;
	const struct close_reason_row *reason;
	uint64_t count = 0;
	size_t index = 0;

	if (cursor->index == 0)
		cursor->look_count += 2 * CLOSE_REASONS;
	while (cursor->index < 2 * CLOSE_REASONS && !count) {
		index = cursor->index++;
		LANES_EACH (lane, cursor->lanes)
			count += count_closes(lane, name, index);
	}
	reason = close_reason_row((enum close_reason)(index % CLOSE_REASONS));
	return ROW_FILL(row, struct closes_shown, CLOSES_ROW) && count;
}

/* ---- SQLSTATES: errors that clients were sent, as base/close_reason.h counts them ---- */

#define SQLSTATE_ROW(COLUMN)                                                                      \
	COLUMN(TEXT, sqlstate, last->sqlstate,                                                    \
	       "SQLSTATE of the errors. After 500 different ones, others that PostgreSQL sends "  \
	       "are counted for their class, such as 57000, or as other if it has none such.")    \
	COLUMN(TEXT, side, sqlstate_is_ours(key) ? "pgweir" : "server",                           \
	       "server: PostgreSQL sent the errors; pgweir: they are our own.")                   \
	COLUMN(TEXT, severity, sqlstates_severity_name(sqlstate_severity(key)),                   \
	       "ERROR, FATAL or PANIC.")                                                          \
	COLUMN(INT8, count, (int64_t)total,                                                       \
	       "Number of errors that clients have got since the process started, without those " \
	       "of this console.")                                                                \
	COLUMN(TIME, last, last->wall_last, "Time of the last one.")                              \
	COLUMN(TEXT, database, last->database, "Database of the last one.")                       \
	COLUMN(                                                                                   \
	    TEXT, user, last->user,                                                               \
	    "User of the last one; of errors by PostgreSQL, the user of the server connection.")  \
	COLUMN(TEXT, class, cursor_print(cursor, "%.*s", is_other ? 5 : 2, last->sqlstate),       \
	       "Class of the SQLSTATE: its first two characters; or other.")

SHOW_ROWS(sqlstates, "SQLSTATES", SQLSTATE_ROW,
          "Errors that clients were sent, by SQLSTATE, and by who sent them.");

/* The next row is about the least of the keys that are next in the lanes. */
static bool next_sqlstates(struct cursor *cursor, void *row)
{
	const struct sqlstate_count *count, *last = NULL;
	uint64_t total = 0;
	sqlstate_key key;
	bool is_other;

	LANES_EACH (lane, cursor->lanes) {
		count = sqlstates_from(&lane->pools->sqlstates, cursor->slot);
		if (!count || (last && count->key > last->key))
			continue;
		if (last && count->key < last->key)
			last = NULL;
		total = count->count + (last ? total : 0);
		if (!last || count->wall_last > last->wall_last)
			last = count;
	}
	if (!last)
		return false;
	key = last->key;
	cursor->slot = key + 1;
	is_other = strcmp(last->sqlstate, SQLSTATES_OTHER) == 0;
	return ROW_FILL(row, struct sqlstates_shown, SQLSTATE_ROW);
}

/*
 * ---- the timeline ----
 *
 *   lanes: histograms, counters --+--> second --> ring of 300 seconds
 *                                 +--> minute --> ring of 60 minutes
 *
 * Each second costs a few sums for each lane, however many pools there are, and a look at each pool
 * that has a wait queue.
 */

static const struct {
	uint64_t size; /* slots of the ring */
	usec_t length; /* of a slot; each tick is a second */
} rings[] = { [TIMELINE_SECONDS] = { 300, 0 }, [TIMELINE_MINUTES] = { 60, 60 * USEC_PER_SEC } };

static void find_percentiles(struct timeline_slot *slot, int kind,
                             const struct histogram *histogram)
{
	static const unsigned int asked[] = { 500, 950, 990 };
	uint64_t values[3];
	int64_t count = (int64_t)histogram_quantiles(histogram, asked, values, 3);

	if (kind == LATENCY_CLIENT_LOGIN) {
		slot->logins = count;
	} else if (kind == LATENCY_WAIT) {
		slot->wait_p99 = (int64_t)values[2];
	} else if (kind == LATENCY_XACT) {
		slot->xacts = count;
		slot->xact_p99 = (int64_t)values[2];
	} else if (kind == LATENCY_STATEMENT) {
		slot->queries = count;
		slot->statement_p50 = (int64_t)values[0];
		slot->statement_p95 = (int64_t)values[1];
		slot->statement_p99 = (int64_t)values[2];
	}
}

static void sum_lanes(struct timeline_slot *slot, struct timeline_totals *totals,
                      const struct lanes *lanes, usec_t now)
{
	LANES_EACH (lane, lanes) {
		const struct pools *pools = lane->pools;
		const unsigned int *states = lane->clients->state_counts;
		usec_t wait = pools_longest_wait(pools, now);

		totals->errors += pools->sqlstates.total;
		totals->received += pools->client_bytes;
		totals->sent += pools->server_bytes;
		slot->cl_active += states[CLIENT_IDLE] + states[CLIENT_LATE] +
		                   states[CLIENT_PREPARING] + states[CLIENT_ACTIVE] +
		                   states[CLIENT_SETTLING];
		slot->cl_waiting +=
		    states[CLIENT_WAITING] + states[CLIENT_NEWCOMER] + states[CLIENT_CATCHING_UP];
		slot->sv_active += pools->busy_count;
		slot->sv_idle += pools->home_count;
		if (wait > slot->maxwait)
			slot->maxwait = wait;
	}
}

/* `end` has the numbers at its end. */
static void end_slot(struct timeline_ring *ring, uint64_t size, const struct timeline_slot *end,
                     const struct timeline_totals *totals)
{
	struct timeline_slot *slot = &ring->slots[ring->count++ % size];

	*slot = *end;
	slot->errors = (int64_t)(totals->errors - ring->totals.errors);
	slot->received = (int64_t)(totals->received - ring->totals.received);
	slot->sent = (int64_t)(totals->sent - ring->totals.sent);
	slot->maxwait = ring->maxwait;
	for (int i = 0; i < LATENCY_KINDS; i++) {
		find_percentiles(slot, i, &ring->counted[i]);
		histogram_clear(&ring->counted[i]);
	}
	ring->totals = *totals;
	ring->maxwait = 0;
	ring->began_at = end->at;
}

void timeline_tick(struct timeline *timeline, const struct lanes *lanes, usec_t now)
{
	struct timeline_slot end = { .at = now, .wall_at = wall_now() };
	struct timeline_totals totals = { 0 };

	sum_lanes(&end, &totals, lanes, now);
	for (int i = 0; i < TIMELINE_RESOLUTIONS; i++) {
		struct timeline_ring *ring = &timeline->rings[i];

		LANES_EACH (lane, lanes)
			for (int kind = 0; kind < LATENCY_KINDS; kind++)
				latency_all_sum(&lane->pools->latency, (enum latency_kind)kind,
				                &ring->counted[kind]);
		if (end.maxwait > ring->maxwait)
			ring->maxwait = end.maxwait;
		if (now - ring->began_at >= rings[i].length)
			end_slot(ring, rings[i].size, &end, &totals);
	}
}

const struct timeline_slot *timeline_find(const struct timeline *timeline,
                                          enum timeline_resolution resolution, uint64_t *number)
{
	const struct timeline_ring *ring = &timeline->rings[resolution];
	uint64_t count = ring->count, size = rings[resolution].size;

	if (count > size && *number < count - size)
		*number = count - size;
	return *number < count ? &ring->slots[*number % size] : NULL;
}

/* ---- HISTORY: the seconds and the minutes of the timeline, the oldest first ---- */

#define HISTORY_ROW(COLUMN)                                                                        \
	COLUMN(TEXT, resolution, names[cursor->index],                                             \
	       "second or minute: how long the time is that the row is about.")                    \
	COLUMN(TEXT, at, cursor_print(cursor, "%s", text_utc(slot->wall_at, at)),                  \
	       "End of that time, in UTC.")                                                        \
	COLUMN(INT4, age_s, (now - slot->at) / USEC_PER_SEC, "Seconds since then.")                \
	COLUMN(INT8, xacts, slot->xacts, "Transactions that ended in that time, in all pools.")    \
	COLUMN(INT8, queries, slot->queries,                                                       \
	       "Queries that ended (a pipeline up to its Sync counts as one).")                    \
	COLUMN(INT8, errors, slot->errors, "Errors that clients got, as in SHOW SQLSTATES.")       \
	COLUMN(INT8, received, slot->received, "Bytes received from clients and sent to servers.") \
	COLUMN(INT8, sent, slot->sent, "Bytes received from servers.")                             \
	COLUMN(INT8, wait_p99_us, slot->wait_p99,                                                  \
	       "99th percentile of the waits for a server, in microseconds; 0 if one was idle "    \
	       "for nearly all.")                                                                  \
	COLUMN(INT8, statement_p50_us, slot->statement_p50,                                        \
	       "Median of the queries' times, with their waits, in microseconds.")                 \
	COLUMN(INT8, statement_p95_us, slot->statement_p95, "Their 95th percentile.")              \
	COLUMN(INT8, statement_p99_us, slot->statement_p99, "Their 99th percentile.")              \
	COLUMN(INT8, xact_p99_us, slot->xact_p99,                                                  \
	       "99th percentile of the transactions' times, in microseconds.")                     \
	COLUMN(INT4, cl_active, slot->cl_active,                                                   \
	       "Clients that did not wait for a server, at the end.")                              \
	COLUMN(INT4, cl_waiting, slot->cl_waiting,                                                 \
	       "Clients that waited for a server, at the end.")                                    \
	COLUMN(INT4, sv_active, slot->sv_active,                                                   \
	       "Server connections that were assigned to a client, being checked or reset, or "    \
	       "waited for a cancel request, at the end.")                                         \
	COLUMN(INT4, sv_idle, slot->sv_idle, "Idle server connections, at the end.")               \
	COLUMN(INT8, maxwait_us, slot->maxwait,                                                    \
	       "How long the first client in a wait queue had waited, in microseconds, at the "    \
	       "end; of a minute: the longest of its seconds.")                                    \
	COLUMN(INT8, logins, slot->logins, "Client logins that ended in that time.")

SHOW_ROWS(history, "HISTORY", HISTORY_ROW,
          "What all pools together did in each second of the last five minutes, and in each minute "
          "of the last hour.");

/* The timeline moves on while the reader reads, so the position is a number. */
static bool next_history(struct cursor *cursor, void *row)
{
	static const char *const names[] = {
		[TIMELINE_SECONDS] = "second", [TIMELINE_MINUTES] = "minute"
	};
	usec_t now = loop_now(cursor->source->with->loop);
	const struct timeline_slot *slot;
	char at[TEXT_UTC_SIZE];

	for (; cursor->index < TIMELINE_RESOLUTIONS; cursor->index++, cursor->slot = 0) {
		slot = timeline_find(&cursor->source->timeline,
		                     (enum timeline_resolution)cursor->index, &cursor->slot);
		if (!slot)
			continue;
		cursor->slot++;
		return ROW_FILL(row, struct history_shown, HISTORY_ROW);
	}
	return false;
}

/* ---- all tables ---- */

#define SHOW_ADDRESS(name) &show_##name,

/* clang-format off */
const struct show *const shows[] = {
	SHOW_TABLES(SHOW_ADDRESS)
	NULL,
};
/* clang-format on */

const struct show *show_find(const char *item)
{
	for (size_t i = 0; shows[i]; i++) {
		if (strcasecmp(shows[i]->item, item) == 0)
			return shows[i];
	}
	return NULL;
}

const char *show_argument_name(enum show_argument argument)
{
	static const char *const names[] = {
		[SHOW_ALONE] = "",
		[SHOW_OF_DATABASE] = " [db]",
		[SHOW_OF_TABLE] = " [table]",
		[SHOW_HIT] = " [HIT]",
		[SHOW_OF_STATEMENTS] = " [n] [BY time|calls|wait|rows|errors]",
	};

	return names[argument];
}

/* ---- COLUMNS ---- */

#define COLUMN_ROW(COLUMN)                                                                  \
	COLUMN(TEXT, item, shows[i]->item, "Name of the SHOW command that has the column.") \
	COLUMN(TEXT, column, rows_column_name(columns, column), "Name of the column.")      \
	COLUMN(TEXT, type, rows_type_name(column->type), "Type of the column.")             \
	COLUMN(TEXT, meaning, column->help, "Meaning of the column.")

SHOW_ROWS(columns, "COLUMNS", COLUMN_ROW,
          "Describes the columns of all SHOW commands, or of one table.",
          .argument = SHOW_OF_TABLE);

static bool next_columns(struct cursor *cursor, void *row)
{
	enum console_version version = show_source_config(cursor->source)->console_version;
	const char *wanted = cursor->argument;
	size_t left = cursor->index++;

	for (size_t i = 0; shows[i]; i++) {
		struct columns columns = rows_columns(shows[i], version);
		const struct column *column = columns.at, *end = column + columns.count;

		if (wanted && strcasecmp(wanted, shows[i]->item) != 0)
			continue;
		for (; column < end; column++) {
			if ((columns.hidden >> (column - columns.at)) & 1 || left-- > 0)
				continue;
			return ROW_FILL(row, struct columns_shown, COLUMN_ROW);
		}
	}
	return false;
}
