/* SPDX-License-Identifier: ISC */
/*
 * Streams that move from loop to loop.
 *
 *   stream --> [dup(socket), TLS, kept, unsent] --> stream of another loop
 *   socket --> closed by the old loop, when its epoll set does not have it any more
 *
 * Hard here: libevent removes a descriptor from its epoll set at the start of the next turn.
 * Before that the new loop may have closed it, and its number may belong to another connection; or
 * a process that takes over may have it open, so that the old set would report it in each turn. The
 * kernel files a socket by its descriptor in each set. So the new loop gets a descriptor of its
 * own, and the old one stays open until the old set has let go of it. No event reaches the old
 * loop in between, because it removes the descriptor before it waits again.
 */
#include "pgweir/net/stream_parcel.h"

#include <assert.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stream_priv.h"
#include "tls_priv.h"

/* The memory of a buffer moves, so nothing is copied. */
static struct buf take_buf(struct stream_pool *pool, struct stream_buf **buffer)
{
	struct buf buf = { 0 };

	if (!*buffer)
		return buf;
	buf = (*buffer)->buf;
	buf_drop(&buf, (*buffer)->begin);
	(*buffer)->buf = (struct buf){ 0 };
	slab_give(&pool->buffers, buffer);
	return buf;
}

bool stream_detach(struct stream *stream, struct stream_parcel *parcel)
{
	struct loop *loop = stream->watch.loop;
	int fd;

	if (stream_is_shaking(stream) || stream_is_halted(stream) || stream->error)
		return false;
	fd = fcntl(stream->watch.fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return false;
	stream_push(stream);
	*parcel = (struct stream_parcel){
		.fd = fd,
		.tls = stream->tls ? stream_secure_detach(stream) : NULL,
		.in = take_buf(stream->pool, &stream->in),
		.out = take_buf(stream->pool, &stream->out),
		.is_secret = stream->is_secret,
		.gathers = stream->gathers,
	};
	loop_close_later(loop, stream_take_socket(stream));
	return true;
}

/* false: no memory. Frees an empty buffer. */
static bool give_buf(struct stream_pool *pool, struct stream_buf **buffer, struct buf *buf)
{
	if (!buf->count) {
		buf_free(buf);
		return true;
	}
	*buffer = slab_take(&pool->buffers);
	if (!*buffer)
		return false;
	(*buffer)->buf = *buf;
	(*buffer)->begin = 0;
	return true;
}

bool stream_attach(struct stream *stream, struct loop *loop, struct stream_pool *pool,
                   struct stream_parcel *parcel, const struct stream_ops *ops)
{
	struct stream_buf *in = NULL, *out = NULL;

	if ((parcel->tls && !stream_secure_has_slots(pool)) || !give_buf(pool, &in, &parcel->in))
		return false;
	if (!give_buf(pool, &out, &parcel->out)) {
		slab_give(&pool->buffers, &in);
		return false;
	}
	stream_open(stream, loop, pool, parcel->fd, ops);
	stream->tls = parcel->tls;
	stream->in = in;
	stream->out = out;
	stream->is_secret = parcel->is_secret;
	stream->gathers = parcel->gathers && pool->outbox;
	*parcel = (struct stream_parcel){ .fd = -1 };
	/* If the kernel refuses to watch it, the next read finds the connection closed. */
	if (!stream_update(stream))
		shutdown(stream->watch.fd, SHUT_RDWR);
	return true;
}

/* The last bytes of an encrypted connection; none if its TLS has ended before. */
static void seal(struct tls *tls, struct bytes words, struct buf *last)
{
	if (tls->end != TLS_GOES_ON)
		return;
	if (words.count && !tls_seal(tls, words, last))
		buf_clear(last);
	tls_goodbye(tls, last);
}

int stream_parcel_unpack(struct stream_parcel *parcel, struct bytes words, struct buf *last)
{
	int fd = parcel->fd;

	if (parcel->tls)
		seal(parcel->tls, words, last);
	else
		buf_add(last, words.at, words.count);
	buf_free(&parcel->in);
	buf_free(&parcel->out);
	tls_free(&parcel->tls);
	*parcel = (struct stream_parcel){ .fd = -1 };
	return fd;
}

void stream_parcel_end(struct stream_parcel *parcel, struct bytes words)
{
	bool is_unsent = parcel->out.count;
	struct buf last = { 0 };
	int fd = stream_parcel_unpack(parcel, words, &last);

	if (is_unsent || !last.count || socket_send(fd, last.at, last.count) < 0)
		shutdown(fd, SHUT_RDWR);
	buf_free(&last);
	close(fd);
}

/* ---- farewell ---- */

bool farewell_begin(struct stream *stream, struct farewell *farewell)
{
	struct stream_parcel parcel;

	*farewell = (struct farewell){ .fd = -1 };
	if (!stream_detach(stream, &parcel))
		return false;
	farewell->fd = stream_parcel_unpack(&parcel, bytes_of("", 0), &farewell->last);
	return true;
}

void farewell_end(struct farewell *farewell)
{
	struct bytes last = buf_bytes(&farewell->last);

	if (farewell->fd >= 0 && last.count)
		socket_send(farewell->fd, last.at, last.count);
	farewell_leave(farewell);
}

void farewell_leave(struct farewell *farewell)
{
	if (farewell->fd >= 0)
		close(farewell->fd);
	buf_free(&farewell->last);
	*farewell = (struct farewell){ .fd = -1 };
}
