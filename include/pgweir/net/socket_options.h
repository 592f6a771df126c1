/* SPDX-License-Identifier: ISC */
/*
 * Options of TCP sockets. On Linux an accepted socket inherits all of them from its listener,
 * so they cost nothing per accepted connection.
 */
#ifndef PGWEIR_NET_SOCKET_OPTIONS_H
#define PGWEIR_NET_SOCKET_OPTIONS_H

#include <stdbool.h>

/* 0 = default of the system. */
struct socket_options {
	bool tcp_keepalive;
	int tcp_keepcnt;
	int tcp_keepidle;      /* seconds */
	int tcp_keepintvl;     /* seconds */
	int tcp_user_timeout;  /* milliseconds */
	int tcp_socket_buffer; /* bytes for each direction */
};

/*
 * Sets the options, and always TCP_NODELAY, on a TCP socket before it listens or connects. On a
 * listener it may be called again, for connections accepted later. Options that the kernel
 * refuses are skipped. Returns NULL, or the name of the first refused one with errno set.
 */
const char *socket_options_apply(int fd, const struct socket_options *options);

/* Returns a non-blocking, close-on-exec stream socket; -1 with errno. */
int socket_open(int family);

#endif
