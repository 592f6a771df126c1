/* SPDX-License-Identifier: ISC */
/*
 * Hand-over of listening connections. A connection is handed over together with all its listeners,
 * or stays with all of them: only one process can read it. What PostgreSQL has sent and this
 * process has not read yet, the other process reads. So nothing is lost or comes twice.
 *
 *   listening_look_begin()     for each listener
 *   listening_look_note()      for each listener
 *   listening_may_leave(), listening_write()
 */
#ifndef PGWEIR_POOL_LISTENING_HANDOVER_H
#define PGWEIR_POOL_LISTENING_HANDOVER_H

#include "pgweir/pool/handover.h"
#include "pgweir/pool/listening.h"

/* ---- the process that hands over ---- */

/* Forgets what was noted for the listeners of this one's connection. */
void listening_look_begin(const struct listener *listener);

/* Notes whether the owner of this listener can be handed over. */
void listening_look_note(const struct listener *listener, enum listener_rest rest);

/* Whether the connection can be handed over now, with all its listeners. */
bool listening_may_leave(const struct listener *listener);

/* Whether that is possible at all. */
bool listening_can_ever_leave(const struct listener *listener);

/* Whether all listeners can be handed over, or can when their current work is done. */
bool listening_leaves_soon(const struct listener *listener);

/* Writes the connection, unless it was written in this round. */
bool listening_write(const struct listener *listener, struct channel *channel);

/* The number that the records of the listeners have. */
uint64_t listening_number(const struct listener *listener);

/* ---- the process that takes over ---- */

/* Whether the connection with this number has arrived in these pools. */
bool listening_has_arrived(struct pools *pools, const char *database, const char *role,
                           uint64_t number);

/* Joins the connection that has arrived with this number. false: none has. */
bool listening_rejoin(struct listener *listener, struct pool *pool, uint64_t number);

#endif
