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
 * ---- bulk ----
 *
 * Bulk reading: for streams in which much data flows one way, such as the rows of a COPY.
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

#endif
