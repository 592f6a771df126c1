/* SPDX-License-Identifier: ISC */
/*
 * Answers of auth_query, and those that are kept for a while. For lookup.c.
 */
#ifndef PGWEIR_CLIENT_LOGIN_AUTH_CACHE_PRIV_H
#define PGWEIR_CLIENT_LOGIN_AUTH_CACHE_PRIV_H

#include "auth_lookup_priv.h"

/* A question as one run of bytes: where\0by whom\0how\0for whom\0. Owns it. */
struct auth_lookup_key {
	struct buf text;
	const char *query, *user; /* within it */
};

/* false: no memory. */
bool auth_lookup_key_make(struct auth_lookup_key *key, const struct question *question);
void auth_lookup_key_done(struct auth_lookup_key *key);

/* name NULL: nobody; secret NULL: a user without one. One reference is the caller's. NULL: no
 * memory. */
struct auth_answer *auth_answer_new(const struct auth_lookup_key *key, const char *name,
                                    const char *secret);

TAILQ_HEAD(auth_answer_list, auth_answer);

/* Those that are kept. */
struct auth_cache {
	struct loop *loop;
	struct auth_answer *table;    /* by key */
	struct hash_key secret;       /* of the table */
	struct auth_answer_list list; /* the oldest first */
	unsigned int count;
	size_t size; /* bytes of all */
};

void auth_cache_init(struct auth_cache *answers, struct loop *loop);

/* limit: how long; 0 = not at all. Takes a reference. One of the same key makes way. */
void auth_cache_keep(struct auth_cache *answers, struct auth_answer *answer, usec_t limit);

/* One reference is the caller's. NULL: there is none. */
struct auth_answer *auth_cache_find(struct auth_cache *answers, const struct auth_lookup_key *key);

/* If it is kept. */
void auth_cache_forget(struct auth_cache *answers, const struct auth_answer *answer);
void auth_cache_forget_all(struct auth_cache *answers);

#endif
