/* SPDX-License-Identifier: ISC */
/*
 * Securing: a new connection to PostgreSQL is encrypted, or stays plain, before the startup packet
 * is sent.
 *
 *   securing_begin --> PLAIN: continue at once
 *                  --> MORE: on_input --> securing_answer --> PLAIN | MORE: on_secured
 */
#ifndef PGWEIR_POOL_SERVER_SECURING_PRIV_H
#define PGWEIR_POOL_SERVER_SECURING_PRIV_H

#include "pgweir/net/stream.h"
#include "pgweir/net/tls.h"

enum securing {
	SECURING_MORE,  /* wait for on_input() or on_secured() */
	SECURING_PLAIN, /* the connection stays plain */
	SECURING_FAILED /* *err has the reason; close the stream */
};

struct securing_how {
	struct tls_context *tls; /* NULL: plain, unless `like` is set */
	const char *host;        /* for SNI and the certificate check */
	/* or the parameters of this encrypted connection to the same server; NULL: none */
	const struct stream *like;
	bool is_required; /* a plain connection is not allowed */
	bool is_direct;   /* TLS without SSLRequest */
};

enum securing securing_begin(struct stream *stream, const struct securing_how *how,
                             struct err *err);

/* Called by on_input() before on_secured(): the server has replied to the SSLRequest. */
enum securing securing_answer(struct stream *stream, const struct securing_how *how,
                              struct err *err);

#endif
