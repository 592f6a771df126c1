/* SPDX-License-Identifier: ISC */
/*
 * Statements of our own between the messages that a client sends. Their replies are dropped.
 */
#ifndef PGWEIR_CLIENT_SESSION_INJECT_TEXT_PRIV_H
#define PGWEIR_CLIENT_SESSION_INJECT_TEXT_PRIV_H

#include "pgweir/pool/server/server.h"

/* Adds an entry to the ledger for a message to the server. false: no memory. */
bool inject_note(struct server *server, enum ledger_kind kind, enum ledger_fate fate,
                 struct ledger_change *change);

/* Adds statements (text;\0) as one Query. false: no memory. */
bool inject_text_query(struct server *server, struct buf *out, struct bytes statements,
                       struct ledger_change *change);

/*
 * Adds statements (text;\0) as messages that end with the client's Sync. The change is that of the
 * first one. false: no memory.
 */
bool inject_text_extended(struct server *server, struct buf *out, struct bytes statements,
                          struct ledger_change *change);

#endif
