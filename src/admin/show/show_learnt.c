/* SPDX-License-Identifier: ISC */
/*
 * SHOW LEARNT: statements that were found to leave session state which their texts do not show.
 *
 * Pools are shown in the order of their names, and the statements of each in the order of their
 * digests: between two rows any of them may be forgotten.
 */
#include "show_priv.h"

#include <inttypes.h>
#include <stdio.h>

#include "pgweir/pgwire/sql_touch.h"
#include "pgweir/pool/learnt.h"

#include "pgweir/base/banned.h"

#define DIGEST_SIZE 17 /* hexadecimal digits, and the zero */

struct learnt_row {
	const char *database, *user, *digest, *statement, *state, *is_sure, *since, *last_time;
	int64_t count;
	char digest_buffer[DIGEST_SIZE];
	char since_buffer[TIME_TEXT_SIZE], last_buffer[TIME_TEXT_SIZE];
};
_Static_assert(sizeof(struct learnt_row) <= ROW_SIZE_MAX, "a row is too large");

#define TEXT(field, help) COLUMN(struct learnt_row, VALUE_TEXT, field, help)

static const struct column learnt_columns[] = {
	TEXT(database, "Database of the pool."),
	TEXT(user, "User of the pool."),
	TEXT(digest, "Digest of the statement, as in the log."),
	TEXT(statement, "Beginning of the statement, without its constants."),
	TEXT(state, "Kinds of session state that it has left: parameters, channel, held cursor, "
	            "temporary object, session lock; notifications: it notifies its client."),
	TEXT(is_sure, "yes: no other statement of its transaction can have done it; no: the "
	              "transaction had several."),
	COLUMN(struct learnt_row, VALUE_INT8, count, "How often a sample has found that."),
	TEXT(since, "Time when it was found first."),
	TEXT(last_time, "Time when it was found last."),
};

#undef TEXT

static void list_kinds(unsigned int touches, struct buf *out)
{
	static const struct {
		unsigned int touch;
		const char *name;
	} kinds[] = {
		{ SQL_TOUCH_PARAMS, "parameters" },  { SQL_TOUCH_LISTEN, "channel" },
		{ SQL_TOUCH_CURSOR, "held cursor" }, { SQL_TOUCH_TEMP, "temporary object" },
		{ SQL_TOUCH_LOCK, "session lock" },  { SQL_TOUCH_NOTIFY, "notifications" },
	};
	const char *between = "";

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!(touches & kinds[i].touch))
			continue;
		buf_add_text(out, between);
		buf_add_text(out, kinds[i].name);
		between = ", ";
	}
}

static const char *time_of(int64_t wall, const struct cursor *cursor, char buffer[TIME_TEXT_SIZE])
{
	usec_t now = loop_now(cursor->source->with->loop);

	return show_time_text(now - (wall_now() - wall), now, buffer);
}

static void collect_learnt(struct cursor *cursor)
{
	const struct lanes *lanes = show_source_lanes(cursor->source);
	const struct lane *lane;
	const struct pool *pool;

	LANES_EACH(lane, lanes)
	TAILQ_FOREACH (pool, &lane->pools->list, node) {
		if (pool->hidden && cursor_wants(cursor, pool->database->name))
			ordered_offer(cursor, (struct ordered_item){ pool->database->name,
			                                             pool->role->name, pool });
	}
}

/* What all lanes have found about one statement. */
struct learnt_sum {
	const struct learnt_statement *first; /* of one lane; NULL: none */
	unsigned int touches;
	bool is_sure;
	uint64_t found_count;
	int64_t since_wall, found_wall;
};

static void add(struct learnt_sum *sum, const struct learnt_statement *statement)
{
	if (!statement || (sum->first && statement->digest > sum->first->digest))
		return;
	if (!sum->first || statement->digest < sum->first->digest)
		*sum =
		    (struct learnt_sum){ .first = statement, .since_wall = statement->since_wall };
	sum->touches |= statement->touches;
	sum->is_sure |= statement->is_sure;
	sum->found_count += statement->found_count;
	if (statement->since_wall < sum->since_wall)
		sum->since_wall = statement->since_wall;
	if (statement->found_wall > sum->found_wall)
		sum->found_wall = statement->found_wall;
}

/* The next statement of the pool that `ordered` names, in any lane. */
static struct learnt_sum sum_next(const struct cursor *cursor)
{
	const struct learnt_walk *walk = &cursor->learnt;
	struct learnt_sum sum = { 0 };
	const struct lane *lane;
	const struct pool *pool;

	LANES_EACH(lane, show_source_lanes(cursor->source))
	{
		for (int i = 0; i < POOL_PURPOSES; i++) {
			pool = pools_find_exact_pool(lane->pools, cursor->ordered.first,
			                             cursor->ordered.second, (enum pool_purpose)i);
			if (pool && pool->hidden)
				add(&sum, learnt_after(pool->hidden,
				                       walk->has_begun ? &walk->digest : NULL));
		}
	}
	return sum;
}

static void fill(struct cursor *cursor, struct learnt_row *row, const struct learnt_sum *sum)
{
	buf_clear(&cursor->text);
	list_kinds(sum->touches, &cursor->text);
	snprintf(row->digest_buffer, sizeof(row->digest_buffer), "%016" PRIx64, sum->first->digest);
	row->database = cursor->ordered.first;
	row->user = cursor->ordered.second;
	row->digest = row->digest_buffer;
	row->statement = sum->first->text;
	row->state = buf_text(&cursor->text);
	row->is_sure = sum->is_sure ? "yes" : "no";
	row->count = (int64_t)sum->found_count;
	row->since = time_of(sum->since_wall, cursor, row->since_buffer);
	row->last_time = time_of(sum->found_wall, cursor, row->last_buffer);
}

static bool next_learnt(struct cursor *cursor, void *row)
{
	struct learnt_walk *walk = &cursor->learnt;
	struct ordered_item item;
	struct learnt_sum sum;

	while (walk->has_pool || ordered_next(cursor, collect_learnt, &item)) {
		if (!walk->has_pool)
			walk->has_begun = false;
		walk->has_pool = true;
		sum = sum_next(cursor);
		if (sum.first) {
			walk->has_begun = true;
			walk->digest = sum.first->digest;
			fill(cursor, row, &sum);
			return true;
		}
		walk->has_pool = false;
		if (!cursor_may_look(cursor))
			return false;
	}
	return false;
}

const struct show show_learnt = { .item = "LEARNT",
	                          .next = next_learnt,
	                          .columns = COLUMNS(learnt_columns),
	                          .help =
	                              "Statements that were found, by samples, to leave session "
	                              "state which their texts do not show.",
	                          .argument = SHOW_OF_DATABASE };
