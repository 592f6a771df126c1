/* SPDX-License-Identifier: ISC */
/*
 * A password that is judged outside of us: by PAM, or by an LDAP server. That may
 * take as long as it likes, so it is a job for a helper thread.
 *
 *   outside_new --> outside_ask --> submit outside_job() --> on_done: outside_answer
 *        |               |                  |                      |
 *        +---------------+------------------+----------------------+--> outside_free
 *
 * All of one thread, but for run() of the job.
 */
#ifndef PGWEIR_AUTH_OUTSIDE_H
#define PGWEIR_AUTH_OUTSIDE_H

#include "pgweir/auth/auth_methods.h"
#include "pgweir/base/clock.h"
#include "pgweir/base/err.h"
#include "pgweir/loop/workers.h"

enum outside_answer {
	OUTSIDE_YES,
	OUTSIDE_NO,    /* no such user, a wrong password, or the account may not come in now */
	OUTSIDE_FAILED /* nobody could be asked, or gave a sensible answer */
};

/* Borrowed texts, which outside_new() copies. */
struct outside_who {
	enum auth_method method; /* one that is_outside */
	const char *user;
	const char *options; /* PAM: the service; LDAP: options that ldap_options_parse() takes */
	const char *host;    /* whence the user comes, in words for PAM */
	/* From the loop, once, unless outside_free() came first: there is an answer. */
	void (*on_done)(void *arg);
	void *arg;
};

struct outside;

/* NULL: no memory. */
struct outside *outside_new(const struct outside_who *who);

/*
 * Copies the password, never an empty one: an LDAP server takes that for nobody's, and
 * says yes. When `deadline` (0 = none) is past, nobody waits for the answer any more.
 * false: no memory.
 */
bool outside_ask(struct outside *outside, const char *password, usec_t deadline);

/* After outside_ask(), once: to be submitted. */
struct job *outside_job(struct outside *outside);

/* workers_submit() has refused it: on_done will not come. */
void outside_refused(struct outside *outside);

/* After on_done. */
enum outside_answer outside_answer(const struct outside *outside);

/* Why not, for the log only; "" after OUTSIDE_YES. Never holds a secret. */
const char *outside_reason(const struct outside *outside);

/* At any time; wipes what it knew, now or when its job has come to its end. Leaves NULL. */
void outside_free(struct outside **outside);

enum outside_fitness {
	OUTSIDE_BAD,           /* these options mean nothing; *err says why */
	OUTSIDE_FIT,           /* they can be used */
	OUTSIDE_CONTRADICTORY, /* each means something, but not together; *err says why */
};

/* Whether these options can be used, and what is wrong with them; also without LDAP or PAM. */
enum outside_fitness outside_check(enum auth_method method, const char *options, struct err *err);

/* "PAM", "LDAP". Static. */
const char *outside_name(enum auth_method method);

/* Whether it was configured in. */
bool outside_is_built(enum auth_method method);

#endif
