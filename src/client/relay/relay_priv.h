/* SPDX-License-Identifier: ISC */
/*
 * The functions of the relay for the core (client_states.c), and those its own files share.
 */
#ifndef PGWEIR_CLIENT_RELAY_RELAY_PRIV_H
#define PGWEIR_CLIENT_RELAY_RELAY_PRIV_H

#include "../client_priv.h"

#include "pgweir/pgwire/frame.h"

#include "../session/listening_priv.h"

/* ---- relay.c: see struct client_state_ops and struct borrower_ops ---- */

bool relay_input(struct client *client, struct bytes in);
void relay_preparing_flushed(struct client *client); /* CLIENT_PREPARING */
void relay_flushed(struct client *client);           /* CLIENT_ACTIVE */

void relay_lent(struct borrower *borrower); /* not for a client that logs in */
bool relay_bytes(struct borrower *borrower, struct bytes bytes);
void relay_ready(struct borrower *borrower, char status, bool is_settled);
void relay_deallocated(struct borrower *borrower);
void relay_retry(struct borrower *borrower, struct bytes messages);
void relay_settled(struct client *client);
void relay_idle_flushed(struct client *client);
bool relay_holds_ready(struct borrower *borrower);
bool relay_takes_parameter(struct borrower *borrower, const char *name, const char *value,
                           struct buf *instead);
void relay_before_ready(struct borrower *borrower, struct buf *ahead);
bool relay_takes_notification(struct borrower *borrower, struct bytes frame, struct buf *instead);
void relay_channels_cleared(struct borrower *borrower);
void relay_catalog_read(struct borrower *borrower);
void relay_facts(struct borrower *borrower, const struct facts *facts);
void relay_writable(struct borrower *borrower);

/* ---- relay_server.c ---- */

/* A batch begins: this is the first message after the last batch was answered in full. */
void relay_begin_batch(struct client *client);

/* The batch was answered in full. `status` is that of the ReadyForQuery. */
void relay_end_batch(struct client *client, char status);

/*
 * A frame needs a server. true: the client has one that is ready; false: the client waits for one.
 */
bool relay_get_server(struct client *client);

/*
 * Returns the server if neither side owes the other anything; the client continues without one, or
 * when its server has answered what the transaction has left in the session. false: it keeps the
 * server.
 */
bool relay_give_back(struct client *client);

/* The client's server was lost when it owed nothing of the session: it continues without one. */
void relay_go_on_without(struct client *client);

/* The client's parameters become those that were changed on its server. */
void relay_take_params(struct client *client);

/*
 * The client's parameters are set on its server. What PostgreSQL spells in another way than the
 * client did, it is told. false: the client was closed.
 */
bool relay_respell_params(struct client *client);

/* Cancels in CLIENT_WAITING: the request is answered with an error here. */
bool relay_cancel_waiting(struct client *client);

/*
 * Whether the client keeps its server until it disconnects. After a change of pool_mode, a
 * transaction that listens or notifies is settled first, as it was begun.
 */
static inline bool relay_is_session(const struct client *client)
{
	return client->replication || (client->borrower.pool->limits.mode == POOL_MODE_SESSION &&
	                               !(client->touched & LISTENING_HOLDS));
}

/* ---- slow.c ---- */

/*
 * Notes the start of a batch: `in` has the header of the frame, and its body as far as it has
 * arrived.
 */
void slow_note(struct client *client, const struct frame *frame, struct bytes in);

/*
 * The batch was answered in full. is_kept: SHOW may display its text until the next batch begins.
 */
void slow_end(struct client *client, usec_t duration, bool is_kept);

/* The batch will not be answered. */
void slow_forget(struct client *client);

#endif
