/* SPDX-License-Identifier: ISC */
/*
 * SHOW of the daemon itself: VERSION, STATE, LISTS, MEM, CERTIFICATES, DNS_HOSTS, DNS_ZONES and the
 * like; and the list of all SHOW tables, with COLUMNS.
 */
#include "show_priv.h"

#include <strings.h>

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
	LIST("peers", lane->number ? 0 : config_peer_count(lane->pools->config))                   \
	LIST("pools", pools(lane))                                                                 \
	LIST("peer_pools", lane->pools->peers.count)                                               \
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
		  .used_count = lane->number ? 0 : config_peer_count(pools->config) },
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
