/* SPDX-License-Identifier: ISC */
/*
 * What is sent to a server besides the client's own messages.
 */
#ifndef PGWEIR_CLIENT_STATEMENTS_INJECT_PRIV_H
#define PGWEIR_CLIENT_STATEMENTS_INJECT_PRIV_H

#include "../batch_priv.h"
#include "statements_priv.h"

/*
 * Adds a Close of the statement `name`, its name on servers, which is followed by a zero
 * byte. Adds nothing to the ledger.
 */
void inject_close(struct batch *batch, struct bytes name);

/*
 * Adds a Parse of the statement, which must exist until the batch is sent. Adds nothing to
 * the ledger.
 */
void inject_parse(struct client *client, struct batch *batch, const struct statement *statement);

/* Closes other statements until there is space for one more on the server. false: no memory. */
bool inject_evict(struct client *client, struct batch *batch);

/*
 * Adds a Parse if the server does not know the statement or cannot run it any more. *name:
 * the name that the server knows it by. name NULL: it must be the statement's own name, for an
 * EXECUTE. false: no memory.
 */
bool inject_statement(struct client *client, struct batch *batch, struct statement *statement,
                      struct bytes *name);

/* The change of a request that must fail: the client gets `err` as its error. NULL: no memory. */
struct refusal *inject_refusal(const struct err *err);

/* Adds a message that always fails; the client gets `err` as its error. DROP or END. */
enum statements_result inject_refuse(struct client *client, const struct err *err,
                                     struct batch *batch);

#endif
