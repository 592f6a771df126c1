/* SPDX-License-Identifier: ISC */
/*
 * Calls: how often each statement was executed, and what that took. One table for each loop, of a
 * fixed number of statements (track_statements). Bookkeeping only: no socket, no clock, no SQL.
 *
 * When the table is full, a new statement takes the place of the one that was sent least often, and
 * continues to count from there (the algorithm "space-saving" of Metwally, Agrawal and El Abbadi).
 * So a statement that was sent more often than the floor, which is at most all calls divided by the
 * size of the table, is always there; and of one that is there, at most `missed_count` calls are
 * missing. The costs of an operation grow as the logarithm of the size.
 */
#ifndef PGWEIR_CLIENT_CALLS_H
#define PGWEIR_CLIENT_CALLS_H

#include <stdbool.h>

#include "pgweir/base/bytes.h"
#include "pgweir/base/clock.h"
#include "pgweir/base/heap.h"
#include "pgweir/base/histogram.h"
#include "pgweir/base/table.h"
#include "pgweir/base/text.h"
#include "pgweir/pool/server/server.h"

#define CALLS_TEXT_MAX 1000 /* bytes of a statement's text that are kept */
#define CALLS_SQLSTATE_SIZE 6
#define APPLICATION_NAME_SIZE 64 /* as NAMEDATALEN in PostgreSQL: longer names are cut off */

struct calls_statement {
	UT_hash_handle hh; /* by `key` */
	/* What each call reads or changes: few cache lines. */
	uint64_t key; /* of digest, database and user; the same in all loops of the process */
	uint64_t digest;
	struct heap_node rank; /* how often it was sent; the number of the last time, of all */
	uint32_t generation;   /* of this slot: changes with its statement */
	uint64_t call_count;
	uint64_t running_time, wait_time; /* microseconds */
	uint64_t longest;                 /* the longest of running */
	uint64_t row_count, byte_count;
	uint64_t application_hash;
	usec_t last_at; /* when the last call ended; monotonic, like `since` */
	bool has_text;  /* false: the text says why it is not known */
	struct sketch waiting, running;
	uint64_t error_count;
	char sqlstate[CALLS_SQLSTATE_SIZE];      /* of the last error; "": none */
	char application[APPLICATION_NAME_SIZE]; /* of the last client */
	uint64_t missed_count;
	usec_t since;
	const char *database, *user, *text; /* in one piece of memory */
};

/* A zeroed table is off. */
struct calls {
	uint32_t capacity; /* 0: off */
	uint32_t count;
	struct calls_statement *statements; /* an array */
	struct calls_statement *table;      /* of those that are there */
	struct heap heap; /* the statement that was sent least often is the first */
	uint64_t sent_count;
	uint32_t generation;  /* the last one given to a slot */
	uint64_t floor;       /* no statement that is not there was sent more often */
	uint64_t evict_count; /* statements that have left for others */
};

void calls_done(struct calls *calls);

/* The rarest statements leave if there are more. 0: off. false: no memory; nothing has changed. */
bool calls_resize(struct calls *calls, uint32_t capacity);

/* Removes all statements. */
void calls_reset(struct calls *calls);

/* NULL: not there. */
struct calls_statement *calls_find(const struct calls *calls, uint64_t key);

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
bool calls_explain(struct calls_statement *statement, struct bytes text);

/* The statement was sent once more. */
void calls_sent(struct calls *calls, struct calls_statement *statement);

/* An error before its execution: in a Parse. It is no call. */
void calls_failed(struct calls_statement *statement, const char *sqlstate);

/* The place of a statement in the table, from which it may leave: its slot and generation. */
static inline uint64_t calls_place(const struct calls *calls,
                                   const struct calls_statement *statement)
{
	return (uint64_t)(statement - calls->statements) << 32 | statement->generation;
}

/* NULL: it has left, or the place is 0, which is none. */
static inline struct calls_statement *calls_at(const struct calls *calls, uint64_t place)
{
	uint64_t slot = place >> 32;

	if (slot >= calls->count || calls->statements[slot].generation != (uint32_t)place)
		return NULL;
	return &calls->statements[slot];
}

/* Its last client has this application_name. `hash`: of the name. */
static inline void calls_by(struct calls_statement *statement, uint64_t hash,
                            const char *application)
{
	if (statement->application_hash == hash)
		return;
	statement->application_hash = hash;
	text_copy(statement->application, sizeof(statement->application), application);
}

/* A call has ended. wait: for a server, before it was sent. */
static inline void calls_ended(struct calls_statement *statement, const struct server_call_end *end,
                               usec_t wait)
{
	uint64_t running = end->running > 0 ? (uint64_t)end->running : 0;

	statement->call_count++;
	statement->last_at = end->now;
	statement->running_time += running;
	if (running > statement->longest)
		statement->longest = running;
	statement->wait_time += (uint64_t)wait;
	statement->row_count += end->rows;
	statement->byte_count += end->bytes;
	sketch_add(&statement->running, running);
	sketch_add(&statement->waiting, (uint64_t)wait);
	if (end->sqlstate)
		calls_failed(statement, end->sqlstate);
}

/* Walks a table in no order: start with *slot = 0. NULL: no more. */
const struct calls_statement *calls_next(const struct calls *calls, uint32_t *slot);

/*
 * ---- names ----
 *
 * What is known of statements by the names that one client gives them: of portals, and of prepared
 * statements that are not followed (session mode). Bounded: of many names some are forgotten. A
 * zeroed table owns nothing.
 */
struct calls_names {
	struct calls_name {
		UT_hash_handle hh;
		uint64_t hash;  /* of the name */
		uint64_t value; /* of the statement: its digest, or what it touches */
	} * table;
};

void calls_names_done(struct calls_names *names);

/* Does nothing without memory. */
void calls_names_put(struct calls_names *names, uint64_t hash, uint64_t value);

/* 0: not known. */
uint64_t calls_names_get(const struct calls_names *names, uint64_t hash);

/*
 * ---- applications ----
 *
 * What clients of one application_name have done, while track_statements is on. One table for each
 * loop. Clients choose these names, so only APPLICATIONS_KEPT of those that no client has any more
 * are kept; what the others have counted is in `gone`.
 */

#define APPLICATIONS_KEPT 1000

struct application {
	UT_hash_handle hh;
	TAILQ_ENTRY(application) node; /* in `unused`, if it has no client */
	unsigned int client_count;
	uint64_t hash; /* of its name; the same in all loops */
	uint64_t xact_count, error_count;
	char name[APPLICATION_NAME_SIZE];
};

TAILQ_HEAD(application_list, application);

struct applications {
	const struct hash_key *key;
	struct application *table;
	struct application_list unused; /* the one that lost its last client first comes first */
	unsigned int unused_count;
	uint64_t gone_xact_count, gone_error_count;
};

void applications_init(struct applications *applications, const struct hash_key *key);
void applications_done(struct applications *applications);

/* The application of this name, for one more client. NULL: no memory. */
struct application *applications_join(struct applications *applications, const char *name);

/* A client leaves. Sets the pointer to NULL, and accepts NULL. */
void applications_leave(struct applications *applications, struct application **application);

/* NULL: there is none. */
const struct application *applications_find(const struct applications *applications,
                                            const char *name);

/* All counters are 0 again. */
void applications_reset(struct applications *applications);

/*
 * ---- limits ----
 *
 * What entries of [statements] say of statements, and how many servers execute each. One table for
 * all loops. Main changes it while all lanes are held, so each of them may read it at any time.
 */

struct statement_limit {
	UT_hash_handle hh;
	uint64_t digest;
	const struct config_statement *entry; /* in `config`; NULL: it has none any more */
	atomic_uint running;                  /* the servers that execute it */
	_Atomic uint64_t refused_count;
};

/* All zeros: there is none. */
struct statement_limits {
	struct statement_limit *table;
	const struct config *config; /* one reference */
};

/* All lanes must be held. false: no memory, and some entries are not in force. */
bool statement_limits_configure(struct statement_limits *limits, const struct config *config);

/* No statement runs any more. */
void statement_limits_done(struct statement_limits *limits);

/* NULL: no limit names the statement. */
struct statement_limit *statement_limits_find(const struct statement_limits *limits,
                                              uint64_t digest);

/* Counts a refusal, and sets its error: it is blocked, or it runs too often. Returns false. */
bool statement_limit_refuse(struct statement_limit *limit, struct err *err);

#endif
