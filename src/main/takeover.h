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
#include "pgweir/net/channel.h"
#include "pgweir/pool/handover.h"

#include "ask.h"
#include "process.h"

struct takeover {
	struct channel channel;        /* fd -1: there is no process to take over from */
	pid_t pid;                     /* of that process */
	struct handed_sockets sockets; /* -1: a listener owns it now */
	bool is_given;                 /* a service manager opened those of the main listener */
	bool is_other_version;         /* the process refuses our version */
	/* takeover_run(): */
	struct daemon *daemon; /* NULL: no round was asked for yet */
	struct watch watch;
	struct timer look; /* set: no more rounds, the old process serves its last clients */
	struct pools_arrival arrival;
};

/* That process goes on to serve. false: *err says why it refuses. true with fd -1: none runs. */
bool takeover_begin(struct takeover *takeover, const struct config *config, struct err *err);

/*
 * Closes the channel, and the sockets that were not used; again: no effect. The old process
 * continues, unless it has stopped already.
 */
void takeover_end(struct takeover *takeover);

/*
 * ---- what both processes have ----
 *
 * The version, the argument of TAKEOVER, is a number. Increase it when the messages of
 * net/channel.h, their order, or a table of a record changes, but for counters.
 *
 * Releases before 0.4.0 know the plain format: our records without their optional fields at the
 * end, and without TLS, hosts and session state. We read it, and write it to them: then clients
 * that need more stay in the old process. 0.1.0 reads the version as a number, and refuses others.
 */

#define HANDOVER_VERSION "4"
#define HANDOVER_VERSION_PLAIN "3"

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
