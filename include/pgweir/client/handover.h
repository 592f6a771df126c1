/* SPDX-License-Identifier: ISC */
/*
 * Hands clients over from one process to another, with the servers that are lent to them.
 * net/channel.h has the order of the steps, pool/handover.h the servers.
 *
 * Clients that are encrypted by OpenSSL, replicate, log in or use the console stay in the old
 * process.
 */
#ifndef PGWEIR_CLIENT_HANDOVER_H
#define PGWEIR_CLIENT_HANDOVER_H

#include "pgweir/client/clients.h"
#include "pgweir/client/lanes.h"
#include "pgweir/pool/handover.h"

/* ---- the process that hands over ---- */

/*
 * Writes all clients that can be handed over, each after its server, and marks them and no others.
 * false: the channel has failed.
 */
bool clients_write(struct clients *clients, struct channel *channel);

/* Releases the marked clients without sending them anything. Returns their number. */
unsigned int clients_let_go(struct clients *clients);

/*
 * Whether a client can be handed over now. Also stops reading from busy clients whose current batch
 * can end without more input, so that they can be handed over after it; a SUSPEND has stopped all.
 * To be called repeatedly; clients_go_on() ends it.
 */
bool clients_look(struct clients *clients);

/* Sends all clients this error and closes them. */
void clients_dismiss(struct clients *clients, const struct err *err);

/* ---- the process that takes over ---- */

/* Whether a record is complete and consistent. false: *err has the reason. */
bool client_judge(const struct clients *clients, struct bytes body, struct err *err);

/*
 * The lane for the client of a checked record: the one to which its cancel key leads; or all that
 * share a listening connection go to the same, by its number.
 */
struct lane *client_lane(const struct lanes *lanes, struct bytes body);

/*
 * Creates the client of a checked record. It does nothing until clients_start(). *fd becomes -1 if
 * the client owns it now.
 */
void client_take(struct clients *clients, struct pools_arrival *arrival, struct bytes body,
                 int *fd);

/* Starts the clients that were taken over. */
void clients_start(struct clients *clients);

#endif
