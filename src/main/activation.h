/* SPDX-License-Identifier: ISC */
/*
 * Socket activation: listening sockets that the service manager has opened, by the protocol
 * of sd_listen_fds(3).
 */
#ifndef PGWEIR_MAIN_ACTIVATION_H
#define PGWEIR_MAIN_ACTIVATION_H

#include "pgweir/base/err.h"

#define ACTIVATION_MAX 64

struct activation {
	unsigned int count;
	int fds[ACTIVATION_MAX]; /* the module that takes them over closes them */
};

/*
 * Reads LISTEN_FDS and LISTEN_PID, and removes them from the environment. Call it before
 * any fork and before a descriptor is opened. Sockets for another process are not used.
 * false: the values are invalid; *err has the reason.
 */
bool activation_take(struct activation *activation, struct err *err);

#endif
