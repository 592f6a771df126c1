/* SPDX-License-Identifier: ISC */
/*
 * recv() and send() as plain system calls. Those of the C library are cancellation points: in a
 * process with threads they execute two locked instructions for each call. Nothing here cancels
 * threads.
 */
#ifndef PGWEIR_NET_SOCKET_CALLS_PRIV_H
#define PGWEIR_NET_SOCKET_CALLS_PRIV_H

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Some architectures have only one system call for all socket functions; there the C library is
 * used.
 */
static inline ssize_t socket_receive(int fd, void *at, size_t size)
{
#ifdef SYS_recvfrom
	return syscall(SYS_recvfrom, fd, at, size, 0, NULL, NULL);
#else
	return recv(fd, at, size, 0);
#endif
}

/* Sends without SIGPIPE. */
static inline ssize_t socket_send(int fd, const void *at, size_t count)
{
#ifdef SYS_sendto
	return syscall(SYS_sendto, fd, at, count, MSG_NOSIGNAL, NULL, 0);
#else
	return send(fd, at, count, MSG_NOSIGNAL);
#endif
}

#endif
