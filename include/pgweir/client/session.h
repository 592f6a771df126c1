/* SPDX-License-Identifier: ISC */
/*
 * The session state of a client in transaction mode, as the console shows it: what follows the
 * client, and what makes its server stay with it.
 */
#ifndef PGWEIR_CLIENT_SESSION_H
#define PGWEIR_CLIENT_SESSION_H

#include "pgweir/client/client.h"

/* Since when the server stays with the client (monotonic). 0: it does not. */
usec_t session_pinned_at(const struct client *client);

/* The beginning of the statement that made it stay. NULL: not known. */
const char *session_pin_text(const struct client *client);

/*
 * These add lists, separated by ", ": why the server stays; the names of the parameters that are
 * not as they were after the login, of the libraries, of the channels.
 */
void session_list_pins(const struct client *client, struct buf *out);
void session_list_parameters(const struct client *client, struct buf *out);
void session_list_libraries(const struct client *client, struct buf *out);
void session_list_channels(const struct client *client, struct buf *out);

/*
 * As session_list_pins(), with the names of the objects, separated by "; ". session_tell_pins(): in
 * printable ASCII, for the log and for errors.
 */
void session_list_held(const struct client *client, struct buf *out);
void session_tell_pins(const struct client *client, struct buf *out);

#endif
