/* SPDX-License-Identifier: ISC */
/*
 * A farewell: a connection whose client only waits for its end, such as that of a cancel request.
 * Another process can make that end: it needs the descriptor and the last bytes.
 */
#ifndef PGWEIR_NET_FAREWELL_H
#define PGWEIR_NET_FAREWELL_H

#include "pgweir/base/buf.h"
#include "pgweir/net/stream.h"

struct farewell {
	int fd;          /* -1: none */
	struct buf last; /* to be sent before the end: TLS's close_notify; empty without TLS */
};

/*
 * Takes the connection out of a stream, which is closed then. Input and unsent output are dropped.
 * false: the stream is unchanged and the farewell is none; see stream_detach().
 */
bool farewell_begin(struct stream *stream, struct farewell *farewell);

/* Sends the last bytes, as far as the socket accepts them, and closes the descriptor. */
void farewell_end(struct farewell *farewell);

/* Only closes the descriptor: another process has the connection too. */
void farewell_leave(struct farewell *farewell);

#endif
