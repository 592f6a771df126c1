/* SPDX-License-Identifier: ISC */
/*
 * Many sends with one system call, by io_uring.
 *
 * Each send is tried once before the call returns, like send() on a non-blocking socket. So no
 * send is pending after the call, and the kernel uses no buffer any more. See io_uring(7).
 */
#ifndef PGWEIR_NET_RING_PRIV_H
#define PGWEIR_NET_RING_PRIV_H

#include <stdbool.h>
#include <stddef.h>

struct ring;

/* A send and its result. */
struct ring_send {
	int fd;
	const void *at;
	size_t count;
	int done; /* bytes accepted, or -errno */
};

/*
 * Returns a ring for at most `most` sends per call. NULL: not available (errno); the system may
 * forbid it.
 */
struct ring *ring_new(unsigned int most);
void ring_free(struct ring **ring);

/*
 * Returns how many sends, from the first on, were tried. 0: the ring cannot be used (any more).
 */
unsigned int ring_send(struct ring *ring, struct ring_send *sends, unsigned int count);

#endif
