/* SPDX-License-Identifier: ISC */
/*
 * Passwords that are checked outside of this process: by PAM or by an LDAP server. That may
 * take any time: derived.h has it done by a helper thread.
 */
#ifndef PGWEIR_AUTH_OUTSIDE_H
#define PGWEIR_AUTH_OUTSIDE_H

#include "pgweir/auth/auth_methods.h"
#include "pgweir/base/clock.h"
#include "pgweir/base/err.h"

enum outside_answer {
	OUTSIDE_YES,
	OUTSIDE_NO,    /* unknown user, wrong password, or the user may not log in now */
	OUTSIDE_FAILED /* no service could be asked, or the answer was an error */
};

#define OUTSIDE_REASON_SIZE 160

/*
 * The password must not be empty: an LDAP server treats an empty one as an anonymous bind, which
 * succeeds.
 */
struct outside_question {
	const char *password, *user;
	const char *options; /* PAM: the service; LDAP: options for ldap_options_parse() */
	const char *host;    /* the client's host, for PAM */
	usec_t deadline;     /* by clock_now(): the answer is not needed after it; 0 = none */
	char reason[OUTSIDE_REASON_SIZE]; /* of another answer than yes: for the log, no secret */
};

/* To be called once, before any thread asks: prepares the libraries for several threads. */
void ldap_prepare(void);

/* Sets the reason and returns `answer`. */
enum outside_answer outside_reply(struct outside_question *question, enum outside_answer answer,
                                  const char *format, ...) __attribute__((format(printf, 3, 4)));

enum outside_fitness {
	OUTSIDE_BAD,           /* the options are invalid; *err says why */
	OUTSIDE_FIT,           /* the options can be used */
	OUTSIDE_CONTRADICTORY, /* each is valid, but not together; *err says why */
};

struct outside {
	const char *name;
	bool is_built;
	/* Called on a helper thread; may block. */
	enum outside_answer (*judge)(struct outside_question *question);
	/* Checks options, also if it is not built. */
	enum outside_fitness (*check)(const char *options, struct err *err);
};

extern const struct outside outside_pam, outside_ldap;

#endif
