/* SPDX-License-Identifier: ISC */
/*
 * TLS, internal to the module: an encrypted connection as an engine without a socket. Bytes of
 * the wire go in; bytes for the wire are added to a buffer.
 */
#ifndef PGWEIR_NET_TLS_PRIV_H
#define PGWEIR_NET_TLS_PRIV_H

#include "pgweir/base/bytes.h"
#include "pgweir/base/clock.h"
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

struct ssl_st;     /* SSL of OpenSSL */
struct ssl_ctx_st; /* SSL_CTX of OpenSSL */
struct bio_method_st;
struct x509_st; /* X509 of OpenSSL */
struct handshake;

enum tls_step {
	TLS_MORE,  /* needs more bytes of the peer */
	TLS_DONE,  /* the handshake is over */
	TLS_FAILED /* *err says why */
};

/* Whether and why no more can be read. */
enum tls_end {
	TLS_GOES_ON,
	TLS_ENDED, /* the peer has sent close_notify */
	TLS_BROKEN /* invalid bytes were received */
};

#define TLS_UPDATES_MAX 32
#define TLS_UPDATE_PERIOD USEC_PER_SEC
#define TLS_UPDATE_BYTES ((size_t)64 * 1024)

struct tls {
	struct ssl_st *ssl;          /* NULL before the first step */
	struct tls_context *context; /* one reference */
	char *name;                  /* name of the host that we connect to, or NULL */
	struct handshake *handshake; /* NULL when it is over: stream_secure.c */
	enum tls_end end;
	/*
	 * Key updates of the peer, limited because each costs the peer 27 bytes and us a key
	 * derivation. The count is reduced by one for each TLS_UPDATE_PERIOD, and for each
	 * TLS_UPDATE_BYTES of data.
	 */
	unsigned int update_count;
	bool is_flooded; /* too many key updates: the connection is broken */
	usec_t forgiven_at;
	size_t opened_bytes; /* data bytes not yet counted for a reduction */
	unsigned int slot;   /* its slot in tls_slots, counted from 1; 0: none */
	struct bytes in;     /* during a call: bytes to read */
	struct buf *out;     /* during a call: where to write */
};

/* ---- tls_context.c ---- */

/* Parts of a context: the SSL_CTX, the method of its transport, its role, and what is checked. */
struct ssl_ctx_st *tls_context_library(const struct tls_context *context);
struct bio_method_st *tls_context_transport(const struct tls_context *context);
enum tls_role tls_context_role(const struct tls_context *context);
enum tls_check tls_context_check(const struct tls_context *context);

/* Channel binding for logins if its certificate is shown. Empty: none. */
struct bytes tls_context_binding(const struct tls_context *context);

/* ---- tls.c ---- */

/* Fills *err with "<what>: <reason>", the reason being OpenSSL's last error on this thread. */
bool tls_err(struct err *err, enum err_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Computes tls-server-end-point (RFC 5929) of a certificate, which may be NULL. Returns its
 * size; 0: none.
 */
size_t tls_binding_of(const struct x509_st *certificate, unsigned char out[TLS_BINDING_MAX]);

/* Seconds until it expires. false: it is NULL, or has no valid time. */
bool tls_seconds_left(const struct x509_st *certificate, int64_t *seconds);

/* The "socket" of OpenSSL: reads from tls->in, writes to tls->out. NULL: no memory. */
struct bio_method_st *tls_transport_new(void);

/* `name`: the host that we connect to, or NULL. Returns NULL if there is no memory. */
struct tls *tls_new(struct tls_context *context, const char *name);
void tls_free(struct tls **tls);

/*
 * Does one step of the handshake and removes the used bytes from *in. May be called on any
 * thread, but by one at a time.
 */
enum tls_step tls_shake(struct tls *tls, struct bytes *in, struct buf *out, struct err *err);

/*
 * Decrypts all of `in` to `at`, which must have room for its size plus one record
 * (TLS_RECORD_MAX). An incomplete record stays in the engine. Sets tls->end.
 */
#define TLS_RECORD_MAX ((size_t)16 * 1024)
size_t tls_open(struct tls *tls, struct bytes in, char *at, size_t size, struct buf *out);

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

#endif
