/* SPDX-License-Identifier: ISC */
/*
 * SHOW READS: where reads were served, for each pair of pools (route_reads).
 */
#include "show_priv.h"

struct reads_row {
	const char *database, *user;
	int64_t servers, on_standby, no_standby, behind, waits, wait_us;
};

#define ROW struct reads_row
static const struct column reads_columns[] = {
	TEXT(database, "Database of the pool."),
	TEXT(user, "User of the pool."),
	INT4(servers, "Server connections to standbys."),
	INT8(on_standby, "Reads that a standby has served."),
	INT8(no_standby, "Reads that the primary has served, as no standby could be used."),
	INT8(behind, "Reads that the primary has served, as the standby was behind for longer than "
	             "causal_reads_wait, or was not known to show what the client has seen."),
	INT8(waits, "Reads that have waited for their standby (causal_reads)."),
	INT8(wait_us, "Microseconds that they have waited, in sum."),
};
#undef ROW

static void collect_reads(struct cursor *cursor)
{
	const struct lane *lane;
	const struct pool *pool;

	LANES_EACH(lane, show_source_lanes(cursor->source))
	TAILQ_FOREACH (pool, &lane->pools->list, node) {
		if (pool->purpose == POOL_FOR_READS && cursor_wants(cursor, pool->database->name))
			cursor_offer(cursor, (struct ordered_item){ pool->database->name,
			                                            pool->role->name, pool });
	}
}

static void add_reads(struct reads_row *row, const struct pool *pool)
{
	row->servers += pool_live_count(pool);
	row->on_standby += (int64_t)(pool->reads.routed - pool->reads.behind);
	row->no_standby += (int64_t)pool->reads.elsewhere;
	row->behind += (int64_t)pool->reads.behind;
	row->waits += (int64_t)pool->reads.wait_count;
	row->wait_us += (int64_t)pool->reads.wait_time;
}

static bool next_reads(struct cursor *cursor, void *at)
{
	struct reads_row *row = at;
	struct ordered_item item;
	const struct lane *lane;
	const struct pool *pool;

	if (!cursor_next_ordered(cursor, collect_reads, &item))
		return false;
	row->database = item.first;
	row->user = item.second;
	LANES_EACH(lane, show_source_lanes(cursor->source))
	{
		pool = pools_find_exact_pool(lane->pools, row->database, row->user, POOL_FOR_READS);
		if (pool)
			add_reads(row, pool);
	}
	return true;
}

SHOW(reads, "READS", next_reads, reads_columns,
     "Where reads were served (route_reads), since their pool exists.",
     .argument = SHOW_OF_DATABASE);
