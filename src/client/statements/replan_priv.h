/* SPDX-License-Identifier: ISC */
/*
 * "cached plan must not change result type", healed.
 */
#ifndef PGWEIR_CLIENT_STATEMENTS_REPLAN_PRIV_H
#define PGWEIR_CLIENT_STATEMENTS_REPLAN_PRIV_H

#include "../batch_priv.h"

#include "pgweir/client/client.h"
#include "pgweir/pgwire/frame.h"

/*
 * A frame is about to be judged that goes to the client's server: keeps what may
 * have to be said again. Only needed for a Bind that meets a server at rest, and
 * for what comes behind one (gather->replay).
 */
void replan_watch(struct client *client, const struct frame *frame, struct bytes in,
                  struct batch *batch);

#endif
