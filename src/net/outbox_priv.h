/* SPDX-License-Identifier: ISC */
/*
 * The outbox, for streams.
 */
#ifndef PGWEIR_NET_OUTBOX_PRIV_H
#define PGWEIR_NET_OUTBOX_PRIV_H

#include <stdbool.h>
#include <stddef.h>

#include "pgweir/net/outbox.h"
#include "pgweir/net/stream.h"

/*
 * Copies the pieces (`whole` bytes in all), to be sent at the end of the turn after what it has
 * of this stream already. false: too long; call outbox_push() and send it directly.
 */
bool outbox_take(struct outbox *outbox, struct stream *stream, const struct iovec *pieces,
                 int count, size_t whole);

/* Sends now what it has of this stream. What the socket does not accept becomes unsent output. */
void outbox_push(struct outbox *outbox, struct stream *stream);

/* How many bytes it has of this stream, which must have some there. */
size_t outbox_pending(const struct outbox *outbox, const struct stream *stream);

/*
 * ---- ring ----
 *
 * Many sends with one system call, by io_uring.
 *
 * Each send is tried once before the call returns, like send() on a non-blocking socket. So no
 * send is pending after the call, and the kernel uses no buffer any more. See io_uring(7).
 */

struct ring;

struct ring_send {
	int fd;
	const void *at;
	size_t count;
	int done; /* bytes accepted, or -errno */
};

/* For `most` sends per call. NULL: not available (errno); the system may forbid it. */
struct ring *ring_new(unsigned int most);
void ring_free(struct ring **ring);

/*
 * Returns how many sends, from the first on, were tried. 0: the ring cannot be used (any more).
 */
unsigned int ring_send(struct ring *ring, struct ring_send *sends, unsigned int count);

#endif
