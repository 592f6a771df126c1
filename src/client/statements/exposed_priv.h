/* SPDX-License-Identifier: ISC */
/*
 * A client's prepared statements under the client's own names, for texts whose names cannot be
 * replaced.
 */
#ifndef PGWEIR_CLIENT_STATEMENTS_EXPOSED_PRIV_H
#define PGWEIR_CLIENT_STATEMENTS_EXPOSED_PRIV_H

#include "statements_priv.h"

struct facts;

/*
 * A frame with a text is about to be sent: adds the statements to the batch that the text may use
 * by their names. PASS, WAIT_EMPTY or END.
 */
enum statements_result exposed_before(struct client *client, const struct frame *frame,
                                      struct bytes in, struct batch *batch);

/*
 * Adds one statement, before a message that uses it. It can be anywhere in a batch, which fails if
 * the statement cannot be parsed any more. false: no memory.
 */
bool exposed_can(struct client *client, const struct client_statement *entry);
bool exposed_add(struct client *client, const struct client_statement *entry, struct batch *batch);

/* Whether the client's server has this statement under the client's name. */
bool exposed_has(const struct client *client, const char *name);

/* The transaction has ended: names that the server does not have any more are the client's no more.
 */
void exposed_settle(struct client *client, const struct facts *facts);

/*
 * Removes the names from the server, which is at rest. true: on_ready() of the borrower comes, or
 * the client was closed. false: there are none.
 */
bool exposed_withdraw(struct client *client);

#endif
