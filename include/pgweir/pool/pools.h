/* SPDX-License-Identifier: ISC */
/* All pools of one loop, with databases, roles and servers, and the administrator's operations. */
#ifndef PGWEIR_POOL_POOLS_H
#define PGWEIR_POOL_POOLS_H

#include "pgweir/auth/users.h"
#include "pgweir/base/close_reason.h"
#include "pgweir/loop/workers.h"
#include "pgweir/net/tls.h"
#include "pgweir/pool/peer_pool.h"
#include "pgweir/pool/pool.h"
#include "pgweir/pool/server/params.h"

/* What pools need beyond their servers (struct server_shared). Borrowed; it outlives the pools. */
struct pools_with {
	struct broker *broker; /* of all loops */
	bool is_main;          /* of the main thread: they watch and find hosts */
	/* of the process, for all its loops; copied. NULL: these pools draw their own */
	struct statement_names *statement_names;
	const struct peers *peers; /* NULL: none by DNS */
	/*
	 * The hosts of entries with this text as hosts_from are others than before: to be applied.
	 * Called from the loop of the main thread.
	 */
	void (*on_hosts_found)(void *owner, const char *source, const char *list);
	void *owner;
};

/* A walk over all servers that survives removals. See pools_walk_start(). */
struct pools_walk {
	TAILQ_ENTRY(pools_walk) node;
	struct server *next_server; /* to look at, or NULL */
};
TAILQ_HEAD(pools_walk_list, pools_walk);

/* SUSPEND: reading stops, and all connections come to rest between two messages. */
enum suspend_state {
	SUSPEND_NONE,
	SUSPEND_QUIESCING, /* some connections are still within a message */
	SUSPEND_DONE
};

struct pools {
	struct pools_with with;
	struct broker_member member;
	struct server_shared shared; /* with its current values; of `tls`, one reference */
	const struct config *config; /* one reference */
	struct users *users;         /* one reference */
	struct statements statements;
	struct socket_options server_sockets;
	struct hash_key secret; /* hash key of its tables of names */
	struct database *database_table;
	struct database_list databases;
	struct role *role_table;
	struct cap cap;              /* max_server_connections */
	struct cap_host *host_table; /* max_host_connections */
	bool has_priorities;         /* an entry of [users] has another one than normal */
	bool is_capped;              /* by one of these two */
	struct role_list roles;
	struct pool_list list;
	/* all, in order of ids; those that moved here from another loop behind them */
	struct server_list servers;
	unsigned int server_count;    /* all but CLOSING */
	unsigned int listening_count; /* of those: listening connections */
	unsigned int busy_count;
	unsigned int home_count; /* in IDLE and USED */
	unsigned int ending_count;
	unsigned int close_needed_count;
	uint64_t moved_in, moved_out; /* servers that came from and went to other loops */
	uint64_t last_pairing;        /* the last number given to a borrower and its server */
	uint64_t last_line_number;    /* the last wait_number given to a borrower */
	struct close_counts closes;   /* why servers were closed */
	bool is_paused;
	struct hold hold; /* valid while everything is paused or suspended */
	enum suspend_state suspend;
	usec_t changed_at; /* the last reload or command that closes servers: pool_trade.c */
	/* of listeners, now or before: a bit for each mode. 0: each pool serves its own */
	unsigned int door_modes;
	bool is_closing; /* freeing all pools: no new work starts */
	bool is_ending;  /* wait queues accept no borrower any more */
	/* the process that takes over is a release that knows no session state: pool/handover.h */
	bool is_handover_plain;
	bool is_leaving; /* another process has taken over: min_pool_size is not kept */
	void (*serve)(struct task *task); /* the function of each pool's serve_task, */
	/* and the functions servers call: both are in files above pools.c */
	const struct server_ops *server_ops;
	struct slab server_slab, pool_slab, database_slab, role_slab, cancel_slab;
	struct pools_walk_list walks;
	struct task sweep_task;
	struct timer sweep_timer;         /* while pools or databases may expire */
	struct cancel_list cancels_ended; /* freed by cancel_task */
	struct task cancel_task;
	struct peer_pools peers;
	struct buf group_text;                /* written again for each name of a group */
	struct buf order_text, order_message; /* written again for each order; the memory is kept */
	struct stats gone;   /* counters of freed databases, so that totals never decrease */
	uint64_t gone_count; /* how often those of a pool were moved to its database */
	/* what the pools count together, so that nobody has to walk them each second */
	uint64_t client_bytes, server_bytes;
	struct pool_list queueing;         /* pools that have waiting borrowers */
	struct pool_list sized;            /* those with pool_size = auto */
	struct host_watches *host_watches; /* of the main thread's pools; else NULL */
	struct finders *finders;           /* the same */
	struct latency_all latency;
	struct sqlstates sqlstates; /* errors that clients were sent */
};

/* shared: what is constant there, and the initial `tls`. Copied, like `with`. */
struct pools *pools_new(const struct server_shared *shared, const struct pools_with *with,
                        const struct config *config, struct users *users, struct err *err);

#define FINDERS_TEXT_SIZE 256

/*
 * For people: the source of a hosts_from, and whether it fails. false: it is not asked; `text` may
 * be NULL. Only pools of the main thread know.
 */
bool finders_tell(const struct pools *pools, const char *text, char out[FINDERS_TEXT_SIZE]);

/* Closes all servers at once. No borrower may be left. */
void pools_free(struct pools **pools);

/* Applies a new snapshot. Takes its own references. */
void pools_configure(struct pools *pools, const struct config *config, struct users *users);

/*
 * Four times a second, with pool_size = auto, all loops held: the first for each loop, then the
 * other. false: no pool of the loop has it, and a second is early enough.
 */
bool pools_measure(struct pools *pools, usec_t now);
void pools_resize(struct pools *pools, usec_t now);

/* A client has come that is in this mode, whatever the settings say. */
void pools_serve_mode(struct pools *pools, enum pool_mode mode);

/* For new servers, NULL: no TLS; those with another one are replaced. Takes its own reference. */
void pools_set_tls(struct pools *pools, struct tls_context *tls);

/* The database of this name; made by `*` if necessary. NULL: there is none (or no memory). */
struct database *pools_database(struct pools *pools, const char *name);

/* The database of this name, if it exists already. NULL: it does not. */
struct database *pools_find_database(struct pools *pools, const char *name);

/* The same, also if the database is being removed. */
struct database *pools_find_any_database(const struct pools *pools, const char *name);

/* The role of this name. NULL: there is none. */
struct role *pools_find_role(const struct pools *pools, const char *name);

/* The address of this name, if servers of these pools are there. NULL: none is. */
struct cap_host *pools_find_cap_host(const struct pools *pools, const char *name);

/* The pool of these names that serves clients. NULL: there is none. */
struct pool *pools_find_pool(const struct pools *pools, const char *database, const char *role);

/* The same for any purpose. */
struct pool *pools_find_exact_pool(const struct pools *pools, const char *database,
                                   const char *role, enum pool_purpose purpose);

/* The role of this name, made if necessary. NULL: no memory. */
struct role *role_of_name(struct pools *pools, const char *name);

/*
 * The pool for a client that authenticated as `user` on `database`. Its role is the forced user of
 * the database, if there is one. NULL: no memory.
 */
struct pool *pools_pool(struct database *database, const char *user);

/*
 * The pool of the same database for lookups by auth_query, which run as `user` even if the entry
 * forces another user on clients. It is never the pool of pools_pool(): no bytes of a client reach
 * its servers. NULL: no memory.
 */
struct pool *pools_lookup_pool(struct database *database, const char *user);

/*
 * The pool of the same database and user for another purpose, or the same pool. NULL: there is
 * none; pools_twin() makes it then: NULL: no memory.
 *
 * A client whose reads go to standbys (route_reads) is a member of one of two pools: the one for
 * clients and the one for reads.
 */
struct pool *pools_find_twin(const struct pool *pool, enum pool_purpose purpose);
struct pool *pools_twin(struct pool *pool, enum pool_purpose purpose);

/*
 * Count a client under this name; an exempt one counts for no limit. role_leave() sets *role to
 * NULL, and frees a role that no client, pool or file uses: with auth_type = any, any name gets a
 * role.
 */
void role_enter(struct role *role, bool is_exempt);
void role_leave(struct pools *pools, struct role **role, bool was_exempt);

/* A client of the database connects (1) or disconnects (-1). */
void database_count_client(struct database *database, int change);

/* An id for a new client or server. */
uint64_t pools_next_id(struct pools *pools);

/* ---- for the console; database NULL = all ---- */

/* `by`: the command and its user, for SHOW WAITING. Copied. */
void pools_pause(struct pools *pools, struct database *database, const char *by);
void pools_resume(struct pools *pools, struct database *database);
void pools_reconnect(struct pools *pools, struct database *database);
/* Pauses the database, and closes nothing. */
void pools_hold(struct pools *pools, struct database *database, const char *by);
/* Closes all clients and servers of the database and leaves the database paused. */
void pools_kill(struct pools *pools, struct database *database, const char *by);
/* Whether PAUSE or SUSPEND of all databases is in effect. */
static inline bool pools_are_held(const struct pools *pools)
{
	return pools->is_paused || pools->suspend != SUSPEND_NONE;
}

/* SUSPEND of servers, as of clients: nothing is lent any more, and logins are given up. */
void pools_suspend(struct pools *pools, const char *by);

/* Stops reading from each server between two messages. true: all of them are stopped. */
bool pools_quiesce(struct pools *pools);

/* Closes the servers that pools_quiesce() still waits for. */
void pools_drop_busy(struct pools *pools, const struct err *err);

/* Ends a SUSPEND. */
void pools_go_on(struct pools *pools);

/* Everything has come to rest for a SUSPEND: asks the watches. */
void pools_suspended(struct pools *pools);

/* Refuses all borrowers in wait queues, and later ones: shutdown. */
void pools_refuse_waiting(struct pools *pools, const struct err *err);

/* How long the borrower that comes first in any wait queue has waited; the longest. */
usec_t pools_longest_wait(const struct pools *pools, usec_t now);

/* At the first server. The owner reads next_server, advances, and stops it. */
void pools_walk_start(struct pools *pools, struct pools_walk *walk);
void pools_walk_stop(struct pools *pools, struct pools_walk *walk);

/*
 * ---- hosts ----
 *
 * The servers of a loop by their hosts: for the console, while all loops are held.
 */

/* The servers of a database at this address (NULL: a Unix socket) of the host of this number. */
unsigned int pools_servers_at(const struct pools *pools, const char *database, unsigned int host,
                              const struct address *address);

/* How often a server of the host of this name was lent for a read. */
uint64_t pools_reads_at(const struct pools *pools, const char *database, const char *host);

/* Servers of any database at the host of this name that work for somebody. */
unsigned int pools_busy_at(const struct pools *pools, const char *host);

/* Closes servers whose host must not be used any more, as each pool would do in its next turn. */
void pools_leave_hosts(struct pools *pools);

#endif
