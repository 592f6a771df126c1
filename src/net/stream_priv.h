/* SPDX-License-Identifier: ISC */
/*
 * Streams: functions for the files of this module.
 */
#ifndef PGWEIR_NET_STREAM_PRIV_H
#define PGWEIR_NET_STREAM_PRIV_H

#include "pgweir/net/stream.h"

/* ---- stream.c ---- */

/* Sends bytes without encryption; keeps what the socket does not accept. */
bool stream_send_raw(struct stream *stream, struct bytes bytes);

/* ---- stream_unsent.c ---- */

/* Updates the watch of the socket, from `want` and unsent output. */
bool stream_update(struct stream *stream);

/* Keeps the pieces without their first `sent` bytes. false: no memory. */
bool stream_keep_unsent(struct stream *stream, const struct iovec *pieces, int count, size_t sent);

/*
 * The same for bytes of the outbox. Without memory it shuts the socket down, and the next read
 * finds that out.
 */
void stream_leave_unsent(struct stream *stream, struct bytes rest);

/* Sends unsent output, as much as the socket accepts. false: the connection broke. */
bool stream_flush_unsent(struct stream *stream);

#endif
