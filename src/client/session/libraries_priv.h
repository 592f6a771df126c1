/* SPDX-License-Identifier: ISC */
/*
 * The libraries that a transaction may have loaded: session->libraries.
 */
#ifndef PGWEIR_CLIENT_SESSION_LIBRARIES_PRIV_H
#define PGWEIR_CLIENT_SESSION_LIBRARIES_PRIV_H

#include "session_priv.h"

#include "pgweir/pool/server/server.h"

/* Notes the names in a text that is about to run. */
void libraries_note(struct session *session, struct bytes text);

/*
 * The transaction has ended: the libraries that were loaded become part of the server's parameters.
 * false: it is not known which they are.
 */
bool libraries_take(struct session *session, struct server *server);

#endif
