/* SPDX-License-Identifier: ISC */
/*
 * Answers of auth_query, and those that are kept for a while. For lookup.c.
 */
#ifndef PGWEIR_CLIENT_ANSWER_PRIV_H
#define PGWEIR_CLIENT_ANSWER_PRIV_H

#include "lookup_priv.h"

/* A question as one run of bytes: where\0by whom\0how\0for whom\0. Owns it. */
struct key {
	struct buf text;
	const char *query, *user; /* within it */
};

/* false: no memory. */
bool key_make(struct key *key, const struct question *question);
void key_done(struct key *key);

/* name NULL: nobody; secret NULL: a user without one. One reference is the caller's. NULL: no
 * memory. */
struct answer *answer_new(const struct key *key, const char *name, const char *secret);

TAILQ_HEAD(answer_list, answer);

/* Those that are kept. */
struct answers {
	struct loop *loop;
	struct answer *table;    /* by key */
	struct hash_key secret;  /* of the table */
	struct answer_list list; /* the oldest first */
	unsigned int count;
	size_t size; /* bytes of all */
};

void answers_init(struct answers *answers, struct loop *loop);

/* limit: how long; 0 = not at all. Takes a reference. One of the same key makes way. */
void answers_keep(struct answers *answers, struct answer *answer, usec_t limit);

/* One reference is the caller's. NULL: there is none. */
struct answer *answers_find(struct answers *answers, const struct key *key);

/* If it is kept. */
void answers_forget(struct answers *answers, const struct answer *answer);
void answers_forget_all(struct answers *answers);

#endif
