/* SPDX-License-Identifier: ISC */
/*
 * The login throttle: failed logins of all loops, counted for each address, whose answers are
 * delayed. client/login/throttle.c
 */
#ifndef PGWEIR_CLIENT_THROTTLE_H
#define PGWEIR_CLIENT_THROTTLE_H

#include "pgweir/base/err.h"
#include "pgweir/loop/loop.h"

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

#endif
