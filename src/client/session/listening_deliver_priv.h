/* SPDX-License-Identifier: ISC */
/*
 * Delivery of notifications to a client: from the listening connection, and from the server lent to
 * it while that listens. What cannot be sent yet is kept, in order.
 */
#ifndef PGWEIR_CLIENT_SESSION_LISTENING_DELIVER_PRIV_H
#define PGWEIR_CLIENT_SESSION_LISTENING_DELIVER_PRIV_H

#include "listening_state_priv.h"

/* One of the listening connection: see struct listener_ops. */
void listening_deliver_notification(struct listener *listener, struct notification *notification);

/* Sends all that wait. false: the client is closed, and its `listening` is freed. */
bool listening_deliver_all(struct client *client);

/* Without channels, and without notifications to be sent, it needs no listening connection. */
void listening_deliver_leave(struct client_listening *listening);

/*
 * Drops those of channels that the client does not have any more, but for the first ones that are
 * sure. false: no memory.
 */
bool listening_deliver_drop(struct client_listening *listening);

/*
 * Both connections have delivered what came before the mark: puts that in order, and drops what
 * came on both. false: no memory.
 */
bool listening_deliver_merge(struct client_listening *listening);

/* Adds a notification that the client itself has sent, with the process id of its cancel key. */
void listening_deliver_add_own(const struct client *client, const struct notification *notification,
                               struct buf *out);

#endif
