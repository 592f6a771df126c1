/* SPDX-License-Identifier: ISC */
/*
 * Session mode: what one client must not leave to the next, and parameters of a client's startup
 * packet that the client resets.
 */
#ifndef PGWEIR_CLIENT_SESSION_SESSION_MODE_PRIV_H
#define PGWEIR_CLIENT_SESSION_SESSION_MODE_PRIV_H

#include "session_priv.h"

/*
 * A Query, Parse or FunctionCall: notes in client->touched whether it resets parameters, and closes
 * the server at the client's end if need be. `in`: its received bytes.
 */
void session_mode_note(struct client *client, const struct frame *frame, struct bytes in);

/* Asks the server for its parameters: on_facts() of the borrower comes. */
void session_mode_ask(struct client *client);

/*
 * The server's answer. Afterwards server_has_reset() says whether the client must get values of its
 * startup again.
 */
void session_mode_facts(struct client *client, const struct facts *facts);

#endif
