/* SPDX-License-Identifier: ISC */
/*
 * A stream: one connected socket, input that cannot be processed yet (kept input), and output
 * that the socket has not accepted yet (unsent output). An idle stream owns no buffer. The peer
 * of a stream is the other end of its connection.
 *
 * Reading uses the loop's scratch buffer. Output is sent at once, or at the end of the turn
 * (stream_defer()). Only stream_want() decides whether to read; whether to wait for the socket
 * to become writable follows from unsent output.
 *
 * stream_secure() makes a stream encrypted. The functions that read and send stay the same:
 * their bytes are the plain ones.
 */
#ifndef PGWEIR_NET_STREAM_H
#define PGWEIR_NET_STREAM_H

#include <sys/uio.h>

#include "pgweir/base/buf.h"
#include "pgweir/base/err.h"
#include "pgweir/base/log.h"
#include "pgweir/base/record.h"
#include "pgweir/base/slab.h"
#include "pgweir/loop/loop.h"

/* Maximum number of bytes that one stream_read() reads from the socket. */
#define STREAM_READ_SIZE ((size_t)64 * 1024)

/* Maximum input that is kept under WANT_END, where input is read only to see the end. */
#define STREAM_AHEAD_MAX ((size_t)64 * 1024)

struct stream;
struct workers;
struct stream_buf;
struct outbox;
struct tls_slots;
struct tls;
struct tls_context;

/* Callbacks of the owner. They are called from the loop, and may close the stream. */
struct stream_ops {
	/* Input has arrived, or the connection has ended: call stream_read(). */
	void (*on_input)(struct stream *stream);
	/* All is sent. Only if stream_send() could not send it at once. May be NULL. */
	void (*on_flushed)(struct stream *stream);
	/* The peer has disconnected. Only under WANT_END, or if sending unsent output failed. */
	void (*on_gone)(struct stream *stream);
	/*
	 * The handshake of stream_secure() is over: the stream is encrypted, and stream_kept()
	 * may have input already. err: it failed; close the stream.
	 */
	void (*on_secured)(struct stream *stream, const struct err *err);
};

enum stream_want {
	WANT_NOTHING, /* leave input in the kernel: back-pressure */
	WANT_END,     /* keep input, up to STREAM_AHEAD_MAX, and report when the peer disconnects */
	WANT_INPUT
};

enum stream_result {
	STREAM_DATA,    /* *in is filled; there may be more */
	STREAM_SHORT,   /* *in is filled; the socket is empty now */
	STREAM_NOTHING, /* no input */
	STREAM_END      /* the peer has closed, or the connection broke: stream->error, or 0 */
};

/* The number of streams of a loop that can read in bulk at the same time: stream.c. */
#define BULK_SLOTS 15

/* What the streams of one loop share. Its buffers are rows of SHOW MEM. */
struct stream_pool {
	struct slab buffers; /* of stream_buf */
	size_t first_size;   /* initial size of a buffer in bytes (pkt_buf) */
	void *free_list;     /* free buffers of that size; each begins with a pointer to the next */
	size_t free_size;    /* bytes in them */
	struct workers *handshakes; /* for TLS handshakes; borrowed. NULL: not available */
	/* for deferred output; borrowed. NULL: output is never deferred */
	struct outbox *outbox;
	/* its rest that the socket does not accept: becomes unsent output, or ends the connection
	 */
	void (*leave_unsent)(struct stream *stream, struct bytes rest);
	struct bulk {
		struct timer pause;    /* set while there is a stream */
		struct stream *stream; /* NULL: the slot is free */
	} bulk[BULK_SLOTS];
	struct tls_slots *tls_slots; /* for encrypted streams; created for the first of them */
	struct slab tls;             /* with their keys */
};

/* What each message uses comes first, then the watch: only libevent uses its end. */
struct stream {
	const struct stream_ops *ops;
	struct stream_pool *pool;
	struct stream_buf *in;  /* kept input, or NULL */
	struct stream_buf *out; /* unsent output (encrypted, if the stream is), or NULL */
	struct tls *tls;        /* NULL: a plain stream */
	enum stream_want want : 3;
	bool is_halted : 1; /* stream_halt() */
	bool is_secret : 1; /* wipe kept input before its memory is freed; set by the owner */
	bool gathers : 1;   /* short output is sent at the end of the turn */
	unsigned int pending_send : 8; /* its number in the outbox, from 1; 0: none */
	unsigned int slot : 4;         /* number of its slot for bulk reading; 0: none */
	int error : 12;                /* errno of the error that broke the connection, or 0 */
	union {
		uint32_t flow;      /* bytes received since we last sent something */
		uint32_t allowance; /* while halted: bytes that may still be read */
	};
	struct watch watch;
};

void stream_pool_init(struct stream_pool *pool, size_t first_size);
void stream_pool_done(struct stream_pool *pool);

/* Owns the socket, connected and non-blocking, from now on. Starts with WANT_NOTHING. */
void stream_open(struct stream *stream, struct loop *loop, struct stream_pool *pool, int fd,
                 const struct stream_ops *ops);

/* Closes the socket and frees the buffers. Unsent output is lost. Safe if it was never opened. */
void stream_close(struct stream *stream);

/*
 * Ends a stream but not its connection: nothing is said to the peer. Returns the socket, which the
 * caller owns and which is not watched any more. Kept input and unsent output are dropped.
 */
int stream_take_socket(struct stream *stream);

static inline bool stream_is_open(const struct stream *stream) { return stream->ops != NULL; }

/* The only function that decides what the kernel watches, from `want` and unsent output. */
bool stream_watch(struct stream *stream);

static inline bool stream_is_halted(const struct stream *stream) { return stream->is_halted; }

/* false: it is halted, and has read what it may. */
static inline bool stream_may_read(const struct stream *stream)
{
	return !stream->is_halted || stream->allowance;
}

/* Sets what to read. false: the kernel refused to watch the socket. */
static inline bool stream_want(struct stream *stream, enum stream_want want)
{
	bool is_reading =
	    stream->watch.wanted == WATCH_READ && !stream->out && stream_may_read(stream);

	stream->want = want;
	/* If nothing is wanted, on_ready() stops reading when there is input. */
	return is_reading || stream_watch(stream);
}

/*
 * Reads once. *in is the kept input followed by the new input. It is valid until any stream is
 * read. Before that, give the part that is not used up to stream_keep().
 */
enum stream_result stream_read(struct stream *stream, struct bytes *in);

/* The same as stream_keep(), if there is something to keep, or something was kept before. */
bool stream_keep_rest(struct stream *stream, struct bytes rest);

/* Keeps `rest`, the end of the last *in, for the next call. false: no memory. */
static inline bool stream_keep(struct stream *stream, struct bytes rest)
{
	return (!stream->in && rest.count == 0) || stream_keep_rest(stream, rest);
}

/* Puts bytes that were used already in front of the kept input. false: no memory. */
bool stream_put_back(struct stream *stream, struct bytes bytes);

/* The same as stream_kept(), if there is any. */
struct bytes stream_kept_rest(const struct stream *stream);

/*
 * Returns the kept input without reading. Then call stream_keep() with the part that is not
 * used up (an empty one frees the buffer).
 */
static inline struct bytes stream_kept(const struct stream *stream)
{
	return stream->in ? stream_kept_rest(stream) : bytes_of(NULL, 0);
}

/*
 * Sends the pieces in order, in one write if the socket accepts them. The rest is copied and
 * sent later, before on_flushed(). false: no memory, or the connection broke (stream->error);
 * close it.
 */
bool stream_send(struct stream *stream, struct bytes bytes);
bool stream_sendv(struct stream *stream, const struct iovec *pieces, int count);

/*
 * From now on short output is sent at the end of the turn, together with that of other streams.
 * Such output counts as sent. If the socket does not accept it then, it
 * becomes unsent output, and if the connection is found broken, on_gone() is called. Do not
 * send secrets in this way: a copy stays in memory for a while.
 */
void stream_defer(struct stream *stream);

/* Sends what the stream has in the outbox, without waiting for the end of the turn. */
void stream_push(struct stream *stream);

/* Returns the unsent output, as it goes over the wire. Call stream_push() before. */
struct bytes stream_unsent_bytes(const struct stream *stream);

bool stream_has_unread(const struct stream *stream);

/* Whether the peer has disconnected or ended its side. For a halted stream too. */
bool stream_has_hung_up(const struct stream *stream);

/* Most streams have none. */
static inline size_t stream_unsent(const struct stream *stream)
{
	return stream->out ? stream_unsent_bytes(stream).count : 0;
}

/*
 * How many of the last bytes sent have certainly not reached the peer: those that were not given to
 * the kernel, and if the peer has closed its end, those that its kernel has never acknowledged.
 */
size_t stream_undelivered(const struct stream *stream);

/* Nothing may be sent any more, as a message may be cut. false: there is no unsent output. */
bool stream_drop_unsent(struct stream *stream);

/* Tells the peer that nothing more will be sent (shutdown). There must be no unsent output. */
void stream_finish(struct stream *stream);

/*
 * Until stream_go_on() at most `allowance` bytes are read, whatever is wanted; further input
 * stays in the kernel. From an encrypted stream nothing is read. Unsent output is still sent.
 */
void stream_halt(struct stream *stream, uint32_t allowance);
void stream_go_on(struct stream *stream);

/* ---- encryption ---- */

/*
 * Begins a TLS handshake; on_secured() is called from the loop when it is over. Do not send or
 * read until then. stream_want() takes effect afterwards, and stream_close() is allowed.
 *
 * name: of the host that we connect to, or NULL. early: bytes of the handshake that were
 * already read. There must be no kept input. false: *err says why.
 */
bool stream_secure(struct stream *stream, struct tls_context *context, const char *name,
                   struct bytes early, struct err *err);

/* With TLS context and name of another stream, for a second connection to that server. */
bool stream_secure_like(struct stream *stream, const struct stream *other, struct err *err);

/* Why TLS has ended the connection: what the peer sent was invalid. CLOSE_NONE: it was not. */
enum close_reason stream_tls_fault(const struct stream *stream);

bool stream_is_shaking(const struct stream *stream);

/* Whether data that is sent and read now is encrypted. */
static inline bool stream_is_encrypted(const struct stream *stream)
{
	return stream->tls && !stream_is_shaking(stream);
}

/*
 * ---- the outbox of a loop: short output of many streams is sent together at the end of a turn
 * ----
 *
 * One system call for many short writes costs less than one call for each. And it wakes the
 * receiving processes together, so that they interrupt this process once, not after each write.
 * If io_uring is not available or not wanted, each write is its own system call, but still at
 * the end of the turn.
 */

/* One for each loop. The logger is borrowed. NULL: no memory. */
struct outbox *outbox_new(struct loop *loop, const struct logger *logger);

/* All streams that used it must be closed. */
void outbox_free(struct outbox **outbox);

void outbox_send(struct outbox *outbox);

/* Whether to use io_uring; by default it is not used. */
void outbox_use_ring(struct outbox *outbox, bool is_wanted);

/*
 * ---- parcels ----
 *
 * The connection of a stream without its loop, to be given to another loop, maybe in another
 * thread; and the record of its encryption, for another process. It has everything that a stream
 * has: the socket, the state of its TLS, kept input and unsent output. What belongs to a loop (its
 * watch, its place in the outbox, its slots) stays behind.
 */

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
