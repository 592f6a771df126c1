/* SPDX-License-Identifier: ISC */
/*
 * What a login needs of a helper thread: keys are derived from a password, PAM or an LDAP server
 * checks it, or the name of a system user is found.
 */
#ifndef PGWEIR_AUTH_AUTH_WORK_H
#define PGWEIR_AUTH_AUTH_WORK_H

#include "pgweir/loop/workers.h"

/* Who runs an exchange, and its threads. */
struct auth_runner {
	/* Submits a job. is_slow: threads must not wait for it. false: there are too many. */
	bool (*submit)(void *arg, struct job *job, bool is_slow);
	/* The work is over: called once, from the loop, unless the owner has ended. */
	void (*on_work)(void *arg);
	void *arg;
};

/*
 * The part of an object that lets a thread work with it. Its owner may drop the object at any time;
 * it then stays as long as the thread works, so that nothing has to be copied.
 */
struct auth_work {
	struct job job; /* must be first */
	struct auth_runner runner;
	void (*free_object)(struct auth_work *work);
	bool is_running, is_dropped;
};

/* The work must not be running. false: there are too many jobs; on_work() will not be called. */
bool auth_work_begin(struct auth_work *work, void (*run)(struct job *job), bool is_slow);

/* Calls free_object(), now or when the job has ended. Accepts NULL. */
void auth_work_drop(struct auth_work *work);

#endif
