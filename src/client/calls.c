/* SPDX-License-Identifier: ISC */
/*
 * Calls, applications, and the limits of statements.
 *
 * In the heap, the statement that was sent least often is the first one; of those that were sent
 * equally often, the one that was not for longest.
 */
#include "pgweir/client/calls.h"

#include <stdlib.h>

#include "pgweir/base/container_of.h"

void calls_sent(struct calls *calls, struct calls_statement *statement)
{
	statement->rank.key++;
	statement->rank.order = ++calls->sent_count;
	heap_moved(&calls->heap, &statement->rank);
}

/* The key is a hash already. */
struct calls_statement *calls_find(const struct calls *calls, uint64_t key)
{
	struct calls_statement *statement;

	HASH_FIND_BYHASHVALUE(hh, calls->table, &key, sizeof(key), (unsigned int)key, statement);
	return statement;
}

static void add(struct calls *calls, struct calls_statement *statement)
{
	heap_add(&calls->heap, &statement->rank);
	HASH_ADD_BYHASHVALUE(hh, calls->table, key, sizeof(statement->key),
	                     (unsigned int)statement->key, statement);
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
	HASH_DEL(calls->table, statement);
	free((char *)statement->database);
	statement->database = NULL;
	return slot;
}

/* false: no memory, and nothing has changed. */
static bool set_names(struct calls_statement *statement, const struct calls_new *new)
{
	size_t database_size = strlen(new->database) + 1, user_size = strlen(new->user) + 1;
	size_t size = new->text.count < CALLS_TEXT_MAX ? new->text.count : CALLS_TEXT_MAX;
	char *names = malloc(database_size + user_size + size + 1);

	if (!names)
		return false;
	statement->database = memcpy(names, new->database, database_size);
	statement->user = memcpy(names + database_size, new->user, user_size);
	names += database_size + user_size;
	statement->text = memcpy(names, new->text.at, size);
	names[size] = 0;
	return true;
}

struct calls_statement *calls_enter(struct calls *calls, const struct calls_new *new)
{
	struct calls_statement *statement, made = {
		.key = new->key, .digest = new->digest, .since = new->now, .has_text = new->has_text
	};
	uint32_t slot;

	if (!calls->capacity || !set_names(&made, new))
		return NULL;
	slot = calls->count == calls->capacity ? evict(calls) : calls->count++;
	made.rank = (struct heap_node){ calls->floor, ++calls->sent_count, 0 };
	made.generation = ++calls->generation;
	made.missed_count = calls->floor;
	statement = &calls->statements[slot];
	*statement = made;
	add(calls, statement);
	return statement;
}

bool calls_explain(struct calls_statement *statement, struct bytes text)
{
	char *old = (char *)statement->database;

	if (!set_names(statement, &(struct calls_new){ .database = statement->database,
	                                               .user = statement->user,
	                                               .text = text }))
		return false;
	free(old);
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

static void free_arrays(struct calls *calls)
{
	HASH_CLEAR(hh, calls->table);
	free(calls->statements);
	heap_done(&calls->heap);
	/* places of before must not be found in a later table */
	*calls = (struct calls){ .generation = calls->generation };
}

void calls_reset(struct calls *calls)
{
	for (uint32_t i = 0; i < calls->count; i++)
		free((char *)calls->statements[i].database);
	HASH_CLEAR(hh, calls->table);
	calls->count = 0;
	calls->heap.count = 0;
	calls->floor = calls->evict_count = 0;
}

void calls_done(struct calls *calls)
{
	calls_reset(calls);
	free_arrays(calls);
}

bool calls_resize(struct calls *calls, uint32_t capacity)
{
	struct calls made = { .capacity = capacity };

	if (capacity == calls->capacity)
		return true;
	if (!capacity) {
		calls_done(calls);
		return true;
	}
	/* zeroed pages need no memory until they are used */
	made.statements = calloc(capacity, sizeof(*made.statements));
	/* heap_add() has room for all */
	made.heap.list = calloc(capacity, sizeof(struct heap_node *));
	made.heap.size = capacity;
	if (!made.statements || !made.heap.list) {
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
		add(&made, statement);
	}
	free_arrays(calls);
	*calls = made;
	return true;
}

/* ---- names ---- */

#define NAMES_MAX 1024

void calls_names_done(struct calls_names *names)
{
	struct calls_name *name, *next;

	HASH_ITER (hh, names->table, name, next) {
		HASH_DEL(names->table, name);
		free(name);
	}
}

static struct calls_name *find_name(const struct calls_names *names, uint64_t hash)
{
	struct calls_name *name;

	HASH_FIND_BYHASHVALUE(hh, names->table, &hash, sizeof(hash), (unsigned int)hash, name);
	return name;
}

void calls_names_put(struct calls_names *names, uint64_t hash, uint64_t value)
{
	struct calls_name *name = find_name(names, hash);

	if (!name) {
		/* No room: all begin again. Names in use come back with their next Parse. */
		if (HASH_COUNT(names->table) == NAMES_MAX)
			calls_names_done(names);
		name = malloc(sizeof(*name));
		if (!name)
			return;
		name->hash = hash;
		HASH_ADD_BYHASHVALUE(hh, names->table, hash, sizeof(hash), (unsigned int)hash,
		                     name);
	}
	name->value = value;
}

uint64_t calls_names_get(const struct calls_names *names, uint64_t hash)
{
	const struct calls_name *name = find_name(names, hash);

	return name ? name->value : 0;
}

/* ---- applications ---- */

void applications_init(struct applications *applications, const struct hash_key *key)
{
	*applications = (struct applications){ .key = key };
	TAILQ_INIT(&applications->unused);
}

static void forget_oldest(struct applications *applications)
{
	struct application *oldest = TAILQ_FIRST(&applications->unused);

	applications->gone_xact_count += oldest->xact_count;
	applications->gone_error_count += oldest->error_count;
	TAILQ_REMOVE(&applications->unused, oldest, node);
	applications->unused_count--;
	HASH_DEL(applications->table, oldest);
	free(oldest);
}

void applications_done(struct applications *applications)
{
	struct application *application, *next;

	HASH_ITER (hh, applications->table, application, next) {
		HASH_DEL(applications->table, application);
		free(application);
	}
}

static struct application *find_cut(const struct applications *applications, const char *cut)
{
	return TABLE_GET(hh, applications->key, applications->table, cut, strlen(cut));
}

const struct application *applications_find(const struct applications *applications,
                                            const char *name)
{
	char cut[APPLICATION_NAME_SIZE];

	text_copy(cut, sizeof(cut), name);
	return find_cut(applications, cut);
}

struct application *applications_join(struct applications *applications, const char *name)
{
	char cut[APPLICATION_NAME_SIZE];
	struct application *application;

	text_copy(cut, sizeof(cut), name);
	application = find_cut(applications, cut);
	if (application && !application->client_count) {
		TAILQ_REMOVE(&applications->unused, application, node);
		applications->unused_count--;
	} else if (!application) {
		application = calloc(1, sizeof(*application));
		if (!application)
			return NULL;
		memcpy(application->name, cut, sizeof(cut));
		application->hash = hash_bytes(applications->key, cut, strlen(cut));
		TABLE_ADD_STR(hh, applications->key, applications->table, application->name,
		              application);
	}
	application->client_count++;
	return application;
}

void applications_leave(struct applications *applications, struct application **applicationp)
{
	struct application *application = *applicationp;

	*applicationp = NULL;
	if (!application || --application->client_count)
		return;
	TAILQ_INSERT_TAIL(&applications->unused, application, node);
	if (++applications->unused_count > APPLICATIONS_KEPT)
		forget_oldest(applications);
}

void applications_reset(struct applications *applications)
{
	struct application *application, *next;

	while (applications->unused_count)
		forget_oldest(applications);
	HASH_ITER (hh, applications->table, application, next)
		application->xact_count = application->error_count = 0;
	applications->gone_xact_count = applications->gone_error_count = 0;
}

/* ---- limits: one whose entry is gone is kept, as it may run still, and come again ---- */

static struct statement_limit *find_limit(const struct statement_limits *limits, uint64_t digest)
{
	return TABLE_GET_OWN(hh, limits->table, &digest, sizeof(digest));
}

struct statement_limit *statement_limits_find(const struct statement_limits *limits,
                                              uint64_t digest)
{
	struct statement_limit *limit = limits->table ? find_limit(limits, digest) : NULL;

	return limit && limit->entry ? limit : NULL;
}

/* NULL: no memory. */
static struct statement_limit *find_or_add(struct statement_limits *limits, uint64_t digest)
{
	struct statement_limit *limit = find_limit(limits, digest);

	if (limit)
		return limit;
	limit = calloc(1, sizeof(*limit));
	if (!limit)
		return NULL;
	limit->digest = digest;
	HASH_ADD(hh, limits->table, digest, sizeof(digest), limit);
	return limit;
}

bool statement_limits_configure(struct statement_limits *limits, const struct config *config)
{
	const struct config_statement *entry = NULL;
	bool has_all = true;

	for (struct statement_limit *limit = limits->table; limit; limit = limit->hh.next)
		limit->entry = NULL;
	config_unref(&limits->config);
	limits->config = config_ref(config);
	while ((entry = config_entry_next(config, ENTRY_STATEMENT, entry))) {
		struct statement_limit *limit = find_or_add(limits, entry->digest);

		if (limit)
			limit->entry = entry;
		has_all &= limit != NULL;
	}
	return has_all;
}

void statement_limits_done(struct statement_limits *limits)
{
	struct statement_limit *limit, *next;

	config_unref(&limits->config);
	HASH_ITER (hh, limits->table, limit, next) {
		HASH_DEL(limits->table, limit);
		free(limit);
	}
}

bool statement_limit_refuse(struct statement_limit *limit, struct err *err)
{
	const struct config_statement *entry = limit->entry;

	atomic_fetch_add(&limit->refused_count, 1);
	if (entry->block)
		err_set(err, ERR_RIGHTS, "statement %s is blocked", entry->name);
	else
		err_set(err, ERR_LIMIT, "statement %s is running %d times already", entry->name,
		        entry->max_running);
	/* A client does not learn where the file is. */
	return err_detail(err, "%s in [statements], line %d.",
	                  entry->block ? "block" : "max_running", entry->pos.line);
}
