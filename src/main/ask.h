/* SPDX-License-Identifier: ISC */
/*
 * Asks the console of a running daemon, over its Unix socket, from the command line.
 * Waits, so it is nothing for a loop; each step at most for a few seconds.
 */
#ifndef PGWEIR_MAIN_ASK_H
#define PGWEIR_MAIN_ASK_H

#include <sys/types.h>

#include "pgweir/base/buf.h"
#include "pgweir/base/err.h"
#include "pgweir/config/config.h"

struct ask {
	int fd;
	bool is_in; /* logged in: it says good-bye */
	struct buf in;
	void (*on_notice)(const char *text); /* of a NOTICE, from ask_query(); NULL: dropped */
};

#define ASK_OWNER_UNKNOWN ((uid_t)-1)
#define ASK_PATH_SIZE 512 /* more than a socket's path may have: what is too long is still seen */

/*
 * Which daemon is asked. In a directory that everybody can write to, any process may listen,
 * so the system user of the listening process is checked before anything is sent. Trusted are
 * root, the user of this process and `owner`, and unless `is_strict` any other user, if only
 * that user and root can have put the socket there.
 */
struct ask_whom {
	char path[ASK_PATH_SIZE]; /* of the Unix socket */
	const char
	    *user;   /* of the console; NULL: pgbouncer, as the system user of the daemon may */
	uid_t owner; /* the system user that the daemon is known to run as */
	bool is_strict;
};

/* Where the daemon of a configuration listens. false: it has no Unix socket. */
bool ask_socket_path(const struct config *config, char *out, size_t size);

/*
 * Fills *whom from the command line. `target`: a Unix socket, or the daemon's configuration
 * file, which names socket and system user. `owner`: the name of the daemon's system user;
 * NULL: what the file says. false: *err says why.
 */
bool ask_find(struct ask_whom *whom, const char *target, const char *owner, struct err *err);

/*
 * Logs in as a user who must need no password. Root connects as `owner`, or, where that is not
 * known, as the owner of the socket. false: *err says why, and nothing is open.
 */
bool ask_open(struct ask *ask, const struct ask_whom *whom, struct err *err);

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
