/* SPDX-License-Identifier: ISC */
/*
 * Replan: prepares a statement again after "cached plan must not change result type".
 */
#ifndef PGWEIR_CLIENT_STATEMENTS_REPLAN_PRIV_H
#define PGWEIR_CLIENT_STATEMENTS_REPLAN_PRIV_H

#include "../batch_priv.h"

#include "pgweir/client/client.h"
#include "pgweir/pgwire/frame.h"

/*
 * Call before a frame for the client's server is judged: keeps what may have to be sent
 * again. Only needed for a Bind to a server that owes nothing, and for the frames after it
 * (batch->replay).
 */
void replan_watch(struct client *client, const struct frame *frame, struct bytes in,
                  struct batch *batch);

#endif
