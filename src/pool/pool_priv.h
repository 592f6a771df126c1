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

/* Launches servers for those who need one of their own. pool_own.c */
void pool_grow_dedicated(struct pool *pool);

/* Whether the first of those goes before whoever asks for an idle server now. */
bool pool_dedicated_goes_first(const struct pool *pool);

/* The pool of this very user, whatever user the entry forces. NULL: no memory. pools.c */
struct pool *pools_exact_pool(struct database *database, const char *user, bool is_for_lookups);

/* A server that is launched for `borrower`: it is the pool's, and nobody else's. */
void pool_dedicated_launched(struct server *server, struct borrower *borrower);
void pool_dedicated_login_done(struct server *server);
void pool_dedicated_login_failed(struct server *server, const struct err *err);

/* It waits no more for what was being launched for it, which is closed. */
void pool_dedicated_give_up(struct borrower *borrower);

/* Refuses all of those who wait for a server of their own. */
void pool_dedicated_refuse(struct pool *pool, const struct err *err);

/* The line for a state of waiting, and its count; NULL: there is none. */
struct borrower_list *pool_wait_queue(struct pool *pool, enum borrower_state state,
                                      unsigned int **count);
void pool_stand(struct borrower *borrower, enum borrower_state state);
void pool_lend(struct server *server, struct borrower *borrower);

/* ---- what has to be asked before a launch: pool_grow.c ---- */

enum eviction {
	EVICT_NONE,
	EVICT_OTHERS, /* idle servers of other pools */
	EVICT_ANY
};

bool pool_may_try(struct pool *pool);
bool pool_may_login(const struct pool *pool); /* POOL_LOGINS_MAX */
bool pool_passes_limits(struct pool *pool, enum eviction eviction);
unsigned int pool_missing(const struct pool *pool);

/* Whether the last failure was no word about us, so that there is hope in waiting. */
bool pool_is_unreachable(const struct pool *pool);
bool pool_is_worth_waiting(const struct err *err);

/* ---- fail_fast: pool_haste.c ---- */

/* Whether this borrower need not take a place in a line: *err says why. */
bool pool_turns_away(struct pool *pool, const struct borrower *borrower, struct err *err);

/* The same for all that wait in the pool's line. Only if there are any: pool->hasty_count. */
void pool_turn_hasty_away(struct pool *pool);

/* Whether the pool tries to connect though nobody waits. */
bool pool_wants_probe(const struct pool *pool);

bool pool_is_held(const struct pool *pool);

/* There may be room now for pools that wait at a limit of this pool's database or account. */
void pool_unblock(struct pool *pool);

/*
 * Ends each pool_serve(): a pool that was woken by pool_unblock() and had no use for
 * that (those who waited have left, another limit is in its way) wakes the next one.
 */
void pool_pass_on(struct pool *pool);

/* The pool leaves the lines of those that wait at a limit. */
void pool_leave_blocked(struct pool *pool);

usec_t pool_due(const struct pool *pool); /* when a failing pool may try again */
bool pool_is_backing_off(const struct pool *pool);
void pool_reset_retry(struct pool *pool); /* it may try at once */
void pool_refuse(struct pool *pool, const struct err *err);

/* Nobody is in it, nothing belongs to it: pool_idle_timeout begins. */
void pool_arm_expiry(struct pool *pool);

/* pool_idle_timeout has changed. */
void pool_rearm(struct pool *pool);

/* ---- its servers: pool_servers.c ---- */

/* Adds a server that is about to connect: its pool, its role and its database count it. NULL: no
 * memory. */
struct server *pool_add_server(struct pool *pool);

/* Frees one that has closed. */
void pool_remove_server(struct server *server);

/*
 * Launches a server; dedicated_to: for this borrower only, NULL: for all. false: no memory, or it
 * has failed by now.
 */
bool pool_launch(struct pool *pool, struct borrower *dedicated_to);

/* What the pool does for its servers. */
extern const struct server_ops pool_server_ops;

/* server_idle_timeout and server_lifetime. */
void pool_idle_due(struct timer *timer);
void pool_life_due(struct timer *timer);

/* Closes all of them, whatever they do. */
void pool_close_all(struct pool *pool, const char *reason);

/*
 * It has served a session and was not reset, and now its pool is of another mode: nobody
 * may have it. And the reason to close it.
 */
bool pool_is_left_over(const struct server *server);
#define SERVER_LEFT_OVER "pool_mode has changed, and server_reset_query is empty"

/* Where the entry or its servers' place are others now. */
#define SERVER_OUTDATED "database configuration changed"

/* ---- moving house: pool_move.c ---- */

/* Clients of its database may belong to it: no other user is forced on them. */
bool pool_is_current(const struct pool *pool);

/* All but those who are being served go where they belong. For a pool that is not current. */
void pool_move_members(struct pool *pool);

/* Works out what is in force. */
void pool_configure(struct pool *pool);

/* ---- accounts: account.c ---- */

/* Looks the account up in the configuration and among the users. */
void role_configure(struct pools *pools, struct role *role);
void role_free(struct pools *pools, struct role *role);
void role_forget_unused(struct pools *pools, struct role *role);

/* ---- databases: database.c ---- */

struct database *database_add(struct pools *pools, const char *name,
                              const struct config_database *entry, bool is_auto);

/* Its pools must have neither members nor servers. */
void database_free(struct database *database);

/* One made by `*` that nobody uses: autodb_idle_timeout begins. */
void database_arm_expiry(struct database *database);

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
