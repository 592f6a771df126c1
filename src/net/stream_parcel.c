/* SPDX-License-Identifier: ISC */
/*
 * Streams that move from loop to loop, or to another process.
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
#include <string.h>

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
		.part = bytes_of(tls->part, tls->part_size),
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
