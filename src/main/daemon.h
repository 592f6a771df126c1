/* SPDX-License-Identifier: ISC */
/*
 * The daemon: the object that owns all others. main makes one. It has no global state, so a
 * second one with its own loop could exist beside it.
 */
#ifndef PGWEIR_MAIN_DAEMON_H
#define PGWEIR_MAIN_DAEMON_H

#include "load.h"
#include "notify.h"
#include "options.h"
#include "takeover.h"

struct daemon;

/*
 * Opens everything: loop, resolver, listeners. Takes over what is loaded, and
 * the given sockets; log and options are borrowed. takeover: the listening
 * sockets of the old process; fd -1: there is none. NULL: *err has the reason.
 */
struct daemon *daemon_new(struct log *log, const struct options *options, struct loaded *loaded,
                          const struct activation *given, struct takeover *takeover,
                          struct err *err);

/*
 * Takes over the connections of another process, which keeps running until the hand-over is
 * certain. No client is accepted before. false: *err has the reason, and the other process
 * still has everything.
 */
bool takeover_run(struct daemon *daemon, struct takeover *takeover, struct err *err);

/* Tells the service manager that the daemon is ready, and runs until the loop is stopped. */
void daemon_run(struct daemon *daemon);

/*
 * Closes and frees everything. *daemon may be NULL, and becomes NULL. false: a helper thread still
 * waits for PAM or LDAP, so the process must end by _exit().
 */
bool daemon_free(struct daemon **daemon);

#endif
