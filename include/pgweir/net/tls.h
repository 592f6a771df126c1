/* SPDX-License-Identifier: ISC */
/*
 * TLS for other modules: a context (certificates and rules), from which encrypted streams are
 * made, and facts about such a stream.
 *
 * A context never changes. A reload makes a new one. Streams of the old context keep it, and it
 * is freed with the last of them.
 */
#ifndef PGWEIR_NET_TLS_H
#define PGWEIR_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pgweir/base/buf.h"
#include "pgweir/base/err.h"

struct stream;

enum tls_role {
	TLS_ACCEPTS, /* for clients: shows a certificate */
	TLS_CONNECTS /* for servers */
};

/* What is required of the peer's certificate. */
enum tls_check {
	TLS_CHECK_NONE,
	TLS_CHECK_GIVEN, /* accepting: optional, but if there is one it must be valid */
	TLS_CHECK_CHAIN, /* required, signed by an authority */
	TLS_CHECK_NAME   /* also, connecting, its name must be that of the host */
};

#define TLS_NAME_FILES_MAX 1000

/* Texts are borrowed during the call only; NULL means "". */
struct tls_options {
	enum tls_role role;
	enum tls_check check;
	const char *prefix;    /* of the names of the settings, for errors: "client_tls" */
	const char *ca_file;   /* "" = authorities of the system */
	const char *cert_file; /* the certificate and its intermediate certificates */
	const char *key_file;
	/*
	 * Accepting: each file has a certificate, for clients that ask for a name in it, and its
	 * key. Who asks for no name, or for one that no certificate has, gets that of cert_file.
	 * At most TLS_NAME_FILES_MAX.
	 */
	char *const *name_files;
	size_t name_file_count;
	const char *protocols; /* "secure", "tlsv1.2,tlsv1.3", "all:!tlsv1.0" */
	/* up to TLS 1.2, in OpenSSL's format; "default" = OpenSSL's default */
	const char *ciphers;
	const char *ciphersuites; /* for TLS 1.3; "" = OpenSSL's default */
	const char *curve;        /* "auto", "none", or names as in OpenSSL */
	const char *dheparams;    /* "auto", "none", "legacy" */
	bool has_own_records;     /* TLS 1.3 goes on with our record layer (tls_records = own) */
	const char *protocol;     /* name for ALPN, static; NULL = PostgreSQL's */
};

struct tls_context;

/*
 * Reads and checks the files and all options. NULL: *err (ERR_CONFIG) names the setting, the
 * file and the reason. The caller owns one reference.
 */
struct tls_context *tls_context_new(const struct tls_options *options, struct err *err);

/* References may be taken and released on any thread. */
struct tls_context *tls_context_ref(struct tls_context *context);

/* Releases a reference and sets NULL; accepts NULL. The last reference frees the context. */
void tls_context_unref(struct tls_context **context);

/* Whether both were made from the same options and file contents. NULL: no context. */
bool tls_context_same(const struct tls_context *one, const struct tls_context *other);

/* A certificate of ours, and the seconds until it expires. */
struct tls_certificate {
	const char *file; /* borrowed from the context */
	int64_t seconds_left;
};

/* Those of a context, by number from 0. false: no more; a context may be NULL. */
bool tls_context_certificate(const struct tls_context *context, size_t number,
                             struct tls_certificate *certificate);

/* To be called before anything else that uses the TLS library: it shall wipe what it frees. */
void tls_library_prepare(void);

/* Name and version of the TLS library. Static. */
const char *tls_library(void);

/* ---- facts about a stream whose handshake is over ---- */

/* "TLSv1.3/TLS_AES_256_GCM_SHA384/ECDH=X25519"; "" if it is not encrypted. */
#define TLS_TEXT_SIZE 96
const char *tls_text(const struct stream *stream, char *out, size_t size);

/* Who encrypts now: "own", "openssl" or "". */
const char *tls_records_text(const struct stream *stream);

/* Returns the protocol agreed by ALPN; "" = none. At most 255 bytes. */
size_t tls_agreed_protocol(const struct stream *stream, const char **name);

/*
 * Whether the peer has shown a certificate that was verified. *name: the CN of its subject, which
 * the caller frees; NULL if it has not exactly one, or one with a zero byte.
 */
bool tls_peer_name(const struct stream *stream, char **name);

/*
 * Computes tls-server-end-point (RFC 5929): the hash of the server's certificate, which is ours
 * for clients and the peer's for servers. Returns its size; 0: there is none.
 */
#define TLS_BINDING_MAX 64
size_t tls_channel_binding(const struct stream *stream, unsigned char out[TLS_BINDING_MAX]);

/*
 * Neither names in the peer's certificate nor the channel binding to a server are needed any more:
 * frees their memory.
 */
void tls_forget_peer(const struct stream *stream);

#endif
