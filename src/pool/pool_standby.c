/* SPDX-License-Identifier: ISC */
/* The servers of a pool for reads; how far their standbys are: max_standby_lag, causal_reads. */
#include "pool_priv.h"
#include "server/server_priv.h"

/* ---- causal_reads ---- */

/* After a failover, a standby that does not follow the new primary has other WAL than that. */
static bool follows(const struct server *server, const struct roster_row *row,
                    struct roster_row *primary)
{
	return !roster_primary(server->site->roster, primary) || !row->known.timeline ||
	       row->known.timeline >= primary->known.timeline;
}

/*
 * As long as one of its connections lives, a PostgreSQL has not crashed, as that ends all of them;
 * and without a crash it never shows less than before. The server's connection was there before
 * `since`. If it is not any more, the borrower will notice.
 */
bool pool_standby_shows(const struct server *server, uint64_t started, usec_t since)
{
	return server->place.standby.started == started && server->place.standby.at <= since;
}

bool pool_standby_follows_primary(const struct server *server)
{
	struct roster_row row, primary;

	return !server_roster_row(server, &row) || follows(server, &row, &primary);
}

#define FORMER_SPACING (60 * USEC_PER_SEC)

/*
 * PostgreSQL shows the timeline of what a standby receives only to pg_read_all_stats. Its control
 * file, which everybody may see, has the new one when a page is written: that may take minutes.
 */
void pool_standby_tell_former(const struct server *server)
{
	struct pool *pool = server->pool;
	usec_t now = pool_now(pool);
	struct roster_row row, primary;
	char where[ROSTER_WHERE_SIZE];

	if (now < pool->reads.former_told_until || !server_roster_row(server, &row) ||
	    follows(server, &row, &primary) || now - primary.since < ROSTER_DIVERGED_LAG)
		return;
	pool->reads.former_told_until = now + FORMER_SPACING;
	log_kept(&pool->log, LOG_LEVEL_WARNING, "host role",
	         "host %s gets no reads by causal_reads: the timeline of this standby is seen as "
	         "%u, that of the primary as %u (if the user of its host watch has "
	         "pg_read_all_stats, a new one is seen at once)",
	         roster_where(server->site->roster, &row, where), row.known.timeline,
	         primary.known.timeline);
}

uint32_t pool_standby_timeline(const struct server *server)
{
	struct roster *roster = server->site->roster;
	struct roster_row row;
	uint32_t timeline = 0;

	if (server_roster_row(server, &row))
		timeline = row.known.timeline;
	if (roster && roster_primary(roster, &row) && row.known.timeline > timeline)
		timeline = row.known.timeline;
	return timeline;
}

/*
 * The primary was asked after `since`, by a watch, which notes how long the answer took: so it has
 * all that was found out before on its own timeline. What is beyond is on an older one, behind the
 * point where the primary has left that.
 */
uint64_t pool_standby_left_of(const struct server *server, uint64_t position, uint32_t timeline,
                              usec_t since)
{
	struct roster *roster = server->site->roster;
	struct roster_row primary;

	if (!roster || !timeline || !roster_primary(roster, &primary) ||
	    primary.known.timeline <= timeline || !primary.known.position ||
	    primary.known.position >= position || !primary.known.latency ||
	    primary.asked_at <= since + primary.known.latency)
		return position;
	return primary.known.position;
}

/*
 * What a watch has found out is true for this server if both have asked the same PostgreSQL, and
 * the watch was the second: a crash in between would have ended the server's connection, and after
 * one a standby may begin with less.
 */
static void learn_replayed(struct server *server, const struct roster_row *row)
{
	if (row->known.role == HOST_STANDBY && server->place.standby.started &&
	    row->known.started == server->place.standby.started &&
	    row->asked_at > server->place.standby.at &&
	    row->known.position > server->place.standby.replayed)
		server->place.standby.replayed = row->known.position;
}

bool pool_standby_has_replayed(struct server *server, uint64_t position)
{
	struct roster_row row, primary;

	if (!server_roster_row(server, &row))
		return server->place.standby.replayed >= position;
	if (server->place.standby.replayed < position)
		learn_replayed(server, &row);
	return server->place.standby.replayed >= position && follows(server, &row, &primary);
}

/* ---- borrowers that prefer a standby ---- */

/*
 * A borrower whose last read was on one standby is best served there: elsewhere it is not known
 * whether what it has seen is shown. So a server that does not suit the head of the wait queue goes
 * to one of the next if it suits that; but not more often than that, so that the head does not wait
 * for a standby that has few servers or none.
 */
#define NEXT_MAX 32
#define PASSED_MAX 64

static bool suits(const struct borrower *borrower, const struct server *server)
{
	return pool_may_lend(server) && borrower->ops->suits(borrower, server);
}

struct server *pool_standby_suitable(const struct borrower *borrower)
{
	const struct pool *reads = borrower->pool;
	struct server *server = borrower->owned;

	if (server && server->pool == reads && server->state == SERVER_IDLE &&
	    suits(borrower, server))
		return server;
	TAILQ_FOREACH (server, &reads->servers[SERVER_IDLE], place.node) {
		if (suits(borrower, server))
			return server;
	}
	return NULL;
}

struct borrower *pool_standby_next(struct pool *reads)
{
	struct borrower *head = pool_first(reads, BORROWER_WAITING), *borrower = head;

	if (reads->reads.head != head->wait_number) {
		reads->reads.head = head->wait_number;
		reads->reads.passed = 0;
	}
	if (!reads->server_counts[SERVER_IDLE] || reads->reads.passed == PASSED_MAX)
		return head;
	for (unsigned int i = 0; borrower && i < NEXT_MAX; i++) {
		if (pool_standby_suitable(borrower)) {
			reads->reads.passed += borrower != head;
			return borrower;
		}
		borrower = TAILQ_NEXT(borrower, wait_node);
	}
	return head;
}

void pool_standby_note(struct server *server, const struct facts *facts)
{
	server->place.standby.replayed = facts->position;
	if (server->place.standby.started == facts->started)
		return;
	server->place.standby.started = facts->started;
	server->place.standby.at = pool_now(server->pool);
}
