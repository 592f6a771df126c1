/* SPDX-License-Identifier: ISC */
/*
 * Passwords that are checked outside of this process: by PAM or by an LDAP server. That may
 * take any time, so it is a job for a helper thread.
 *
 *   outside_new --> outside_ask --> submit outside_job() --> on_done: outside_answer
 *        |               |                  |                      |
 *        +---------------+------------------+----------------------+--> outside_free
 *
 * For one thread only, except run() of the job.
 */
#ifndef PGWEIR_AUTH_OUTSIDE_H
#define PGWEIR_AUTH_OUTSIDE_H

#include "pgweir/auth/auth_methods.h"
#include "pgweir/base/clock.h"
#include "pgweir/base/err.h"
#include "pgweir/loop/workers.h"

enum outside_answer {
	OUTSIDE_YES,
	OUTSIDE_NO,    /* unknown user, wrong password, or the user may not log in now */
	OUTSIDE_FAILED /* no service could be asked, or the answer was an error */
};

/* Borrowed texts; outside_new() copies them. */
struct outside_who {
	enum auth_method method; /* a method that is_outside */
	const char *user;
	const char *options; /* PAM: the service; LDAP: options for ldap_options_parse() */
	const char *host;    /* the client's host, for PAM */
	/* Called once, from the loop, when there is an answer. Not after outside_free(). */
	void (*on_done)(void *arg);
	void *arg;
};

struct outside;

/* To be called once, before any job runs: prepares the libraries for several threads. */
void ldap_prepare(void);

/* NULL: no memory. */
struct outside *outside_new(const struct outside_who *who);

/*
 * Sets the password and copies it. It must not be empty: an LDAP server treats an empty one as
 * an anonymous bind, which succeeds. After `deadline` (0 = none) the answer is not needed any
 * more. false: no memory.
 */
bool outside_ask(struct outside *outside, const char *password, usec_t deadline);

/* After outside_ask(), once: returns the job to submit. */
struct job *outside_job(struct outside *outside);

/* workers_submit() has refused the job: on_done() will not be called. */
void outside_refused(struct outside *outside);

enum outside_answer outside_answer(const struct outside *outside);

/* The reason, for the log only; "" after OUTSIDE_YES. It never contains a secret. */
const char *outside_reason(const struct outside *outside);

/* May be called at any time. Wipes and frees it, now or when its job has ended. Sets NULL. */
void outside_free(struct outside **outside);

enum outside_fitness {
	OUTSIDE_BAD,           /* the options are invalid; *err says why */
	OUTSIDE_FIT,           /* the options can be used */
	OUTSIDE_CONTRADICTORY, /* each is valid, but not together; *err says why */
};

/* Checks options. Works also if built without LDAP or PAM. */
enum outside_fitness outside_check(enum auth_method method, const char *options, struct err *err);

const char *outside_name(enum auth_method method);
bool outside_is_built(enum auth_method method);

#endif
