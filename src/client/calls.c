/* SPDX-License-Identifier: ISC */
/*
 * Calls.
 *
 *   index --> statements      a hash table without chains: the key is a hash already
 *   buckets                   statements that were sent equally often; the rarest first
 *
 *   [sent 3 times: s7 s2] <-> [4 times: s1] <-> [90 times: s0]
 *
 * A statement that is sent moves to the next bucket, and one that is alone in its bucket takes the
 * bucket along. So the order costs nothing to keep, and the rarest is always known. In a bucket,
 * the one that was sent last comes first.
 */
#include "pgweir/client/calls.h"

#include <assert.h>
#include <stdlib.h>

#define NONE CALLS_NOWHERE

struct calls_bucket {
	uint64_t count; /* how often its statements were sent */
	uint32_t first, last;
	uint32_t before, behind; /* buckets; `behind` also links free ones */
};

/* ---- buckets ---- */

static void link_statement(struct calls *calls, uint32_t slot, uint32_t at)
{
	struct calls_statement *statement = &calls->statements[slot];
	struct calls_bucket *bucket = &calls->buckets[at];

	statement->bucket = at;
	statement->before = NONE;
	statement->behind = bucket->first;
	if (bucket->first == NONE)
		bucket->last = slot;
	else
		calls->statements[bucket->first].before = slot;
	bucket->first = slot;
}

static void unlink_statement(struct calls *calls, uint32_t slot)
{
	struct calls_statement *statement = &calls->statements[slot];
	struct calls_bucket *bucket = &calls->buckets[statement->bucket];

	if (statement->before == NONE)
		bucket->first = statement->behind;
	else
		calls->statements[statement->before].behind = statement->behind;
	if (statement->behind == NONE)
		bucket->last = statement->before;
	else
		calls->statements[statement->behind].before = statement->before;
}

/* before: NONE: the new bucket is the first one. There is a free one: none is empty. */
static uint32_t add_bucket(struct calls *calls, uint64_t count, uint32_t before)
{
	uint32_t at = calls->free_bucket;
	struct calls_bucket *bucket = &calls->buckets[at];
	uint32_t behind = before == NONE ? calls->first_bucket : calls->buckets[before].behind;

	assert(at != NONE);
	calls->free_bucket = bucket->behind;
	*bucket = (struct calls_bucket){
		.count = count, .first = NONE, .last = NONE, .before = before, .behind = behind
	};
	if (before == NONE)
		calls->first_bucket = at;
	else
		calls->buckets[before].behind = at;
	if (behind != NONE)
		calls->buckets[behind].before = at;
	return at;
}

static void free_if_empty(struct calls *calls, uint32_t at)
{
	struct calls_bucket *bucket = &calls->buckets[at];

	if (bucket->first != NONE)
		return;
	if (bucket->before == NONE)
		calls->first_bucket = bucket->behind;
	else
		calls->buckets[bucket->before].behind = bucket->behind;
	if (bucket->behind != NONE)
		calls->buckets[bucket->behind].before = bucket->before;
	bucket->behind = calls->free_bucket;
	calls->free_bucket = at;
}

/* The bucket of this count: the one after `before`, or a new one there. */
static uint32_t bucket_behind(struct calls *calls, uint32_t before, uint64_t count)
{
	uint32_t next = before == NONE ? calls->first_bucket : calls->buckets[before].behind;

	if (next != NONE && calls->buckets[next].count == count)
		return next;
	return add_bucket(calls, count, before);
}

void calls_sent(struct calls *calls, struct calls_statement *statement)
{
	uint32_t slot = (uint32_t)(statement - calls->statements), at = statement->bucket;
	struct calls_bucket *bucket = &calls->buckets[at];
	uint32_t next = bucket->behind;

	if (bucket->first == bucket->last &&
	    (next == NONE || calls->buckets[next].count != bucket->count + 1)) {
		bucket->count++;
		return;
	}
	next = bucket_behind(calls, at, bucket->count + 1);
	unlink_statement(calls, slot);
	link_statement(calls, slot, next);
	free_if_empty(calls, at);
}

/* ---- the index ---- */

static uint32_t home_of(const struct calls *calls, uint64_t key)
{
	return (uint32_t)key & calls->mask;
}

struct calls_statement *calls_find(const struct calls *calls, uint64_t key)
{
	uint32_t at;

	if (!calls->capacity)
		return NULL;
	for (at = home_of(calls, key); calls->index[at] != NONE; at = (at + 1) & calls->mask) {
		struct calls_statement *statement = &calls->statements[calls->index[at]];

		if (statement->key == key)
			return statement;
	}
	return NULL;
}

static void index_add(struct calls *calls, uint32_t slot)
{
	uint32_t at = home_of(calls, calls->statements[slot].key);

	while (calls->index[at] != NONE)
		at = (at + 1) & calls->mask;
	calls->index[at] = slot;
}

/* What follows moves up, unless it is at its home or behind it already. */
static void index_remove(struct calls *calls, uint32_t slot)
{
	uint32_t at = home_of(calls, calls->statements[slot].key), next;

	while (calls->index[at] != slot)
		at = (at + 1) & calls->mask;
	for (next = (at + 1) & calls->mask; calls->index[next] != NONE;
	     next = (next + 1) & calls->mask) {
		uint32_t home = home_of(calls, calls->statements[calls->index[next]].key);

		if (((next - home) & calls->mask) < ((next - at) & calls->mask))
			continue;
		calls->index[at] = calls->index[next];
		at = next;
	}
	calls->index[at] = NONE;
}

/* ---- statements ---- */

/* The rarest statement leaves. Returns its slot. */
static uint32_t evict(struct calls *calls)
{
	uint32_t at = calls->first_bucket, slot = calls->buckets[at].last;

	calls->floor = calls->buckets[at].count;
	calls->evict_count++;
	index_remove(calls, slot);
	unlink_statement(calls, slot);
	free_if_empty(calls, at);
	free(calls->statements[slot].names);
	calls->statements[slot].names = NULL;
	return slot;
}

static char *make_names(const struct calls_new *new, uint32_t *user_at, uint32_t *text_at)
{
	size_t database_size = strlen(new->database) + 1, user_size = strlen(new->user) + 1;
	size_t size = new->text.count < CALLS_TEXT_MAX ? new->text.count : CALLS_TEXT_MAX;
	char *names = malloc(database_size + user_size + size + 1);

	if (!names)
		return NULL;
	*user_at = (uint32_t)database_size;
	*text_at = (uint32_t)(database_size + user_size);
	memcpy(names, new->database, database_size);
	memcpy(names + *user_at, new->user, user_size);
	memcpy(names + *text_at, new->text.at, size);
	names[*text_at + size] = 0;
	return names;
}

/* A place for a statement that was sent as often as the one that left last. */
static void file(struct calls *calls, uint32_t slot)
{
	uint32_t first = calls->first_bucket;
	bool has_rarer = first != NONE && calls->buckets[first].count < calls->floor;

	assert(!has_rarer);
	(void)has_rarer;
	link_statement(calls, slot, bucket_behind(calls, NONE, calls->floor));
	index_add(calls, slot);
}

struct calls_statement *calls_enter(struct calls *calls, const struct calls_new *new)
{
	uint32_t user_at, text_at, slot;
	char *names = calls->capacity ? make_names(new, &user_at, &text_at) : NULL;
	struct calls_statement *statement;

	if (!names)
		return NULL;
	slot = calls->count == calls->capacity ? evict(calls) : calls->count++;
	statement = &calls->statements[slot];
	*statement = (struct calls_statement){ .key = new->key,
		                               .digest = new->digest,
		                               .generation = ++calls->generation,
		                               .missed_count = calls->floor,
		                               .since = new->now,
		                               .names = names,
		                               .user_at = user_at,
		                               .text_at = text_at,
		                               .has_text = new->has_text };
	file(calls, slot);
	return statement;
}

bool calls_explain(struct calls_statement *statement, struct bytes text)
{
	struct calls_new new = { .database = calls_database(statement),
		                 .user = calls_user(statement),
		                 .text = text };
	uint32_t user_at, text_at;
	char *names = make_names(&new, &user_at, &text_at);

	if (!names)
		return false;
	free(statement->names);
	statement->names = names;
	statement->has_text = true;
	return true;
}

void calls_failed(struct calls_statement *statement, const char *sqlstate)
{
	size_t i;

	statement->error_count++;
	for (i = 0; i + 1 < CALLS_SQLSTATE_SIZE && sqlstate[i]; i++)
		statement->sqlstate[i] = sqlstate[i];
	statement->sqlstate[i] = 0;
}

const struct calls_statement *calls_next(const struct calls *calls, uint32_t *slot)
{
	return *slot < calls->count ? &calls->statements[(*slot)++] : NULL;
}

/* ---- the table ---- */

static size_t index_size(const struct calls *calls) { return (size_t)calls->mask + 1; }

static void clear(struct calls *calls)
{
	calls->count = 0;
	calls->floor = calls->evict_count = 0;
	calls->first_bucket = NONE;
	calls->free_bucket = 0;
	memset(calls->index, 0xff, index_size(calls) * sizeof(*calls->index));
	for (uint32_t i = 0; i < calls->capacity; i++)
		calls->buckets[i].behind = i + 1 < calls->capacity ? i + 1 : NONE;
}

static bool make(struct calls *calls, uint32_t capacity)
{
	*calls = (struct calls){ .capacity = capacity, .mask = 15 };
	while (index_size(calls) < 2 * (size_t)capacity)
		calls->mask = calls->mask * 2 + 1;
	calls->index = malloc(index_size(calls) * sizeof(*calls->index));
	/* zeroed pages need no memory until they are used */
	calls->statements = calloc(capacity, sizeof(*calls->statements));
	calls->buckets = calloc(capacity, sizeof(*calls->buckets));
	if (!calls->index || !calls->statements || !calls->buckets)
		return false;
	clear(calls);
	return true;
}

static void free_arrays(struct calls *calls)
{
	free(calls->index);
	free(calls->statements);
	free(calls->buckets);
	/* places of before must not be found in a later table */
	*calls = (struct calls){ .generation = calls->generation };
}

void calls_done(struct calls *calls)
{
	for (uint32_t i = 0; i < calls->count; i++)
		free(calls->statements[i].names);
	free_arrays(calls);
}

void calls_reset(struct calls *calls)
{
	for (uint32_t i = 0; i < calls->count; i++)
		free(calls->statements[i].names);
	if (calls->capacity)
		clear(calls);
}

/*
 * The statement moves to a table that has room. Those of one table move in their order, from the
 * rarest on. `count`: how often it was sent.
 */
static void move(struct calls *to, const struct calls_statement *from, uint64_t count,
                 uint32_t *last)
{
	uint32_t slot = to->count++;

	to->statements[slot] = *from;
	if (*last == NONE || to->buckets[*last].count != count)
		*last = add_bucket(to, count, *last);
	link_statement(to, slot, *last);
	index_add(to, slot);
}

bool calls_resize(struct calls *calls, uint32_t capacity)
{
	struct calls made;
	uint32_t last = NONE;

	if (capacity == calls->capacity)
		return true;
	if (!capacity) {
		calls_done(calls);
		return true;
	}
	if (!make(&made, capacity)) {
		free_arrays(&made);
		return false;
	}
	while (calls->count > capacity) {
		evict(calls);
		calls->count--;
	}
	made.generation = calls->generation;
	made.floor = calls->floor;
	made.evict_count = calls->evict_count;
	for (uint32_t at = calls->capacity ? calls->first_bucket : NONE; at != NONE;
	     at = calls->buckets[at].behind) {
		for (uint32_t slot = calls->buckets[at].last; slot != NONE;
		     slot = calls->statements[slot].before)
			move(&made, &calls->statements[slot], calls->buckets[at].count, &last);
	}
	free_arrays(calls);
	*calls = made;
	return true;
}
