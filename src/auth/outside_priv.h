/* SPDX-License-Identifier: ISC */
/*
 * Passwords that PAM or LDAP checks, internal to the module: what the files of the libraries
 * provide.
 */
#ifndef PGWEIR_AUTH_OUTSIDE_PRIV_H
#define PGWEIR_AUTH_OUTSIDE_PRIV_H

#include "pgweir/auth/outside.h"

#define OUTSIDE_REASON_SIZE 160

/* What a helper thread gets, and where it stores the reason. */
struct outside_question {
	const char *user, *password, *options, *host;
	usec_t deadline; /* by clock_now(); 0 = none */
	char reason[OUTSIDE_REASON_SIZE];
};

/* Called before there are helper threads. */
void ldap_prepare(void);

/* Called on a helper thread; may block. */
enum outside_answer ldap_judge(struct outside_question *question);

/* Sets the reason and returns `answer`. */
enum outside_answer outside_reply(struct outside_question *question, enum outside_answer answer,
                                  const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
