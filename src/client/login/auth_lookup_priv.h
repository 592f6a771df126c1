/* SPDX-License-Identifier: ISC */
/*
 * Lookups: who is this user? asked of PostgreSQL by auth_query.
 *
 *   auth_lookups_ask --> AUTH_LOOKUP_KEPT                    the answer is at hand
 * (auth_query_cache)
 *               --> AUTH_LOOKUP_WAITS --> on_answer()   a query is under way
 *
 * All who ask for the same user in the same way at the same time share one query.
 */
#ifndef PGWEIR_CLIENT_LOGIN_AUTH_LOOKUP_PRIV_H
#define PGWEIR_CLIENT_LOGIN_AUTH_LOOKUP_PRIV_H

#include "pgweir/config/config.h"
#include "pgweir/pool/pools.h"

/* Answers that are kept at most, and bytes of theirs. */
#define AUTH_CACHE_MAX 10000
#define AUTH_CACHE_SIZE_MAX ((size_t)32 * 1024 * 1024)

struct auth_lookups;
struct auth_lookup;

/* Where, by whom and how it is asked, and for whom. */
struct question {
	struct database *database; /* where */
	const char *auth_user;
	const char *query;
	const char *user;
};

/* What came of it. Immutable; counts its references. */
struct auth_answer;

struct auth_answer *auth_answer_hold(struct auth_answer *answer);

/* The last one wipes and frees; leaves NULL behind, accepts NULL. */
void auth_answer_release(struct auth_answer **answer);

/* The user's name as the query says it; NULL: there is no such user. */
const char *auth_answer_name(const struct auth_answer *answer);
const char *auth_answer_secret(const struct auth_answer *answer); /* NULL: none */

/* Whether it answers this very question. */
bool auth_answer_is_for(const struct auth_answer *answer, const struct question *question);

/* One who waits. Lives inside whoever does. At rest zeroed. */
struct auth_wait {
	TAILQ_ENTRY(auth_wait) node;
	struct auth_lookup *lookup; /* NULL: it does not wait */
	/*
	 * Comes once, from the loop, never from within a call here. answer: hold it to keep
	 * it. NULL: *err is what a client may be told.
	 */
	void (*on_answer)(struct auth_wait *wait, struct auth_answer *answer,
	                  const struct err *err);
};

/* config: borrowed until auth_lookups_configure(). NULL: no memory. */
struct auth_lookups *auth_lookups_new(struct pools *pools, const struct config *config);

/* Nobody may wait any more. */
void auth_lookups_free(struct auth_lookups **lookups);

/* A new snapshot is in force: all answers are forgotten, and nobody joins what is under way. */
void auth_lookups_configure(struct auth_lookups *lookups, const struct config *config);

enum auth_lookup_result {
	AUTH_LOOKUP_KEPT,  /* *answer is one reference, the caller's */
	AUTH_LOOKUP_WAITS, /* on_answer() will come */
	AUTH_LOOKUP_FAILED /* *err is what a client may be told */
};

/* wait->on_answer must be set. Nothing of the question is kept but its database. */
enum auth_lookup_result auth_lookups_ask(struct auth_lookups *lookups,
                                         const struct question *question, struct auth_wait *wait,
                                         struct auth_answer **answer, struct err *err);

/* Waits no more. A query that nobody waits for is given up. Does nothing if it does not wait. */
void auth_lookups_give_up(struct auth_wait *wait);

/* A proof failed by this answer: whoever comes next asks anew. */
void auth_lookups_disown(struct auth_lookups *lookups, const struct auth_answer *answer);

/*
 * A user for unknown names to imitate: its secret is of the kind of auth_query's first
 * answer since the start or a RELOAD, with the same iteration count and length of salt.
 * Before that answer, of the kind that PostgreSQL makes. Borrowed.
 */
const struct users *auth_lookups_likeness(const struct auth_lookups *lookups);

#endif
