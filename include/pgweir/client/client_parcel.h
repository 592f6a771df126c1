/* SPDX-License-Identifier: ISC */
/*
 * A client parcel: a client between two loops, before its login. It goes to the loop that has the
 * console, that has the client whose cancel key it sent, or in which its pool is at home. It has
 * its connection, maybe encrypted, its packet, and its address as a PROXY header gave it. The
 * client notices nothing.
 */
#ifndef PGWEIR_CLIENT_CLIENT_PARCEL_H
#define PGWEIR_CLIENT_CLIENT_PARCEL_H

#include "pgweir/client/clients.h"

struct client_parcel;

/*
 * Takes the client out of its clients; only within send_elsewhere(). It is freed at the end of the
 * turn. NULL: there is no memory or descriptor, and the client was closed.
 */
struct client_parcel *client_pack(struct client *client);

/*
 * Continues the login here, and frees the parcel. To be called in the thread of the clients. The
 * client keeps its id and the time of its connection, and is not sent elsewhere again.
 */
void client_unpack(struct clients *clients, struct client_parcel **parcel);

/* Closes a client that no loop takes: the one that it was for has ended. */
void client_parcel_end(struct client_parcel **parcel);

#endif
