/* SPDX-License-Identifier: ISC */
/*
 * TLS, as the other rooms see it: a set of certificates and rules out of which
 * encrypted streams are made, and what there is to know of one such stream.
 *
 * A set never changes. A reload makes a new one; streams that were made with the
 * old one go on with it, and it goes when the last of them has gone.
 */
#ifndef PGWEIR_NET_TLS_H
#define PGWEIR_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "pgweir/base/buf.h"
#include "pgweir/base/err.h"

struct stream;

enum tls_role {
	TLS_ACCEPTS, /* towards clients: shows a certificate */
	TLS_CONNECTS /* towards servers */
};

/* What is asked of the far end's certificate. */
enum tls_check {
	TLS_CHECK_NONE,
	TLS_CHECK_GIVEN, /* accepting: it may show one, which must be good then */
	TLS_CHECK_CHAIN, /* it must show one that an authority has signed */
	TLS_CHECK_NAME   /* and, connecting, it must be that of the host */
};

/* Texts are borrowed for the call only; NULL is as good as "". */
struct tls_options {
	enum tls_role role;
	enum tls_check check;
	const char *prefix;    /* of the settings' names, for errors: "client_tls" */
	const char *ca_file;   /* "" = the system's authorities */
	const char *cert_file; /* the certificate, and those between it and its authority */
	const char *key_file;
	const char *protocols;    /* "secure", "tlsv1.2,tlsv1.3", "all:!tlsv1.0" */
	const char *ciphers;      /* up to TLS 1.2, as OpenSSL writes them; "default" = its own */
	const char *ciphersuites; /* of TLS 1.3; "" = OpenSSL's own */
	const char *curve;        /* "auto", "none", or names as OpenSSL writes them */
	const char *dheparams;    /* "auto", "none", "legacy" */
};

struct tls_context;

/*
 * Reads the files and judges all of it. NULL: *err (ERR_CONFIG) names the setting,
 * the file and the reason. The caller owns one reference.
 */
struct tls_context *tls_context_new(const struct tls_options *options, struct err *err);

/* References are counted from any thread. */
struct tls_context *tls_context_ref(struct tls_context *context);

/* Leaves NULL behind; accepts NULL. The last one frees. */
void tls_context_unref(struct tls_context **context);

/* Whether both were made of the same options and the same content of files. NULL: none. */
bool tls_context_same(const struct tls_context *one, const struct tls_context *other);

/* Name and version of the library underneath. Static. */
const char *tls_library(void);

/* ---- what there is to know of a stream whose handshake is over ---- */

/* "TLSv1.3/TLS_AES_256_GCM_SHA384/ECDH=X25519"; "" when it is not encrypted. */
#define TLS_TEXT_SIZE 96
const char *tls_text(const struct stream *stream, char *out, size_t size);

/* The protocol that was agreed upon by ALPN; "" = none. Not longer than 255 bytes. */
size_t tls_agreed_protocol(const struct stream *stream, const char **name);

/*
 * The names in the certificate that the far end has shown (and which has been
 * checked): kind, zero, name, zero; and so on. Kinds: "CN" (of its subject),
 * "DNS", "IP" (as text), "EMAIL", "DN" (the whole subject as RFC 2253 writes it).
 * A name with a zero in it is left out. false: it has shown none.
 */
bool tls_peer_names(const struct stream *stream, struct buf *out);

/*
 * tls-server-end-point (RFC 5929): the hash of the server's certificate, ours
 * towards clients, theirs towards servers. Its size; 0: there is none.
 */
#define TLS_BINDING_MAX 64
size_t tls_channel_binding(const struct stream *stream, unsigned char out[TLS_BINDING_MAX]);

#endif
