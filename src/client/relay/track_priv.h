/* SPDX-License-Identifier: ISC */
/*
 * Which statements a client executes, with track_statements: each request that executes one is a
 * call of an entry in clients->calls.
 */
#ifndef PGWEIR_CLIENT_RELAY_TRACK_PRIV_H
#define PGWEIR_CLIENT_RELAY_TRACK_PRIV_H

#include "../client_priv.h"

#include "pgweir/pgwire/frame.h"
#include "pgweir/pgwire/sql_digest.h"

/* Bytes of a frame with a text that are enough for the name before it and the digest. */
#define TRACK_ENOUGH (SQL_DIGEST_MAX + 1024)

/*
 * Whether more of a partly received frame must arrive: the digest must not depend on how a text was
 * cut by the network. Needs no server.
 */
static inline bool track_needs_more(const struct frame *frame, struct bytes in)
{
	return (frame->type == 'Q' || frame->type == 'P') && in.count < TRACK_ENOUGH;
}

/* A frame was noted in the server's ledger, and is being sent. */
void track_frame(struct client *client, const struct frame *frame, struct bytes in);

/* A Query was answered here: a BEGIN that is late, or the end of its transaction. */
void track_answered(struct client *client, const struct frame *frame, struct bytes in);

/* See on_call() of struct borrower_ops. */
void track_call(struct borrower *borrower, const struct server_call *call,
                const struct server_call_end *end);

void track_free(struct client *client);

/* The digest of the first statement of the client's batch. 0: not tracked. */
uint64_t track_batch_digest(const struct client *client);

#endif
