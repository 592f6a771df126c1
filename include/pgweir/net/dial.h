/* SPDX-License-Identifier: ISC */
/*
 * Dialling: connects to a server without blocking.
 */
#ifndef PGWEIR_NET_DIAL_H
#define PGWEIR_NET_DIAL_H

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pgweir/base/err.h"
#include "pgweir/loop/loop.h"
#include "pgweir/net/address.h"

/* ---- socket options: an accepted socket inherits them from its listener ---- */

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
 * refuses are skipped.
 */
void socket_options_apply(int fd, const struct socket_options *options);

/* Returns a non-blocking, close-on-exec stream socket; -1 with errno. */
int socket_open(int family);

/*
 * ---- socket calls ----
 *
 * As plain system calls: those of the C library are cancellation points, which in a process
 * with threads cost two locked instructions each.
 */

static inline ssize_t socket_receive(int fd, void *at, size_t size)
{
	return syscall(SYS_recvfrom, fd, at, size, 0, NULL, NULL);
}

static inline ssize_t socket_send(int fd, const void *at, size_t count)
{
	return syscall(SYS_sendto, fd, at, count, MSG_NOSIGNAL, NULL, 0);
}

/* ---- dial ---- */

/* One attempt. Embedded; zero it before first use. The owner sets a time limit. */
struct dial {
	/*
	 * Called once, from the loop, never by dial_start(). The dial can be reused. fd >= 0:
	 * connected; the callee owns it. -1: *err (ERR_SERVER_CONNECT, ERR_FILES) says why.
	 */
	void (*on_done)(struct dial *dial, int fd, const struct err *err);
	struct watch watch; /* its descriptor is -1 if it failed at once */
	struct task task;   /* reports a result that was known at once */
	int failure;        /* errno of that failure */
	bool is_active;
};

/*
 * Connects to an IP address; `options` are applied to the new socket and not kept. path not NULL:
 * instead of that to a Unix socket, by a path, or with a leading '@' an abstract name.
 */
void dial_start(struct dial *dial, struct loop *loop, const struct address *address,
                const char *path, const struct socket_options *options,
                void (*on_done)(struct dial *dial, int fd, const struct err *err));

/* Cancels an attempt: on_done() will not be called. Safe if there is none. */
void dial_cancel(struct dial *dial);

#endif
