/* SPDX-License-Identifier: ISC */
/*
 * SHOW ADVICE: how many servers each pool would need, from how many its clients have wanted at
 * once.
 *
 * A request that finds `wanted` clients with it, itself included, among those that have or want one
 * of the servers, waits until wanted - servers of them are done: with all servers at work, that
 * takes (wanted - servers) * used / servers. So for a wait of `target` it needs
 * wanted * used / (used + target) servers.
 */
#include "show_priv.h"

#define REQUESTS_MIN 100
#define TARGET (10 * USEC_PER_MS) /* without queue_target */

#define ADVICE_ROW(COLUMN)                                                                         \
	COLUMN(TEXT, database, cursor->ordered.first, "Name of the database.")                     \
	COLUMN(TEXT, user, cursor->ordered.second, "User that the server connections log in as.")  \
	COLUMN(TEXT, pool_mode, config_pool_modes[sum.mode], "Pool mode of the pool.")             \
	COLUMN(INT4, pool_size, sum.size, "Size of the pool now; 0: no limit.")                    \
	COLUMN(INT4, servers, sum.servers, "Servers that it has.")                                 \
	COLUMN(INT4, pinned, sum.pinned, "Servers that stay with clients (SHOW PINNED).")          \
	COLUMN(INT8, requests, (int64_t)sum.requests,                                              \
	       "How many requests for a server were looked at, since the pool was made or "        \
	       "pool_size was set; of many only the later ones.")                                  \
	COLUMN(INT8, used_us, (int64_t)sum.used,                                                   \
	       "How long a client has had a server each time, on average, in microseconds.")       \
	COLUMN(INT8, wait_p50_us, (int64_t)sum.waits[0],                                           \
	       "Half of the requests of the last ten minutes waited no longer, in microseconds.")  \
	COLUMN(INT8, wait_p99_us, (int64_t)sum.waits[1],                                           \
	       "99 % of the requests of these ten minutes waited no longer, in microseconds.")     \
	COLUMN(INT4, wanted_p50, sum.wanted[0],                                                    \
	       "Half of the requests came when no more clients than that had or wanted a server, " \
	       "this one included.")                                                               \
	COLUMN(INT4, wanted_p99, sum.wanted[1],                                                    \
	       "99 % of the requests came when no more clients than that had or wanted a server.") \
	COLUMN(INT4, wanted_max, sum.wanted[2],                                                    \
	       "No request came when more clients than that had or wanted a server.")              \
	COLUMN(INT4, needed_p50, sum.needed[0],                                                    \
	       "With so many servers, half of the requests would have waited less than "           \
	       "queue_target, or 10 ms if that is 0.")                                             \
	COLUMN(INT4, needed_p99, sum.needed[1],                                                    \
	       "With so many servers, 99 % of the requests would have waited less than "           \
	       "queue_target.")                                                                    \
	COLUMN(INT8, idle_us, sum.idle,                                                            \
	       "How long the server that was used least has been idle now, in microseconds; 0: "   \
	       "none is idle.")                                                                    \
	COLUMN(TEXT, advice, advice, "What follows from these numbers.")                           \
	COLUMN(TEXT, setting, value ? cursor_print(cursor, "%s = %u", name, value) : NULL,         \
	       "The setting to write; NULL: none need be changed.")

SHOW_ROWS(advice, "ADVICE", ADVICE_ROW,
          "How many servers each pool would need for short waits, and why.",
          .collect = show_collect_own_pools, .argument = SHOW_OF_DATABASE, .has_one_row = true);

struct sum {
	enum pool_mode mode;
	struct sizing_bounds sizes; /* most 0: not auto */
	unsigned int size, servers, pinned;
	unsigned int wanted[3], needed[2];
	uint64_t requests, waits[2], used;
	usec_t target, idle;
};

/* ---- what the loops have counted ---- */

static uint64_t part_of(uint64_t count, uint64_t all)
{
	return (count * 10000 + all - 1) / all; /* whatever was counted stays above 0 */
}

/* The loops are independent of each other: each number of one meets each one of another. */
static void combine(struct histogram *sum, const struct histogram *more)
{
	uint64_t sum_count = histogram_count(sum), more_count = histogram_count(more);
	struct histogram both = { 0 };

	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++) {
		for (unsigned int j = 0; sum->counts[i] && j < HISTOGRAM_BUCKETS; j++) {
			if (!more->counts[j])
				continue;
			both.counts[histogram_bucket(histogram_middle(i) + histogram_middle(j))] +=
			    part_of(sum->counts[i], sum_count) *
			    part_of(more->counts[j], more_count);
		}
	}
	*sum = both;
}

static void add_wanted(struct histogram *sum, const struct demand *demand, uint64_t *requests)
{
	struct histogram one = { 0 };
	uint64_t count;

	sketch_add_to(&demand->wanted, &one);
	count = histogram_count(&one);
	if (count && *requests)
		combine(sum, &one);
	else if (count)
		*sum = one;
	*requests += count;
}

static void find_wanted(struct sum *sum, struct histogram *wanted)
{
	static const unsigned int perthousand[] = { 500, 990, 1000 };
	uint64_t values[3];

	wanted->max = HISTOGRAM_VALUE_MAX; /* it is not known */
	histogram_quantiles(wanted, perthousand, values, 3);
	for (int i = 0; i < 3; i++)
		sum->wanted[i] = (unsigned int)values[i];
	for (int i = 0; i < 2; i++)
		sum->needed[i] =
		    (unsigned int)((values[i] * sum->used + sum->used + (uint64_t)sum->target - 1) /
		                   (sum->used + (uint64_t)sum->target));
}

/* The one that was used least is at an end of its list: with server_round_robin the first. */
static void find_idle(struct sum *sum, const struct pool *pool, usec_t now)
{
	static const enum server_state states[] = { SERVER_IDLE, SERVER_USED };

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		const struct server_list *list = &pool->servers[states[i]];
		const struct server *ends[] = { TAILQ_FIRST(list), TAILQ_LAST(list, server_list) };

		for (size_t j = 0; j < 2; j++) {
			if (ends[j] && now - ends[j]->used_at > sum->idle)
				sum->idle = now - ends[j]->used_at;
		}
	}
}

/* false: no pool has these names any more. */
static bool add_up(const struct cursor *cursor, struct sum *sum)
{
	static const unsigned int perthousand[] = { 500, 990 };
	struct histogram wanted = { 0 }, waits = { 0 };
	uint64_t used = 0, lent = 0;
	bool is_there = false;

	LANES_EACH (lane, cursor->lanes) {
		const struct pool *pool =
		    pools_find_pool(lane->pools, cursor->ordered.first, cursor->ordered.second);
		usec_t now;

		if (!pool || !pool->database->entry)
			continue;
		is_there = true;
		now = loop_now(lane->pools->shared.loop);
		sum->mode = pool_own_rules(pool)->mode;
		sum->sizes = pool->limits.sizes;
		sum->size = (unsigned int)pool->limits.size;
		sum->servers = share_servers(&pool->share);
		sum->pinned = pool->share.tally->pinned_count;
		sum->target = pool->limits.shed.target ? pool->limits.shed.target : TARGET;
		find_idle(sum, pool, now);
		add_wanted(&wanted, &pool->demand, &sum->requests);
		latency_sum(&pool->latency, LATENCY_WAIT, LATENCY_TEN_MINUTES, now, &waits);
		used += pool_used_time(pool, now) - pool->demand.used_before;
		if (pool->stats.assignment_count > pool->demand.lent_before)
			lent += pool->stats.assignment_count - pool->demand.lent_before;
	}
	sum->used = lent ? used / lent : 0;
	histogram_quantiles(&waits, perthousand, sum->waits, 2);
	if (is_there)
		find_wanted(sum, &wanted);
	return is_there;
}

/* ---- what follows ---- */

#define MS(time) ((double)(time) / USEC_PER_MS)

/* *value: what to set the size to; 0: it need not be changed. */
static const char *advise(struct cursor *cursor, const struct sum *sum, unsigned int *value)
{
	bool is_late = sum->waits[1] > (uint64_t)sum->target;
	bool is_small = is_late && sum->size && sum->needed[1] > sum->size;

	*value = 0;
	if (sum->requests < REQUESTS_MIN)
		return cursor_print(cursor, "fewer than %d requests: too few to tell",
		                    REQUESTS_MIN);
	if (is_small && sum->size < sum->sizes.most)
		return cursor_print(cursor, "auto, %u to %u: SHOW EVENTS has why it is not larger",
		                    sum->sizes.least, sum->sizes.most);
	if (is_small)
		*value = sum->needed[1];
	if (is_small && sum->pinned * 2 >= sum->size)
		return cursor_print(cursor,
		                    "%u of %u servers stay with clients: SHOW PINNED has why; "
		                    "without that they may be enough",
		                    sum->pinned, sum->size);
	if (is_small)
		return cursor_print(cursor,
		                    "too small: 1 %% of the requests waited longer than %.1f ms; "
		                    "with %u servers 99 %% would wait less than %.0f ms, if "
		                    "PostgreSQL is as fast with them",
		                    MS(sum->waits[1]), sum->needed[1], MS(sum->target));
	if (is_late)
		return cursor_print(cursor,
		                    "1 %% of the requests waited longer than %.1f ms, but not "
		                    "because of pool_size: SHOW WAITING and SHOW LIMITS have what "
		                    "is in the way",
		                    MS(sum->waits[1]));
	if (sum->size && (sum->sizes.most || sum->wanted[2] * 2 >= sum->size))
		return cursor_print(cursor, "it fits: 99 %% of the requests waited at most %.1f ms",
		                    MS(sum->waits[1]));
	*value = sum->wanted[2] + (sum->wanted[2] + 3) / 4;
	return cursor_print(cursor, "%s: never more than %u servers were wanted at once",
	                    sum->size ? "too large" : "no limit", sum->wanted[2]);
}

static bool next_advice(struct cursor *cursor, void *row)
{
	struct sum sum = { 0 };
	const char *name, *advice;
	unsigned int value;

	if (!add_up(cursor, &sum))
		return false;
	name = sum.sizes.most ? "max_pool_size" : "pool_size";
	advice = advise(cursor, &sum, &value);
	return ROW_FILL(row, struct advice_shown, ADVICE_ROW);
}
