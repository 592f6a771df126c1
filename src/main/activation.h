/* SPDX-License-Identifier: ISC */
/*
 * Sockets that the service manager has opened for us: sd_listen_fds(3)'s protocol.
 */
#ifndef PGWEIR_MAIN_ACTIVATION_H
#define PGWEIR_MAIN_ACTIVATION_H

#include "pgweir/base/err.h"

#define ACTIVATION_MAX 64

struct activation {
	unsigned int count;
	int fds[ACTIVATION_MAX]; /* whoever takes them over closes them */
};

/*
 * By LISTEN_FDS and LISTEN_PID, which are taken out of the environment: before any fork, and
 * before any descriptor is opened. Sockets that are another process's are none. false: what
 * they say cannot be.
 */
bool activation_take(struct activation *activation, struct err *err);

#endif
