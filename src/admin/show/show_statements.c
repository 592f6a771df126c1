/* SPDX-License-Identifier: ISC */
/*
 * SHOW STATEMENTS: what clients execute, the most expensive first (track_statements).
 *
 *   the tables of all lanes --> the first n by one number --> rows
 *
 * Hard here: the tables change between two turns, and there may be very many statements. Only the
 * numbers and keys of twice as many as will be shown are kept, and they are gathered in pieces. A
 * row has the values of the turn in which it is made; a statement that has left before is not
 * shown.
 */
#include "show_priv.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define DEFAULT_COUNT 50

#define STATEMENT_ROW(COLUMN)                                                                     \
	COLUMN(TEXT, digest, cursor_print(cursor, "%016" PRIx64, statement->digest),              \
	       "Digest of the statement, the same for all texts that differ in constants, "       \
	       "comments and white space only; as in the log, and in [statements].")              \
	COLUMN(TEXT, database, statement->database, "Database of the pool that executed it.")     \
	COLUMN(TEXT, user, statement->user, "User of that pool.")                                 \
	COLUMN(TEXT, application, statement->application,                                         \
	       "application_name of the last client that executed it.")                           \
	COLUMN(INT8, calls, (int64_t)sum.calls, "How often it was executed, errors included.")    \
	COLUMN(INT8, errors, (int64_t)sum.errors,                                                 \
	       "How often it failed, errors of its Parse included.")                              \
	COLUMN(TEXT, sqlstate, sum.sqlstate, "SQLSTATE of the last error; NULL: there was none.") \
	COLUMN(INT8, total_us, (int64_t)sum.running.sum,                                          \
	       "Microseconds of all calls from sending to the last reply, without waiting for a " \
	       "server. In a pipeline, from the last reply of the call before.")                  \
	COLUMN(INT8, mean_us, mean_of(sum.running.sum, sum.calls), "The mean of these times.")    \
	COLUMN(INT8, max_us, (int64_t)sum.running.max, "The longest of these times.")             \
	COLUMN(INT8, p95_us, p95_of(&sum.running),                                                \
	       "95 % of the calls took no longer, within 7 %.")                                   \
	COLUMN(INT8, wait_total_us, (int64_t)sum.waiting.sum,                                     \
	       "Microseconds that all calls have waited for a server.")                           \
	COLUMN(INT8, wait_mean_us, mean_of(sum.waiting.sum, sum.calls),                           \
	       "The mean of these times.")                                                        \
	COLUMN(INT8, wait_p95_us, p95_of(&sum.waiting),                                           \
	       "95 % of the calls waited no longer, within 7 %.")                                 \
	COLUMN(INT8, rows, (int64_t)sum.rows,                                                     \
	       "Rows that were returned or affected, by the tags of its replies.")                \
	COLUMN(INT8, bytes, (int64_t)sum.bytes, "Bytes of its replies.")                          \
	COLUMN(INT8, error_bound, (int64_t)sum.bound,                                             \
	       "How many calls may be missing, because it has left the table before. 0: none.")   \
	COLUMN(TIME, since, show_wall(sum.since, loop_now(cursor->source->with->loop)),           \
	       "Since when it is counted.")                                                       \
	COLUMN(TEXT, query, statement->text,                                                      \
	       "Beginning of its text, with $n in place of constants.")

SHOW_ROWS(
    statements, "STATEMENTS", STATEMENT_ROW,
    "What clients execute, how often, and what that takes; the first 50 by total time, or n by "
    "another number. Empty unless track_statements is set.",
    .argument = SHOW_OF_STATEMENTS);

/* ---- what is asked for ---- */

/* The first one is the default. */
static const struct {
	const char *word;
	size_t at; /* of the number, in struct calls_statement */
} orders[] = {
	{ "time", offsetof(struct calls_statement, running_time) },
	{ "calls", offsetof(struct calls_statement, call_count) },
	{ "wait", offsetof(struct calls_statement, wait_time) },
	{ "rows", offsetof(struct calls_statement, row_count) },
	{ "errors", offsetof(struct calls_statement, error_count) },
};

#define ORDERS (sizeof(orders) / sizeof(orders[0]))

/* [n] [BY order] */
static bool read_asked(const char *text, size_t *limit, unsigned int *order)
{
	bool has_number = text && isdigit((unsigned char)*text);
	char by[4] = "", word[16] = "", more;
	unsigned int number = DEFAULT_COUNT;
	int count = 0;

	if (has_number)
		count = sscanf(text, "%8u %3s %15s %c", &number, by, word, &more) - 1;
	else if (text && *text)
		count = sscanf(text, "%3s %15s %c", by, word, &more);
	*limit = number;
	*order = 0;
	while (count && *order < ORDERS && strcasecmp(orders[*order].word, word) != 0)
		(*order)++;
	return number >= 1 && number <= CONFIG_TRACK_MAX && *order < ORDERS &&
	       (count == 0 || (count == 2 && strcasecmp(by, "BY") == 0));
}

bool show_statements_takes(const char *argument)
{
	unsigned int order;
	size_t limit;

	return read_asked(argument, &limit, &order);
}

/* ---- choosing ---- */

/* A statement that may be shown. */
struct statements_pick {
	uint64_t value; /* what the order is by */
	uint64_t key;
};

/* The greatest first. */
static int compare_picks(const void *first, const void *second)
{
	const struct statements_pick *a = first, *b = second;

	if (a->value != b->value)
		return a->value < b->value ? 1 : -1;
	return (a->key < b->key) - (a->key > b->key);
}

/* Sorts what was offered, and drops what is not wanted. */
static void sort_picks(struct statements_walk *walk)
{
	if (walk->count)
		qsort(walk->picks, walk->count, sizeof(*walk->picks), compare_picks);
	if (walk->count > walk->limit)
		walk->count = walk->limit;
}

static const struct calls *calls_of(const struct cursor *cursor, unsigned int lane)
{
	return &cursor->lanes->at[lane].clients->calls;
}

static uint64_t number_of(const struct calls_statement *statement, unsigned int order)
{
	return *(const uint64_t *)(const void *)((const char *)statement + orders[order].at);
}

/* Offers a statement, unless a lane before has it, too. */
static void pick_statement(struct cursor *cursor, const struct calls_statement *statement)
{
	struct statements_walk *walk = &cursor->statements;
	struct statements_pick pick = { .value = number_of(statement, walk->order),
		                        .key = statement->key };

	for (unsigned int i = 0; i < cursor->lanes->count; i++) {
		const struct calls_statement *other;

		if (i == walk->lane)
			continue;
		cursor->look_count++;
		other = calls_find(calls_of(cursor, i), pick.key);
		if (other && i < walk->lane)
			return;
		if (other)
			pick.value += number_of(other, walk->order);
	}
	walk->picks[walk->count++] = pick;
	if (walk->count == 2 * walk->limit)
		sort_picks(walk);
}

/* false: the rest in a later turn. */
static bool pick_all(struct cursor *cursor)
{
	struct statements_walk *walk = &cursor->statements;
	const struct calls_statement *statement;

	while (walk->lane < cursor->lanes->count) {
		if (!cursor_may_look(cursor))
			return false;
		statement = calls_next(calls_of(cursor, walk->lane), &walk->slot);
		if (statement) {
			pick_statement(cursor, statement);
			continue;
		}
		walk->lane++;
		walk->slot = 0;
	}
	sort_picks(walk);
	return true;
}

/* ---- rows ---- */

/* What all lanes know of one statement. */
struct statement_sum {
	const struct calls_statement *last; /* where it was executed last; NULL: nowhere */
	const char *sqlstate;
	usec_t since;
	uint64_t calls, errors, rows, bytes, bound;
	struct histogram running, waiting;
};

static void add_statement(struct statement_sum *sum, const struct calls_statement *statement)
{
	bool is_later = !sum->last || statement->last_at > sum->last->last_at;

	if (*statement->sqlstate && (!sum->sqlstate || is_later))
		sum->sqlstate = statement->sqlstate;
	if (!sum->last || statement->since < sum->since)
		sum->since = statement->since;
	if (is_later)
		sum->last = statement;
	sum->calls += statement->call_count;
	sum->errors += statement->error_count;
	sum->running.sum += statement->running_time;
	if (statement->longest > sum->running.max)
		sum->running.max = statement->longest;
	sum->waiting.sum += statement->wait_time;
	sum->waiting.max = sum->waiting.sum; /* none of them was longer */
	sum->rows += statement->row_count;
	sum->bytes += statement->byte_count;
	sum->bound += statement->missed_count;
	sketch_add_to(&statement->running, &sum->running);
	sketch_add_to(&statement->waiting, &sum->waiting);
}

static void sum_statement(const struct cursor *cursor, uint64_t key, struct statement_sum *sum)
{
	memset(sum, 0, sizeof(*sum));
	for (unsigned int i = 0; i < cursor->lanes->count; i++) {
		const struct calls *calls = calls_of(cursor, i);
		const struct calls_statement *statement = calls_find(calls, key);

		if (statement)
			add_statement(sum, statement);
		else
			sum->bound += calls->floor;
	}
}

static int64_t mean_of(uint64_t total, uint64_t count)
{
	return count ? (int64_t)(total / count) : 0;
}

static int64_t p95_of(const struct histogram *times)
{
	static const unsigned int asked = 950;
	uint64_t value;

	histogram_quantiles(times, &asked, &value, 1);
	return (int64_t)value;
}

static bool next_statements(struct cursor *cursor, void *row)
{
	struct statements_walk *walk = &cursor->statements;
	const struct calls_statement *statement;
	struct statement_sum sum;

	if (!walk->picks) {
		read_asked(cursor->argument, &walk->limit, &walk->order);
		walk->picks = calloc(2 * walk->limit, sizeof(*walk->picks));
	}
	if (!walk->picks || (walk->lane < cursor->lanes->count && !pick_all(cursor)))
		return false;
	while (walk->shown < walk->count) {
		if (!cursor_may_look(cursor))
			return false;
		sum_statement(cursor, walk->picks[walk->shown++].key, &sum);
		statement = sum.last;
		if (!statement)
			continue;
		return ROW_FILL(row, struct statements_shown, STATEMENT_ROW);
	}
	return false;
}
