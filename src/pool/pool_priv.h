/* SPDX-License-Identifier: ISC */
/*
 * Pools, inside the room.
 */
#ifndef PGWEIR_POOL_POOL_PRIV_H
#define PGWEIR_POOL_POOL_PRIV_H

#include "pgweir/pool/pools.h"

/* Serves the line and sees to it that there are servers enough: at the end of a turn. */
void pool_serve(struct task *task);

/* Launches servers: for those who wait, and up to min_pool_size. pool_grow.c */
void pool_grow(struct pool *pool);

/* There may be room now for pools that wait at a limit of this pool's database or account. */
void pool_unblock(struct pool *pool);

/*
 * Ends each pool_serve(): a pool that was woken by pool_unblock() and had no use for
 * that (those who waited have left, another limit is in its way) wakes the next one.
 */
void pool_pass_on(struct pool *pool);

/* The pool leaves the lines of those that wait at a limit. */
void pool_leave_blocked(struct pool *pool);

/* server_login_retry, or the least that is kept in any case. */
usec_t pool_retry_gap(const struct pool *pool);
bool pool_is_backing_off(const struct pool *pool);
void pool_refuse(struct pool *pool, const struct err *err);
void pool_count_server(struct pool *pool);
void pool_close_all(struct pool *pool, const char *reason);
void server_set_close_needed(struct server *server, bool is_needed);

/* Nobody is in it, nothing belongs to it: pool_idle_timeout begins. */
void pool_rest_if_empty(struct pool *pool);

/* Works out what is in force. */
void pool_configure(struct pool *pool);

#endif
