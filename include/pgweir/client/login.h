/* SPDX-License-Identifier: ISC */
/*
 * What the logins of all loops have in common.
 */
#ifndef PGWEIR_CLIENT_LOGIN_H
#define PGWEIR_CLIENT_LOGIN_H

#include "pgweir/auth/users.h"
#include "pgweir/base/err.h"
#include "pgweir/loop/loop.h"

/* The login throttle: failed logins, counted for each address. client/login/admit.c */
struct throttle;

/* Those of one loop whose answers are delayed. */
struct delayed_login;
struct delayed_logins {
	TAILQ_HEAD(, delayed_login) list;
	unsigned int count;
	bool is_cut; /* more logins failed than can be delayed, and that was logged */
};

/* NULL: *err says why. */
struct throttle *throttle_new(struct err *err);

/* No client may be left. */
void throttle_free(struct throttle **throttle);

/*
 * What unknown users imitate where auth_query decides about users: one user with the same kind of
 * secret as the first answer of auth_query. client/login/auth_cache.c
 */
struct likeness;

/* NULL: *err says why. */
struct likeness *likeness_new(struct err *err);
void likeness_free(struct likeness **likeness);

/* An answer has this secret. No effect unless it is the first one. */
void likeness_learn(struct likeness *likeness, const char *secret);

/* auth_query may be another query now: the next answer is the first one. */
void likeness_forget(struct likeness *likeness);

/* The user; the caller gets a reference. */
struct users *likeness_users(struct likeness *likeness);

/* The answers of auth_query that are cached. client/login/auth_cache.c */
struct auth_cache;

/* NULL: *err says why. */
struct auth_cache *auth_cache_new(struct err *err);
void auth_cache_free(struct auth_cache **cache);

#endif
