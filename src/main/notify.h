/* SPDX-License-Identifier: ISC */
/*
 * Messages to the service manager, by the protocol of sd_notify(3): a datagram with one or
 * more lines. Without a service manager that wants them, nothing is sent.
 */
#ifndef PGWEIR_MAIN_NOTIFY_H
#define PGWEIR_MAIN_NOTIFY_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "pgweir/base/clock.h"
#include "pgweir/base/err.h"

struct notify {
	int fd; /* -1: there is no service manager that wants messages */
	struct sockaddr_un name;
	socklen_t name_size;
	usec_t watchdog; /* maximum interval between two messages; 0: no watchdog */
};

/*
 * Reads NOTIFY_SOCKET (a path, or @abstract), WATCHDOG_USEC and WATCHDOG_PID, and removes
 * them from the environment. false: their values cannot be used, and nothing will be sent;
 * *err has the reason.
 */
bool notify_open(struct notify *notify, struct err *err);

/* Sends lines of "NAME=value". Blocks for a tenth of a second at most. */
void notify_send(const struct notify *notify, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void notify_close(struct notify *notify);

/* ---- sockets that the service manager has opened: sd_listen_fds(3) ---- */

#define ACTIVATION_MAX 64

#define HANDED_SOCKETS_MAX 256

/* Listening sockets from outside: of the service manager, or of the process before. */
struct handed_sockets {
	unsigned int count;
	int fds[HANDED_SOCKETS_MAX];        /* who takes them over closes them; -1: is taken */
	char names[HANDED_SOCKETS_MAX][64]; /* of their listeners; "" = the main one */
};

/*
 * Reads LISTEN_FDS, LISTEN_PID and LISTEN_FDNAMES, and removes them from the environment. Call it
 * before any fork and before a descriptor is opened. Sockets for another process are not used.
 * false: the values are invalid; *err has the reason.
 */
bool activation_take(struct handed_sockets *sockets, struct err *err);

#endif
