/* SPDX-License-Identifier: ISC */
/*
 * Passwords judged outside, inside the room: what the libraries' files show.
 */
#ifndef PGWEIR_AUTH_OUTSIDE_PRIV_H
#define PGWEIR_AUTH_OUTSIDE_PRIV_H

#include "pgweir/auth/outside.h"

#define OUTSIDE_REASON_SIZE 160

/* What a helper thread is given, and where it puts its words. */
struct outside_question {
	const char *user, *password, *options, *host;
	usec_t deadline; /* 0 = none */
	char reason[OUTSIDE_REASON_SIZE];
};

/* On a helper thread; each waits for as long as it has to. */
enum outside_answer pam_judge(struct outside_question *question);
enum outside_answer ldap_judge(struct outside_question *question);

/* Sets the reason; returns `answer`. */
enum outside_answer outside_reply(struct outside_question *question, enum outside_answer answer,
                                const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
