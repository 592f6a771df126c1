/* SPDX-License-Identifier: ISC */
/*
 * What the logins of all loops have in common: failed logins of each address, and answers of
 * auth_query. client/login/auth_cache.c
 */
#ifndef PGWEIR_CLIENT_LOGIN_H
#define PGWEIR_CLIENT_LOGIN_H

#include "pgweir/base/err.h"
#include "pgweir/loop/loop.h"

/* The failed logins of one loop whose answers are delayed. client/login/admit.c */
struct delayed_login;
struct delayed_logins {
	TAILQ_HEAD(, delayed_login) list;
	unsigned int count;
	bool is_cut; /* more logins failed than can be delayed, and that was logged */
};

/* The lookups of auth_query of one loop. client/login/auth_query.c */
struct auth_lookups {
	TAILQ_HEAD(, auth_lookup) list; /* all */
	struct auth_lookup *under_way;  /* those that may be joined, by key */
};

struct logins;

/* NULL: *err says why. */
struct logins *logins_new(struct err *err);

/* To be called each second: wipes the answers of auth_query whose time is over. */
void logins_sweep(struct logins *logins, usec_t now);

/* No client may be left. */
void logins_free(struct logins **logins);

#endif
