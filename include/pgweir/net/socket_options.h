/* SPDX-License-Identifier: ISC */
/*
 * The options of TCP sockets. On Linux an accepted socket inherits them all
 * from its listener, so they cost nothing per accepted connection.
 */
#ifndef PGWEIR_NET_SOCKET_OPTIONS_H
#define PGWEIR_NET_SOCKET_OPTIONS_H

#include <stdbool.h>

/* 0 = as the system has it. */
struct socket_options {
	bool tcp_keepalive;
	int tcp_keepcnt;
	int tcp_keepidle;      /* seconds */
	int tcp_keepintvl;     /* seconds */
	int tcp_user_timeout;  /* milliseconds */
	int tcp_socket_buffer; /* bytes, each way */
};

/*
 * Sets them, and TCP_NODELAY always, on a TCP socket before it listens or
 * connects. May be called again on a listener: for what it accepts from then on.
 * What the kernel refuses is left out; NULL, or the name of the first that was
 * refused with errno set.
 */
const char *socket_options_apply(int fd, const struct socket_options *options);

/* A non-blocking, close-on-exec stream socket; -1 with errno. */
int socket_open(int family);

#endif
