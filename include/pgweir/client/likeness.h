/* SPDX-License-Identifier: ISC */
/*
 * What unknown users imitate where auth_query decides about users: one user with the same kind of
 * secret as the first answer of auth_query, the same in all loops. client/login/likeness.c
 */
#ifndef PGWEIR_CLIENT_LIKENESS_H
#define PGWEIR_CLIENT_LIKENESS_H

#include "pgweir/auth/users.h"

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

#endif
