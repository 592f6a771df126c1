/* SPDX-License-Identifier: ISC */
/*
 * Calls: how often each statement was executed, and what that took. One table for each loop, of a
 * fixed number of statements (track_statements). Bookkeeping only: no socket, no clock, no SQL.
 *
 * When the table is full, a new statement takes the place of the one that was sent least often, and
 * continues to count from there (the algorithm "space-saving" of Metwally, Agrawal and El Abbadi).
 * So a statement that was sent more often than the floor, which is at most all calls divided by the
 * size of the table, is always there; and of one that is there, at most `missed_count` calls are
 * missing. Each operation costs the same however many statements there are.
 */
#ifndef PGWEIR_CLIENT_CALLS_H
#define PGWEIR_CLIENT_CALLS_H

#include <stdbool.h>

#include "pgweir/base/bytes.h"
#include "pgweir/base/clock.h"
#include "pgweir/base/sketch.h"

#define CALLS_TEXT_MAX 1000       /* bytes of a statement's text that are kept */
#define CALLS_APPLICATION_SIZE 64 /* as NAMEDATALEN in PostgreSQL */
#define CALLS_SQLSTATE_SIZE 6

/* A statement of a table by its place; it may have left since. */
struct calls_place {
	uint32_t slot; /* CALLS_NOWHERE: none */
	uint32_t generation;
};

#define CALLS_NOWHERE UINT32_MAX

struct calls_statement {
	uint64_t key; /* of digest, database and user; the same in all loops of the process */
	uint64_t digest;
	uint64_t call_count;
	uint64_t running_time, wait_time; /* microseconds */
	uint64_t longest;                 /* the longest of running */
	uint64_t row_count, byte_count;
	uint64_t error_count;
	uint64_t application_hash;
	uint32_t bucket, before, behind;          /* in its bucket's list */
	uint32_t generation;                      /* of this slot: changes with its statement */
	char sqlstate[CALLS_SQLSTATE_SIZE];       /* of the last error; "": none */
	char application[CALLS_APPLICATION_SIZE]; /* of the last client */
	uint64_t missed_count;
	usec_t since;   /* monotonic, like the next one */
	usec_t last_at; /* when the last call ended */
	char *names;    /* database\0user\0text\0 */
	uint32_t user_at, text_at;
	bool has_text; /* false: the text says why it is not known */
	struct sketch running, waiting;
};

struct calls_bucket;

/* A zeroed table is off. */
struct calls {
	uint32_t capacity; /* 0: off */
	uint32_t count;
	uint32_t mask; /* entries of `index`, a power of two, less one */
	uint32_t *index;
	struct calls_statement *statements;
	struct calls_bucket *buckets;
	uint32_t first_bucket, free_bucket;
	uint32_t generation;  /* the last one given to a slot */
	uint64_t floor;       /* no statement that is not there was sent more often */
	uint64_t evict_count; /* statements that have left for others */
	size_t text_size;     /* memory of all `names` */
};

void calls_done(struct calls *calls);

/* The rarest statements leave if there are more. 0: off. false: no memory; nothing has changed. */
bool calls_resize(struct calls *calls, uint32_t capacity);

/* Removes all statements. */
void calls_reset(struct calls *calls);

/* NULL: not there. */
struct calls_statement *calls_find(const struct calls *calls, uint64_t key);

/* NULL: it has left. */
struct calls_statement *calls_at(const struct calls *calls, struct calls_place place);

struct calls_place calls_place(const struct calls *calls, const struct calls_statement *statement);

/* A statement that is not there yet. */
struct calls_new {
	uint64_t key, digest;
	const char *database, *user;
	struct bytes text; /* without constants; CALLS_TEXT_MAX bytes of it are kept */
	bool has_text;
	usec_t now;
};

/* NULL: no memory. Another statement may leave for it. It has not been sent yet. */
struct calls_statement *calls_enter(struct calls *calls, const struct calls_new *new);

/* The text of a statement without one. false: no memory. */
bool calls_explain(struct calls *calls, struct calls_statement *statement, struct bytes text);

/* Its last client has this application_name. `hash`: of the name. */
void calls_by(struct calls_statement *statement, uint64_t hash, const char *application);

/* The statement was sent once more. */
void calls_sent(struct calls *calls, struct calls_statement *statement);

/* What a call took. */
struct calls_result {
	usec_t now; /* when it ended */
	usec_t running, wait;
	uint64_t rows, bytes;
	const char *sqlstate; /* NULL: it has succeeded */
};

/* A call has ended. */
void calls_ended(struct calls_statement *statement, const struct calls_result *result);

/* An error before its execution: in a Parse. It is no call. */
void calls_failed(struct calls_statement *statement, const char *sqlstate);

static inline const char *calls_database(const struct calls_statement *statement)
{
	return statement->names;
}

static inline const char *calls_user(const struct calls_statement *statement)
{
	return statement->names + statement->user_at;
}

static inline const char *calls_text(const struct calls_statement *statement)
{
	return statement->names + statement->text_at;
}

/* Walks a table in no order: start with *slot = 0. NULL: no more. */
const struct calls_statement *calls_next(const struct calls *calls, uint32_t *slot);

/* The memory of the table, in bytes. */
size_t calls_memory(const struct calls *calls);

#endif
