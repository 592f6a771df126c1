/* SPDX-License-Identifier: ISC */
/*
 * Encrypted streams: used by the other files of streams if stream->tls is set.
 */
#ifndef PGWEIR_NET_STREAM_SECURE_PRIV_H
#define PGWEIR_NET_STREAM_SECURE_PRIV_H

#include "tls_priv.h"

/*
 * Bytes read at once: decrypted, and with a record that was incomplete before, they fit into
 * STREAM_READ_SIZE.
 */
#define SECURE_READ_SIZE (STREAM_READ_SIZE - TLS_RECORD_MAX)

/* Like recv() of STREAM_READ_SIZE bytes. *is_full: there may be more to read. */
ssize_t stream_secure_receive(struct stream *stream, char *at, bool *is_full);
bool stream_secure_sendv(struct stream *stream, const struct iovec *pieces, int count);
void stream_secure_goodbye(struct stream *stream);

/*
 * Frees everything when the stream closes. false: a helper thread still has the handshake,
 * which will close the socket.
 */
bool stream_secure_close(struct stream *stream);

/* Takes the engine out of a stream that moves to another loop. Its handshake must be over. */
struct tls *stream_secure_detach(struct stream *stream);

/* Number of streams that may keep OpenSSL's buffers: those that became active last. */
#define TLS_SLOTS 32

/* Buffers shared by all encrypted streams of a loop. */
struct tls_slots {
	struct tls *slots[TLS_SLOTS]; /* streams that keep their buffers; NULL: free */
	unsigned int next_slot;       /* the slot to be taken next */
	char in[SECURE_READ_SIZE];
	char gathered[TLS_RECORD_MAX];
	struct buf out;
};
void stream_secure_slots_free(struct tls_slots **slots);

/* Makes them if necessary. false: no memory. */
bool stream_secure_has_slots(struct stream_pool *pool);

#endif
