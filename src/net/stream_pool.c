/* SPDX-License-Identifier: ISC */
/*
 * What the streams of one loop share. Its parts are created when the first stream needs them.
 */
#include "bufpool_priv.h"
#include "bulk_priv.h"
#include "stream_secure_priv.h"

#include "pgweir/base/banned.h"

void stream_pool_init(struct stream_pool *pool, size_t first_size)
{
	slab_init(&pool->buffers, "iobuf_cache", sizeof(struct stream_buf));
	pool->first_size = first_size < sizeof(void *) ? sizeof(void *) : first_size;
	pool->free_list = NULL;
	pool->free_size = 0;
	pool->handshakes = NULL;
	pool->outbox = NULL;
	pool->bulk_slots = NULL;
	pool->tls_slots = NULL;
}

void stream_pool_done(struct stream_pool *pool)
{
	bufpool_drop_free(pool);
	slab_done(&pool->buffers);
	bulk_slots_free(&pool->bulk_slots);
	stream_secure_slots_free(&pool->tls_slots);
}
