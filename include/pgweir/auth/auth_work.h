/* SPDX-License-Identifier: ISC */
/*
 * What a login needs of a helper thread: keys are derived from a password, or PAM or an LDAP
 * server checks it. The owner may end at any time; the work then ends by itself.
 */
#ifndef PGWEIR_AUTH_AUTH_WORK_H
#define PGWEIR_AUTH_AUTH_WORK_H

#include "pgweir/auth/derived.h"
#include "pgweir/auth/outside.h"
#include "pgweir/loop/workers.h"

/* Who runs an exchange, and its threads. */
struct auth_runner {
	/* Submits a job. is_slow: threads must not wait for it. false: there are too many. */
	bool (*submit)(void *arg, struct job *job, bool is_slow);
	/* The work is over: called once, from the loop, unless the owner has ended. */
	void (*on_work)(void *arg);
	void *arg;
};

struct auth_work {
	struct job job; /* must be first */
	struct auth_runner runner;
	bool is_running, has_owner;
	struct buf texts;        /* the memory of those in `question` */
	struct derived *derived; /* or NULL: */
	enum auth_method method; /* a method that is_outside */
	struct outside_question question;
	enum outside_answer answer; /* valid when the work is over */
};

/*
 * Begins the work, and sets *work, which must be NULL. Texts are copied. false: too many logins
 * at once, or no memory; on_work() will not be called.
 */
bool auth_work_derive(struct auth_work **work, const struct auth_runner *runner,
                      struct derived *derived, const char *password, bool is_slow);
bool auth_work_ask(struct auth_work **work, const struct auth_runner *runner,
                   enum auth_method method, const struct outside_question *question);

/* Wipes and frees it, now or when its job has ended. Accepts NULL in *work, and sets it. */
void auth_work_drop(struct auth_work **work);

#endif
