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

/* A socket that somebody else has opened. */
struct given {
	int fd;
	struct address address; /* AF_UNSPEC: a Unix socket */
	char path[128];         /* of that; "" = it has none */
};

/* Looks at it and sets it to be accepted from without blocking. false: it is of no use. */
bool listener_judge_given(int fd, struct given *given, struct err *err);

/* The inherited socket that listens there; it is the caller's now. -1: there is none. */
int listener_find_inherited(const struct listener_options *options, const struct address *address,
                            const char *path);

/* Warns of what listen_addr and unix_socket_dir ask for and these sockets do not give. */
void listener_check_given(const struct given *given, unsigned int count,
                          const struct listener_options *options);

#endif
