/* SPDX-License-Identifier: ISC */
/*
 * TLS inside the room: one encrypted connection as an engine without a socket.
 * Bytes of the wire go in, bytes for the wire are added to a buffer.
 */
#ifndef PGWEIR_NET_TLS_PRIV_H
#define PGWEIR_NET_TLS_PRIV_H

#include "pgweir/base/bytes.h"
#include "pgweir/base/clock.h"
#include "pgweir/net/stream.h"
#include "pgweir/net/tls.h"

struct ssl_st;     /* OpenSSL's SSL */
struct ssl_ctx_st; /* and SSL_CTX */
struct bio_method_st;
struct x509_st; /* and X509 */
struct handshake;

enum tls_step {
	TLS_MORE,  /* wants more of the far end's bytes */
	TLS_DONE,  /* the handshake is over */
	TLS_FAILED /* *err says why */
};

/* Why nothing more can be read. */
enum tls_end {
	TLS_GOES_ON,
	TLS_ENDED, /* the far end has said good-bye */
	TLS_BROKEN /* what came was not what it should be */
};

#define TLS_UPDATES_MAX 32
#define TLS_UPDATE_PERIOD USEC_PER_SEC
#define TLS_UPDATE_BYTES ((size_t)64 * 1024)

struct tls {
	struct ssl_st *ssl;          /* NULL before the first step */
	struct tls_context *context; /* one reference */
	char *name;                  /* the host that we connect to, or NULL */
	struct handshake *handshake; /* until it is over: stream_secure.c */
	enum tls_end end;
	/*
	 * Key updates that are not forgiven yet. Each costs the far end 27 bytes and us a
	 * derivation, so they are limited: one is forgiven each TLS_UPDATE_PERIOD, and for
	 * each TLS_UPDATE_BYTES of data.
	 */
	unsigned int update_count;
	bool is_flooded; /* there were too many: it is broken */
	usec_t forgiven_at;
	size_t opened_bytes; /* since one was forgiven for them */
	unsigned int slot;   /* in the shared room, counted from 1; 0: it has none */
	struct bytes in;     /* during a call: what may be read */
	struct buf *out;     /* during a call: what is written */
};

/* ---- tls_context.c ---- */

struct ssl_ctx_st *tls_context_library(const struct tls_context *context);
struct bio_method_st *tls_context_transport(const struct tls_context *context);
enum tls_role tls_context_role(const struct tls_context *context);
enum tls_check tls_context_check(const struct tls_context *context);

/* What a login can be bound to where its certificate is shown. Empty: it has none. */
struct bytes tls_context_binding(const struct tls_context *context);

/* ---- tls_library.c ---- */

/* Fills *err with "<what>: <reason>", the reason that OpenSSL noted last on this thread. */
bool tls_err(struct err *err, enum err_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* tls-server-end-point (RFC 5929) of a certificate, which may be NULL. 0: it has none. */
size_t tls_binding_of(const struct x509_st *certificate, unsigned char out[TLS_BINDING_MAX]);

/* ---- tls_rules.c ---- */

/* Versions, ciphers and curves. false: *err names the setting. */
bool tls_rules_apply(struct ssl_ctx_st *library, const struct tls_options *options,
                     struct err *err);

/* ---- tls_transport.c ---- */

/* The socket of OpenSSL: reads from tls->in, writes to tls->out. NULL: no memory. */
struct bio_method_st *tls_transport_new(void);

/* ---- tls.c ---- */

/* `name`: the host that we connect to, or NULL. NULL: no memory. */
struct tls *tls_new(struct tls_context *context, const char *name);
void tls_free(struct tls **tls);

/* One step of the handshake; takes what it has used from *in. On any thread, one at a time. */
enum tls_step tls_shake(struct tls *tls, struct bytes *in, struct buf *out, struct err *err);

/*
 * Decrypts all of `in` to `at`, which must have room for it and for one more record
 * (TLS_RECORD_MAX). What belongs to a record that is cut off stays in the engine.
 * Says in tls->end whether this was all.
 */
#define TLS_RECORD_MAX ((size_t)16 * 1024)
size_t tls_open(struct tls *tls, struct bytes in, char *at, size_t size, struct buf *out);

/* Forgives the key updates for which it is time. */
void tls_forgive_updates(struct tls *tls, usec_t now);

/* Encrypts. false: no memory, or the connection is broken. */
bool tls_seal(struct tls *tls, struct bytes in, struct buf *out);

/*
 * Whether OpenSSL's buffers (17 KB each way) stay between two calls, or are made and freed
 * in each one, as it is at first.
 */
void tls_keep_buffers(struct tls *tls);
void tls_drop_buffers(struct tls *tls);

/* Says good-bye. */
void tls_goodbye(struct tls *tls, struct buf *out);

#endif
