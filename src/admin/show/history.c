/* SPDX-License-Identifier: ISC */
/*
 * The history of the statistics.
 */
#include "history_priv.h"

#include <stdlib.h>

#include "pgweir/base/table.h"
#include "pgweir/base/text.h"
#include "pgweir/config/entries.h"

#include "pgweir/base/banned.h"

/* The snapshots of one database. */
struct snapshots {
	UT_hash_handle hh;
	struct stats older, newer;
	unsigned long tick; /* tick of the last history_note() */
	char name[CONFIG_DATABASE_NAME_MAX + 1];
};

struct history {
	struct snapshots *table;
	struct hash_key secret;
	usec_t older_at, newer_at;
	unsigned long tick;
};

struct history *history_new(usec_t now)
{
	struct history *history = calloc(1, sizeof(*history));

	if (!history)
		return NULL;
	history->older_at = history->newer_at = now;
	hash_key_draw(&history->secret);
	return history;
}

static void forget_snapshots(struct history *history, struct snapshots *snapshots)
{
	HASH_DEL(history->table, snapshots);
	free(snapshots);
}

void history_free(struct history **historyp)
{
	struct history *history = *historyp;
	struct snapshots *snapshots, *next;

	if (!history)
		return;
	*historyp = NULL;
	HASH_ITER (hh, history->table, snapshots, next)
		forget_snapshots(history, snapshots);
	free(history);
}

void history_turn(struct history *history, usec_t now)
{
	history->tick++;
	history->older_at = history->newer_at;
	history->newer_at = now;
}

void history_note(struct history *history, const char *name, const struct stats *counted)
{
	struct snapshots *snapshots;

	TABLE_FIND_STR(hh, &history->secret, history->table, name, snapshots);
	if (!snapshots) {
		snapshots = calloc(1, sizeof(*snapshots));
		if (!snapshots)
			return; /* without memory now, its averages begin at a later tick */
		text_copy(snapshots->name, sizeof(snapshots->name), name);
		TABLE_ADD_STR(hh, &history->secret, history->table, snapshots->name, snapshots);
	}
	snapshots->older = snapshots->newer;
	snapshots->newer = *counted;
	snapshots->tick = history->tick;
}

void history_settle(struct history *history)
{
	struct snapshots *snapshots, *next;

	HASH_ITER (hh, history->table, snapshots, next) {
		if (snapshots->tick != history->tick)
			forget_snapshots(history, snapshots);
	}
}

static uint64_t grown(uint64_t before, uint64_t after)
{
	return after > before ? after - before : 0;
}

static uint64_t per_second(uint64_t before, uint64_t after, usec_t time)
{
	if (time <= 0)
		return 0;
	return (uint64_t)((double)grown(before, after) * (double)USEC_PER_SEC / (double)time);
}

static uint64_t per_one(uint64_t before, uint64_t after, uint64_t count_before,
                        uint64_t count_after)
{
	uint64_t count = grown(count_before, count_after);

	return count ? grown(before, after) / count : 0;
}

#define AVERAGE_COUNT(field, ...) average->field = per_second(before->field, after->field, time);
#define AVERAGE_TIME(field, letter, name, count) \
	average->field = per_one(before->field, after->field, before->count, after->count);

void history_average_between(const struct stats *before, const struct stats *after, usec_t time,
                             struct stats *average)
{
	STATS_COUNTERS(AVERAGE_COUNT, AVERAGE_TIME)
}

void history_average(const struct history *history, const char *name, const struct stats *counted,
                     usec_t now, struct stats *average)
{
	static const struct stats nothing;
	const struct snapshots *snapshots;

	TABLE_FIND_STR(hh, &history->secret, history->table, name, snapshots);
	history_average_between(snapshots ? &snapshots->older : &nothing, counted,
	                        now - history->older_at, average);
}
