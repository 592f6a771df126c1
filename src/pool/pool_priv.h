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
usec_t pool_due(const struct pool *pool); /* when a failing pool may try again */
bool pool_is_backing_off(const struct pool *pool);
void pool_forgive(struct pool *pool); /* it may try at once */
void pool_refuse(struct pool *pool, const struct err *err);
void pool_count_server(struct pool *pool);
void pool_close_all(struct pool *pool, const char *reason);
void server_set_close_needed(struct server *server, bool is_needed);

/* Nobody is in it, nothing belongs to it: pool_idle_timeout begins. */
void pool_rest_if_empty(struct pool *pool);

/* pool_idle_timeout has changed. */
void pool_rearm(struct pool *pool);

/* ---- moving house: pool_move.c ---- */

/* Clients of its database may belong to it: no other user is forced on them. */
bool pool_is_current(const struct pool *pool);

/* All but those who are being served go where they belong. For a pool that is not current. */
void pool_move_members(struct pool *pool);

/* Works out what is in force. */
void pool_configure(struct pool *pool);

/* ---- accounts: account.c ---- */

/* Looks the account up in the configuration and among the users. */
void account_configure(struct pools *pools, struct account *account);
void account_free(struct pools *pools, struct account *account);
void account_forget_unused(struct pools *pools, struct account *account);

/* ---- databases: database.c ---- */

struct database *database_add(struct pools *pools, const char *name,
                              const struct config_database *entry, bool is_auto);

/* Its pools must have neither members nor servers. */
void database_free(struct database *database);

/* One made by `*` that nobody uses: autodb_idle_timeout begins. */
void database_rest(struct database *database);

/* autodb_idle_timeout has changed, or whether `*` made it. */
void database_rearm(struct database *database);

/* The task that frees databases whose entry is gone, and pools whose user is. */
void database_sweep(struct task *task);

bool pool_is_empty(const struct pool *pool);

/* What is being removed is nobody's next step. */
#define WALKS_SKIP(pools, field, object, entry)                             \
	do {                                                                \
		struct pools_walk *walk_;                                   \
		TAILQ_FOREACH (walk_, &(pools)->walks, node) {              \
			if (walk_->field == (object))                       \
				walk_->field = TAILQ_NEXT((object), entry); \
		}                                                           \
	} while (0)

#endif
