/* SPDX-License-Identifier: ISC */
/*
 * Buffers of a stream: input that cannot be processed yet, and output that the socket did not
 * accept. An idle stream has none.
 */
#ifndef PGWEIR_NET_BUFPOOL_PRIV_H
#define PGWEIR_NET_BUFPOOL_PRIV_H

#include "pgweir/base/buf.h"
#include "pgweir/net/stream.h"

struct stream_buf {
	struct buf buf;
	size_t begin; /* offset of the first byte that is still needed */
};

static inline size_t bufpool_count(const struct stream_buf *buffer)
{
	return buffer ? buffer->buf.count - buffer->begin : 0;
}

/* Adds bytes to *buffer, which is created if it is NULL. false: no memory. */
bool bufpool_add(struct stream_pool *pool, struct stream_buf **buffer, const void *at,
                 size_t count);

/* Frees *buffer, if it exists, and sets it to NULL. */
void bufpool_free(struct stream_pool *pool, struct stream_buf **buffer);

/* Frees the free buffers of the pool. */
void bufpool_drop_free(struct stream_pool *pool);

#endif
