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

#define FREE_SIZE_MAX ((size_t)4 * 1024 * 1024) /* bytes of all free buffers that are kept */

/* Returns a free buffer of first_size bytes; NULL: there is none. */
static char *take_free(struct stream_pool *pool)
{
	char *at = pool->free_list;

	if (!at)
		return NULL;
	memcpy(&pool->free_list, at, sizeof(void *));
	pool->free_size -= pool->first_size;
	return at;
}

/* Adds a buffer to the free ones. false: it is secret, has another size, or enough are free. */
static bool give_free(struct stream_pool *pool, const struct buf *buf)
{
	if (buf->capacity != pool->first_size || buf->is_secret ||
	    pool->free_size + buf->capacity > FREE_SIZE_MAX)
		return false;
	memcpy(buf->at, &pool->free_list, sizeof(void *));
	pool->free_list = buf->at;
	pool->free_size += buf->capacity;
	return true;
}

void bufpool_drop_free(struct stream_pool *pool)
{
	char *at;

	while ((at = take_free(pool)))
		free(at);
}

void bufpool_free(struct stream_pool *pool, struct stream_buf **buffer)
{
	if (!*buffer)
		return;
	if (!give_free(pool, &(*buffer)->buf))
		buf_free(&(*buffer)->buf);
	slab_give(&pool->buffers, buffer);
}

static void begin_small(struct stream_pool *pool, struct buf *buf)
{
	buf->at = take_free(pool);
	if (buf->at)
		buf->capacity = pool->first_size;
	else
		buf_reserve(buf, pool->first_size);
}

bool bufpool_add(struct stream_pool *pool, struct stream_buf **buffer, const void *at, size_t count)
{
	if (!*buffer) {
		*buffer = slab_take(&pool->buffers);
		if (!*buffer)
			return false;
		if (count <= pool->first_size)
			begin_small(pool, &(*buffer)->buf);
	}
	buf_add(&(*buffer)->buf, at, count);
	return buf_ok(&(*buffer)->buf);
}
