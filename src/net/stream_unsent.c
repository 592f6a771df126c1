/* SPDX-License-Identifier: ISC */
/*
 * Unsent output: what a socket did not accept is kept until it is writable.
 */
#include "stream_priv.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "pgweir/base/container_of.h"

#include "outbox_priv.h"

/*
 * ---- buffers ----
 *
 * Buffers of streams, and the pool of free buffers.
 *
 * Hard here: each query that waits needs a buffer, so freed buffers are kept for reuse. They
 * are chained through their own memory. Buffers that contained a secret are not kept.
 */

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

/* The only function that decides what the kernel watches. */
bool stream_update(struct stream *stream)
{
	unsigned int what = stream->watch.wanted & (unsigned int)WATCH_READ;

	if (stream->want != WANT_NOTHING)
		what = WATCH_READ;
	if (!stream_may_read(stream))
		what = 0;
	if (stream->out)
		what |= WATCH_WRITE;
	return watch_set(&stream->watch, what);
}

bool stream_flush_unsent(struct stream *stream)
{
	struct stream_buf *out = stream->out;
	ssize_t done = socket_send(stream->watch.fd, out->buf.at + out->begin, bufpool_count(out));

	if (done < 0) {
		if (errno == EAGAIN || errno == EINTR)
			return true;
		stream->error = errno;
		return false;
	}
	out->begin += (size_t)done;
	if (bufpool_count(out) == 0)
		bufpool_free(stream->pool, &stream->out);
	return true;
}

bool stream_keep_unsent(struct stream *stream, const struct iovec *pieces, int count, size_t sent)
{
	for (int i = 0; i < count; i++) {
		size_t skip = sent < pieces[i].iov_len ? sent : pieces[i].iov_len;

		sent -= skip;
		if (skip == pieces[i].iov_len)
			continue;
		if (!bufpool_add(stream->pool, &stream->out, (char *)pieces[i].iov_base + skip,
		                 pieces[i].iov_len - skip)) {
			stream->error = ENOMEM;
			return false;
		}
	}
	return stream_update(stream);
}

/* No callback: if there is no memory, the next read finds the connection closed. */
void stream_leave_unsent(struct stream *stream, struct bytes rest)
{
	if (!bufpool_add(stream->pool, &stream->out, rest.at, rest.count) || !stream_update(stream))
		shutdown(stream->watch.fd, SHUT_RDWR);
}

struct bytes stream_unsent_bytes(const struct stream *stream)
{
	if (!stream->out)
		return (struct bytes){ 0 };
	return bytes_of(stream->out->buf.at + stream->out->begin, bufpool_count(stream->out));
}

size_t stream_unsent_count(const struct stream *stream) { return bufpool_count(stream->out); }

/*
 * What a TCP connection has not had acknowledged, if the peer ended it in order and has refused
 * what came after that. Otherwise bytes without an acknowledgement may have arrived.
 */
static size_t unacknowledged(const struct stream *stream)
{
	struct tcp_info info = { 0 };
	socklen_t size = sizeof(info);
	int count = 0;

	if ((stream->error && stream->error != EPIPE) ||
	    getsockopt(stream->watch.fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
	    info.tcpi_state != TCP_CLOSE || ioctl(stream->watch.fd, SIOCOUTQ, &count) != 0)
		return 0;
	return count > 0 ? (size_t)count : 0;
}

size_t stream_undelivered(const struct stream *stream)
{
	size_t count = stream_unsent(stream);

	if (stream->pending_send)
		count += outbox_pending(stream->pool->outbox, stream);
	return count + unacknowledged(stream);
}

/*
 * ---- bulk ----
 *
 * Bulk reading.
 *
 *   much has come --> a slot, lowat = BULK_LEAST --> read, read, read ... --> pause, or we
 *                                                                          send: lowat = 1
 *
 * Hard here: the end of the data cannot be seen, so its last bytes wait until the pause has
 * passed. After a pause the bytes are counted from 0 again. So a peer that sends a little now
 * and then is delayed once per BULK_BEGIN bytes, not each time.
 */

void bulk_slots_free(struct bulk_slots **slots)
{
	free(*slots);
	*slots = NULL;
}

static bool set_least(const struct stream *stream, int least)
{
	return setsockopt(stream->watch.fd, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof(least)) == 0;
}

/*
 * After setsockopt() the kernel checks at once whether enough has arrived, so nothing is
 * missed.
 */
void bulk_end(struct stream *stream)
{
	struct bulk *bulk = &stream->pool->bulk_slots->slots[stream->slot - 1];

	timer_clear(&bulk->pause);
	bulk->stream = NULL;
	stream->slot = 0;
	stream->flow = 0;
	set_least(stream, 1);
}

static void on_pause(struct timer *timer)
{
	bulk_end(container_of(timer, struct bulk, pause)->stream);
}

/* Returns NULL if there is no memory. */
static struct bulk_slots *slots_new(struct loop *loop)
{
	struct bulk_slots *slots = calloc(1, sizeof(*slots));

	if (slots)
		slots->queue = loop_timer_queue(loop, BULK_PAUSE, on_pause);
	if (slots && !slots->queue)
		bulk_slots_free(&slots);
	return slots;
}

/* Gives the stream a slot, if one is free. */
static void take_slot(struct bulk_slots *slots, struct stream *stream)
{
	unsigned int i = 0;

	while (i < BULK_SLOTS && slots->slots[i].stream)
		i++;
	if (i == BULK_SLOTS || !set_least(stream, BULK_LEAST))
		return;
	slots->slots[i].stream = stream;
	stream->slot = i + 1;
}

void bulk_go_on(struct stream *stream)
{
	struct loop *loop = stream->watch.loop;
	struct bulk_slots **slots = &stream->pool->bulk_slots;

	stream->flow = 0; /* without a slot it tries again after another BULK_BEGIN bytes */
	if (!*slots)
		*slots = slots_new(loop);
	if (*slots && !stream->slot)
		take_slot(*slots, stream);
	if (!stream->slot)
		return;
	stream->flow = BULK_BEGIN;
	timer_set(&(*slots)->slots[stream->slot - 1].pause, (*slots)->queue, loop_now(loop));
}
