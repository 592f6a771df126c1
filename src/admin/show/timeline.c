/* SPDX-License-Identifier: ISC */
/*
 * The timeline.
 *
 *   lanes: histograms, counters --> second --> ring of 300 seconds
 *                                     +--> minute --> ring of 60 minutes
 *
 * Each second costs a few sums for each lane, however many pools there are, and a look at each pool
 * that has a wait queue.
 */
#include "timeline_priv.h"

#include <stdlib.h>

#include "pgweir/base/banned.h"

#define SECONDS 300
#define MINUTES 60
#define MINUTE (60 * USEC_PER_SEC)

/* The latencies that have percentiles here. */
enum timed { TIMED_WAIT, TIMED_STATEMENT, TIMED_XACT, TIMED_LOGIN, TIMED };

static const enum latency_kind timed_kinds[TIMED] = {
	[TIMED_WAIT] = LATENCY_WAIT,
	[TIMED_STATEMENT] = LATENCY_STATEMENT,
	[TIMED_XACT] = LATENCY_XACT,
	[TIMED_LOGIN] = LATENCY_CLIENT_LOGIN,
};

/* Counters since the start, of all lanes. */
struct totals {
	uint64_t errors, received, sent;
};

struct timeline {
	struct timeline_slot seconds[SECONDS], minutes[MINUTES];
	uint64_t counts[TIMELINE_RESOLUTIONS]; /* slots since the start */
	struct totals last;
	usec_t minute_began_at;
	struct timeline_slot minute; /* counts so far */
	struct histogram in_second[TIMED], in_minute[TIMED];
};

struct timeline *timeline_new(usec_t now)
{
	struct timeline *timeline = calloc(1, sizeof(*timeline));

	if (timeline)
		timeline->minute_began_at = now;
	return timeline;
}

void timeline_free(struct timeline **timeline)
{
	free(*timeline);
	*timeline = NULL;
}

/* ---- one second ---- */

static void sum_latencies(struct timeline *timeline, const struct lanes *lanes)
{
	const struct lane *lane;

	for (int i = 0; i < TIMED; i++) {
		timeline->in_second[i] = (struct histogram){ 0 };
		LANES_EACH(lane, lanes)
		latency_all_sum(&lane->pools->latency, timed_kinds[i], &timeline->in_second[i]);
		histogram_merge(&timeline->in_minute[i], &timeline->in_second[i]);
	}
}

static struct totals sum_totals(const struct lanes *lanes)
{
	struct totals totals = { 0 };
	const struct lane *lane;

	LANES_EACH(lane, lanes)
	{
		totals.errors += lane->pools->sqlstates.total;
		totals.received += lane->pools->client_bytes;
		totals.sent += lane->pools->server_bytes;
	}
	return totals;
}

static void sum_gauges(struct timeline_slot *slot, const struct lanes *lanes, usec_t now)
{
	const struct lane *lane;

	LANES_EACH(lane, lanes)
	{
		const struct pools *pools = lane->pools;
		const unsigned int *states = lane->clients->state_counts;
		usec_t wait = pools_longest_wait(pools, now);

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

static void find_percentiles(struct timeline_slot *slot, const struct histogram histograms[TIMED])
{
	static const unsigned int asked[] = { 500, 950, 990 };
	uint64_t values[3];

	slot->logins = (int64_t)histogram_count(&histograms[TIMED_LOGIN]);
	histogram_quantiles(&histograms[TIMED_WAIT], asked, values, 3);
	slot->wait_p99 = (int64_t)values[2];
	slot->xacts = (int64_t)histogram_quantiles(&histograms[TIMED_XACT], asked, values, 3);
	slot->xact_p99 = (int64_t)values[2];
	slot->queries =
	    (int64_t)histogram_quantiles(&histograms[TIMED_STATEMENT], asked, values, 3);
	slot->statement_p50 = (int64_t)values[0];
	slot->statement_p95 = (int64_t)values[1];
	slot->statement_p99 = (int64_t)values[2];
}

/* ---- one minute ---- */

static void add_to_minute(struct timeline_slot *minute, const struct timeline_slot *second)
{
	minute->errors += second->errors;
	minute->received += second->received;
	minute->sent += second->sent;
	if (second->maxwait > minute->maxwait)
		minute->maxwait = second->maxwait;
}

static void end_minute(struct timeline *timeline, const struct timeline_slot *second)
{
	struct timeline_slot *minute = &timeline->minute;

	minute->at = second->at;
	minute->wall_at = second->wall_at;
	minute->cl_active = second->cl_active;
	minute->cl_waiting = second->cl_waiting;
	minute->sv_active = second->sv_active;
	minute->sv_idle = second->sv_idle;
	find_percentiles(minute, timeline->in_minute);
	timeline->minutes[timeline->counts[TIMELINE_MINUTES]++ % MINUTES] = *minute;
	*minute = (struct timeline_slot){ 0 };
	for (int i = 0; i < TIMED; i++)
		timeline->in_minute[i] = (struct histogram){ 0 };
	timeline->minute_began_at = second->at;
}

void timeline_tick(struct timeline *timeline, const struct lanes *lanes, usec_t now)
{
	struct timeline_slot *slot =
	    &timeline->seconds[timeline->counts[TIMELINE_SECONDS]++ % SECONDS];
	struct totals totals = sum_totals(lanes);

	*slot = (struct timeline_slot){
		.at = now,
		.wall_at = wall_now(),
		.errors = (int64_t)(totals.errors - timeline->last.errors),
		.received = (int64_t)(totals.received - timeline->last.received),
		.sent = (int64_t)(totals.sent - timeline->last.sent),
	};
	timeline->last = totals;
	sum_latencies(timeline, lanes);
	find_percentiles(slot, timeline->in_second);
	sum_gauges(slot, lanes, now);
	add_to_minute(&timeline->minute, slot);
	if (now - timeline->minute_began_at >= MINUTE)
		end_minute(timeline, slot);
}

/* ---- reading ---- */

const struct timeline_slot *timeline_find(const struct timeline *timeline,
                                          enum timeline_resolution resolution, uint64_t *number)
{
	uint64_t count = timeline->counts[resolution];
	uint64_t size = resolution == TIMELINE_SECONDS ? SECONDS : MINUTES;
	const struct timeline_slot *slots =
	    resolution == TIMELINE_SECONDS ? timeline->seconds : timeline->minutes;

	if (count > size && *number < count - size)
		*number = count - size;
	return *number < count ? &slots[*number % size] : NULL;
}
