/* SPDX-License-Identifier: ISC */
/*
 * Securing: a fresh connection to PostgreSQL becomes encrypted, or is found to stay
 * plain, before the first word that matters.
 *
 *   securing_begin --> PLAIN: go on at once
 *                  --> MORE: on_input --> securing_answer --> PLAIN | MORE: on_secured
 */
#ifndef PGWEIR_POOL_SERVER_SECURING_PRIV_H
#define PGWEIR_POOL_SERVER_SECURING_PRIV_H

#include "pgweir/net/stream.h"
#include "pgweir/net/tls.h"

enum securing {
	SECURING_MORE,  /* on_input() comes, or on_secured() */
	SECURING_PLAIN, /* goes on in plain */
	SECURING_FAILED /* *err says why; close the stream */
};

struct securing_how {
	struct tls_context *tls;   /* NULL: in plain, unless `like` says otherwise */
	const char *host;          /* its name, for SNI and for the check of its certificate */
	const struct stream *like; /* or: as this encrypted one, to the same place. NULL: none */
	bool is_required;          /* in plain it is worth nothing */
	bool is_direct;            /* without asking first */
};

enum securing securing_begin(struct stream *stream, const struct securing_how *how,
                             struct err *err);

/* on_input() before on_secured(): the answer to our question has come. */
enum securing securing_answer(struct stream *stream, const struct securing_how *how,
                              struct err *err);

#endif
