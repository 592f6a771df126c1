/* SPDX-License-Identifier: ISC */
/*
 * The change of a client's channels from the server lent to it to the listening connection, and
 * back to a server of its own in session mode. Both are made at a mark, so nothing is lost and
 * nothing comes twice.
 */
#ifndef PGWEIR_CLIENT_SESSION_LISTENING_CHANGE_PRIV_H
#define PGWEIR_CLIENT_SESSION_LISTENING_CHANGE_PRIV_H

#include "listening_state_priv.h"

/* What the client keeps, made if it has none. NULL: no memory. */
struct client_listening *listening_change_get(struct client *client);

#endif
