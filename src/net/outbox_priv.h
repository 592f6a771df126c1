/* SPDX-License-Identifier: ISC */
/*
 * The outbox, for streams.
 */
#ifndef PGWEIR_NET_OUTBOX_PRIV_H
#define PGWEIR_NET_OUTBOX_PRIV_H

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

#endif
