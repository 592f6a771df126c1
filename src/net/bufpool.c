/* SPDX-License-Identifier: ISC */
/*
 * Buffers of streams, and the pool of free buffers.
 *
 * Hard here: each query that waits needs a buffer, so freed buffers are kept for reuse. They
 * are chained through their own memory. Buffers that contained a secret are not kept.
 */
#include "bufpool_priv.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/base/banned.h"

#define SPARE_MAX ((size_t)4 * 1024 * 1024) /* bytes of all free buffers that are kept */

/* Returns a free buffer of first_size bytes; NULL: there is none. */
static char *take_spare(struct stream_pool *pool)
{
	char *at = pool->spare;

	if (!at)
		return NULL;
	memcpy(&pool->spare, at, sizeof(void *));
	pool->spare_size -= pool->first_size;
	return at;
}

/* Adds a buffer to the free ones. false: it is secret, has another size, or enough are free. */
static bool give_spare(struct stream_pool *pool, const struct buf *buf)
{
	if (buf->capacity != pool->first_size || buf->is_secret ||
	    pool->spare_size + buf->capacity > SPARE_MAX)
		return false;
	memcpy(buf->at, &pool->spare, sizeof(void *));
	pool->spare = buf->at;
	pool->spare_size += buf->capacity;
	return true;
}

void bufpool_free_spare(struct stream_pool *pool)
{
	char *at;

	while ((at = take_spare(pool)))
		free(at);
}

void bufpool_free(struct stream_pool *pool, struct stream_buf **kept)
{
	if (!*kept)
		return;
	if (!give_spare(pool, &(*kept)->buf))
		buf_free(&(*kept)->buf);
	slab_give(&pool->kept, kept);
}

static void begin_small(struct stream_pool *pool, struct buf *buf)
{
	buf->at = take_spare(pool);
	if (buf->at)
		buf->capacity = pool->first_size;
	else
		buf_reserve(buf, pool->first_size);
}

bool bufpool_add(struct stream_pool *pool, struct stream_buf **kept, const void *at, size_t count)
{
	if (!*kept) {
		*kept = slab_take(&pool->kept);
		if (!*kept)
			return false;
		if (count <= pool->first_size)
			begin_small(pool, &(*kept)->buf);
	}
	buf_add(&(*kept)->buf, at, count);
	return buf_ok(&(*kept)->buf);
}
