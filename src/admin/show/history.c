/* SPDX-License-Identifier: ISC */
/*
 * The timeline, and SHOW HISTORY, which has it.
 *
 *   lanes: histograms, counters --+--> second --> ring of 300 seconds
 *                                 +--> minute --> ring of 60 minutes
 *
 * Each second costs a few sums for each lane, however many pools there are, and a look at each pool
 * that has a wait queue.
 */
#include "show_priv.h"

#include "pgweir/base/text.h"

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

/* ---- reading ---- */

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
