/* SPDX-License-Identifier: ISC */
/* What the catalog of a pool's database says of its borrowers' texts. */
#ifndef PGWEIR_POOL_POOL_CATALOG_H
#define PGWEIR_POOL_POOL_CATALOG_H

#include "pgweir/pool/pool.h"

/* Another loop or entry has a reading, or has seen a definition. */
void pool_catalog_hear(struct database *database);

/* What others have found out counts from now on. */
static inline void pool_catalog_look(struct database *database)
{
	if (atomic_load_explicit(&database->catalog.tally->catalog.version, memory_order_acquire) !=
	    database->catalog_version)
		pool_catalog_hear(database);
}

/* Which texts of this borrower may use a sequence that others know. */
static inline enum catalog_sequences pool_sequences(const struct borrower *borrower)
{
	pool_catalog_look(borrower->pool->database);
	return pool_rules(borrower)->sequences;
}

/* Whether a text may have names that matter. server: the one it is sent to, or NULL. */
static inline bool pool_has_names(const struct pool *pool, const struct server *server)
{
	if (pool->pin_functions.count || !pool->limits.reads_catalog)
		return pool->pin_functions.count;
	pool_catalog_look(pool->database);
	return !pool->database->is_quiet || (server && server_may_have_defined(server));
}

/* Beside those of enum sql_touch: nothing is known of names yet. */
#define POOL_TOUCH_EARLY (1u << 28)

/* enum sql_touch and POOL_TOUCH_EARLY, by the names in a text. *by: the first; may be NULL. */
unsigned int pool_touches(struct pool *pool, const struct server *server, struct bytes text,
                          const char **by);

/* The last reading, and whether nothing has changed since. NULL: there is none, or no need. */
const struct catalog_reading *pool_catalog(const struct pool *pool, bool *is_current);

/* What a question about the session waits for: which parameters may be set is in the catalog. */
enum pool_reading {
	POOL_READING_NONE,     /* nothing */
	POOL_READING_ASKED,    /* the lent server, at rest, was asked: on_answer() comes */
	POOL_READING_ELSEWHERE /* another server was: look again after POOL_READING_PAUSE */
};

#define POOL_READING_PAUSE (5 * USEC_PER_MS)

/* is_needed: a function was called that is not known. Else it is read only if it is time. */
enum pool_reading pool_read_catalog_now(struct borrower *borrower, bool is_needed);

#endif
