/* SPDX-License-Identifier: ISC */
/* What streams ask of their outbox. */
#ifndef PGWEIR_NET_OUTBOX_PRIV_H
#define PGWEIR_NET_OUTBOX_PRIV_H

#include "pgweir/net/outbox.h"
#include "pgweir/net/stream.h"

/*
 * Takes a copy of the pieces (`whole` bytes in all) for the end of the turn, behind what it
 * has of this stream. false: it is too much; send it, and push the stream before.
 */
bool outbox_take(struct outbox *outbox, struct stream *stream, const struct iovec *pieces,
                 int count, size_t whole);

/* Sends what it has of this stream now. What the socket does not take is unsent. */
void outbox_push(struct outbox *outbox, struct stream *stream);

#endif
