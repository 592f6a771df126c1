/* SPDX-License-Identifier: ISC */
/*
 * The daemon: the one object from which everything else hangs. Made once, by
 * main; a second one beside it, with a loop of its own, would not notice.
 */
#ifndef PGWEIR_MAIN_DAEMON_H
#define PGWEIR_MAIN_DAEMON_H

#include "pgweir/auth/hba.h"
#include "pgweir/auth/users.h"
#include "pgweir/base/log.h"
#include "pgweir/config/config.h"

#include "activation.h"
#include "options.h"
#include "takeover.h"

struct daemon;

/*
 * Opens everything: loop, resolver, listeners. Takes over the references to config,
 * users and hba, and the sockets that were given; log and options are borrowed. takeover: whose
 * listening sockets are used; its fd -1: nobody's. NULL: *err says why not.
 */
struct daemon *daemon_new(struct log *log, const struct options *options,
                          const struct config *config, struct users *users, struct hba *hba,
                          const struct activation *given, struct takeover *takeover,
                          struct err *err);

/*
 * Takes over what another process has, which goes on until that is certain. Nobody is let in
 * before. false: *err says why not, and the other process has it all.
 */
bool takeover_run(struct daemon *daemon, struct takeover *takeover, struct err *err);

/* Runs until it is told to stop; the service manager is told that we are ready. */
void daemon_run(struct daemon *daemon);

/* Closes everything. */
void daemon_free(struct daemon **daemon);

#endif
