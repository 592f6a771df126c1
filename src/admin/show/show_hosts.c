/* SPDX-License-Identifier: ISC */
/*
 * SHOW HOSTS: what is known of each address of each host of each entry.
 */
#include "show_priv.h"

#include <stdio.h>
#include <string.h>

#include "pgweir/base/text.h"
#include "pgweir/pool/pools.h"

#define HOST_SIZE 256

struct host_row {
	const char *entry, *host, *address, *role, *position, *state, *watch, *last_error;
	int64_t timeline, lag_us, lag_bytes, servers, latency_us, lost_bytes, reads;
	char host_buffer[HOST_SIZE], address_buffer[ADDRESS_TEXT_SIZE], position_buffer[24];
	usec_t since;
	char error_buffer[ROSTER_ERROR_SIZE];
};

#define ROW struct host_row
static const struct column host_columns[] = {
	TEXT(entry, "Name of the entry in [databases]."),
	TEXT(host, "The host as in the entry."),
	TEXT(address, "One of its addresses; NULL: a Unix socket, or not looked up yet."),
	TEXT(role, "primary, standby, or unknown."),
	INT8(timeline, "Timeline of its WAL; 0: not known."),
	TEXT(position, "Position in the WAL: of a primary what it has written to disk, of a "
	               "standby what it has replayed; NULL: not known."),
	INT8(lag_us, "For how many microseconds a standby may lack what the primary has written; "
	             "NULL: not known."),
	INT8(lag_bytes, "How many bytes of the primary's WAL a standby has not replayed; NULL: not "
	                "known."),
	TEXT(state,
	     "up; unknown (never asked); lost (does not answer); fenced (says that it is "
	     "primary, but another host counts); foreign (fenced, as it is of another "
	     "cluster); diverged (a standby on an older timeline that does not follow the "
	     "primary); lagging (a standby that is behind for more than max_standby_lag, or it is "
	     "not known for how long); draining; drained; disabled."),
	TIME(since, "Since when it has this role; NULL: not known."),
	INT4(servers, "Number of server connections of the entry there."),
	INT8(latency_us, "How many microseconds its last answer about its role took; 0: it was "
	                 "not asked by a host watch."),
	TEXT(watch, "Whether a host watch asks it: yes, or no and why. Without one, a host that "
	            "hangs is not noticed."),
	INT8(lost_bytes, "How many bytes of WAL that its predecessor had written it lacked when it "
	                 "was first seen as primary: at least so many are lost."),
	TEXT(last_error, "The last error of its host watch; empty: none."),
	INT8(reads, "How often a server of the host was lent for a read (route_reads), for all its "
	            "addresses together."),
};
#undef ROW

static void offer_entries(struct cursor *cursor)
{
	const struct database *database;
	const struct lane *lane;

	LANES_EACH(lane, show_source_lanes(cursor->source))
	TAILQ_FOREACH (database, &lane->pools->databases, node) {
		if (database->entry && cursor_wants(cursor, database->name) &&
		    !show_leaves_out(cursor, database))
			cursor_offer(cursor, (struct ordered_item){ database->name, "", database });
	}
}

/* What a row is about. has_row: roster_row is filled. */
struct shown_host {
	const struct config_database *entry;
	struct roster_row row;
	bool has_row;
	struct bytes name;
};

/* The row of this position: the rows of each host, or one if it has none. */
static bool find_host(const struct pools *pools, size_t position, struct shown_host *shown)
{
	struct cluster *cluster = pools_cluster(pools, shown->entry);
	const char *list = shown->entry->host ? shown->entry->host : pools->config->unix_socket_dir;

	for (unsigned int host = 0; config_host_next(&list, &shown->name); host++) {
		bool has_any = false;

		for (unsigned int i = 0;
		     cluster && roster_row_at(cluster_roster(cluster), i, &shown->row); i++) {
			if (shown->row.host != host)
				continue;
			has_any = shown->has_row = true;
			if (position-- == 0)
				return true;
		}
		if (!has_any && position-- == 0) {
			shown->has_row = false;
			shown->row = (struct roster_row){ .host = host, .lag = ROSTER_LAG_UNKNOWN };
			return true;
		}
	}
	return false;
}

static const struct address *address_of(const struct shown_host *shown)
{
	return shown->row.address.family == AF_UNSPEC ? NULL : &shown->row.address;
}

static unsigned int count_servers(const struct show_source *source, const char *entry,
                                  const struct shown_host *shown)
{
	unsigned int count = 0;
	const struct lane *lane;

	LANES_EACH(lane, show_source_lanes(source))
	count += pools_servers_at(lane->pools, entry, shown->row.host, address_of(shown));
	return count;
}

static int64_t count_reads(const struct show_source *source, const struct host_row *row)
{
	const struct lane *lane;
	uint64_t count = 0;

	LANES_EACH(lane, show_source_lanes(source))
	count += pools_reads_at(lane->pools, row->entry, row->host);
	return (int64_t)count;
}

static unsigned int count_busy(const struct show_source *source, const char *host)
{
	unsigned int count = 0;
	const struct lane *lane;

	LANES_EACH(lane, show_source_lanes(source))
	count += pools_busy_at(lane->pools, host);
	return count;
}

static bool is_lagging(const struct config *config, const struct shown_host *shown)
{
	struct roster_limit limit = { config_max_standby_lag(config, shown->entry),
		                      config_max_standby_lag_bytes(config, shown->entry) };

	return roster_row_is_behind(&shown->row, &limit);
}

static const char *shown_state(const struct show_source *source, const struct host_row *row,
                               const struct shown_host *shown)
{
	const struct roster_row *known = &shown->row;
	struct broker *broker = show_source_first(source)->pools->with.broker;

	switch (clusters_admin(broker, row->host)) {
	case HOST_DISABLED:
		return "disabled";
	case HOST_DRAINING:
		return count_busy(source, row->host) ? "draining" : "drained";
	case HOST_ENABLED:
		break;
	}
	if (known->is_lost)
		return "lost";
	if (known->is_fenced)
		return known->is_foreign ? "foreign" : "fenced";
	if (known->is_diverged)
		return "diverged";
	if (is_lagging(show_source_first(source)->pools->config, shown))
		return "lagging";
	return known->seen_at ? "up" : "unknown";
}

static const char *watch_of(const struct show_source *source, const struct shown_host *shown)
{
	const struct pools *pools = show_source_first(source)->pools;
	const struct cluster *cluster = pools_cluster(pools, shown->entry);

	if (shown->row.is_watched)
		return "yes";
	return cluster ? cluster_watch_lack(pools->with.broker, cluster) : "no: it has no pool yet";
}

static void fill_host(struct cursor *cursor, struct host_row *row, const struct shown_host *shown)
{
	const struct roster_row *known = &shown->row;
	usec_t now = loop_now(cursor->source->with->loop);

	snprintf(row->host_buffer, sizeof(row->host_buffer), "%.*s", (int)shown->name.count,
	         shown->name.at);
	row->entry = cursor->ordered.first;
	row->host = row->host_buffer;
	if (address_of(shown))
		row->address = address_format_host(&known->address, row->address_buffer,
		                                   sizeof(row->address_buffer));
	row->role = roster_role_name(known->known.role);
	row->timeline = known->known.timeline;
	if (known->known.position) {
		snprintf(row->position_buffer, sizeof(row->position_buffer), "%X/%X",
		         (unsigned int)(known->known.position >> 32),
		         (unsigned int)known->known.position);
		row->position = row->position_buffer;
	}
	row->lag_us = row->lag_bytes = ROWS_NULL;
	if (known->lag != ROSTER_LAG_UNKNOWN) {
		row->lag_us = known->lag;
		row->lag_bytes = (int64_t)known->lag_bytes;
	}
	row->state = shown_state(cursor->source, row, shown);
	if (known->since)
		row->since = show_wall(known->since, now);
	row->servers = count_servers(cursor->source, row->entry, shown);
	row->reads = count_reads(cursor->source, row);
	row->lost_bytes = (int64_t)known->lost_bytes;
	row->latency_us = known->known.latency;
	row->watch = watch_of(cursor->source, shown);
	text_copy(row->error_buffer, sizeof(row->error_buffer), known->error);
	row->last_error = row->error_buffer;
}

static bool next_of_entry(struct cursor *cursor, struct host_row *row)
{
	const struct pools *pools = show_source_first(cursor->source)->pools;
	const struct config_database *own =
	    config_database_find(pools->config, cursor->ordered.first);
	/* a database of entry `*` need not be known in the first loop */
	struct shown_host shown = { .entry = own ? own : config_database_auto(pools->config) };

	if (!shown.entry || !find_host(pools, cursor->index, &shown))
		return false;
	cursor->index++;
	fill_host(cursor, row, &shown);
	return true;
}

static bool next_host(struct cursor *cursor, void *row)
{
	struct ordered_item item;

	for (;;) {
		if (cursor->ordered.has_last && next_of_entry(cursor, row))
			return true;
		if (!cursor_may_look(cursor) || !cursor_next_ordered(cursor, offer_entries, &item))
			return false;
		cursor->index = 0;
	}
}

SHOW(hosts, "HOSTS", next_host, host_columns, "Roles, lag and states of the hosts of each entry.",
     .argument = SHOW_OF_DATABASE);
