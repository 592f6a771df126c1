/* SPDX-License-Identifier: ISC */
/*
 * Which statements a client executes, with track_statements: each request that executes one is a
 * call of an entry in clients->calls.
 */
#ifndef PGWEIR_CLIENT_RELAY_TRACK_PRIV_H
#define PGWEIR_CLIENT_RELAY_TRACK_PRIV_H

#include <stddef.h>
#include <stdint.h>

#include "pgweir/pgwire/frame.h"
#include "pgweir/pgwire/sql_digest.h"

#include "../client_priv.h"

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

/*
 * ---- names ----
 *
 * Which statement a name of one client means, for track_statements: portals with names, and
 * prepared statements that pgweir does not follow (session mode). A table of hashes, bounded: of a
 * client with more names, some are forgotten.
 */

/* A zeroed table owns nothing. */
struct track_names {
	struct track_name {
		uint64_t hash;   /* of the name; 0: free */
		uint64_t digest; /* of the statement */
	} * at;
	size_t capacity, count;
};

void track_names_done(struct track_names *names);

/* Does nothing without memory. */
void track_names_put(struct track_names *names, uint64_t hash, uint64_t digest);

/* 0: not known. */
uint64_t track_names_get(const struct track_names *names, uint64_t hash);

#endif
