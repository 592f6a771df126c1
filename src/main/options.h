/* SPDX-License-Identifier: ISC */
/*
 * The command line, and the client with which it asks a running daemon.
 */
#ifndef PGWEIR_MAIN_OPTIONS_H
#define PGWEIR_MAIN_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "pgweir/base/buf.h"
#include "pgweir/base/err.h"
#include "pgweir/net/address.h"

enum options_action {
	OPTIONS_RUN,     /* run the daemon */
	OPTIONS_CHECK,   /* check `file`, print the result, exit */
	OPTIONS_READY,   /* ask the daemon at `socket` whether it accepts work, exit */
	OPTIONS_DRAIN,   /* drain the daemon at `socket` within `seconds`, exit */
	OPTIONS_DUMP,    /* print dump_settings(), or only `setting`, to stdout, exit */
	OPTIONS_HELP,    /* options_print_help() to stdout, exit with 0 */
	OPTIONS_VERSION, /* options_print_version() to stdout, exit with 0 */
};

struct options {
	enum options_action action;
	const char *file;    /* configuration file; NULL unless OPTIONS_RUN or OPTIONS_CHECK */
	const char *against; /* --against: a Unix socket; NULL: not given */
	const char *socket;  /* value of --ready and --drain */
	const char *as;      /* --as: console user to log in as; NULL: not given */
	const char *setting; /* argument of --dump-settings; NULL: all */
	const char *seconds; /* argument of --drain: its limit; NULL: none */
	const char *user;    /* -u, overrides the setting; NULL: not given */
	bool daemon;
	bool reboot; /* -R: take over from a running process */
	bool quiet;
	int verbosity; /* how many -v */
};

/* Texts point into argv, which may be reordered. false: see options_print_error(). */
bool options_parse(struct options *options, int argc, char **argv, struct err *err);

/* program: argv[0]. That of `pgbouncer` prints the version as SHOW VERSION does. */
void options_print_help(FILE *out, const char *program);
void options_print_version(FILE *out, const char *program);

/* Prints the error, and a hint at --help. */
void options_print_error(FILE *out, const char *program, const struct err *err);

/*
 * ---- ask: connects to the console of a running daemon, over its Unix socket ----
 *
 * It blocks, each step for a few seconds at most, so it must not be called from the loop.
 */

struct ask {
	int fd;
	bool is_in;     /* logged in: ask_close() sends Terminate */
	bool is_nobody; /* after ask_open(): nothing listens there */
	struct buf in;
	/* called by ask_query() for a NOTICE; NULL: notices are dropped */
	void (*on_notice)(const char *text);
};

#define ASK_OWNER_UNKNOWN ((uid_t)-1)

/*
 * The daemon to ask. In a directory in which every user can write, any process may listen.
 * So the system user of the listening process is checked before anything is sent. Trusted
 * are root, the user of this process and `owner`. Without `is_strict` any other user is
 * trusted too, if only that user and root can have created the socket.
 */
struct ask_whom {
	char path[ADDRESS_UNIX_PATH_SIZE]; /* path of the Unix socket */
	/* console user; NULL: pgbouncer, which the daemon's system user may use */
	const char *user;
	uid_t owner; /* the daemon's system user, or ASK_OWNER_UNKNOWN */
	bool is_strict;
};

/* target: a Unix socket, or a configuration file; owner: the daemon's system user, or NULL. */
bool ask_find(struct ask_whom *whom, const char *target, const char *owner, struct err *err);

/*
 * Connects and logs in as a user that needs no password. Root connects as `owner` or, if
 * that is not known, as the owner of the socket. false: *err has the reason, and nothing is
 * open.
 */
bool ask_open(struct ask *ask, const struct ask_whom *whom, struct err *err);

/*
 * Sends a statement and calls on_row(), if it is not NULL, for each row. The texts (NULL = SQL's
 * NULL) are valid within the call. false: *err has the reason, and the connection cannot be used
 * any more.
 */
typedef void ask_on_row(void *arg, const char *const *values, size_t count);

bool ask_query(struct ask *ask, const char *statement, ask_on_row *on_row, void *arg,
               struct err *err);

/* Sends a statement. The caller reads the answer from `fd`. */
bool ask_say(struct ask *ask, const char *statement, struct err *err);

void ask_close(struct ask *ask);

/* ---- what probes and scripts ask a running daemon ---- */

/* --ready: whether the daemon accepts work. false: the reason is on stderr. */
bool probe_ready(const struct options *options);

/* --drain: runs DRAIN to its end, with progress on stderr. false: the reason, too. */
bool probe_drain(const struct options *options);

#endif
