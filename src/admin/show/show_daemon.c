/* SPDX-License-Identifier: ISC */
/*
 * SHOW of the daemon itself: VERSION, STATE, CONFIG, LISTS, MEM, CERTIFICATES, DNS_HOSTS,
 * DNS_ZONES.
 */
#include "show_priv.h"

#include "pgweir/base/version.h"
#include "pgweir/config/entries.h"
#include "pgweir/config/settings.h"
#include "pgweir/net/tls.h"

/* ---- VERSION ---- */

struct version_row {
	const char *version;
};

#define ROW struct version_row
static const struct column version_columns[] = {
	TEXT(version, "The PgBouncer version that pgweir is compatible with, and pgweir's own "
	              "version."),
};
#undef ROW

static bool next_version(struct cursor *cursor, void *row)
{
	((struct version_row *)row)->version = VERSION_SHOW;
	return cursor->index++ == 0;
}

SHOW(version, "VERSION", next_version, version_columns, "Version of PgBouncer and of pgweir.");

/* ---- STATE ---- */

struct state_row {
	const char *key, *value;
};

#define ROW struct state_row
static const struct column state_columns[] = {
	TEXT(key, "Name of the state: active, paused or suspended."),
	TEXT(value, "Whether the process is in this state: yes or no."),
};
#undef ROW

static bool next_state(struct cursor *cursor, void *at)
{
	static const char *const keys[] = { "active", "paused", "suspended" };
	const struct lane *first = show_source_first(cursor->source);
	const struct pools *pools = first->pools;
	bool is_draining = first->clients->drain.is_on;
	const bool values[] = { !pools_are_held(pools) && !is_draining, pools->is_paused,
		                pools->suspend != SUSPEND_NONE };
	struct state_row *row = at;

	if (cursor->index == 3)
		return false;
	row->key = keys[cursor->index];
	row->value = values[cursor->index++] ? "yes" : "no";
	return true;
}

SHOW(state, "STATE", next_state, state_columns,
     "Whether the whole process is paused or suspended. Not active during a DRAIN either.");

/* ---- LISTS ---- */

struct list_row {
	const char *list;
	int64_t items;
};

#define ROW struct list_row
static const struct column list_columns[] = {
	TEXT(list, "Kind of object that is counted."),
	INT4(items, "Number of objects of this kind."),
};
#undef ROW

/*
 * Databases, users and pools are counted by their names: each lane may have its own object of the
 * same name. A lane counts those that no lane before it has.
 */
static bool is_database_before(const struct show_source *source, const struct lane *before,
                               const char *name)
{
	const struct lane *lane = show_source_first(source);

	while (lane < before && !pools_find_any_database(lane->pools, name))
		lane++;
	return lane < before;
}

static bool is_role_before(const struct show_source *source, const struct lane *before,
                           const char *name)
{
	const struct lane *lane = show_source_first(source);

	while (lane < before && !pools_find_role(lane->pools, name))
		lane++;
	return lane < before;
}

static bool is_pool_before(const struct show_source *source, const struct lane *before,
                           const struct pool *pool)
{
	const char *database = pool->database->name, *role = pool->role->name;
	const struct lane *lane;

	for (lane = show_source_first(source); lane < before; lane++) {
		if (pools_find_exact_pool(lane->pools, database, role, pool->purpose))
			return true;
	}
	return false;
}

static int64_t count_databases(const struct show_source *source)
{
	const struct database *database;
	const struct lane *lane;
	int64_t count = 1; /* the console's own */

	LANES_EACH(lane, show_source_lanes(source))
	TAILQ_FOREACH (database, &lane->pools->databases, node)
		count += !is_database_before(source, lane, database->name);
	return count;
}

/* The users of auth_file, and those known from other sources. */
static int64_t count_users(const struct show_source *source)
{
	const struct users *users = show_source_first(source)->pools->users;
	int64_t count = (int64_t)users_count(users);
	const struct lane *lane;
	const struct role *role;

	LANES_EACH(lane, show_source_lanes(source))
	TAILQ_FOREACH (role, &lane->pools->roles, node)
		count +=
		    !users_find(users, role->name) && !is_role_before(source, lane, role->name);
	return count;
}

static int64_t count_pools(const struct show_source *source)
{
	const struct lane *lane;
	const struct pool *pool;
	int64_t count = 1;

	LANES_EACH(lane, show_source_lanes(source))
	TAILQ_FOREACH (pool, &lane->pools->list, node)
		count += pool->purpose != POOL_FOR_READS && !is_pool_before(source, lane, pool);
	return count;
}

static int64_t count_peers(const struct show_source *source)
{
	return (int64_t)config_peer_count(show_source_first(source)->pools->config);
}

/* ---- of one lane ---- */

static int64_t free_clients(const struct lane *lane)
{
	return (int64_t)lane->clients->slab.free_count;
}

/* Clients that only read their last error are not counted. */
static int64_t used_clients(const struct lane *lane)
{
	const struct clients *clients = lane->clients;

	return (int64_t)clients->count - clients->state_counts[CLIENT_LINGERING];
}

static int64_t login_clients(const struct lane *lane)
{
	const unsigned int *counts = lane->clients->state_counts;

	return (int64_t)counts[CLIENT_STARTUP] + counts[CLIENT_AUTHENTICATION] +
	       counts[CLIENT_LOOKING] + counts[CLIENT_DERIVING] + counts[CLIENT_DELAYED] +
	       counts[CLIENT_NEWCOMER];
}

static int64_t free_servers(const struct lane *lane)
{
	return (int64_t)lane->pools->server_slab.free_count;
}

static int64_t used_servers(const struct lane *lane) { return lane->pools->server_count; }

static int64_t peer_pools(const struct lane *lane) { return lane->pools->peers.count; }

/* The resolver of the first loop has the names and zones of all. */
static int64_t dns_names(const struct lane *lane)
{
	return lane->number == 0 ? resolver_name_count(lane->resolver) : 0;
}

static int64_t dns_zones(const struct lane *lane) { return resolver_zone_count(lane->resolver); }

static int64_t dns_queries(const struct lane *lane) { return resolver_query_count(lane->resolver); }

/* ---- the rows ---- */

/* Without a function the number is always 0. */
static const struct {
	const char *name;
	int64_t (*count)(const struct show_source *source);
	int64_t (*count_lane)(const struct lane *lane); /* the number is the sum */
} lists[] = {
	{ "databases", count_databases, NULL }, { "users", count_users, NULL },
	{ "peers", count_peers, NULL },         { "pools", count_pools, NULL },
	{ "peer_pools", NULL, peer_pools },     { "free_clients", NULL, free_clients },
	{ "used_clients", NULL, used_clients }, { "login_clients", NULL, login_clients },
	{ "free_servers", NULL, free_servers }, { "used_servers", NULL, used_servers },
	{ "dns_names", NULL, dns_names },       { "dns_zones", NULL, dns_zones },
	{ "dns_queries", NULL, dns_queries },   { "dns_pending", NULL, NULL },
};

static bool next_list(struct cursor *cursor, void *at)
{
	struct list_row *row = at;
	size_t index = cursor->index++;
	const struct lane *lane;

	if (index >= sizeof(lists) / sizeof(lists[0]))
		return false;
	row->list = lists[index].name;
	if (lists[index].count)
		row->items = lists[index].count(cursor->source);
	LANES_EACH(lane, show_source_lanes(cursor->source))
	row->items += lists[index].count_lane ? lists[index].count_lane(lane) : 0;
	return true;
}

SHOW(lists, "LISTS", next_list, list_columns, "Number of internal objects of each kind.");

/* ---- MEM ---- */

struct mem_row {
	const char *name;
	int64_t size, used, free, memtotal;
};

#define ROW struct mem_row
static const struct column mem_columns[] = {
	TEXT(name, "Name of the object cache."),
	INT4(size, "Size of one object, in bytes."),
	INT4(used, "Number of objects in use."),
	INT4(free, "Number of free objects kept for reuse."),
	INT4(memtotal, "Memory of used and free objects, in bytes."),
};
#undef ROW

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
	};

	return index < sizeof(caches) / sizeof(caches[0]) ? caches[index] : (struct slab){ 0 };
}

static bool next_mem(struct cursor *cursor, void *at)
{
	size_t index = cursor->index++;
	const struct lane *lane;
	struct mem_row *row = at;

	LANES_EACH(lane, show_source_lanes(cursor->source))
	{
		struct slab slab = mem_of_lane(lane, index);

		row->name = slab.name;
		row->size = (int64_t)slab.size;
		row->used += (int64_t)slab.used_count;
		row->free += (int64_t)slab.free_count;
	}
	row->memtotal = row->size * (row->used + row->free);
	return row->name != NULL;
}

SHOW(mem, "MEM", next_mem, mem_columns, "Memory of the object caches.");

/* ---- CERTIFICATES ---- */

struct certificate_row {
	const char *setting, *file;
	int64_t seconds_left;
};

static const struct column certificate_columns[] = {
	COLUMN(struct certificate_row, VALUE_TEXT, setting, "Setting that names the file."),
	COLUMN(struct certificate_row, VALUE_TEXT, file, "File of the certificate."),
	COLUMN(struct certificate_row, VALUE_INT8, seconds_left,
	       "Seconds until the certificate that was read from the file expires; below 0: it has "
	       "expired. A new file is read by RELOAD."),
};

/* If only the web server shows the certificate of clients, it has the context: the file is read. */
static bool of_clients(const struct lane *lane, const struct config *config, int64_t *left)
{
	if (lane->clients->tls)
		return tls_context_time_left(lane->clients->tls, left);
	return config->metrics_tls && tls_time_left(config->client_tls_cert_file, left);
}

static bool next_certificate(struct cursor *cursor, void *at)
{
	const struct config *config = show_source_config(cursor->source);
	const struct lane *lane = show_source_first(cursor->source);
	struct certificate_row *row = at;
	bool is_known = false;

	while (!is_known && cursor->index < 2) {
		if (cursor->index++ == 0) {
			row->setting = "client_tls_cert_file";
			row->file = config->client_tls_cert_file;
			is_known = of_clients(lane, config, &row->seconds_left);
		} else {
			row->setting = "server_tls_cert_file";
			row->file = config->server_tls_cert_file;
			is_known = lane->pools->tls &&
			           tls_context_time_left(lane->pools->tls, &row->seconds_left);
		}
	}
	return is_known;
}

const struct show show_certificates = {
	.item = "CERTIFICATES",
	.next = next_certificate,
	.columns = COLUMNS(certificate_columns),
	.help = "Certificates of ours that are in use, and when they expire.",
};

/* ---- DNS_HOSTS ---- */

struct dns_row {
	const char *hostname, *addrs;
	int64_t ttl;
};

#define ROW struct dns_row
static const struct column dns_columns[] = {
	TEXT(hostname, "Host name of a server."),
	INT8(ttl, "Seconds until the cached addresses expire."),
	TEXT(addrs, "Addresses of the host, separated by commas; empty: the host was not "
	            "found."),
};
#undef ROW

/* That of the first loop has the names and zones of all. */
static struct resolver *resolver_of(const struct cursor *cursor)
{
	return show_source_lanes(cursor->source)->at[0].resolver;
}

static bool next_dns(struct cursor *cursor, void *at)
{
	struct resolver_row name;
	struct dns_row *row = at;
	char text[ADDRESS_TEXT_SIZE];

	if (!resolver_next_row(resolver_of(cursor), &cursor->dns, &name))
		return false;
	buf_clear(&cursor->text);
	for (unsigned int i = 0; i < name.address_count; i++)
		buf_printf(&cursor->text, "%s%s", i ? "," : "",
		           address_format(&name.addresses[i], text, sizeof(text)));
	row->hostname = name.host;
	row->ttl = name.ttl_left / USEC_PER_SEC;
	row->addrs = buf_text(&cursor->text);
	return true;
}

SHOW(dns_hosts, "DNS_HOSTS", next_dns, dns_columns, "Cached results of DNS lookups.");

/* ---- DNS_ZONES ---- */

struct zone_row {
	const char *zonename;
	int64_t serial, count;
};

#define ROW struct zone_row
static const struct column zone_columns[] = {
	TEXT(zonename, "Name of the zone: the part of host names after the first dot."),
	INT8(serial, "Serial number of the zone; 0: not known yet."),
	INT4(count, "Number of server host names in the zone."),
};
#undef ROW

static bool next_zone(struct cursor *cursor, void *at)
{
	struct resolver_zone_row zone;
	struct zone_row *row = at;

	if (!resolver_next_zone(resolver_of(cursor), &cursor->dns, &zone))
		return false;
	row->zonename = zone.zone;
	row->serial = zone.serial;
	row->count = zone.count;
	return true;
}

SHOW(dns_zones, "DNS_ZONES", next_zone, zone_columns,
     "DNS zones whose serial numbers are checked (dns_zone_check_period).");

/*
 * ---- show ready ----
 *
 * SHOW READY, for probes, and SHOW DRAIN.
 */

/* ---- READY ---- */

struct ready_row {
	const char *ready, *reason;
};

#define ROW struct ready_row
static const struct column ready_columns[] = {
	TEXT(ready, "Whether new work is accepted: yes or no."),
	TEXT(reason, "Why no new work is accepted; empty if it is."),
};
#undef ROW

/* Whether each named database is paused or disabled, and there is no `*` for other names. */
static bool is_all_shut(const struct pools *pools)
{
	const struct database *database;

	if (config_database_auto(pools->config))
		return false;
	TAILQ_FOREACH (database, &pools->databases, node) {
		if (!database->is_paused && !database->is_disabled)
			return false;
	}
	return !TAILQ_EMPTY(&pools->databases);
}

/* *why: what prevents new work, or "". */
static bool is_ready(const struct show_source *source, const char **why)
{
	const struct console_with *with = source->with;
	const struct lane *first = show_source_first(source);
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

	*why = "";
	for (size_t i = 0; i < sizeof(hindrances) / sizeof(hindrances[0]); i++) {
		if (hindrances[i].is_so) {
			*why = hindrances[i].words;
			return false;
		}
	}
	return true;
}

static bool next_ready(struct cursor *cursor, void *at)
{
	struct ready_row *row = at;

	row->ready = is_ready(cursor->source, &row->reason) ? "yes" : "no";
	return cursor->index++ == 0;
}

SHOW(ready, "READY", next_ready, ready_columns,
     "Whether new work is accepted now, and if not, why.");

/* ---- DRAIN ---- */

struct drain_row {
	const char *state;
	int64_t clients, working, waiting, closed, cut;
	int64_t seconds_left;
};

#define ROW struct drain_row
static const struct column drain_columns[] = {
	TEXT(state, "State of the DRAIN: no, draining, overdue (the deadline has passed) or "
	            "drained (no client is left)."),
	INT4(clients, "Number of clients that are still connected."),
	INT4(working, "Number of clients that are still connected and have a server."),
	INT4(waiting, "Number of clients that are still connected and wait for a server."),
	INT8(closed, "Number of clients that were disconnected between two transactions."),
	INT8(cut, "Number of clients that were disconnected because of the deadline."),
	INT4(seconds_left, "Seconds until the deadline; -1: no deadline."),
};
#undef ROW

static const char *drain_state(const struct drain_progress *sum)
{
	if (!sum->is_on)
		return "no";
	if (sum->is_done)
		return "drained";
	return sum->is_overdue ? "overdue" : "draining";
}

static bool next_drain(struct cursor *cursor, void *at)
{
	struct drain_progress sum;
	usec_t left;

	lanes_drain(show_source_lanes(cursor->source), &sum);
	left = sum.is_on ? sum.time_left : DRAIN_NO_LIMIT;
	*(struct drain_row *)at = (struct drain_row){
		.state = drain_state(&sum),
		.clients = sum.left,
		.working = sum.working,
		.waiting = (int64_t)sum.waiting + sum.newcomers,
		.closed = (int64_t)sum.closed,
		.cut = (int64_t)sum.cut,
		.seconds_left =
		    left == DRAIN_NO_LIMIT ? -1 : (left + USEC_PER_SEC - 1) / USEC_PER_SEC,
	};
	return cursor->index++ == 0;
}

SHOW(drain, "DRAIN", next_drain, drain_columns, "Progress of a DRAIN.");

/*
 * ---- show loops ----
 *
 * SHOW LOOPS: what each event loop has, and how much it does.
 */

struct loop_row {
	int64_t loop, clients, servers, idle_servers, active_servers;
	int64_t turns, cpu_time, servers_in, servers_out;
};

#define ROW struct loop_row
static const struct column loop_columns[] = {
	INT4(loop, "Number of the event loop, from 0. The first one also accepts connections, and "
	           "serves the console."),
	INT4(clients, "Number of its client connections, including those that are logging in."),
	INT4(servers, "Number of its server connections."),
	INT4(idle_servers, "Number of its idle server connections."),
	INT4(active_servers, "Number of its server connections that are assigned to a client, "
	                     "being checked or reset, or that wait for a cancel request."),
	INT8(turns, "How often the loop has waited for events and handled them."),
	INT8(cpu_time, "Processor time of the loop's thread, in microseconds, without polling that "
	               "found nothing (busy_poll)."),
	INT8(servers_in, "Number of server connections that came from other loops."),
	INT8(servers_out, "Number of server connections that went to other loops."),
};
#undef ROW

static int64_t count_idle(const struct pools *pools)
{
	const struct pool *pool;
	int64_t count = 0;

	TAILQ_FOREACH (pool, &pools->list, node)
		count += pool->server_counts[SERVER_IDLE] + pool->server_counts[SERVER_USED];
	return count;
}

static bool next_loop(struct cursor *cursor, void *row)
{
	const struct lanes *lanes = show_source_lanes(cursor->source);
	const struct lane *lane;

	if (cursor->index == lanes->count)
		return false;
	lane = &lanes->at[cursor->index++];
	*(struct loop_row *)row = (struct loop_row){
		.loop = lane->number,
		.clients = lane->clients->count,
		.servers = lane->pools->server_count,
		.idle_servers = count_idle(lane->pools),
		.active_servers = lane->pools->busy_count,
		.turns = (int64_t)loop_turn_count(lane->loop),
		.cpu_time = loop_cpu(lane->loop),
		.servers_in = (int64_t)lane->pools->moved_in,
		.servers_out = (int64_t)lane->pools->moved_out,
	};
	return true;
}

SHOW(loops, "LOOPS", next_loop, loop_columns,
     "Event loops: the connections of each, its processor time, and the server connections that "
     "came from and went to others.");
