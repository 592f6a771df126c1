/* SPDX-License-Identifier: ISC */
/*
 * With route_reads: which transactions are reads, that a standby can serve.
 */
#ifndef PGWEIR_CLIENT_RELAY_ROUTE_PRIV_H
#define PGWEIR_CLIENT_RELAY_ROUTE_PRIV_H

#include "pgweir/client/client.h"
#include "pgweir/pgwire/frame.h"

/*
 * Whether what begins with this frame can be served by a standby. WIRE_MORE: more bytes of it are
 * needed.
 */
enum wire_result route_judge(const struct client *client, const struct frame *frame,
                             struct bytes in, bool *is_read_on_standby);

/*
 * A client without a server is about to ask for one, with this frame as its first. Makes it a
 * member of the pool that serves it. false: more bytes of the frame are needed.
 */
bool route_client(struct client *client, const struct frame *frame, struct bytes in);

/*
 * The text of a whole frame: of a Query, of a Parse, or of the named statement of a Bind. false: it
 * is not known.
 */
bool route_frame_text(const struct client *client, const struct frame *frame, struct bytes in,
                      struct bytes *text);

/* Whether the client has a server on a standby, and is routed again after this transaction. */
bool route_is_for_now(const struct client *client);

#endif
