/* SPDX-License-Identifier: ISC */
/*
 * Makes lanes: see pgweir/client/lanes.h.
 */
#ifndef PGWEIR_MAIN_LANE_H
#define PGWEIR_MAIN_LANE_H

#include "daemon_priv.h"

/* Makes lane->loop and what needs nothing but the loop. false: *err has the reason. */
bool lane_make_ground(struct daemon *daemon, struct lane *lane, struct err *err);

bool lane_make_pools(struct daemon *daemon, struct lane *lane, struct err *err);

/* The console must exist. */
bool lane_make_clients(struct daemon *daemon, struct lane *lane, struct err *err);

/* Closes all clients. */
void lane_close(struct lane *lane);

/* Frees everything else but the loop. The helper threads must have ended. */
void lane_free(struct lane *lane);

/* A connection was accepted: gives it to the lane that has fewest. Takes ownership of the socket.
 */
void lane_deal(struct daemon *daemon, int fd, const struct address *peer);

#endif
