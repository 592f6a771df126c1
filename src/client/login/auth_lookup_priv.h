/* SPDX-License-Identifier: ISC */
/*
 * Lookups: auth_query asks PostgreSQL for the name and the secret of a user.
 *
 *   auth_lookups_ask --> AUTH_LOOKUP_KEPT                    the answer is cached
 *                    --> AUTH_LOOKUP_WAITS --> on_answer()   a query is running
 *
 * Logins that ask the same question at the same time share one query.
 */
#ifndef PGWEIR_CLIENT_LOGIN_AUTH_LOOKUP_PRIV_H
#define PGWEIR_CLIENT_LOGIN_AUTH_LOOKUP_PRIV_H

#include "pgweir/config/config.h"
#include "pgweir/client/login.h"
#include "pgweir/pool/pools.h"

/* Maximum number of cached answers, and of their bytes. */
#define AUTH_CACHE_MAX 10000
#define AUTH_CACHE_SIZE_MAX ((size_t)32 * 1024 * 1024)

struct auth_lookups;
struct auth_lookup;

/* What is asked for. The texts are borrowed. */
struct question {
	struct database *database; /* runs the query */
	const char *auth_user;
	const char *query;
	const char *user;
};

/* The answer to a question. Immutable; reference-counted. */
struct auth_answer;

struct auth_answer *auth_answer_hold(struct auth_answer *answer);

/*
 * Drops a reference; the last one wipes and frees the answer. Sets *answer to NULL. *answer
 * may be NULL.
 */
void auth_answer_release(struct auth_answer **answer);

/* The user's name as the query returned it. NULL: there is no such user. */
const char *auth_answer_name(const struct auth_answer *answer);
const char *auth_answer_secret(const struct auth_answer *answer); /* NULL: the user has none */

/* Whether it answers exactly this question. */
bool auth_answer_is_for(const struct auth_answer *answer, const struct question *question);

/* A login that waits for an answer. Lives inside its owner. All zeros: not waiting. */
struct auth_wait {
	TAILQ_ENTRY(auth_wait) node;
	struct auth_lookup *lookup; /* NULL: not waiting */
	/*
	 * Called once, from the loop, never within a call of this module. answer: hold a reference
	 * to keep it. NULL: *err is the error for the client.
	 */
	void (*on_answer)(struct auth_wait *wait, struct auth_answer *answer,
	                  const struct err *err);
};

/* config: borrowed until auth_lookups_configure(). NULL: no memory. */
struct auth_lookups *auth_lookups_new(struct pools *pools, struct auth_cache *cache,
                                      struct likeness *likeness, const struct config *config);

/* No login may be waiting. */
void auth_lookups_free(struct auth_lookups **lookups);

/* Applies a new snapshot: drops all cached answers. New logins do not join running queries. */
void auth_lookups_configure(struct auth_lookups *lookups, const struct config *config);

enum auth_lookup_result {
	AUTH_LOOKUP_KEPT,  /* *answer is one reference, which the caller owns */
	AUTH_LOOKUP_WAITS, /* on_answer() will be called */
	AUTH_LOOKUP_FAILED /* *err is the error for the client */
};

/*
 * Looks for a cached answer, joins a running query, or begins one. wait->on_answer must be
 * set. The texts of the question are copied; only its database is kept by pointer.
 */
enum auth_lookup_result auth_lookups_ask(struct auth_lookups *lookups,
                                         const struct question *question, struct auth_wait *wait,
                                         struct auth_answer **answer, struct err *err);

/* Stops waiting. The last login that stops ends the query. No effect if `wait` is not waiting. */
void auth_lookups_give_up(struct auth_wait *wait);

/*
 * Authentication by this answer failed: drops it from the cache, so that the next login
 * runs the query.
 */
void auth_lookups_disown(struct auth_lookups *lookups, struct auth_answer *answer);

#endif
