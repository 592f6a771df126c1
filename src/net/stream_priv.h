/* SPDX-License-Identifier: ISC */
/*
 * Streams: functions for the files of this module.
 */
#ifndef PGWEIR_NET_STREAM_PRIV_H
#define PGWEIR_NET_STREAM_PRIV_H

#include "pgweir/base/buf.h"
#include "pgweir/net/dial.h"
#include "pgweir/net/stream.h"

/* Sends bytes without encryption; keeps what the socket does not accept. */
bool stream_send_raw(struct stream *stream, struct bytes bytes);

/* What the watch of a stream calls, except during a handshake. */
void stream_on_ready(struct watch *watch, unsigned int what);

/* Sends unsent output, as much as the socket accepts. false: the connection broke. */
bool stream_flush_unsent(struct stream *stream);

/* Input that cannot be processed yet, or output that the socket did not accept. */
struct stream_buf {
	struct buf buf;
	size_t begin; /* offset of the first byte that is still needed */
};

void stream_buf_free(struct stream_pool *pool, struct stream_buf **buffer);

/*
 * ---- bulk reading ----
 *
 * For streams in which much data flows one way, such as the rows of a COPY.
 * PostgreSQL sends them in pieces of 8 KiB, and waking up for each piece costs more than
 * forwarding it. When BULK_BEGIN bytes have arrived since we last sent something, the kernel is
 * told to wake us for BULK_LEAST bytes (SO_RCVLOWAT, socket(7)). If BULK_PAUSE passes without
 * data, it wakes us for any data again.
 */

#define BULK_BEGIN ((uint32_t)4 * 1024 * 1024)
#define BULK_LEAST (48 * 1024) /* bytes; less than one stream_read() can read */
#define BULK_PAUSE ((usec_t)1000)

/* Called when BULK_BEGIN bytes or more have come since we last sent something. */
void bulk_go_on(struct stream *stream);

static inline void bulk_came(struct stream *stream, size_t count)
{
	stream->flow += (uint32_t)count;
	if (stream->flow >= BULK_BEGIN)
		bulk_go_on(stream);
}

/* ---- outbox ---- */

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
 * ---- ring: many sends with one system call, by io_uring ----
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
