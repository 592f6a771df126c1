/* SPDX-License-Identifier: ISC */
/*
 * A stream: one connected socket, what it has sent us that could not be judged
 * yet (kept input), and what it would not take yet (unsent output). At rest it
 * owns no buffer.
 *
 * Reading goes through the loop's scratch buffer. Writing is tried at once, or at the end
 * of the turn (stream_defer()).
 * Whether we want to read is said in one place, stream_want(); whether we want
 * to write follows from what is unsent.
 *
 * A stream may become encrypted: stream_secure(). Those who read and send do not
 * notice; what they give and get are the plain bytes.
 */
#ifndef PGWEIR_NET_STREAM_H
#define PGWEIR_NET_STREAM_H

#include <sys/uio.h>

#include "pgweir/base/bytes.h"
#include "pgweir/base/err.h"
#include "pgweir/base/slab.h"
#include "pgweir/loop/loop.h"

/* Bytes that one stream_read() takes from the socket at most. */
#define STREAM_READ_SIZE ((size_t)64 * 1024)

/* Bytes that are kept of a far end that talks while nobody listens, so that its end is seen. */
#define STREAM_AHEAD_MAX ((size_t)64 * 1024)

#define STREAM_UNLIMITED UINT32_MAX

struct stream;
struct bulk_slots;
struct handshakes;
struct stream_buf;
struct outbox;
struct tls_slots;
struct tls;
struct tls_context;

/* What the owner is told; each comes from the loop, and may close the stream. */
struct stream_ops {
	/* There is something to read, or the end has come: call stream_read(). */
	void (*on_input)(struct stream *stream);
	/* All unsent output has gone out, after stream_send() could not send it at once. */
	void (*on_flushed)(struct stream *stream);
	/* The far end is gone; comes only under WANT_END, or when sending failed later on. */
	void (*on_gone)(struct stream *stream);
	/*
	 * The handshake that stream_secure() began is over: the stream is encrypted, and
	 * what came early is kept (stream_kept()). err: it failed; close the stream.
	 */
	void (*on_secured)(struct stream *stream, const struct err *err);
};

enum stream_want {
	WANT_NOTHING, /* let it wait in the kernel: back-pressure */
	WANT_END,     /* keep what comes, up to STREAM_AHEAD_MAX, and tell when the far end goes */
	WANT_INPUT
};

enum stream_result {
	STREAM_DATA,    /* *in is filled; there may be more */
	STREAM_SHORT,   /* *in is filled; the socket has been emptied */
	STREAM_NOTHING, /* nothing has come */
	STREAM_END      /* the far end has closed, or the connection broke: stream->error, or 0 */
};

/* Buffers of the streams of one loop: rows of SHOW MEM. */
struct stream_pool {
	struct slab kept;
	size_t first_size; /* bytes that a kept buffer has from the start (pkt_buf) */
	void *spare; /* buffers of that size for the next; each begins with the next one's place */
	size_t spare_size;             /* bytes in them */
	struct handshakes *handshakes; /* for handshakes; borrowed. NULL: there are none */
	struct outbox *outbox;         /* of those that gather; borrowed. NULL: nobody does */
	struct bulk_slots *bulk_slots; /* of those in which much flows; made for the first */
	struct tls_slots *tls_slots;   /* of the encrypted ones; made for the first of them */
};

/* What a message touches lies together: behind it comes the watch, whose end is libevent's. */
struct stream {
	const struct stream_ops *ops;
	struct stream_pool *pool;
	struct stream_buf *in;  /* kept input, or NULL */
	struct stream_buf *out; /* unsent output (encrypted, if the stream is), or NULL */
	struct tls *tls;        /* NULL: a plain stream */
	enum stream_want want : 4;
	bool is_secret : 1;      /* kept input is wiped when it is let go; the owner sets it */
	bool gathers : 1;        /* short output goes out at the end of the turn */
	unsigned int letter : 8; /* its number in the outbox, from 1; 0: it has none there */
	unsigned int slot : 4;   /* its number among those in which much flows; 0: none */
	int error : 12;          /* errno of what broke the connection, or 0 */
	uint32_t flow;           /* bytes that have come since we last sent something */
	uint32_t allowance;      /* bytes that may still be read; STREAM_UNLIMITED unless halted */
	struct watch watch;
};

void stream_pool_init(struct stream_pool *pool, size_t first_size);
void stream_pool_done(struct stream_pool *pool);

/* Takes over a connected, non-blocking socket. Begins with WANT_NOTHING. */
void stream_open(struct stream *stream, struct loop *loop, struct stream_pool *pool, int fd,
                 const struct stream_ops *ops);

/* Closes the socket and lets the buffers go. Unsent output is lost. Safe when never opened. */
void stream_close(struct stream *stream);

/*
 * Ends a plain stream without touching its connection: the socket, which is not watched any
 * more, is the caller's. What is kept and unsent is let go.
 */
int stream_take_socket(struct stream *stream);

static inline bool stream_is_open(const struct stream *stream) { return stream->ops != NULL; }

/* false: the kernel refused to watch it. */
bool stream_want(struct stream *stream, enum stream_want want);

/*
 * Reads what has come, once. *in is what was kept before, and behind it what is
 * new. It is good until someone else reads, and whatever of its end is not used
 * up must be given to stream_keep() before.
 */
enum stream_result stream_read(struct stream *stream, struct bytes *in);

/* Keeps the end of the last *in for the next time. false: no memory. */
bool stream_keep(struct stream *stream, struct bytes rest);

/*
 * What is kept, without reading. Whatever of it is not used up stays by calling
 * stream_keep() with the rest (an empty rest lets the buffer go).
 */
struct bytes stream_kept(const struct stream *stream);

/*
 * Sends the pieces in order, in one write if the socket takes them. What it
 * does not take is copied and goes out later, before on_flushed().
 * false: no memory, or the connection broke (stream->error); close it.
 */
bool stream_send(struct stream *stream, struct bytes bytes);
bool stream_sendv(struct stream *stream, const struct iovec *pieces, int count);

/*
 * From now on short output waits for the end of the turn, and goes out together with that of
 * others (pgweir/net/outbox.h). It counts as sent; what the socket does not take then is
 * unsent, and a connection that is found broken tells on_gone(). Nothing secret
 * should be sent like that: a copy of it stays for a while.
 */
void stream_defer(struct stream *stream);

/* Sends what waits for the end of the turn now. */
void stream_push(struct stream *stream);

/* What is unsent; of a plain stream only. Push it before. */
struct bytes stream_unsent_bytes(const struct stream *stream);

/* Whether something has come that was not read yet. */
bool stream_has_unread(const struct stream *stream);

/* Whether the far end has ended, or gone: nothing comes behind what is unread. Also if halted. */
bool stream_has_hung_up(const struct stream *stream);

/* Bytes that the socket would not take yet. */
size_t stream_unsent(const struct stream *stream);

/* Tells the far end that nothing more will come (shutdown). Nothing may be unsent. */
void stream_finish(struct stream *stream);

/*
 * Until stream_go_on() no more than `allowance` bytes are read, whatever is wanted:
 * what comes waits in the kernel. Of an encrypted stream nothing at all is read.
 * What is unsent still goes out.
 */
void stream_halt(struct stream *stream, uint32_t allowance);
void stream_go_on(struct stream *stream);

static inline bool stream_is_halted(const struct stream *stream)
{
	return stream->allowance != STREAM_UNLIMITED;
}

/* ---- encryption ---- */

/*
 * Begins the handshake of TLS; on_secured() comes from the loop when it is over. Helper
 * threads talk with the far end until then: nothing may be sent or read; stream_want() is
 * remembered, and stream_close() may be called.
 *
 * name: of the host that we connect to, or NULL. early: what was read of the
 * handshake already. Nothing may be kept. false: *err says why not.
 */
bool stream_secure(struct stream *stream, struct tls_context *context, const char *name,
                   struct bytes early, struct err *err);

/* The same with another connection's set and name: to the very same end in the very same way. */
bool stream_secure_like(struct stream *stream, const struct stream *other, struct err *err);

/* Whether the far end has been cut off for asking for new TLS keys again and again. */
bool stream_is_flooded(const struct stream *stream);

/* Whether the handshake is under way. */
bool stream_is_shaking(const struct stream *stream);

/* Whether what is sent and read now is encrypted. */
static inline bool stream_is_encrypted(const struct stream *stream)
{
	return stream->tls && !stream_is_shaking(stream);
}

#endif
