/* SPDX-License-Identifier: ISC */
/*
 * All pools of one loop: databases, roles, servers, and what an administrator can do to them.
 */
#ifndef PGWEIR_POOL_POOLS_H
#define PGWEIR_POOL_POOLS_H

#include "pgweir/auth/users.h"
#include "pgweir/base/close_reason.h"
#include "pgweir/loop/workers.h"
#include "pgweir/net/tls.h"
#include "pgweir/pool/cancel.h"
#include "pgweir/pool/peer_pool.h"
#include "pgweir/pool/pool.h"
#include "pgweir/pool/server/tracked.h"

/* What all pools share. Borrowed: must outlive them. */
struct pools_with {
	struct loop *loop;
	struct log *log;
	struct stream_pool *streams;
	struct resolver *resolver;
	struct workers *workers;      /* for keys of logins at servers; */
	struct workers *slow_workers; /* for those that a server makes expensive */
	struct verifiers *verifiers;
	struct params_table *params;
	struct tls_context *tls; /* at first: pools_set_tls() */
};

/*
 * Someone who waits for a state of things: PAUSE, WAIT_CLOSE, a shutdown. Asked at
 * the end of each turn in which a server came home or closed.
 */
struct pools_watch {
	TAILQ_ENTRY(pools_watch) node;
	bool (*is_done)(struct pools_watch *watch);
	void (*on_done)(struct pools_watch *watch); /* off the list before; may free it */
};
TAILQ_HEAD(pools_watch_list, pools_watch);

/* A walk that survives removals: the next one to look at, or NULL. See pools_walk_*(). */
struct pools_walk {
	TAILQ_ENTRY(pools_walk) node;
	struct pool *next_pool;
	struct database *next_database;
	struct server *next_server;
};
TAILQ_HEAD(pools_walk_list, pools_walk);

/* SUSPEND: nothing is read any more, and everything stands between two messages. */
enum suspend_state {
	SUSPEND_NONE,
	SUSPEND_QUIESCING, /* some are still within a message */
	SUSPEND_DONE
};

struct pools {
	struct pools_with with;
	struct server_shared shared; /* the same, and what changes, for servers */
	const struct config *config; /* one reference */
	struct users *users;         /* one reference */
	struct tls_context *tls;     /* one reference; NULL: none is asked for */
	struct statements statements;
	struct socket_options server_sockets;
	struct hash_key secret; /* of the next two tables */
	struct database *database_table;
	struct database_list databases;
	unsigned int database_count;
	struct role *role_table;
	struct role_list roles;
	struct pool_list list;
	unsigned int pool_count;
	struct server_list servers; /* all, in the order of their ids */
	unsigned int server_count;  /* all but CLOSING */
	unsigned int busy_count;
	unsigned int close_needed_count;
	unsigned int cancel_count;  /* all cancel requests */
	uint64_t last_id;           /* of clients and servers together */
	uint64_t last_line_number;  /* of those who have stood in a line */
	struct close_counts closes; /* how servers have ended */
	bool is_paused;
	struct hold hold; /* good while all is paused or suspended */
	enum suspend_state suspend;
	bool is_closing; /* freeing all: nothing new is begun */
	bool is_ending;  /* nobody gets into a line any more */
	bool is_leaving; /* another process has taken over: no server for min_pool_size */
	void (*serve)(struct task *task);    /* what each pool's serve_task runs; and */
	const struct server_ops *server_ops; /* what servers call: both are above the tables */
	struct timer_queue *pool_expiry;     /* pool_idle_timeout, of pools that nobody uses */
	struct timer_queue *database_expiry; /* autodb_idle_timeout, of databases */
	struct slab server_slab, pool_slab, database_slab, role_slab, cancel_slab;
	struct pools_watch_list watches;
	struct pools_walk_list walks;
	struct task watch_task, sweep_task;
	struct peer_pools peers;
	struct buf errand_text,
	    errand_message; /* rewritten for each errand, and kept for the next */
	struct stats gone;  /* of databases that have been forgotten: totals never shrink */
};

struct pools *pools_new(const struct pools_with *with, const struct config *config,
                        struct users *users, struct err *err);

/* Closes all servers at once. No borrower may be left. */
void pools_free(struct pools **pools);

/* A new snapshot is in force. Takes references of its own. */
void pools_configure(struct pools *pools, const struct config *config, struct users *users);

/* New servers get TLS by this; NULL: none. Those that have another one are replaced.
 * Takes a reference of its own. */
void pools_set_tls(struct pools *pools, struct tls_context *tls);

/* The database of this name, made by `*` if need be. NULL: there is none (or no memory). */
struct database *pools_database(struct pools *pools, const char *name);

/* The database of this name if it is known by now. */
struct database *pools_find_database(struct pools *pools, const char *name);

/* The pool of these names in which clients work; NULL: there is none. */
struct pool *pools_find_pool(struct pools *pools, const char *database, const char *role);

/* The role of this name. NULL: no memory. */
struct role *role_of_name(struct pools *pools, const char *name);

/*
 * The pool in which a client that proved to be `user` on `database` works: of
 * the forced user, if there is one. NULL: no memory.
 */
struct pool *pools_pool(struct database *database, const char *user);

/*
 * The pool of the same database in which `user` looks other users up, whatever user the
 * entry forces on clients. It is never the one above: nothing that a client has said
 * reaches its servers. NULL: no memory.
 */
struct pool *pools_lookup_pool(struct database *database, const char *user);

/* The other pool of the same user on the same database, where one of them is for lookups; or NULL.
 */
const struct pool *pools_lookup_sibling(const struct pool *pool);

/*
 * A client works as this role, or does not any more. A role that nobody uses and no file
 * names is forgotten: with auth_type = any, clients choose the name.
 */
void role_enter(struct role *role);
void role_leave(struct pools *pools, struct role **role);

/* A client of the database comes (1) or goes (-1). */
void database_count_client(struct database *database, int change);

/* A number for a new client or server. */
uint64_t pools_next_id(struct pools *pools);

/* ---- for the console; database NULL = all ---- */

/* `by`: what paused it, for SHOW WAITING; copied. */
void pools_pause(struct pools *pools, struct database *database, const char *by);
void pools_resume(struct pools *pools, struct database *database);
void pools_reconnect(struct pools *pools, struct database *database);
/* Closes all clients and servers of the database and leaves it paused. */
void pools_kill(struct pools *pools, struct database *database, const char *by);
void pools_watch_start(struct pools *pools, struct pools_watch *watch);
void pools_watch_stop(struct pools *pools, struct pools_watch *watch);
/* Whether everything is held back, by PAUSE or by SUSPEND. */
static inline bool pools_are_held(const struct pools *pools)
{
	return pools->is_paused || pools->suspend != SUSPEND_NONE;
}

/*
 * SUSPEND, for servers; the caller does the same for clients. Begins it: no server is lent
 * any more, and logins that are under way are given up.
 */
void pools_suspend(struct pools *pools, const char *by);

/* Halts each server that can be halted by now. true: all are, between two messages. */
bool pools_quiesce(struct pools *pools);

/* Closes those that pools_quiesce() waits for. */
void pools_drop_busy(struct pools *pools, const struct err *err);

/* SUSPEND is over. */
void pools_go_on(struct pools *pools);

/* SUSPEND is complete: watches are asked. */
void pools_suspended(struct pools *pools);

/* Shutdown: refuses all borrowers that wait, and all that ask from now on. */
void pools_refuse_waiting(struct pools *pools, const struct err *err);

/* Begins a walk at the first of each; end it. The owner takes next_*, and moves it on. */
void pools_walk_start(struct pools *pools, struct pools_walk *walk);
void pools_walk_stop(struct pools *pools, struct pools_walk *walk);

/* Something changed that a watch may wait for. */
void pools_changed(struct pools *pools);

#endif
