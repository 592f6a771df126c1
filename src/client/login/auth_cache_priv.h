/* SPDX-License-Identifier: ISC */
/*
 * Answers of auth_query, and the cache of them. For auth_lookup.c.
 */
#ifndef PGWEIR_CLIENT_LOGIN_AUTH_CACHE_PRIV_H
#define PGWEIR_CLIENT_LOGIN_AUTH_CACHE_PRIV_H

#include "auth_lookup_priv.h"

/* A question as one byte string: database, auth_user, query and user, each with a zero. Owns it. */
struct auth_lookup_key {
	struct buf text;
	const char *query, *user; /* point into `text` */
};

/* false: no memory, and the key is empty. */
bool auth_lookup_key_make(struct auth_lookup_key *key, const struct question *question);
void auth_lookup_key_done(struct auth_lookup_key *key);

/*
 * name NULL: there is no such user. secret NULL: the user has none. Returns one reference,
 * which the caller owns. NULL: no memory.
 */
struct auth_answer *auth_answer_new(const struct auth_lookup_key *key, const char *name,
                                    const char *secret);

TAILQ_HEAD(auth_answer_list, auth_answer);

/* The cached answers. */
struct auth_cache {
	struct loop *loop;
	struct auth_answer *table;    /* by key */
	struct hash_key secret;       /* of the table */
	struct auth_answer_list list; /* oldest first */
	unsigned int count;
	size_t size; /* bytes of all answers */
};

void auth_cache_init(struct auth_cache *answers, struct loop *loop);

/*
 * Adds an answer and holds a reference to it. Replaces an answer with the same key. limit:
 * how long it is kept; 0: it is not kept.
 */
void auth_cache_keep(struct auth_cache *answers, struct auth_answer *answer, usec_t limit);

/* Returns one reference, which the caller owns. NULL: no such answer. */
struct auth_answer *auth_cache_find(struct auth_cache *answers, const struct auth_lookup_key *key);

/* Drops the answer if it is in the cache. */
void auth_cache_forget(struct auth_cache *answers, const struct auth_answer *answer);
void auth_cache_forget_all(struct auth_cache *answers);

#endif
