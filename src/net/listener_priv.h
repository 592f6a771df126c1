/* SPDX-License-Identifier: ISC */
/*
 * How a listening socket is made. Both return a descriptor that listens and
 * accepts without blocking, or -1 with *err filled and nothing left behind.
 */
#ifndef PGWEIR_NET_LISTENER_PRIV_H
#define PGWEIR_NET_LISTENER_PRIV_H

#include "pgweir/net/listener.h"

int listener_bind_tcp(const struct address *address, const struct listener_options *options,
                      struct err *err);

/* Removes a socket's file that nobody serves; refuses when somebody does. */
int listener_bind_unix(const char *path, const struct listener_options *options, struct err *err);

#endif
