/* SPDX-License-Identifier: ISC */
/*
 * Streams, inside the module.
 */
#ifndef PGWEIR_NET_STREAM_PRIV_H
#define PGWEIR_NET_STREAM_PRIV_H

#include "pgweir/net/stream.h"

/* ---- stream.c ---- */

/* Sends bytes as they are; keeps what the socket does not take. */
bool stream_send_raw(struct stream *stream, struct bytes bytes);

/* ---- stream_unsent.c ---- */

/* Watches the socket again, as what is wanted and unsent says. */
bool stream_update(struct stream *stream);

/* Keeps what is behind the first `sent` bytes of the pieces. false: no memory. */
bool stream_keep_unsent(struct stream *stream, const struct iovec *pieces, int count, size_t sent);

/* The same, of what the outbox had: without memory the socket is shut down, and reading finds out.
 */
void stream_leave_unsent(struct stream *stream, struct bytes rest);

/* Sends what is unsent, as much as the socket takes. false: the connection broke. */
bool stream_flush_unsent(struct stream *stream);

#endif
