/* SPDX-License-Identifier: ISC */
/*
 * recv() and send() as plain system calls. Those of the C library are points where a
 * thread can be cancelled, and say so to the other threads: two locked instructions for
 * each call, in a process that has any. Nobody cancels a thread here.
 */
#ifndef PGWEIR_NET_SOCKET_CALLS_PRIV_H
#define PGWEIR_NET_SOCKET_CALLS_PRIV_H

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* On architectures that have one call for all of them, the C library's will do. */
static inline ssize_t socket_receive(int fd, void *at, size_t size)
{
#ifdef SYS_recvfrom
	return syscall(SYS_recvfrom, fd, at, size, 0, NULL, NULL);
#else
	return recv(fd, at, size, 0);
#endif
}

/* Without SIGPIPE. */
static inline ssize_t socket_send(int fd, const void *at, size_t count)
{
#ifdef SYS_sendto
	return syscall(SYS_sendto, fd, at, count, MSG_NOSIGNAL, NULL, 0);
#else
	return send(fd, at, count, MSG_NOSIGNAL);
#endif
}

#endif
