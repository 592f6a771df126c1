/* SPDX-License-Identifier: ISC */
/*
 * Telling the service manager how we are: sd_notify(3)'s protocol, which is a line or more in
 * a datagram. Without a manager that asked for it nothing is sent.
 */
#ifndef PGWEIR_MAIN_NOTIFY_H
#define PGWEIR_MAIN_NOTIFY_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "pgweir/base/clock.h"
#include "pgweir/base/err.h"

struct notify {
	int fd; /* -1: nobody wants to know */
	struct sockaddr_un name;
	socklen_t name_size;
	usec_t watchdog; /* it wants to hear of us at least so often; 0 = not */
};

/*
 * By NOTIFY_SOCKET (a path, or @abstract), WATCHDOG_USEC and WATCHDOG_PID. They are taken out
 * of the environment. false: what they say cannot be used; nothing will be sent.
 */
bool notify_open(struct notify *notify, struct err *err);

/* Sends "NAME=value" lines. Waits for a tenth of a second at most. */
void notify_send(const struct notify *notify, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void notify_close(struct notify *notify);

#endif
