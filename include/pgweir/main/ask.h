/* SPDX-License-Identifier: ISC */
/*
 * Asks the console of a running daemon, over its Unix socket, from the command line.
 * Waits, so it is nothing for a loop; each step at most for a few seconds.
 */
#ifndef PGWEIR_MAIN_ASK_H
#define PGWEIR_MAIN_ASK_H

#include "pgweir/base/buf.h"
#include "pgweir/base/err.h"

struct ask {
	int fd;
	struct buf in;
	void (*on_notice)(const char *text); /* of a NOTICE, from ask_query(); NULL: dropped */
};

/*
 * Logs in as `user`, who must need no password. NULL: as `pgbouncer`, which the daemon allows
 * to its own system user; root becomes the owner of the socket for that. false: *err says
 * why, and nothing is open.
 */
bool ask_open(struct ask *ask, const char *path, const char *user, struct err *err);

/* From now on an answer may take as long as it takes. */
void ask_patiently(struct ask *ask);

/*
 * Sends one statement and calls back for each row; the texts (NULL = SQL's NULL) are good
 * for the call. false: *err says why, and the connection is of no further use.
 */
bool ask_query(struct ask *ask, const char *statement,
               void (*on_row)(void *arg, const char *const *values, size_t count), void *arg,
               struct err *err);

/* Sends a statement, and leaves the answer, which `fd` gets, to the caller. */
bool ask_say(struct ask *ask, const char *statement, struct err *err);

void ask_close(struct ask *ask);

#endif
