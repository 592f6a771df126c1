/* SPDX-License-Identifier: ISC */
/*
 * What the logins of all loops have in common.
 */
#ifndef PGWEIR_CLIENT_LOGIN_H
#define PGWEIR_CLIENT_LOGIN_H

#include "pgweir/auth/users.h"
#include "pgweir/base/err.h"
#include "pgweir/loop/loop.h"

/*
 * The login throttle: failed logins, counted for each address, whose answers are delayed.
 * client/login/admit.c
 */
struct throttle;
struct delayed_login;
TAILQ_HEAD(delayed_login_list, delayed_login);

/* What the clients of one loop have of it. */
struct throttle_member {
	struct letter letter;            /* from another loop: answer those in `early` */
	bool is_posted;                  /* the letter is under way */
	struct delayed_login_list early; /* to be answered before their delay is over */
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
