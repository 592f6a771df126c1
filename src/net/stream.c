/* SPDX-License-Identifier: ISC */
/*
 * Streams.
 *
 *   socket --> scratch [kept | new] --> owner      unused part --> kept
 *   owner --> socket, or outbox --> socket         not accepted --> unsent
 *
 * Hard here: to stop reading costs a system call, and so does starting again. A client that
 * waits for its reply sends nothing. So the kernel is asked to stop only when something arrives
 * that is not wanted.
 *
 * Encryption is in stream_secure.c. This file only calls it where bytes cross the socket.
 * Unsent output is encrypted already.
 */
#include "pgweir/net/stream.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pgweir/base/buf.h"
#include "pgweir/base/container_of.h"

#include "stream_priv.h"
#include "tls_priv.h"

/*
 * ---- buffers ----
 *
 * Freed buffers are kept for reuse, chained through their own memory; not those that contained
 * a secret.
 */

#define FREE_SIZE_MAX ((size_t)4 * 1024 * 1024) /* bytes of all free buffers that are kept */

static size_t count_of(const struct stream_buf *buffer)
{
	return buffer ? buffer->buf.count - buffer->begin : 0;
}

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

void stream_buf_free(struct stream_pool *pool, struct stream_buf **buffer)
{
	if (!*buffer)
		return;
	if (!give_free(pool, &(*buffer)->buf))
		buf_free(&(*buffer)->buf);
	slab_give(&pool->buffers, buffer);
}

/* Adds bytes to *buffer, which is created if it is NULL. false: no memory. */
static bool add(struct stream_pool *pool, struct stream_buf **buffer, const void *at, size_t count)
{
	if (!*buffer) {
		*buffer = slab_take(&pool->buffers);
		if (!*buffer)
			return false;
		if (count <= pool->first_size && ((*buffer)->buf.at = take_free(pool)))
			(*buffer)->buf.capacity = pool->first_size;
		else if (count <= pool->first_size)
			buf_reserve(&(*buffer)->buf, pool->first_size);
	}
	buf_add(&(*buffer)->buf, at, count);
	return buf_ok(&(*buffer)->buf);
}

/* A handshake reads by itself. */
bool stream_watch(struct stream *stream)
{
	unsigned int what = stream->watch.wanted & (unsigned int)WATCH_READ;
	bool is_shaking = stream->tls && stream->tls->is_shaking;

	if (stream->want != WANT_NOTHING && !is_shaking)
		what = WATCH_READ;
	if (!stream_may_read(stream) && !is_shaking)
		what = 0;
	if (stream->out)
		what |= WATCH_WRITE;
	return watch_set(&stream->watch, what);
}

bool stream_flush_unsent(struct stream *stream)
{
	struct stream_buf *out = stream->out;
	ssize_t done = socket_send(stream->watch.fd, out->buf.at + out->begin, count_of(out));

	if (done < 0) {
		if (errno == EAGAIN || errno == EINTR)
			return true;
		stream->error = errno;
		return false;
	}
	out->begin += (size_t)done;
	if (count_of(out) == 0)
		stream_buf_free(stream->pool, &stream->out);
	return true;
}

/* Keeps the pieces without their first `sent` bytes. false: no memory. */
static bool keep_unsent(struct stream *stream, const struct iovec *pieces, int count, size_t sent)
{
	for (int i = 0; i < count; i++) {
		size_t skip = sent < pieces[i].iov_len ? sent : pieces[i].iov_len;

		sent -= skip;
		if (skip == pieces[i].iov_len)
			continue;
		if (!add(stream->pool, &stream->out, (char *)pieces[i].iov_base + skip,
		         pieces[i].iov_len - skip)) {
			stream->error = ENOMEM;
			return false;
		}
	}
	return stream_watch(stream);
}

/* No callback: if there is no memory, the next read finds the connection closed. */
static void leave_unsent(struct stream *stream, struct bytes rest)
{
	if (!add(stream->pool, &stream->out, rest.at, rest.count) || !stream_watch(stream))
		shutdown(stream->watch.fd, SHUT_RDWR);
}

struct bytes stream_unsent_bytes(const struct stream *stream)
{
	if (!stream->out)
		return (struct bytes){ 0 };
	return bytes_of(stream->out->buf.at + stream->out->begin, count_of(stream->out));
}

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
 * ---- bulk reading ----
 *
 *   much has come --> a slot, lowat = BULK_LEAST --> read, read, read ... --> pause, or we
 *                                                                          send: lowat = 1
 *
 * Hard here: the end of the data cannot be seen, so its last bytes wait until the pause has
 * passed. After a pause the bytes are counted from 0 again. So a peer that sends a little now
 * and then is delayed once per BULK_BEGIN bytes, not each time.
 */

static bool set_least(const struct stream *stream, int least)
{
	return setsockopt(stream->watch.fd, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof(least)) == 0;
}

/* The kernel then checks at once whether enough has arrived: nothing is missed. */
static void bulk_end(struct stream *stream)
{
	struct bulk *bulk = &stream->pool->bulk[stream->slot - 1];

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

void bulk_go_on(struct stream *stream)
{
	struct bulk *bulk = stream->pool->bulk;
	struct timer *pause;
	unsigned int i = 0;

	stream->flow = 0; /* without a slot it tries again after another BULK_BEGIN bytes */
	if (!stream->slot) {
		while (i < BULK_SLOTS && bulk[i].stream)
			i++;
		if (i == BULK_SLOTS || !set_least(stream, BULK_LEAST))
			return;
		bulk[i].stream = stream;
		stream->slot = i + 1;
	}
	stream->flow = BULK_BEGIN;
	pause = &bulk[stream->slot - 1].pause;
	timer_begin(pause, stream->watch.loop, BULK_PAUSE, on_pause);
	if (!timer_is_set(pause))
		bulk_end(stream); /* no memory */
}

/* To be called when we send: the bulk of data has ended. */
static void bulk_answered(struct stream *stream)
{
	if (!stream_is_halted(stream))
		stream->flow = 0;
	if (stream->slot)
		bulk_end(stream);
}

/* ---- the pool of a loop ---- */

void stream_pool_init(struct stream_pool *pool, size_t first_size)
{
	*pool = (struct stream_pool){
		.first_size = first_size < sizeof(void *) ? sizeof(void *) : first_size,
		.leave_unsent = leave_unsent,
	};
	slab_init(&pool->buffers, "iobuf_cache", sizeof(struct stream_buf));
	slab_init(&pool->tls, "tls_cache", sizeof(struct tls));
	pool->tls.is_secret = true;
}

void stream_pool_done(struct stream_pool *pool)
{
	char *at;

	while ((at = take_free(pool)))
		free(at);
	slab_done(&pool->buffers);
	stream_secure_slots_free(&pool->tls_slots);
	slab_done(&pool->tls);
}

/* ---- streams ---- */

/* Something has arrived that is not wanted now: only then is the system call worth it. */
static void stop_reading(struct stream *stream)
{
	watch_set(&stream->watch, stream->out ? WATCH_WRITE : 0);
}

static ssize_t receive_rest(struct stream *stream, char *at, bool *is_full)
{
	size_t most = stream->allowance < STREAM_READ_SIZE ? stream->allowance : STREAM_READ_SIZE;
	ssize_t done = socket_receive(stream->watch.fd, at, most);

	*is_full = done == (ssize_t)STREAM_READ_SIZE;
	if (done > 0)
		stream->allowance -= (uint32_t)done;
	if (!stream_may_read(stream))
		stop_reading(stream);
	return done;
}

/* Like recv() of STREAM_READ_SIZE bytes, but decrypts. *is_full: there may be more to read. */
static ssize_t receive(struct stream *stream, char *at, bool *is_full)
{
	ssize_t done;

	if (stream->tls)
		return stream_secure_receive(stream, at, is_full);
	if (stream_is_halted(stream))
		return receive_rest(stream, at, is_full);
	done = socket_receive(stream->watch.fd, at, STREAM_READ_SIZE);
	*is_full = done == (ssize_t)STREAM_READ_SIZE;
	if (done > 0)
		bulk_came(stream, (size_t)done);
	return done;
}

/* Keeps bytes of the scratch buffer. A secret is wiped there. */
static bool keep_input(struct stream *stream, char *at, size_t count)
{
	bool ok;

	if (!stream->is_secret)
		return add(stream->pool, &stream->in, at, count);
	if (!stream->in)
		stream->in = slab_take(&stream->pool->buffers);
	if (!stream->in)
		return false;
	stream->in->buf.is_secret = true;
	ok = add(stream->pool, &stream->in, at, count);
	explicit_bzero(at, count);
	return ok;
}

/* The owner wants no input, but must hear if the peer disconnects: so it is read and kept. */
static void read_ahead(struct stream *stream)
{
	char *scratch = loop_scratch(stream->watch.loop);
	ssize_t done;
	bool is_full;

	if (count_of(stream->in) >= STREAM_AHEAD_MAX) {
		stop_reading(stream);
		return;
	}
	done = receive(stream, scratch, &is_full);
	if (done < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (done <= 0)
		stream->error = done < 0 ? errno : 0;
	else if (keep_input(stream, scratch, (size_t)done))
		return;
	watch_set(&stream->watch, 0);
	stream->ops->on_gone(stream);
}

void stream_on_ready(struct watch *watch, unsigned int what)
{
	struct stream *stream = container_of(watch, struct stream, watch);

	if ((what & WATCH_WRITE) && stream->out) {
		if (!stream_flush_unsent(stream)) {
			watch_set(watch, 0);
			stream->ops->on_gone(stream);
			return;
		}
		if (!stream->out) {
			stream_watch(stream);
			if (stream->ops->on_flushed)
				stream->ops->on_flushed(stream);
			/* the stream may be closed; a readable socket will be reported again */
			return;
		}
	}
	if (!(what & WATCH_READ))
		return;
	if (!stream_may_read(stream))
		stop_reading(stream);
	else if (stream->want == WANT_INPUT)
		stream->ops->on_input(stream);
	else if (stream->want == WANT_END)
		read_ahead(stream);
	else
		stop_reading(stream);
}

void stream_open(struct stream *stream, struct loop *loop, struct stream_pool *pool, int fd,
                 const struct stream_ops *ops)
{
	*stream = (struct stream){ .ops = ops, .pool = pool };
	watch_init(&stream->watch, loop, fd, stream_on_ready);
}

int stream_take_socket(struct stream *stream)
{
	int fd = stream->watch.fd;
	struct tls *tls;

	stream_push(stream);
	if (stream->tls) {
		tls = stream_secure_detach(stream);
		tls_free(&stream->pool->tls, &tls);
	}
	if (stream->slot)
		bulk_end(stream);
	watch_done(&stream->watch);
	stream_buf_free(stream->pool, &stream->in);
	stream_buf_free(stream->pool, &stream->out);
	stream->watch.fd = -1;
	stream->ops = NULL;
	return fd;
}

void stream_close(struct stream *stream)
{
	if (!stream_is_open(stream))
		return;
	if (stream->tls)
		stream_secure_close(stream);
	close(stream_take_socket(stream));
}

/* Where to read: after the kept bytes, in the scratch buffer if both fit. */
static char *read_position(struct stream *stream, size_t *kept)
{
	char *scratch = loop_scratch(stream->watch.loop);

	*kept = count_of(stream->in);
	if (*kept == 0)
		return scratch;
	if (*kept + STREAM_READ_SIZE <= LOOP_SCRATCH_SIZE) {
		memcpy(scratch, stream->in->buf.at + stream->in->begin, *kept);
		stream_buf_free(stream->pool, &stream->in);
		return scratch;
	}
	buf_drop(&stream->in->buf, stream->in->begin);
	stream->in->begin = 0;
	if (!buf_reserve(&stream->in->buf, STREAM_READ_SIZE))
		return NULL;
	return stream->in->buf.at;
}

enum stream_result stream_read(struct stream *stream, struct bytes *in)
{
	size_t kept;
	char *at;
	ssize_t done;
	bool is_full;

	if (!stream_may_read(stream))
		return STREAM_NOTHING;
	at = read_position(stream, &kept);
	if (!at) {
		stream->error = ENOMEM;
		return STREAM_END;
	}
	done = receive(stream, at + kept, &is_full);
	if (done > 0) {
		if (stream->in)
			stream->in->buf.count += (size_t)done;
		*in = bytes_of(at, kept + (size_t)done);
		return is_full ? STREAM_DATA : STREAM_SHORT;
	}
	if (done < 0 && (errno == EAGAIN || errno == EINTR)) {
		if (kept && !stream->in)
			stream_keep(stream, bytes_of(at, kept));
		return STREAM_NOTHING;
	}
	stream->error = done < 0 ? errno : 0;
	if (stream->is_secret)
		explicit_bzero(at, kept); /* it may contain a part of a password */
	return STREAM_END;
}

bool stream_keep_rest(struct stream *stream, struct bytes rest)
{
	if (stream->in) {
		/* *in was the kept buffer itself, so the bytes are already there. */
		assert(rest.count <= count_of(stream->in));
		stream->in->begin = stream->in->buf.count - rest.count;
		if (rest.count == 0)
			stream_buf_free(stream->pool, &stream->in);
		return true;
	}
	return keep_input(stream, (char *)rest.at, rest.count);
}

bool stream_put_back(struct stream *stream, struct bytes bytes)
{
	struct bytes kept = stream_kept(stream);
	struct buf all = { 0 };
	bool is_kept;

	if (!kept.count)
		return stream_keep(stream, bytes);
	buf_add(&all, bytes.at, bytes.count);
	buf_add(&all, kept.at, kept.count);
	stream_buf_free(stream->pool, &stream->in);
	is_kept = buf_ok(&all) && keep_input(stream, all.at, all.count);
	if (stream->is_secret)
		buf_wipe(&all);
	buf_free(&all);
	return is_kept;
}

struct bytes stream_kept_rest(const struct stream *stream)
{
	return bytes_of(stream->in->buf.at + stream->in->begin, count_of(stream->in));
}

void stream_push(struct stream *stream)
{
	if (stream->pending_send)
		outbox_push(stream->pool->outbox, stream);
}

/* Whether the output was added to the outbox. If not, the outbox has nothing of this stream. */
static bool put_off(struct stream *stream, const struct iovec *pieces, int count, size_t whole)
{
	if (!stream->gathers)
		return false;
	if (!stream->out && outbox_take(stream->pool->outbox, stream, pieces, count, whole))
		return true;
	stream_push(stream);
	return false;
}

/* Sends `whole` bytes as they are; keeps what the socket does not accept. */
static bool send_pieces(struct stream *stream, const struct iovec *pieces, int count, size_t whole)
{
	struct msghdr message = { .msg_iov = (struct iovec *)pieces, .msg_iovlen = (size_t)count };
	ssize_t done = 0;

	bulk_answered(stream);
	if (put_off(stream, pieces, count, whole))
		return true;
	if (!stream->out)
		done = count == 1 ? socket_send(stream->watch.fd, pieces->iov_base, whole)
		                  : sendmsg(stream->watch.fd, &message, MSG_NOSIGNAL);
	if (done == (ssize_t)whole)
		return true;
	if (done < 0 && errno != EAGAIN && errno != EINTR) {
		stream->error = errno;
		return false;
	}
	return keep_unsent(stream, pieces, count, done < 0 ? 0 : (size_t)done);
}

bool stream_sendv(struct stream *stream, const struct iovec *pieces, int count)
{
	size_t whole = 0;

	if (stream->tls)
		return stream_secure_sendv(stream, pieces, count);
	for (int i = 0; i < count; i++)
		whole += pieces[i].iov_len;
	return send_pieces(stream, pieces, count, whole);
}

bool stream_send(struct stream *stream, struct bytes bytes)
{
	struct iovec piece = { (void *)bytes.at, bytes.count };

	if (stream->tls)
		return stream_secure_sendv(stream, &piece, 1);
	return stream_send_raw(stream, bytes);
}

bool stream_send_raw(struct stream *stream, struct bytes bytes)
{
	struct iovec piece = { (void *)bytes.at, bytes.count };

	return send_pieces(stream, &piece, 1, bytes.count);
}

void stream_halt(struct stream *stream, uint32_t allowance)
{
	if (stream->slot)
		bulk_end(stream);
	stream->is_halted = true;
	stream->allowance = stream->tls ? 0 : allowance;
	stream_watch(stream);
}

void stream_go_on(struct stream *stream)
{
	stream->is_halted = false;
	stream->flow = 0;
	stream_watch(stream);
}

bool stream_has_hung_up(const struct stream *stream)
{
	struct pollfd pollfd = { .fd = stream->watch.fd, .events = POLLRDHUP };

	return poll(&pollfd, 1, 0) > 0;
}

bool stream_has_unread(const struct stream *stream)
{
	int count = 0;

	return ioctl(stream->watch.fd, FIONREAD, &count) == 0 && count > 0;
}

void stream_defer(struct stream *stream) { stream->gathers = stream->pool->outbox != NULL; }

bool stream_drop_unsent(struct stream *stream)
{
	stream_push(stream);
	if (!stream->out)
		return false;
	stream_buf_free(stream->pool, &stream->out);
	stream_watch(stream);
	return true;
}

void stream_finish(struct stream *stream)
{
	stream_push(stream);
	if (stream->tls)
		stream_secure_goodbye(stream);
	shutdown(stream->watch.fd, SHUT_WR);
}

/*
 * ---- parcels: streams that move from loop to loop, or to another process ----
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
	struct tls *tls = NULL;
	int fd;

	if (stream_is_shaking(stream) || stream_is_halted(stream) || stream->error)
		return false;
	fd = fcntl(stream->watch.fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return false;
	stream_push(stream);
	if (stream->tls) {
		tls = stream_secure_detach(stream);
		if (!tls_move(&tls, &stream->pool->tls, NULL)) {
			stream->tls = tls;
			close(fd);
			return false;
		}
	}
	*parcel = (struct stream_parcel){
		.fd = fd,
		.tls = tls,
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
	if (!give_buf(pool, &out, &parcel->out) ||
	    (parcel->tls && !tls_move(&parcel->tls, NULL, &pool->tls))) {
		slab_give(&pool->buffers, &in);
		slab_give(&pool->buffers, &out);
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
	if (!stream_watch(stream))
		shutdown(stream->watch.fd, SHUT_RDWR);
	return true;
}

/*
 * Takes the descriptor out of a parcel, which is empty then. Adds to *last what must be sent before
 * the end.
 */
static int unpack(struct stream_parcel *parcel, struct bytes words, struct buf *last)
{
	int fd = parcel->fd;

	if (!parcel->tls) {
		buf_add(last, words.at, words.count);
	} else if (parcel->tls->end == TLS_GOES_ON) {
		if (words.count && !tls_seal(parcel->tls, words, last))
			buf_clear(last);
		tls_goodbye(parcel->tls, last);
	}
	buf_free(&parcel->in);
	buf_free(&parcel->out);
	tls_free(NULL, &parcel->tls);
	*parcel = (struct stream_parcel){ .fd = -1 };
	return fd;
}

void stream_parcel_end(struct stream_parcel *parcel, struct bytes words)
{
	bool is_unsent = parcel->out.count;
	struct buf last = { 0 };
	int fd = unpack(parcel, words, &last);

	if (is_unsent || !last.count || socket_send(fd, last.at, last.count) < 0)
		shutdown(fd, SHUT_RDWR);
	buf_free(&last);
	close(fd);
}

/* ---- to another process ---- */

struct stream_tls {
	struct tls_records records;
	struct bytes part, name, group;
	unsigned char print[TLS_PRINT_SIZE]; /* of the context; zeros: of none */
};

static const struct record_field tls_fields[] = {
	RECORD_BLOCK_FIELD('E', struct stream_tls, records),
	RECORD_BYTES_FIELD('r', struct stream_tls, part, TLS_HEADER_SIZE + TLS_BODY_MAX),
	RECORD_BYTES_FIELD('g', struct stream_tls, group, TLS_GROUP_SIZE - 1),
	RECORD_BYTES_FIELD('n', struct stream_tls, name, 1024),
	RECORD_BLOCK_FIELD('c', struct stream_tls, print),
};

static bool is_tls_good(const void *values)
{
	const struct tls_records *records = &((const struct stream_tls *)values)->records;

	return tls_records_are_on(records) && records->cipher < TLS_CIPHERS &&
	       records->empty_count <= TLS_EMPTY_MAX && records->update_count <= TLS_UPDATES_MAX;
}

const struct record_table stream_tls_table = RECORD_TABLE("TLS", tls_fields, is_tls_good);

bool stream_can_move(const struct stream *stream)
{
	const struct tls *tls = stream->tls;

	return !tls || (tls_is_own(tls) && !tls->is_shaking && tls->end == TLS_GOES_ON);
}

void stream_write_tls(const struct stream *stream, struct buf *record)
{
	const struct tls *tls = stream->tls;
	struct stream_tls values;

	if (!tls)
		return;
	values = (struct stream_tls){
		.records = tls->records,
		.part = tls_part(tls),
		.group = bytes_text(tls_group_name(tls->group)),
		.name = bytes_text(tls->name ? tls->name : ""),
	};
	if (tls->context)
		memcpy(values.print, tls->context->print, TLS_PRINT_SIZE);
	record_write(record, &stream_tls_table, &values);
	explicit_bzero(&values, sizeof(values));
}

/* false: no memory. */
static bool make_tls(struct stream *stream, const struct stream_tls *values, bool accepts,
                     struct tls_context *context)
{
	char name[1025] = "";

	memcpy(name, values->name.at, values->name.count);
	stream->tls = tls_new(&stream->pool->tls, context, name);
	if (!stream->tls)
		return false;
	stream->tls->records = values->records;
	stream->tls->records.accepts = accepts;
	stream->tls->group = tls_group_of(values->group);
	if (stream_secure_has_slots(stream->pool) && tls_keep_part(stream->tls, values->part))
		return true;
	stream->tls->end = TLS_BROKEN;
	return false;
}

bool stream_read_tls(struct stream *stream, struct record *record, bool accepts,
                     struct tls_context *context, bool *is_same)
{
	struct stream_tls values;
	bool ok = true;

	*is_same = true;
	if (!record_has_table(record, &stream_tls_table))
		return true;
	record_read(record, &stream_tls_table, &values);
	if (stream && !record->is_bad) {
		*is_same = context && memcmp(values.print, context->print, TLS_PRINT_SIZE) == 0;
		ok = make_tls(stream, &values, accepts, context);
	}
	explicit_bzero(&values, sizeof(values));
	return ok;
}

bool stream_send_unsent(struct stream *stream, struct bytes bytes)
{
	return !bytes.count || stream_send_raw(stream, bytes);
}

/* ---- farewell ---- */

bool farewell_begin(struct stream *stream, struct farewell *farewell)
{
	struct stream_parcel parcel;

	*farewell = (struct farewell){ .fd = -1 };
	if (!stream_detach(stream, &parcel))
		return false;
	farewell->fd = unpack(&parcel, bytes_of("", 0), &farewell->last);
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
