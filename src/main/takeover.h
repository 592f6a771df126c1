/* SPDX-License-Identifier: ISC */
/*
 * Take-over from a running process (-R): asks its console for its sockets, on the Unix
 * socket of the same configuration.
 */
#ifndef PGWEIR_MAIN_TAKEOVER_H
#define PGWEIR_MAIN_TAKEOVER_H

#include <sys/types.h>

#include "pgweir/base/record.h"
#include "pgweir/config/config.h"

#include "ask.h"
#include "notify.h"

struct takeover {
	int fd;                        /* -1: there is no process to take over from */
	pid_t pid;                     /* of that process */
	struct handed_sockets sockets; /* -1: a listener owns it now */
	bool is_given;                 /* a service manager opened those of the main listener */
	/* the process refuses our version */
	bool is_other_version;
	bool is_plain; /* it hands over in the plain format */
};

/* That process goes on to serve. false: *err says why it refuses. true with fd -1: none runs. */
bool takeover_begin(struct takeover *takeover, const struct config *config, struct err *err);

/* Closes what was not used. The old process continues, unless it has stopped already. */
void takeover_end(struct takeover *takeover);

/*
 * ---- what both processes have: handover_version.c ----
 *
 * The version is a hash of the tables of all records, so it changes with them by itself.
 *
 * Releases before 0.3.0 know no session state. Their records are ours without the tables of session
 * state: the plain format. We read it, and write it to them: then clients that have session state
 * stay in the old process.
 */

#define HANDOVER_VERSION_SIZE 24

/* The version of this program, as in the TAKEOVER command: "r" and the hash in hex digits. */
void handover_version(char *out, size_t size);

/* Whether `word`, the argument of TAKEOVER, is our version. */
bool handover_version_is(const char *word);

/* The version of the plain format: "3". */
const char *handover_version_plain(void);

/* HELLO: describes the old process. */
struct hello_record {
	uint64_t pid;
	char version[128]; /* VERSION_OWN */
	bool is_given;     /* a service manager opened its listening sockets */
};

extern const struct record_table hello_record_table;

/*
 * CANCEL: a cancel request that the new process got. The descriptor of the message is its
 * connection, which the old process ends when it has dealt with it. In the plain format there is
 * only the key, without a record and a descriptor.
 */
struct cancel_record {
	struct bytes key;
	struct bytes last; /* sent before the connection ends: struct farewell */
};

#define CANCEL_LAST_MAX 512

extern const struct record_table cancel_record_table;

#endif
