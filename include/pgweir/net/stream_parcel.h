/* SPDX-License-Identifier: ISC */
/*
 * A stream parcel: the connection of a stream without its loop, to be given to another loop, maybe
 * in another thread; and the record of its encryption, for another process. It has everything that
 * a stream has: the socket, the state of its TLS, kept input and unsent output. What belongs to a
 * loop (its watch, its place in the outbox, its slots) stays behind.
 */
#ifndef PGWEIR_NET_STREAM_PARCEL_H
#define PGWEIR_NET_STREAM_PARCEL_H

#include "pgweir/base/buf.h"
#include "pgweir/base/record.h"
#include "pgweir/net/stream.h"

struct stream_parcel {
	int fd;
	struct tls *tls;    /* NULL: a plain stream */
	struct buf in, out; /* kept input; unsent output, encrypted if the stream is */
	bool is_secret, gathers;
};

/*
 * Takes the connection out of a stream, which is closed then. Deferred output is sent first. false:
 * the stream is unchanged. It is in a handshake, halted or broken, or there is no descriptor left
 * (one more is needed until the end of the next turn).
 */
bool stream_detach(struct stream *stream, struct stream_parcel *parcel);

/*
 * Opens a stream with the connection of the parcel, which is empty then. To be called in the thread
 * of `loop`. It starts with WANT_NOTHING, and stream_kept() may have input. Output is deferred if
 * it was before and if the loop has an outbox. false: no memory; the parcel is unchanged.
 */
bool stream_attach(struct stream *stream, struct loop *loop, struct stream_pool *pool,
                   struct stream_parcel *parcel, const struct stream_ops *ops);

/*
 * Ends the connection of a parcel that no loop takes. Sends the words, encrypted if the connection
 * is, as far as the socket accepts them, and not at all behind unsent output.
 */
void stream_parcel_end(struct stream_parcel *parcel, struct bytes words);

/*
 * ---- to another process ----
 *
 * The socket, kept input and unsent output go as they are (stream_unsent_bytes()). An encrypted
 * stream needs this too: what our record layer has.
 */

/* Whether another process can go on with the stream: it is plain, or has our record layer. */
bool stream_can_move(const struct stream *stream);

/* Follows the record of what has the stream. The secrets are in it: wipe it. */
extern const struct record_table stream_tls_table;

/* Adds the record of an encrypted stream, nothing for a plain one. Call stream_push() before. */
void stream_write_tls(const struct stream *stream, struct buf *record);

/*
 * Reads that record, if it is next, and makes a stream that was just opened encrypted. NULL: only
 * checks it. accepts: the peer is the client. context: that of new connections, or NULL; *is_same:
 * the connection was made by the same rules. false: no memory; the stream must be closed.
 */
bool stream_read_tls(struct stream *stream, struct record *record, bool accepts,
                     struct tls_context *context, bool *is_same);

/* Sends what stream_unsent_bytes() has given. false: as stream_send(). */
bool stream_send_unsent(struct stream *stream, struct bytes bytes);

/*
 * ---- farewell ----
 *
 * A connection whose client only waits for its end, such as that of a cancel request. Another
 * process can make that end: it needs the descriptor and the last bytes.
 */

struct farewell {
	int fd;          /* -1: none */
	struct buf last; /* to be sent before the end: TLS's close_notify; empty without TLS */
};

/*
 * Takes the connection out of a stream, which is closed then. Input and unsent output are dropped.
 * false: the stream is unchanged and the farewell is none; see stream_detach().
 */
bool farewell_begin(struct stream *stream, struct farewell *farewell);

/* Sends the last bytes, as far as the socket accepts them, and closes the descriptor. */
void farewell_end(struct farewell *farewell);

/* Only closes the descriptor: another process has the connection too. */
void farewell_leave(struct farewell *farewell);

#endif
