/* SPDX-License-Identifier: ISC */
/*
 * SHOW HOSTS: what is known of each address of each host of each entry; and SHOW READS.
 */
#include "show_priv.h"

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
	return database->entry && !show_leaves_out(cursor, database);
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
