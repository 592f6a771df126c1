/* SPDX-License-Identifier: ISC */
/*
 * Taking over from a running process (-R): what it has is asked for over its console, on
 * the Unix socket of the same configuration.
 */
#ifndef PGWEIR_MAIN_TAKEOVER_H
#define PGWEIR_MAIN_TAKEOVER_H

#include <sys/types.h>

#include "pgweir/config/config.h"

#include "ask.h"

#define TAKEOVER_LISTENERS_MAX 64

struct takeover {
	int fd;                                /* -1: there is nobody to take over from */
	pid_t pid;                             /* of that process */
	int listeners[TAKEOVER_LISTENERS_MAX]; /* -1: in use by now */
	unsigned int listener_count;
	bool is_given; /* a service manager had opened them */
};

/*
 * Finds the running process and gets its listening sockets; it goes on as if nothing had
 * been asked. false: *err says why it does not hand over. Nobody is there: true, fd is -1.
 */
bool takeover_begin(struct takeover *takeover, const struct config *config, struct err *err);

/* Closes what was not used. The other process goes on, unless it has ended. */
void takeover_end(struct takeover *takeover);

#endif
