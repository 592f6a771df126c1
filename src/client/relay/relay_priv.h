/* SPDX-License-Identifier: ISC */
/*
 * The relay, for those that hand it to the core (client_states.c), and its own files.
 */
#ifndef PGWEIR_CLIENT_RELAY_RELAY_PRIV_H
#define PGWEIR_CLIENT_RELAY_RELAY_PRIV_H

#include "../client_priv.h"

#include "pgweir/pgwire/frame.h"

/* ---- relay.c: see struct client_state_ops and struct borrower_ops ---- */

bool relay_input(struct client *client, struct bytes in);
void relay_preparing_flushed(struct client *client); /* CLIENT_PREPARING */
void relay_flushed(struct client *client);           /* CLIENT_ACTIVE */

void relay_lent(struct borrower *borrower); /* not for a client that logs in */
bool relay_bytes(struct borrower *borrower, struct bytes bytes);
void relay_ready(struct borrower *borrower, char status, bool is_settled);
void relay_deallocated(struct borrower *borrower);
void relay_retry(struct borrower *borrower, struct bytes messages);
void relay_writable(struct borrower *borrower);

/* ---- relay_server.c ---- */

/* A batch begins: the first packet after the last one was answered in full. */
void relay_begin_batch(struct client *client);

/* It was answered in full; `status` is that of the ReadyForQuery. */
void relay_end_batch(struct client *client, char status);

/* A frame needs a server. true: there is one, ready for it; false: there will be. */
bool relay_get_server(struct client *client);

/* Gives it back, if neither side owes the other anything; the client goes on without. */
bool relay_give_back(struct client *client);

/* Parameters that were changed at its server are the client's from now on. */
void relay_take_params(struct client *client);

/* CLIENT_WAITING is cancelled: its request is answered with an error here. */
void relay_cancel_waiting(struct client *client);

/* Whether it keeps its server to its own end. */
static inline bool relay_is_session(const struct client *client)
{
	return client->replication || client->borrower.pool->limits.mode == POOL_MODE_SESSION;
}

/* ---- slow.c ---- */

/*
 * A frame of a batch: `in` has its header and more or less of the body. Notes what the batch
 * begins with.
 */
void slow_note(struct client *client, const struct frame *frame, struct bytes in);

/* The batch has been answered in full. is_kept: SHOW has its text until the next one begins. */
void slow_end(struct client *client, usec_t duration, bool is_kept);

/* The batch will not be answered. */
void slow_forget(struct client *client);

#endif
