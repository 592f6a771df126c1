/* SPDX-License-Identifier: ISC */
/*
 * What a stream keeps: input that could not be judged yet, output that the socket did not
 * take. At rest a stream has none.
 */
#ifndef PGWEIR_NET_BUFPOOL_PRIV_H
#define PGWEIR_NET_BUFPOOL_PRIV_H

#include "pgweir/base/buf.h"
#include "pgweir/net/stream.h"

struct stream_buf {
	struct buf buf;
	size_t begin; /* what lies before it has been used up */
};

static inline size_t bufpool_count(const struct stream_buf *kept)
{
	return kept ? kept->buf.count - kept->begin : 0;
}

/* Adds to *kept, which is made when it is not there. false: no memory. */
bool bufpool_add(struct stream_pool *pool, struct stream_buf **kept, const void *at, size_t count);

/* Lets it go, if it is there. */
void bufpool_free(struct stream_pool *pool, struct stream_buf **kept);

/* Frees the buffers that stay for the next stream. */
void bufpool_free_spare(struct stream_pool *pool);

#endif
