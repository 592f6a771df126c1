/* SPDX-License-Identifier: ISC */
/*
 * Calls.
 *
 *   index --> statements      a hash table without chains: the key is a hash already
 *   heap                      the statement that was sent least often is the first one; of those
 *                             that were sent equally often, the one that was not for longest
 */
#include "pgweir/client/calls.h"

#include <stdlib.h>

#include "pgweir/base/container_of.h"

#define NONE CALLS_NOWHERE

void calls_sent(struct calls *calls, struct calls_statement *statement)
{
	statement->rank.key++;
	statement->rank.order = ++calls->sent_count;
	heap_moved(&calls->heap, &statement->rank);
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
	struct calls_statement *statement =
	    container_of(heap_first(&calls->heap), struct calls_statement, rank);
	uint32_t slot = (uint32_t)(statement - calls->statements);

	calls->floor = statement->rank.key;
	calls->evict_count++;
	heap_remove(&calls->heap, &statement->rank);
	index_remove(calls, slot);
	free(statement->names);
	statement->names = NULL;
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
		                               .rank = { calls->floor, ++calls->sent_count, 0 },
		                               .generation = ++calls->generation,
		                               .missed_count = calls->floor,
		                               .since = new->now,
		                               .names = names,
		                               .user_at = user_at,
		                               .text_at = text_at,
		                               .has_text = new->has_text };
	heap_add(&calls->heap, &statement->rank);
	index_add(calls, slot);
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
	calls->heap.count = 0;
	calls->floor = calls->evict_count = 0;
	memset(calls->index, 0xff, index_size(calls) * sizeof(*calls->index));
}

static bool make(struct calls *calls, uint32_t capacity)
{
	*calls = (struct calls){ .capacity = capacity, .mask = 15 };
	while (index_size(calls) < 2 * (size_t)capacity)
		calls->mask = calls->mask * 2 + 1;
	calls->index = malloc(index_size(calls) * sizeof(*calls->index));
	/* zeroed pages need no memory until they are used */
	calls->statements = calloc(capacity, sizeof(*calls->statements));
	/* heap_add() has room for all */
	calls->heap.list = calloc(capacity, sizeof(struct heap_node *));
	calls->heap.size = capacity;
	if (!calls->index || !calls->statements || !calls->heap.list)
		return false;
	clear(calls);
	return true;
}

static void free_arrays(struct calls *calls)
{
	free(calls->index);
	free(calls->statements);
	heap_done(&calls->heap);
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

bool calls_resize(struct calls *calls, uint32_t capacity)
{
	struct calls made;

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
	for (; calls->count > capacity; calls->count--)
		evict(calls);
	made.generation = calls->generation;
	made.sent_count = calls->sent_count;
	made.floor = calls->floor;
	made.evict_count = calls->evict_count;
	for (; made.count < calls->count; made.count++) {
		struct calls_statement *statement = &made.statements[made.count];

		*statement =
		    *container_of(calls->heap.list[made.count], struct calls_statement, rank);
		heap_add(&made.heap, &statement->rank);
		index_add(&made, made.count);
	}
	free_arrays(calls);
	*calls = made;
	return true;
}

/* ---- names ---- */

#define NAMES_FIRST 8
#define NAMES_CAPACITY_MAX 2048 /* half of it is used */

void calls_names_done(struct calls_names *names)
{
	free(names->at);
	*names = (struct calls_names){ 0 };
}

/* The entry with this hash, or the free one where it would be. */
static struct calls_name *seek(const struct calls_names *names, uint64_t hash)
{
	size_t at = hash & (names->capacity - 1);

	while (names->at[at].hash && names->at[at].hash != hash)
		at = (at + 1) & (names->capacity - 1);
	return &names->at[at];
}

static void grow_names(struct calls_names *names)
{
	size_t capacity = names->capacity ? 2 * names->capacity : NAMES_FIRST;
	struct calls_names grown = { .at = calloc(capacity, sizeof(*grown.at)),
		                     .capacity = capacity,
		                     .count = names->count };

	if (!grown.at)
		return;
	for (size_t i = 0; i < names->capacity; i++) {
		if (names->at[i].hash)
			*seek(&grown, names->at[i].hash) = names->at[i];
	}
	free(names->at);
	*names = grown;
}

void calls_names_put(struct calls_names *names, uint64_t hash, uint64_t value)
{
	struct calls_name *name;

	if (2 * names->count >= names->capacity && names->capacity < NAMES_CAPACITY_MAX)
		grow_names(names);
	if (!names->capacity)
		return;
	name = seek(names, hash);
	if (!name->hash && 2 * names->count >= names->capacity) {
		/* No room: all begin again. Names in use come back with their next Parse. */
		for (size_t i = 0; i < names->capacity; i++)
			names->at[i] = (struct calls_name){ 0 };
		names->count = 0;
		name = seek(names, hash);
	}
	names->count += !name->hash;
	*name = (struct calls_name){ hash, value };
}

uint64_t calls_names_get(const struct calls_names *names, uint64_t hash)
{
	return names->capacity ? seek(names, hash)->value : 0;
}
