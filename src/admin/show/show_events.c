/* SPDX-License-Identifier: ISC */
/*
 * SHOW of what has happened lately: EVENTS, from the log's memory; ERRORS, CLOSES, SQLSTATES, as
 * they were counted; and HISTORY, with its timeline.
 */
#include "show_priv.h"

#include "pgweir/base/close_reason.h"
#include "pgweir/base/text.h"

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

	if (!log_kept_next(cursor->source->with->log, &number, &kept))
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

	if (!log_kept_kind(cursor->source->with->log, cursor->index, &kind, &count))
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
