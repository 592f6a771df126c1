/* SPDX-License-Identifier: ISC */
/*
 * A server parcel: an idle server between the pools of one loop and those of another, maybe in
 * another thread. It has the records by which servers go from one process to another
 * (pool/handover.h), and the connection itself (net/stream_parcel.h). PostgreSQL notices nothing.
 *
 * The server keeps its id, its times, its parameters and its prepared statements. Between the two
 * loops it counts for no pool: the caller keeps what it counts for (its permits).
 */
#ifndef PGWEIR_POOL_SERVER_PARCEL_H
#define PGWEIR_POOL_SERVER_PARCEL_H

#include "pgweir/pool/pools.h"

struct server_parcel;

/*
 * Whether the server can move now: it is idle or used, nothing is pending, no cancel request is
 * under way, and it is not about to be closed.
 */
bool server_may_move(struct server *server);

/*
 * Takes the server out of its pool; it is freed at the end of the turn. NULL: it cannot move, or
 * there is no memory or descriptor; nothing has changed.
 */
struct server_parcel *server_pack(struct server *server);

/*
 * Puts the server into the pool of the same database and role, which is made if necessary, and
 * frees the parcel. To be called in the thread of the pools. No limit is checked. A pool without a
 * welcome gets that of the old pool. NULL: the server cannot be used here, and was closed.
 */
struct server *server_unpack(struct pools *pools, struct server_parcel **parcel);

/*
 * Packs the server and posts it to the pools of another loop, which has been promised one. false:
 * it cannot move, or there is no memory; nothing has changed.
 */
bool server_move(struct server *server, struct broker_member *to);

/* Closes a server that no pool takes: the loop it was for has ended. */
void server_parcel_end(struct server_parcel **parcel);

#endif
