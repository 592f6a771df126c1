/* SPDX-License-Identifier: ISC */
/*
 * Encrypted streams: the handshake, and the path of their bytes.
 *
 *   socket --> heard --> [a step] --> said --> socket                      until it is over
 *   socket --> tls_slots->in --> engine --> scratch --> owner              after that
 *   owner --> gathered --> engine --> tls_slots->out --> socket
 *
 * Hard here: during a step on a helper thread the engine and both buffers belong to that thread,
 * and nothing is read. If the stream is closed during that time, they are left to the handshake,
 * which frees them when the thread has returned it.
 */
#include "tls_priv.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/container_of.h"
#include "pgweir/loop/workers.h"

#include "stream_priv.h"

#define HEARD_SIZE ((size_t)16 * 1024)    /* bytes read at once during a handshake */
#define OUT_KEPT_MAX ((size_t)256 * 1024) /* bytes; a larger shared buffer is freed */

/* A TLS record: a header of type, version and length, then `length` bytes. */
#define RECORD_BODY_MAX (TLS_RECORD_MAX + 2048)
#define RECORD_TYPE_LEAST 20
#define RECORD_TYPE_MOST 24

struct handshake {
	struct job job;
	struct stream *stream; /* NULL: the stream has been closed */
	struct stream_pool *pool;
	struct tls *tls;    /* the stream's, or ours if that has been closed */
	struct buf heard;   /* received and not used yet */
	struct buf said;    /* to be sent to the peer */
	enum tls_step step; /* result of the last step */
	bool is_held;       /* by a helper thread, except the stream */
	struct err err;
};

enum close_reason stream_tls_fault(const struct stream *stream)
{
	if (!stream->tls || stream->error != EPROTO)
		return CLOSE_NONE;
	return stream->tls->records.is_flooded ? CLOSE_TLS_KEY_UPDATES : CLOSE_TLS_BROKEN;
}

bool stream_is_shaking(const struct stream *stream)
{
	return stream->tls && stream->tls->is_shaking;
}

void stream_secure_slots_free(struct tls_slots **tls_slots)
{
	if (!*tls_slots)
		return;
	buf_free(&(*tls_slots)->out);
	for (unsigned int i = 0; i < TLS_SLOTS; i++)
		tls_keyed_done(&(*tls_slots)->slots[i].keyed);
	free(*tls_slots);
	*tls_slots = NULL;
}

/* Returns the shared output buffer, emptied. */
static struct buf *clear_out(struct stream *stream)
{
	struct buf *out = &stream->pool->tls_slots->out;

	if (out->capacity > OUT_KEPT_MAX)
		buf_free(out);
	buf_clear(out);
	return out;
}

/* No key outlives its connection. */
static void leave_tls_slot(struct tls *tls)
{
	struct tls_slot *slot = tls->slot;

	if (!slot)
		return;
	tls_drop_buffers(tls);
	tls_keyed_forget(&slot->keyed);
	slot->tls = NULL;
	tls->slot = NULL;
}

static struct tls_slot *find_slot(struct tls_slots *tls_slots, usec_t now)
{
	struct tls_slot *slot;

	for (unsigned int i = 0; i < tls_slots->slot_count; i++) {
		slot = &tls_slots->slots[tls_slots->next_slot];
		tls_slots->next_slot = (tls_slots->next_slot + 1) % tls_slots->slot_count;
		if (!slot->tls || now - slot->used_at > TLS_SLOT_BUSY)
			return slot;
	}
	if (tls_slots->slot_count < TLS_SLOTS)
		return &tls_slots->slots[tls_slots->slot_count++];
	return &tls_slots->slots[tls_slots->next_slot];
}

/*
 * Creating OpenSSL's buffers, or giving its contexts a key, costs as much as encrypting half a
 * record, so an active stream keeps them, and an idle one has none.
 */
static void take_tls_slot(struct stream *stream)
{
	usec_t now = loop_now(stream->watch.loop);
	struct tls *tls = stream->tls;
	struct tls_slot *slot = tls->slot;

	if (!slot) {
		slot = find_slot(stream->pool->tls_slots, now);
		if (slot->tls)
			leave_tls_slot(slot->tls);
		slot->tls = tls;
		tls->slot = slot;
		tls_keep_buffers(tls);
	}
	slot->used_at = now;
}

/* ---- the handshake ---- */

static void handshake_free(struct handshake *handshake)
{
	buf_free(&handshake->heard);
	buf_free(&handshake->said);
	free(handshake);
}

/*
 * Returns the size of all complete records; or of everything, if the bytes cannot be records.
 * Only complete records are processed: a peer that sends byte by byte causes no additional
 * steps. And OpenSSL must not get an incomplete record: it would consume its beginning, and the
 * rest would be without a header when the stream takes over.
 */
static size_t whole_records(const struct buf *heard)
{
	struct bytes rest = buf_bytes(heard);

	while (rest.count) {
		unsigned char type = (unsigned char)*rest.at;
		size_t size;

		if (type < RECORD_TYPE_LEAST || type > RECORD_TYPE_MOST)
			return heard->count;
		if (rest.count < TLS_HEADER_SIZE)
			break;
		size = load_be16(rest.at + 3);
		if (size > RECORD_BODY_MAX)
			return heard->count;
		if (rest.count < TLS_HEADER_SIZE + size)
			break;
		rest = bytes_skip(rest, TLS_HEADER_SIZE + size);
	}
	return heard->count - rest.count;
}

/* Whether the next step is possible without more input. */
static bool is_due(const struct handshake *handshake)
{
	return whole_records(&handshake->heard) > 0 ||
	       (!handshake->tls->engine && handshake->tls->context->role == TLS_CONNECTS);
}

/* On a helper thread, but for the last step of some: hear(). */
static void shake(struct job *job)
{
	struct handshake *handshake = (struct handshake *)job;
	size_t whole = whole_records(&handshake->heard);
	struct bytes heard = bytes_of(handshake->heard.at, whole);

	handshake->step = tls_shake(handshake->tls, &heard, &handshake->said, &handshake->err);
	buf_drop(&handshake->heard, whole - heard.count);
	if (handshake->step != TLS_FAILED && !buf_ok(&handshake->said)) {
		handshake->step = TLS_FAILED;
		err_set(&handshake->err, ERR_MEMORY, "out of memory");
	}
}

/* Begins the next step, or waits for its input. */
static bool go_on(struct stream *stream, struct err *err)
{
	struct handshake *handshake = stream->tls->handshake;

	if (!is_due(handshake))
		return watch_set(&stream->watch, stream->watch.wanted | WATCH_READ) ||
		       err_set(err, ERR_FILES, "cannot watch the connection");
	handshake->is_held =
	    workers_submit(stream->pool->handshakes, stream->watch.loop, &handshake->job, err);
	return handshake->is_held;
}

static void report_failed(struct stream *stream, const struct err *err)
{
	watch_set(&stream->watch, 0);
	stream->ops->on_secured(stream, err);
}

/* `error`: errno, or 0 if the peer has ended it. */
static void report_broken(struct stream *stream, int error)
{
	struct err err;

	stream->error = error;
	err_set(&err, ERR_SERVER_CONNECT, "closed during the TLS handshake");
	report_failed(stream, &err);
}

/* Decrypts bytes that were read after the handshake: they are the first input of the owner. */
static bool keep_early(struct stream *stream, struct bytes heard)
{
	char *scratch = loop_scratch(stream->watch.loop);
	struct buf *out = clear_out(stream);
	size_t count;

	if (heard.count == 0)
		return true;
	take_tls_slot(stream);
	count = tls_open(stream->tls, heard, scratch, LOOP_SCRATCH_SIZE, out);
	if (out->count && !stream_send_raw(stream, buf_bytes(out)))
		return false;
	if (stream->tls->end != TLS_GOES_ON)
		shutdown(stream->watch.fd, SHUT_RD);
	return stream_keep(stream, bytes_of(scratch, count));
}

static void finish_handshake(struct stream *stream)
{
	struct handshake *handshake = stream->tls->handshake;
	bool is_good;

	stream->tls->is_shaking = false;
	stream->tls->slot = NULL;
	stream->watch.on_ready = stream_on_ready;
	is_good = keep_early(stream, buf_bytes(&handshake->heard)) && stream_watch(stream);
	handshake_free(handshake);
	if (is_good)
		stream->ops->on_secured(stream, NULL);
	else
		report_broken(stream, stream->error);
}

/* The stream was closed, or the helper threads end before it. */
static void clean_up(struct handshake *handshake)
{
	struct tls *tls = handshake->tls;

	if (handshake->stream) {
		watch_set(&handshake->stream->watch, 0);
		handshake->stream->tls = NULL;
	}
	tls_free(&handshake->pool->tls, &tls);
	handshake_free(handshake);
}

/* A step is over: sends what the handshake says. */
static void on_over(struct job *job)
{
	struct handshake *handshake = (struct handshake *)job;
	struct stream *stream = handshake->stream;
	struct err err = handshake->err; /* a copy: the handshake may be freed with the stream */
	bool is_sent;

	if (job->is_abandoned) {
		clean_up(handshake);
		return;
	}
	handshake->is_held = false;
	is_sent = !handshake->said.count || stream_send_raw(stream, buf_bytes(&handshake->said));
	buf_free(&handshake->said); /* a peer that lets us wait should cost little memory */
	if (handshake->step == TLS_FAILED)
		report_failed(stream, &err);
	else if (!is_sent)
		report_broken(stream, stream->error);
	else if (handshake->step == TLS_DONE)
		finish_handshake(stream);
	else if (!go_on(stream, &err))
		report_failed(stream, &err);
}

static void hear(struct stream *stream)
{
	struct handshake *handshake = stream->tls->handshake;
	char *scratch = loop_scratch(stream->watch.loop);
	ssize_t done = socket_receive(stream->watch.fd, scratch, HEARD_SIZE);
	struct err err;

	if (done < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (done <= 0) {
		report_broken(stream, done < 0 ? errno : 0);
		return;
	}
	buf_add(&handshake->heard, scratch, (size_t)done);
	if (!buf_ok(&handshake->heard)) {
		report_broken(stream, ENOMEM);
	} else if (is_due(handshake) && tls_is_finishing(stream->tls)) {
		/* A helper thread would cost more than the step itself. */
		shake(&handshake->job);
		on_over(&handshake->job);
	} else if (!go_on(stream, &err)) {
		report_failed(stream, &err);
	}
}

/* During a handshake. If unsent output cannot be sent, the next read finds the end. */
static void on_ready(struct watch *watch, unsigned int what)
{
	struct stream *stream = container_of(watch, struct stream, watch);
	bool is_held = stream->tls->handshake->is_held;

	if ((what & WATCH_WRITE) && stream->out && !stream_flush_unsent(stream))
		stream_buf_free(stream->pool, &stream->out);
	watch_set(watch, (is_held ? 0U : WATCH_READ) | (stream->out ? WATCH_WRITE : 0U));
	if ((what & WATCH_READ) && !is_held)
		hear(stream);
}

bool stream_secure_has_slots(struct stream_pool *pool)
{
	if (!pool->tls_slots)
		pool->tls_slots = calloc(1, sizeof(*pool->tls_slots));
	return pool->tls_slots != NULL;
}

bool stream_secure(struct stream *stream, struct tls_context *context, const char *name,
                   struct bytes early, struct err *err)
{
	struct handshake *handshake = calloc(1, sizeof(*handshake));
	struct tls *tls = tls_new(&stream->pool->tls, context, name);

	assert(!stream->tls && !stream->in && stream->pool->handshakes);
	if (!handshake || !tls || !stream_secure_has_slots(stream->pool)) {
		free(handshake);
		tls_free(&stream->pool->tls, &tls);
		return err_set(err, ERR_MEMORY, "no memory for TLS");
	}
	stream_push(stream);
	*handshake = (struct handshake){
		.job = { .run = shake, .done = on_over },
		.stream = stream,
		.pool = stream->pool,
		.tls = tls,
	};
	tls->handshake = handshake;
	tls->is_shaking = true;
	stream->tls = tls;
	stream->watch.on_ready = on_ready;
	buf_add(&handshake->heard, early.at, early.count);
	if (!buf_ok(&handshake->heard))
		return err_set(err, ERR_MEMORY, "no memory for TLS");
	return go_on(stream, err);
}

bool stream_secure_like(struct stream *stream, const struct stream *other, struct err *err)
{
	if (!other->tls->context)
		return err_set(err, ERR_SERVER_CONNECT, "TLS is off in the configuration");
	return stream_secure(stream, other->tls->context, other->tls->name, (struct bytes){ 0 },
	                     err);
}

/* ---- bytes ---- */

struct tls *stream_secure_detach(struct stream *stream)
{
	struct tls *tls = stream->tls;

	assert(!tls->is_shaking);
	leave_tls_slot(tls);
	stream->tls = NULL;
	return tls;
}

ssize_t stream_secure_receive(struct stream *stream, char *at, bool *is_full)
{
	struct tls *tls = stream->tls;
	struct tls_slots *tls_slots = stream->pool->tls_slots;
	size_t size = tls_is_own(tls) ? STREAM_READ_SIZE : SECURE_READ_SIZE, part, count;
	struct buf *out;
	ssize_t done;

	assert(!tls->is_shaking);
	if (tls->end != TLS_GOES_ON) {
		errno = EPROTO;
		return tls->end == TLS_BROKEN ? -1 : 0;
	}
	take_tls_slot(stream);
	tls_forgive_updates(tls, loop_now(stream->watch.loop));
	part = tls_part(tls).count;
	done = socket_receive(stream->watch.fd, tls_slots->in + part, size - part);
	*is_full = done == (ssize_t)(size - part);
	if (done <= 0)
		return done;
	if (tls_is_own(tls))
		bulk_came(stream, (size_t)done);
	out = clear_out(stream);
	count =
	    tls_open(tls, bytes_of(tls_slots->in + part, (size_t)done), at, STREAM_READ_SIZE, out);
	if (out->count && !stream_send_raw(stream, buf_bytes(out)) && tls->end == TLS_GOES_ON)
		tls->end = TLS_BROKEN;
	if (tls->end != TLS_GOES_ON) {
		/*
		 * Force another readable event, so that the owner sees the end even if it stops
		 * reading here.
		 */
		shutdown(stream->watch.fd, SHUT_RD);
		*is_full = true;
		if (!count)
			return stream_secure_receive(stream, at, is_full);
	}
	errno = EAGAIN;
	return count ? (ssize_t)count : -1;
}

/* Encrypts the collected bytes as one record. */
static bool seal_gathered(struct stream *stream, size_t *gathered)
{
	struct tls_slots *tls_slots = stream->pool->tls_slots;
	struct bytes record = bytes_of(tls_slots->gathered, *gathered);

	*gathered = 0;
	return record.count == 0 || tls_seal(stream->tls, record, &tls_slots->out);
}

/* Small pieces are collected into one record; whole records are encrypted without a copy. */
static bool seal_piece(struct stream *stream, struct bytes piece, size_t *gathered)
{
	struct tls_slots *tls_slots = stream->pool->tls_slots;

	while (piece.count) {
		size_t whole = *gathered ? 0 : piece.count - piece.count % TLS_RECORD_MAX;
		size_t part = sizeof(tls_slots->gathered) - *gathered;

		if (whole && !tls_seal(stream->tls, bytes_of(piece.at, whole), &tls_slots->out))
			return false;
		piece = bytes_skip(piece, whole);
		if (part > piece.count)
			part = piece.count;
		memcpy(tls_slots->gathered + *gathered, piece.at, part);
		*gathered += part;
		piece = bytes_skip(piece, part);
		if (*gathered == sizeof(tls_slots->gathered) && !seal_gathered(stream, gathered))
			return false;
	}
	return true;
}

bool stream_secure_sendv(struct stream *stream, const struct iovec *pieces, int count)
{
	/* false during the handshake: plain bytes must not be sent */
	bool is_good = !stream->tls->is_shaking;
	size_t gathered = 0;

	if (is_good) {
		take_tls_slot(stream);
		clear_out(stream);
	}
	for (int i = 0; is_good && i < count; i++)
		is_good =
		    seal_piece(stream, bytes_of(pieces[i].iov_base, pieces[i].iov_len), &gathered);
	if (is_good && seal_gathered(stream, &gathered))
		return stream_send_raw(stream, buf_bytes(&stream->pool->tls_slots->out));
	stream->error = EPROTO;
	return false;
}

void stream_secure_goodbye(struct stream *stream)
{
	struct buf *out;

	if (stream->tls->is_shaking || stream->tls->end == TLS_BROKEN || stream->error ||
	    stream->out)
		return;
	out = clear_out(stream);
	tls_goodbye(stream->tls, out);
	if (out->count)
		stream_send_raw(stream, buf_bytes(out));
}

void stream_secure_close(struct stream *stream)
{
	struct tls *tls = stream->tls;
	struct handshake *handshake = tls->is_shaking ? tls->handshake : NULL;

	if (handshake && handshake->is_held) {
		handshake->stream = NULL;
		stream->tls = NULL;
		workers_abandon(&handshake->job);
		return;
	}
	stream_secure_goodbye(stream);
	if (handshake)
		handshake_free(handshake);
	else
		leave_tls_slot(tls);
	tls_free(&stream->pool->tls, &stream->tls);
}
