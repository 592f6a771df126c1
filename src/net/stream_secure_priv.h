/* SPDX-License-Identifier: ISC */
/*
 * Encrypted streams: what the other files of streams hand over when stream->tls is there.
 */
#ifndef PGWEIR_NET_STREAM_SECURE_PRIV_H
#define PGWEIR_NET_STREAM_SECURE_PRIV_H

#include "tls_priv.h"

/* Bytes of the wire that one read takes: with a record that was cut off before, and all of it
 * decrypted, they fill STREAM_READ_SIZE. */
#define SECURE_READ_SIZE (STREAM_READ_SIZE - TLS_RECORD_MAX)

/* As recv() of STREAM_READ_SIZE bytes. *is_full: there may be more. */
ssize_t stream_secure_receive(struct stream *stream, char *at, bool *is_full);
bool stream_secure_sendv(struct stream *stream, const struct iovec *pieces, int count);
void stream_secure_goodbye(struct stream *stream);

/*
 * The stream closes: lets all of it go. false: the socket is closed by the handshake that a
 * helper thread is at.
 */
bool stream_secure_close(struct stream *stream);

/* So many streams may keep OpenSSL's buffers: those that came to work last. */
#define TLS_SLOTS 32

/* Buffers that all encrypted streams of a loop share. */
struct tls_slots {
	struct tls *slots[TLS_SLOTS]; /* NULL: free */
	unsigned int next_slot;       /* whose turn it is to give way */
	char in[SECURE_READ_SIZE];
	char gathered[TLS_RECORD_MAX];
	struct buf out;
};
void stream_secure_slots_free(struct tls_slots **slots);

#endif
