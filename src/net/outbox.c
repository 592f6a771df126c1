/* SPDX-License-Identifier: ISC */
/*
 * The outbox.
 *
 *   streams --> [bytes | bytes | bytes ...] --> end of the turn --> sockets, all with one call
 *                                                               \-> not accepted: unsent
 *
 * Hard here: the bytes of a stream must stay in order. A stream has at most one pending send,
 * which can grow only while it is the last one; otherwise all are sent first. And no owner is
 * called back while the outbox is being sent: bytes of a broken connection become
 * unsent output, and the owner is notified in the next turn.
 */
#include "outbox_priv.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ring_priv.h"
#include "socket_calls_priv.h"
#include "stream_priv.h"

#include "pgweir/base/banned.h"

/* Small enough for the processor's caches, and so that the first send does not wait long. */
#define SENDS_MAX 64
#define OUTBOX_SIZE ((size_t)32 * 1024)

/* Longer output is sent immediately: copying it would cost more than the saved system call. */
#define SEND_SIZE_MAX ((size_t)2048)

struct outbox {
	struct loop *loop;
	const struct logger *logger;
	struct ring *ring; /* NULL: not created (yet), or not available */
	bool wants_ring;
	unsigned int count;
	size_t used;
	struct stream *streams[SENDS_MAX]; /* owner of each pending send; NULL: it was sent early */
	struct ring_send sends[SENDS_MAX];
	char bytes[OUTBOX_SIZE];
};

_Static_assert(SENDS_MAX <= UINT8_MAX, "a stream numbers its pending send with 8 bits");

/* ---- sending ---- */

/*
 * Created lazily: daemonize() forks, and an io_uring instance must be created after that. The
 * kernel lets only the thread use it that created it, so a thread that holds the loop sends
 * without.
 */
static bool may_use_ring(struct outbox *outbox)
{
	if (!outbox->wants_ring || !loop_is_in_turn(outbox->loop))
		return false;
	if (outbox->ring)
		return true;
	outbox->ring = ring_new(SENDS_MAX);
	outbox->wants_ring = outbox->ring != NULL;
	if (!outbox->ring)
		log_info(outbox->logger,
		         "io_uring is not available (%s): using one system call per write",
		         strerror(errno));
	return outbox->ring != NULL;
}

static void send_one(struct ring_send *send)
{
	ssize_t done = socket_send(send->fd, send->at, send->count);

	send->done = done < 0 ? -errno : (int)done;
}

/* Whether a kernel with io_uring does not support this operation. */
static bool is_unknown(const struct ring_send *send)
{
	return send->done == -EINVAL || send->done == -EOPNOTSUPP;
}

static void send_all(struct outbox *outbox)
{
	struct ring_send *sends = outbox->sends;
	unsigned int count = outbox->count, tried = 0;

	if (count > 1 && may_use_ring(outbox)) {
		tried = ring_send(outbox->ring, sends, count);
		if (!tried || is_unknown(&sends[0])) {
			ring_free(&outbox->ring);
			outbox->wants_ring = false;
		}
	}
	for (unsigned int i = 0; i < count; i++)
		if (i >= tried || is_unknown(&sends[i]))
			send_one(&sends[i]);
}

static void leave_rest_unsent(const struct ring_send *send, struct stream *stream)
{
	size_t done = send->done < 0 ? 0 : (size_t)send->done;

	if (done < send->count)
		stream_leave_unsent(stream,
		                    bytes_of((const char *)send->at + done, send->count - done));
}

/* Removes sends that were done early, and detaches the others from their streams. */
static void collect(struct outbox *outbox)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < outbox->count; i++) {
		if (!outbox->streams[i])
			continue;
		outbox->streams[i]->pending_send = 0;
		outbox->streams[count] = outbox->streams[i];
		outbox->sends[count++] = outbox->sends[i];
	}
	outbox->count = count;
}

static void empty(struct outbox *outbox)
{
	collect(outbox);
	send_all(outbox);
	for (unsigned int i = 0; i < outbox->count; i++)
		leave_rest_unsent(&outbox->sends[i], outbox->streams[i]);
	outbox->count = 0;
	outbox->used = 0;
}

void outbox_send(struct outbox *outbox)
{
	if (outbox->count)
		empty(outbox);
}

static void end_turn(void *arg) { outbox_send(arg); }

size_t outbox_pending(const struct outbox *outbox, const struct stream *stream)
{
	return outbox->sends[stream->pending_send - 1].count;
}

void outbox_push(struct outbox *outbox, struct stream *stream)
{
	struct ring_send *send = &outbox->sends[stream->pending_send - 1];

	outbox->streams[stream->pending_send - 1] = NULL;
	stream->pending_send = 0;
	send_one(send);
	leave_rest_unsent(send, stream);
}

/* ---- adding ---- */

static bool can_grow(const struct outbox *outbox, const struct stream *stream, size_t whole)
{
	return stream->pending_send == outbox->count && outbox->used + whole <= OUTBOX_SIZE;
}

static void begin_send(struct outbox *outbox, struct stream *stream, size_t whole)
{
	if (outbox->count == SENDS_MAX || outbox->used + whole > OUTBOX_SIZE)
		empty(outbox);
	outbox->streams[outbox->count] = stream;
	outbox->sends[outbox->count++] =
	    (struct ring_send){ .fd = stream->watch.fd, .at = outbox->bytes + outbox->used };
	stream->pending_send = outbox->count;
}

bool outbox_take(struct outbox *outbox, struct stream *stream, const struct iovec *pieces,
                 int count, size_t whole)
{
	if (whole > SEND_SIZE_MAX)
		return false;
	if (stream->pending_send && !can_grow(outbox, stream, whole))
		empty(outbox);
	if (stream->out)
		return false; /* empty() has just left unsent output */
	if (!stream->pending_send)
		begin_send(outbox, stream, whole);
	for (int i = 0; i < count; i++) {
		memcpy(outbox->bytes + outbox->used, pieces[i].iov_base, pieces[i].iov_len);
		outbox->used += pieces[i].iov_len;
	}
	outbox->sends[stream->pending_send - 1].count += whole;
	return true;
}

/* ---- creation and end ---- */

struct outbox *outbox_new(struct loop *loop, const struct logger *logger)
{
	struct outbox *outbox = calloc(1, sizeof(*outbox));

	if (!outbox)
		return NULL;
	outbox->loop = loop;
	outbox->logger = logger;
	loop_at_turn_end(loop, end_turn, outbox);
	return outbox;
}

void outbox_free(struct outbox **outbox)
{
	if (!*outbox)
		return;
	loop_at_turn_end((*outbox)->loop, NULL, NULL);
	ring_free(&(*outbox)->ring);
	free(*outbox);
	*outbox = NULL;
}

void outbox_use_ring(struct outbox *outbox, bool is_wanted)
{
	outbox->wants_ring = is_wanted;
	if (!is_wanted)
		ring_free(&outbox->ring);
}
