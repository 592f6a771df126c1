/* SPDX-License-Identifier: ISC */
/*
 * A pool: the servers of one role on one database, and the wait queue for them.
 *
 * Borrowers are served in the order in which they asked. A server that comes home goes to the
 * first of the wait queue at the end of the turn. No work here grows with the number of idle
 * clients or servers.
 */
#ifndef PGWEIR_POOL_POOL_H
#define PGWEIR_POOL_POOL_H

#include "pgweir/auth/credentials.h"
#include "pgweir/base/buf.h"
#include "pgweir/pool/server/borrower.h"
#include "pgweir/pool/database.h"
#include "pgweir/pool/server/hosts.h"
#include "pgweir/pool/server/server.h"
#include "pgweir/pool/stats.h"

/* Logins of one pool that may be under way at once. */
#define POOL_LOGINS_MAX 8

struct cancel;
TAILQ_HEAD(cancel_list, cancel);

/* What is in force, worked out when the configuration comes or changes. */
struct pool_limits {
	enum pool_mode mode;
	bool late_begin; /* never but in transaction mode */
	int size;        /* 0 = no limit */
	int reserve_size;
	int min_size;
	usec_t reserve_after;
	usec_t lifetime; /* server_lifetime */
};

/* Servers with those of the reserve, where there is a limit. */
static inline unsigned int pool_limits_most(const struct pool_limits *limits)
{
	return (unsigned int)limits->size + (unsigned int)limits->reserve_size;
}

struct pool {
	struct pools *pools;
	struct database *database;
	struct role *role;      /* the user that its servers log in as */
	UT_hash_handle hh;      /* in its database, by `filed_by` */
	const void *filed_by;   /* the address of the role; for lookups, of its credentials */
	bool is_for_lookups;    /* see pools_lookup_pool() */
	TAILQ_ENTRY(pool) node; /* among all pools */
	struct logger log;
	struct pool_limits limits;
	struct server_site site;        /* what its servers have in common */
	struct credentials credentials; /* from the entry's password; else the role's count */
	struct credentials learnt;      /* what a client of this pool has proven itself with */
	unsigned int learnt_version;    /* of the role's secret then: pool_configure() */

	struct server_list servers[SERVER_STATES];
	unsigned int server_counts[SERVER_STATES];
	unsigned int server_count; /* all but CLOSING */
	unsigned int probe_count;  /* logins at a host that had failed: nobody counts on them */

	struct borrower_list members;        /* all borrowers */
	struct borrower_list waiting;        /* the line for servers */
	struct borrower_list newcomers;      /* waiting for the welcome */
	struct borrower_list wait_dedicated; /* the line of those who need a server of their own */
	struct borrower_list connect_dedicated; /* those of them whose server is being launched */
	unsigned int member_count, waiting_count, newcomer_count, served_count;
	unsigned int wait_dedicated_count, connect_dedicated_count;
	unsigned int dedicated_count; /* of server_count: those that serve one borrower only */
	unsigned int hasty_count;     /* of those in any of the lines: pool_haste.c */

	struct cancel_list cancels_waiting;
	struct cancel_list cancels_active;
	unsigned int cancel_waiting_count, cancel_active_count;
	unsigned int cancel_count; /* those too that have ended and are not freed yet */

	/* the welcome: what a server reported at its login */
	bool has_welcome;
	struct buf welcome;            /* name\0value\0 in the server's order */
	const struct params *baseline; /* the same as a map */
	struct buf greeting; /* the same as messages, for clients with greeting_for; the */
	const struct params
	    *greeting_for; /* the client module's, kept because the next one is alike */

	/* after logins that failed */
	bool is_failing; /* at all hosts */
	struct err failure;
	usec_t failed_at;         /* when the last login failed; 0: none ever did */
	unsigned int probes_left; /* attempts that are made though nobody waits: pool_haste.c */
	bool is_hopeful;      /* no attempt for long: clients with fail_fast wait for this one */
	struct timer retry;   /* server_login_retry */
	struct timer reserve; /* reserve_pool_timeout of the head of the line */
	struct timer rest;    /* pool_idle_timeout */

	TAILQ_ENTRY(pool)
	database_blocked; /* wants a server, but a limit of its database forbids it */
	TAILQ_ENTRY(pool) role_blocked;
	bool is_database_blocked, is_role_blocked;
	bool is_unblocked;  /* just woken because a limit may allow another server */
	bool has_come_home; /* a server has, while some waited; pool_serve() looks */
	usec_t
	    lifetime_close_at; /* when the last one was closed for its age: closings are spaced */
	struct task serve_task;
	struct stats stats;
	uint64_t size_hits;    /* waits that began because pool_size was reached */
	uint64_t reserve_hits; /* and reserve_pool_size too */
};

/* ---- membership ---- */

/* A borrower joins, and rests. Its ops must be set. */
void pool_join(struct pool *pool, struct borrower *borrower);

/*
 * It leaves, wherever it stands: out of the line; a server that it holds is
 * returned if nothing is owed to it, and closed otherwise.
 */
void pool_leave(struct borrower *borrower);

/* ---- the welcome ---- */

/*
 * Waits until the pool has a welcome: on_welcome() or on_refused(). Not when it
 * has one. false: PostgreSQL has just refused us, *err says why.
 */
bool pool_await_welcome(struct borrower *borrower, struct err *err);

/* ---- what its clients have shown ---- */

/*
 * A client of this pool has proven itself with these: servers of this pool may be entered
 * with them, unless auth_file has the password itself. No other pool gets them, but the
 * one for lookups of the same user on the same database. Copied.
 */
void pool_learn(struct pool *pool, const struct credentials *shown);

/* ---- lending ---- */

/* A server for this borrower, now, or NULL: then pool_ask(). */
struct server *pool_take(struct borrower *borrower);

/*
 * Takes a place in the line: on_lent() or on_refused(). false: not even waiting
 * makes sense, *err says why.
 */
bool pool_ask(struct borrower *borrower, struct err *err);

/*
 * The same for one who needs a server of its own, which is never lent to anybody
 * else. What the wish says must last until on_lent() or on_refused(). When
 * PostgreSQL refuses that server, its words are for this borrower only.
 */
bool pool_ask_dedicated(struct borrower *borrower, struct server_wish *wish, struct err *err);

/* Gives up the place in whatever line it stands. */
void pool_give_up(struct borrower *borrower);

/*
 * fail_fast, for one borrower: with it nobody waits for a host that cannot be reached. To
 * ask fails, or a wait ends by on_refused(), with ERR_UNREACHABLE.
 */
void pool_hurry(struct borrower *borrower, bool is_hasty);

/* Adds what there is to say of that: where, and when it is tried again. */
void pool_unreachable_tell(const struct pool *pool, struct buf *out);

/*
 * Brings the lent server's parameters to what `params` says. true: they are so
 * already, bytes may be sent. false: on_lent() comes again when they are, or
 * on_lost() when the server would not have them. sends_now: the borrower has
 * something to send, so what would do no harm if it failed goes in front of that,
 * and is not waited for.
 */
bool pool_prepare(struct borrower *borrower, const struct params *params, bool sends_now);

/* Gives the server back. Only when it is ready and nothing is owed. */
void pool_return(struct borrower *borrower);

/* Servers that any borrower may get, those that are being launched included. */
static inline unsigned int pool_shared_count(const struct pool *pool)
{
	return pool->server_count - pool->dedicated_count;
}

/* Logins under way for those servers. */
static inline unsigned int pool_shared_login_count(const struct pool *pool)
{
	return pool->server_counts[SERVER_CONNECTING] + pool->server_counts[SERVER_LOGIN] -
	       pool->connect_dedicated_count;
}

/* For monitors: a login has failed, so lately that one scrape a minute sees it. */
bool pool_has_failed_lately(const struct pool *pool);

/* How many servers a client could ever wait for: those that live. */
static inline unsigned int pool_live_count(const struct pool *pool)
{
	return pool_shared_count(pool) - pool_shared_login_count(pool);
}

/* ---- why somebody waits ---- */

enum wait_reason {
	WAIT_SUSPENDED,
	WAIT_PAUSED,
	WAIT_DATABASE_PAUSED,
	WAIT_RETRY,          /* logins fail, and the next one has to wait */
	WAIT_LOGIN,          /* a server is logging in, or others of the line come before */
	WAIT_CHECK,          /* a server is being checked or reset */
	WAIT_POOL_FULL,      /* pool_size */
	WAIT_DATABASE_LIMIT, /* max_db_connections */
	WAIT_USER_LIMIT,     /* max_user_connections */
	WAIT_TURN,           /* nothing: it is served at the end of the turn */
	WAIT_REASONS
};

const char *pool_wait_reason_name(enum wait_reason reason);

/* Why it waits; `place` is its own in its line, from 1. It must stand in one. */
enum wait_reason pool_wait_reason(const struct borrower *borrower, unsigned int place);

/*
 * Adds what there is to say of that: numbers, or the last error; and since when and by whom it is
 * paused or suspended.
 */
void pool_wait_explain_all(const struct pool *pool, enum wait_reason reason, struct buf *out);

/*
 * Adds both in one line, "reason: what there is to say", and the last error if logins fail.
 * Returns what could be changed about it, for HINT; NULL: nothing. Static.
 */
const char *pool_wait_tell(const struct borrower *borrower, struct buf *out);

/* Those who wait, however they do: `line` from 0; NULL: there is no such line. */
struct borrower_list *pool_wait_queue_at(struct pool *pool, unsigned int line);

/* What the welcome was made from has changed. */
void pool_forget_greeting(struct pool *pool);

/* What its servers log in with. Borrowed. */
const struct credentials *pool_credentials(const struct pool *pool);

/*
 * At the end of the turn the pool looks which borrowers it can serve, and whether it needs more
 * servers.
 */
void pool_wake(struct pool *pool);

#endif
