/* SPDX-License-Identifier: ISC */
/*
 * Lookups: who is this user? asked of PostgreSQL by auth_query.
 *
 *   lookups_ask --> LOOKUP_KEPT                    the answer is at hand (auth_query_cache)
 *               --> LOOKUP_WAITS --> on_answer()   a query is under way
 *
 * All who ask for the same user in the same way at the same time share one query.
 */
#ifndef PGWEIR_CLIENT_LOOKUP_PRIV_H
#define PGWEIR_CLIENT_LOOKUP_PRIV_H

#include "pgweir/config/config.h"
#include "pgweir/pool/pools.h"

/* Answers that are kept at most, and bytes of theirs. */
#define ANSWERS_MAX 10000
#define ANSWERS_SIZE_MAX ((size_t)32 * 1024 * 1024)

struct lookups;
struct lookup;

/* Where, by whom and how it is asked, and for whom. */
struct question {
	struct database *database; /* where */
	const char *auth_user;
	const char *query;
	const char *user;
};

/* What came of it. Immutable; counts its references. */
struct answer;

struct answer *answer_hold(struct answer *answer);

/* The last one wipes and frees; leaves NULL behind, accepts NULL. */
void answer_release(struct answer **answer);

/* The user's name as the query says it; NULL: there is no such user. */
const char *answer_name(const struct answer *answer);
const char *answer_secret(const struct answer *answer); /* NULL: none */

/* Whether it answers this very question. */
bool answer_is_for(const struct answer *answer, const struct question *question);

/* One who waits. Lives inside whoever does. At rest zeroed. */
struct lookup_wait {
	TAILQ_ENTRY(lookup_wait) node;
	struct lookup *lookup; /* NULL: it does not wait */
	/*
	 * Comes once, from the loop, never from within a call here. answer: hold it to keep
	 * it. NULL: *err is what a client may be told.
	 */
	void (*on_answer)(struct lookup_wait *wait, struct answer *answer, const struct err *err);
};

/* config: borrowed until lookups_configure(). NULL: no memory. */
struct lookups *lookups_new(struct pools *pools, const struct config *config);

/* Nobody may wait any more. */
void lookups_free(struct lookups **lookups);

/* A new snapshot is in force: all answers are forgotten, and nobody joins what is under way. */
void lookups_configure(struct lookups *lookups, const struct config *config);

enum lookup_result {
	LOOKUP_KEPT,  /* *answer is one reference, the caller's */
	LOOKUP_WAITS, /* on_answer() will come */
	LOOKUP_FAILED /* *err is what a client may be told */
};

/* wait->on_answer must be set. Nothing of the question is kept but its database. */
enum lookup_result lookups_ask(struct lookups *lookups, const struct question *question,
                               struct lookup_wait *wait, struct answer **answer, struct err *err);

/* Waits no more. A query that nobody waits for is given up. Does nothing if it does not wait. */
void lookups_give_up(struct lookup_wait *wait);

/* A proof failed by this answer: whoever comes next asks anew. */
void lookups_disown(struct lookups *lookups, const struct answer *answer);

/*
 * A user for unknown names to imitate: its secret is of the kind of auth_query's first
 * answer since the start or a RELOAD, with the same iteration count and length of salt.
 * Before that answer, of the kind that PostgreSQL makes. Borrowed.
 */
const struct users *lookups_likeness(const struct lookups *lookups);

/* How many answers are kept. */
unsigned int lookups_kept_count(const struct lookups *lookups);

#endif
