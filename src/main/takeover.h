/* SPDX-License-Identifier: ISC */
/*
 * Take-over from a running process (-R): asks its console for its sockets, on the Unix
 * socket of the same configuration.
 */
#ifndef PGWEIR_MAIN_TAKEOVER_H
#define PGWEIR_MAIN_TAKEOVER_H

#include <sys/types.h>

#include "pgweir/config/config.h"

#include "ask.h"

#define TAKEOVER_LISTENERS_MAX 64

struct takeover {
	int fd;                                /* -1: there is no process to take over from */
	pid_t pid;                             /* of that process */
	int listeners[TAKEOVER_LISTENERS_MAX]; /* -1: the listener owns it now */
	unsigned int listener_count;
	bool is_given; /* a service manager opened them */
	/* the process refuses our version */
	bool is_other_version;
	bool is_plain; /* it hands over in the plain format: handover_version.h */
};

/*
 * Finds the running process and gets its listening sockets. That process continues to
 * serve. false: *err has the reason why it refuses. true with fd -1: no process is running.
 */
bool takeover_begin(struct takeover *takeover, const struct config *config, struct err *err);

/* Closes what was not used. The old process continues, unless it has stopped already. */
void takeover_end(struct takeover *takeover);

#endif
