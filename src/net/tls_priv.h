/* SPDX-License-Identifier: ISC */
/*
 * TLS, internal to the module: an encrypted connection as an engine without a socket. Bytes of
 * the wire go in; bytes for the wire are added to a buffer. The handshake is OpenSSL's. After it,
 * with tls_records = own and TLS 1.3, our record layer has the connection, and OpenSSL's object is
 * freed.
 */
#ifndef PGWEIR_NET_TLS_PRIV_H
#define PGWEIR_NET_TLS_PRIV_H

#include <stdatomic.h>

#include "pgweir/base/bytes.h"
#include "pgweir/base/clock.h"
#include "pgweir/base/refs.h"
#include "pgweir/net/stream.h"
#include "pgweir/net/tls.h"

/*
 * ---- openssl ----
 *
 * Includes OpenSSL's headers beside our own errors: both define ERR_STATE.
 */

#define ERR_STATE OPENSSL_ERR_STATE
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#undef ERR_STATE

#include "tls_records_priv.h"

struct handshake;

enum tls_step {
	TLS_MORE,  /* needs more bytes of the peer */
	TLS_DONE,  /* the handshake is over */
	TLS_FAILED /* *err says why */
};

/* The count of key updates is reduced by one for each period, and for so many bytes of data. */
#define TLS_UPDATE_PERIOD USEC_PER_SEC
#define TLS_UPDATE_BYTES ((size_t)64 * 1024)

#define TLS_GROUP_SIZE 20

/* What a busy connection keeps, for its next record: OpenSSL's buffers, or contexts with keys. */
struct tls_slot {
	struct tls *tls; /* whose it is; NULL: free */
	usec_t used_at;
	struct tls_keyed keyed;
};

struct tls {
	/* One reference. NULL: another process has made the connection, and this one makes none. */
	struct tls_context *context;
	char *name; /* name of the host that we connect to, or NULL */
	union {
		struct handshake *handshake; /* is_shaking: stream_secure.c */
		struct tls_slot *slot;       /* afterwards; NULL: none */
	};
	union {
		struct tls_engine *engine; /* OpenSSL's; NULL before the first step */
		X509 *peer;                /* tls_is_own(): see tls_forget_peer() */
	};
	/* Our record layer, if its cipher is set. The count of key updates is OpenSSL's, too. */
	struct tls_records records;
	char *part; /* with our record layer: the beginning of a record, or NULL */
	uint16_t part_size;
	uint16_t forgiven_at; /* in periods, modulo 65536 */
	/* of the context's `named`, from 1: the certificate that the client got */
	uint16_t named : 11;
	uint16_t group : 5; /* of the key exchange: tls_group_name() */
	bool is_shaking;    /* the handshake is not over, and a helper thread may have the rest */
	enum tls_end end : 2;
	bool is_peer_verified : 1;
	bool is_agreed : 1; /* a protocol, by ALPN */
};

/* Every connection has one: each byte more is one for each of thousands. */
_Static_assert(sizeof(struct tls) <= 256, "with 8 bytes for a pointer");

/* OpenSSL's object, and what its transport reads and writes. */
struct tls_engine {
	SSL *ssl;
	unsigned int secret_sizes; /* bytes of both secrets that OpenSSL has told */
	struct bytes in;           /* during a call: bytes to read */
	struct buf *out;           /* during a call: where to write */
};

#define TLS_PRINT_SIZE 32

/* Made in tls_context.c. */
struct tls_context {
	char protocol[32]; /* for ALPN */
	unsigned int protocol_size;
	struct refs refs;
	atomic_uint unused; /* handshakes since the last one that used a ticket */
	bool has_own_records;
	SSL_CTX *library;
	BIO_METHOD *transport;
	enum tls_role role;
	enum tls_check check;
	unsigned char print[TLS_PRINT_SIZE];
	size_t binding_count;
	unsigned char binding[TLS_BINDING_MAX]; /* channel binding of our certificate */
	char *cert_file;
	struct tls_context **named; /* the same with the certificates of name_files */
	uint16_t named_count;
};

/* ---- tls_context.c ---- */

/* Fills *err with "<what>: <reason>", the reason being OpenSSL's last error on this thread. */
bool tls_err(struct err *err, enum err_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Computes tls-server-end-point (RFC 5929) of a certificate, which may be NULL. Returns its
 * size; 0: none.
 */
size_t tls_binding_of(const X509 *certificate, unsigned char out[TLS_BINDING_MAX]);

/* ---- tls.c ---- */

/* The group of the key exchange as a number, for one process; 0: it is not one of TLS 1.3. */
uint8_t tls_group_of(struct bytes name);
const char *tls_group_name(unsigned int group);

/* The "socket" of OpenSSL: reads from tls->in, writes to tls->out. NULL: no memory. */
BIO_METHOD *tls_transport_new(void);

/*
 * `name`: the host that we connect to, or NULL. A context is needed for a handshake only. Returns
 * NULL if there is no memory. The slab is that of the streams of a loop.
 */
struct tls *tls_new(struct slab *slab, struct tls_context *context, const char *name);
void tls_free(struct slab *slab, struct tls **tls);

/*
 * Moves it out of one slab and into another one; NULL: into memory that belongs to no loop. false:
 * no memory, and it is where it was.
 */
bool tls_move(struct tls **tls, struct slab *from, struct slab *to);

/*
 * Does one step of the handshake and removes the used bytes from *in. May be called on any
 * thread, but by one at a time.
 */
enum tls_step tls_shake(struct tls *tls, struct bytes *in, struct buf *out, struct err *err);

/*
 * Whether only the peer's Finished is missing, so that the next step costs little: key exchange and
 * signature are behind us, and there is no certificate of the peer's to verify.
 */
bool tls_is_finishing(const struct tls *tls);

static inline bool tls_is_own(const struct tls *tls) { return tls_records_are_on(&tls->records); }

/* For the context of OpenSSL: the connection that an SSL is of. */
struct tls *tls_of_library(const SSL *ssl);

/* The same: notes the secrets, which our record layer needs. */
void tls_note_secret(const SSL *ssl, const char *line);

/*
 * Decrypts all of `in` to `at`, which must have room for its size plus one record
 * (TLS_RECORD_MAX). An incomplete record stays in the engine, with our record layer as tls->part,
 * for which there must be room in front of `in` at the next call. Sets tls->end.
 */
size_t tls_open(struct tls *tls, struct bytes in, char *at, size_t size, struct buf *out);

/* Adds bytes to the part of a record that is kept. false: no memory. */
bool tls_keep_part(struct tls *tls, struct bytes more);

/* Reduces the count of key updates for the time that has passed. */
void tls_forgive_updates(struct tls *tls, usec_t now);

/* Encrypts. false: no memory, or the connection is broken. */
bool tls_seal(struct tls *tls, struct bytes in, struct buf *out);

/*
 * Whether OpenSSL's buffers (17 KB each way) are kept between calls. By default they are
 * created and freed in each call.
 */
void tls_keep_buffers(struct tls *tls);
void tls_drop_buffers(struct tls *tls);

/* Sends close_notify. */
void tls_goodbye(struct tls *tls, struct buf *out);

/*
 * ---- encrypted streams: stream_secure.c ----
 *
 * Used by the other files of streams if stream->tls is set.
 */

/*
 * Bytes given to OpenSSL at once: decrypted, and with a record that was incomplete before, they fit
 * into STREAM_READ_SIZE.
 */
#define SECURE_READ_SIZE (STREAM_READ_SIZE - TLS_RECORD_MAX)

/* Like recv() of STREAM_READ_SIZE bytes. *is_full: there may be more to read. */
ssize_t stream_secure_receive(struct stream *stream, char *at, bool *is_full);
bool stream_secure_sendv(struct stream *stream, const struct iovec *pieces, int count);
void stream_secure_goodbye(struct stream *stream);

/* Says good-bye when the stream closes. What a helper thread still has is freed later. */
void stream_secure_close(struct stream *stream);

/* Takes the engine out of a stream that moves to another loop. Its handshake must be over. */
struct tls *stream_secure_detach(struct stream *stream);

/* The most slots of a loop. */
#define TLS_SLOTS 64

/*
 * A connection that has used its slot within this time keeps it as long as there can be another
 * one: many clients that are at rest, each with a query now and then, need few.
 */
#define TLS_SLOT_BUSY ((usec_t)1000)

/* Buffers shared by all encrypted streams of a loop. */
struct tls_slots {
	struct tls_slot slots[TLS_SLOTS];
	unsigned int slot_count; /* of those that were needed so far */
	unsigned int next_slot;  /* where to look first */
	char in[STREAM_READ_SIZE];
	char gathered[TLS_RECORD_MAX];
	struct buf out;
};
void stream_secure_slots_free(struct tls_slots **slots);

/* Makes them if necessary. false: no memory. */
bool stream_secure_has_slots(struct stream_pool *pool);

#endif
