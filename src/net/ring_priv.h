/* SPDX-License-Identifier: ISC */
/*
 * Many sends with one system call, by the kernel's io_uring.
 *
 * Each send is tried once, as by send() of a non-blocking socket, before the call returns:
 * nothing is ever under way, and no buffer is the kernel's afterwards. Only the ways in
 * and out are io_uring's; see io_uring(7).
 */
#ifndef PGWEIR_NET_RING_PRIV_H
#define PGWEIR_NET_RING_PRIV_H

#include <stdbool.h>
#include <stddef.h>

struct ring;

/* One send: what, and what became of it. */
struct ring_send {
	int fd;
	const void *at;
	size_t count;
	int done; /* bytes that were taken, or -errno */
};

/* Room for `most` sends at once. NULL: there is none (errno); the system may forbid it. */
struct ring *ring_new(unsigned int most);
void ring_free(struct ring **ring);

/* How many of them were tried; those behind were not. 0: the ring is of no use (any more). */
unsigned int ring_send(struct ring *ring, struct ring_send *sends, unsigned int count);

#endif
