/* SPDX-License-Identifier: ISC */
/*
 * Waiting for a place of max_pinned_servers, with a server.
 */
#ifndef PGWEIR_CLIENT_SESSION_PLACE_PRIV_H
#define PGWEIR_CLIENT_SESSION_PLACE_PRIV_H

#include "listening_priv.h"
#include "session_priv.h"

/*
 * As listening_before(), for a statement that is about to run: first, it may have to wait for a
 * place. Then batch->waits_for is LEDGER_WAIT_PLACE.
 */
enum listening_go place_before(struct client *client, char type, unsigned int touches,
                               struct bytes text, struct batch *batch);

/* The client waits for it: its statement is judged again, with a place or without. */
void place_await(struct client *client);

/* on_place() of the borrower. */
void place_given(struct borrower *borrower);

/* A cancel request ends the wait. false: the client does not wait. */
bool place_cancel(struct client *client);

/* As session_rearm(), and for the limit of the wait. */
void place_rearm(struct client *client);

#endif
