/* SPDX-License-Identifier: ISC */
/*
 * What is sent to a server besides the client's own messages.
 */
#ifndef PGWEIR_CLIENT_STATEMENTS_INJECT_PRIV_H
#define PGWEIR_CLIENT_STATEMENTS_INJECT_PRIV_H

#include "statements_priv.h"

/* Notes what is sent to the client's server. false: no memory. */
bool inject_note(struct server *server, enum ledger_kind kind, enum ledger_fate fate,
                 struct ledger_change *change);

/* Close of a statement under its name on servers: a zero is behind it. Not noted. */
void inject_close(struct batch *batch, struct bytes name);

/* Parse of it, which must live until the batch is sent. Not noted. */
void inject_parse(struct client *client, struct batch *batch, const struct statement *statement);

/* Closes others until there is room for one more statement on the server. false: no memory. */
bool inject_evict(struct client *client, struct batch *batch);

/*
 * The server learns the statement in front of what needs it, if it does not know it. name: how
 * it is called there; NULL: it must be by its own name. false: no memory.
 */
bool inject_statement(struct client *client, struct batch *batch, struct statement *statement,
                      struct bytes *name);

/* The change of a request that is made to fail: the client gets `err`. NULL: no memory. */
struct refusal *inject_refusal(const struct err *err);

/* A message that fails in any case, for which the client gets `err`. DROP or END. */
enum statements_result inject_refuse(struct client *client, const struct err *err,
                                     struct batch *batch);

#endif
