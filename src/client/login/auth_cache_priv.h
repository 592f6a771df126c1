/* SPDX-License-Identifier: ISC */
/*
 * Answers of auth_query, and the cache of them, which all loops share. For auth_lookup.c.
 */
#ifndef PGWEIR_CLIENT_LOGIN_AUTH_CACHE_PRIV_H
#define PGWEIR_CLIENT_LOGIN_AUTH_CACHE_PRIV_H

#include "pgweir/client/auth_cache.h"

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

/* A loop's access to the cache. Its timer drops answers whose time is over. */
struct auth_cache_access {
	struct auth_cache *cache;
	struct loop *loop;
	struct timer timer;
	usec_t limit; /* how long answers are kept, when the timer was set */
};

void auth_cache_begin(struct auth_cache_access *access, struct auth_cache *cache,
                      struct loop *loop);
void auth_cache_end(struct auth_cache_access *access);

/*
 * Adds an answer and holds a reference to it. Replaces an answer with the same key. limit:
 * how long it is kept; 0: it is not kept.
 */
void auth_cache_keep(struct auth_cache_access *access, struct auth_answer *answer, usec_t limit);

/* Returns one reference, which the caller owns. NULL: no such answer. */
struct auth_answer *auth_cache_find(struct auth_cache_access *access,
                                    const struct auth_lookup_key *key);

/* Drops the answer if it is in the cache. */
void auth_cache_forget(struct auth_cache_access *access, struct auth_answer *answer);
void auth_cache_forget_all(struct auth_cache_access *access);

#endif
