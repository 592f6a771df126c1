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

#include "pgweir/base/buf.h"
#include "pgweir/base/bytes.h"
#include "pgweir/base/clock.h"
#include "pgweir/base/refs.h"
#include "pgweir/net/stream.h"
#include "pgweir/net/tls.h"

/* OpenSSL's headers beside our own errors: both define ERR_STATE. */

#define ERR_STATE OPENSSL_ERR_STATE
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#undef ERR_STATE

/*
 * ---- records ----
 *
 * The record layer of TLS 1.3 (RFC 8446, sections 5 and 7): what encrypts and decrypts a
 * connection once its handshake is over. Two secrets, two sequence numbers and a cipher are all
 * that it needs, so such a connection is small and can be written down. Without a socket: bytes of
 * the wire go in, bytes for the wire are added to a buffer.
 *
 * Only what may follow a handshake is understood: data, key updates, session tickets (ignored) and
 * alerts. Anything else ends the connection with a fatal alert. The cryptography is OpenSSL's.
 */

#define TLS_RECORD_MAX ((size_t)16 * 1024) /* bytes of data in a record */
#define TLS_HEADER_SIZE ((size_t)5)        /* type, version and length of a record */
#define TLS_BODY_MAX (TLS_RECORD_MAX + 256)
#define TLS_SECRET_MAX 48
#define TLS_KEY_MAX 32
#define TLS_IV_SIZE 12
#define TLS_TAG_SIZE 16

/*
 * Key updates and tickets of the peer that are accepted; tls.c reduces the count for time and data.
 * Each costs the peer 27 bytes and us a derivation of keys.
 */
#define TLS_UPDATES_MAX 32

/* Records without data in a row that are accepted. */
#define TLS_EMPTY_MAX 32

/* We change our key before so many records: AES-GCM is safe for 2^24.5 (section 5.5). */
#define TLS_KEY_RECORDS ((UINT64_C(1) << 24) - 1024)

enum tls_cipher { TLS_CIPHER_NONE, TLS_AES_128_GCM, TLS_AES_256_GCM, TLS_CHACHA20, TLS_CIPHERS };

/* Whether and why no more can be read. */
enum tls_end {
	TLS_GOES_ON,
	TLS_ENDED, /* the peer has sent close_notify */
	TLS_BROKEN /* invalid bytes were received */
};

/*
 * One direction. The key and the IV follow from the secret, but to derive them costs ten times as
 * much as to encrypt a short record. Without the hole that would be behind the IV.
 */
struct tls_way {
	uint64_t number; /* sequence number of the next record */
	unsigned char secret[TLS_SECRET_MAX], key[TLS_KEY_MAX], iv[TLS_IV_SIZE];
} __attribute__((packed, aligned(4)));

/* Small, as every idle connection has it. */
struct tls_records {
	struct tls_way in, out;
	/*
	 * Of a handshake message that is cut: the first bytes of its header as a number, if
	 * header_count is not 0; else the count of bytes that are still to come
	 */
	uint32_t message : 24;
	uint32_t header_count : 2;
	uint32_t is_key_update : 1; /* its last byte is still to come */
	uint32_t cipher : 3;        /* enum tls_cipher */
	uint32_t accepts : 1;       /* the peer is the client of the handshake */
	uint32_t is_flooded : 1;
	uint8_t empty_count;
	uint8_t update_count;  /* see TLS_UPDATES_MAX */
	uint16_t opened_bytes; /* data bytes not yet counted for a reduction: tls.c */
};

/* Whether it is in use, instead of OpenSSL's. */
static inline bool tls_records_are_on(const struct tls_records *records)
{
	return records->cipher != TLS_CIPHER_NONE;
}

/*
 * OpenSSL's contexts for the two directions of a connection, made when needed. Whoever is busy has
 * some with its keys. Zero: none yet.
 */
struct tls_keyed {
	struct tls_keyed_way {
		EVP_CIPHER_CTX *context;
		uint8_t cipher; /* what it was made for */
		bool is_keyed;
	} in, out;
};

void tls_keyed_done(struct tls_keyed *keyed);

/* Overwrites the keys, and keeps the contexts for another connection. */
void tls_keyed_forget(struct tls_keyed *keyed);

/* Bytes of a secret of this cipher; 0: no such cipher. */
size_t tls_secret_size(enum tls_cipher cipher);

/* The cipher with the number that TLS gives it (0x1301, ...). */
enum tls_cipher tls_cipher_of(uint32_t number);
const char *tls_cipher_name(enum tls_cipher cipher);

/* Derives the keys from cipher and secrets, which are set. false: not possible. */
bool tls_records_begin(struct tls_records *records);

/*
 * Decrypts all complete records of *in to `at`, which must have room for as many bytes as *in has,
 * and skips them there. *count: the bytes of data. Adds answers (a key update, an alert) to *out.
 * An incomplete record that could not become a good one is TLS_BROKEN already.
 */
enum tls_end tls_records_open(struct tls_records *records, struct tls_keyed *keyed,
                              struct bytes *in, char *at, size_t *count, struct buf *out);

/* Encrypts, in as many records as needed. false: no memory, or OpenSSL refuses. */
bool tls_records_seal(struct tls_records *records, struct tls_keyed *keyed, struct bytes in,
                      struct buf *out);

/* Changes our key, after telling the peer; `asks`: and asks it to do the same. */
bool tls_records_update(struct tls_records *records, struct tls_keyed *keyed, bool asks,
                        struct buf *out);

/* Tells the peer that nothing more will be sent. */
void tls_records_goodbye(struct tls_records *records, struct tls_keyed *keyed, struct buf *out);

/* ---- connections ---- */

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
	struct buf *part;     /* with our record layer: the beginning of a record, or NULL */
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

static inline struct bytes tls_part(const struct tls *tls)
{
	return tls->part ? buf_bytes(tls->part) : bytes_of("", 0);
}

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
