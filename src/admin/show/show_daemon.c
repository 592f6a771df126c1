/* SPDX-License-Identifier: ISC */
/*
 * SHOW of the daemon itself: VERSION, STATE, CONFIG, LISTS, MEM, CERTIFICATES, DNS_HOSTS,
 * DNS_ZONES.
 */
#include "show_priv.h"

#include "pgweir/base/version.h"
#include "pgweir/config/settings.h"
#include "pgweir/net/tls.h"

#include "pgweir/base/banned.h"

/* ---- VERSION ---- */

struct version_row {
	const char *version;
};

static const struct column version_columns[] = {
	COLUMN(struct version_row, VALUE_TEXT, version,
	       "The PgBouncer version that pgweir is compatible with, and pgweir's own "
	       "version."),
};

static bool next_version(struct cursor *cursor, void *row)
{
	((struct version_row *)row)->version = VERSION_SHOW;
	return cursor->index++ == 0;
}

const struct show show_version = { "VERSION",
	                           next_version,
	                           COLUMNS(version_columns),
	                           "Version of PgBouncer and of pgweir.",
	                           CONSOLE_STATS,
	                           SHOW_ALONE };

/* ---- STATE ---- */

struct state_row {
	const char *key, *value;
};

static const struct column state_columns[] = {
	COLUMN(struct state_row, VALUE_TEXT, key,
	       "Name of the state: active, paused or suspended."),
	COLUMN(struct state_row, VALUE_TEXT, value,
	       "Whether the process is in this state: yes or no."),
};

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

const struct show show_state = {
	"STATE",
	next_state,
	COLUMNS(state_columns),
	"Whether the whole process is paused or suspended. Not active during a "
	"DRAIN either.",
	CONSOLE_STATS,
	SHOW_ALONE
};

/* ---- CONFIG ---- */

struct config_row {
	const char *key, *value, *initial, *changeable;
	struct setting_shown shown;
};
_Static_assert(sizeof(struct config_row) <= ROW_SIZE_MAX, "a row is too large");

static const struct column config_columns[] = {
	COLUMN(struct config_row, VALUE_TEXT, key, "Name of the setting."),
	COLUMN(struct config_row, VALUE_TEXT, value, "Value of the setting."),
	{ "default", VALUE_TEXT, offsetof(struct config_row, initial), "Default of the setting." },
	COLUMN(struct config_row, VALUE_TEXT, changeable,
	       "yes: RELOAD and SET change the setting; no: only a restart does."),
};

static const struct config *wanted(const struct show_source *source)
{
	return source->with->wanted(source->with->arg);
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

const struct show show_config = {
	"CONFIG",      next_config, COLUMNS(config_columns), "All settings with their values.",
	CONSOLE_STATS, SHOW_ALONE
};

/* ---- ALL, and one setting ---- */

struct setting_row {
	const char *name, *setting, *description;
	struct setting_shown shown;
};
_Static_assert(sizeof(struct setting_row) <= ROW_SIZE_MAX, "a row is too large");

static const struct column setting_columns[] = {
	COLUMN(struct setting_row, VALUE_TEXT, name, "Name of the setting."),
	COLUMN(struct setting_row, VALUE_TEXT, setting, "Value of the setting; NULL: not set."),
	COLUMN(struct setting_row, VALUE_TEXT, description, "Description of the setting."),
};

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

const struct show show_all = { "ALL",
	                       next_described,
	                       COLUMNS(setting_columns),
	                       "All settings with values and descriptions, in the format of "
	                       "PostgreSQL's SHOW ALL.",
	                       CONSOLE_STATS,
	                       SHOW_ALONE };

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
_Static_assert(sizeof(struct pending_row) <= ROW_SIZE_MAX, "a row is too large");

static const struct column pending_columns[] = {
	COLUMN(struct pending_row, VALUE_TEXT, key, "Name of the setting."),
	COLUMN(struct pending_row, VALUE_TEXT, value, "Value given with SET."),
	COLUMN(struct pending_row, VALUE_TEXT, in_force, "Value in effect."),
	COLUMN(struct pending_row, VALUE_TEXT, reason, "Why the new value is not in effect yet."),
};

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
		row->reason = source->with->why_held(source->with->arg, row->key);
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

const struct show show_pending = { "PENDING",
	                           next_pending,
	                           COLUMNS(pending_columns),
	                           "Settings whose new value takes effect only after another SET.",
	                           CONSOLE_STATS,
	                           SHOW_ALONE };

/* ---- LISTS ---- */

struct list_row {
	const char *list;
	int64_t items;
};

static const struct column list_columns[] = {
	COLUMN(struct list_row, VALUE_TEXT, list, "Kind of object that is counted."),
	COLUMN(struct list_row, VALUE_INT4, items, "Number of objects of this kind."),
};

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

const struct show show_lists = {
	"LISTS",       next_list, COLUMNS(list_columns), "Number of internal objects of each kind.",
	CONSOLE_STATS, SHOW_ALONE
};

/* ---- MEM ---- */

struct mem_row {
	const char *name;
	int64_t size, used, free, memtotal;
};

static const struct column mem_columns[] = {
	COLUMN(struct mem_row, VALUE_TEXT, name, "Name of the object cache."),
	COLUMN(struct mem_row, VALUE_INT4, size, "Size of one object, in bytes."),
	COLUMN(struct mem_row, VALUE_INT4, used, "Number of objects in use."),
	COLUMN(struct mem_row, VALUE_INT4, free, "Number of free objects kept for reuse."),
	COLUMN(struct mem_row, VALUE_INT4, memtotal, "Memory of used and free objects, in bytes."),
};

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

const struct show show_mem = {
	"MEM",         next_mem,  COLUMNS(mem_columns), "Memory of the object caches.",
	CONSOLE_STATS, SHOW_ALONE
};

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

static const struct column dns_columns[] = {
	COLUMN(struct dns_row, VALUE_TEXT, hostname, "Host name of a server."),
	COLUMN(struct dns_row, VALUE_INT8, ttl, "Seconds until the cached addresses expire."),
	COLUMN(struct dns_row, VALUE_TEXT, addrs,
	       "Addresses of the host, separated by commas; empty: the host was not "
	       "found."),
};

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

const struct show show_dns_hosts = { "DNS_HOSTS",          next_dns,
	                             COLUMNS(dns_columns), "Cached results of DNS lookups.",
	                             CONSOLE_STATS,        SHOW_ALONE };

/* ---- DNS_ZONES ---- */

struct zone_row {
	const char *zonename;
	int64_t serial, count;
};

static const struct column zone_columns[] = {
	COLUMN(struct zone_row, VALUE_TEXT, zonename,
	       "Name of the zone: the part of host names after the first dot."),
	COLUMN(struct zone_row, VALUE_INT8, serial, "Serial number of the zone; 0: not known yet."),
	COLUMN(struct zone_row, VALUE_INT4, count, "Number of server host names in the zone."),
};

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

const struct show show_dns_zones = {
	"DNS_ZONES",
	next_zone,
	COLUMNS(zone_columns),
	"DNS zones whose serial numbers are checked (dns_zone_check_period).",
	CONSOLE_STATS,
	SHOW_ALONE
};
