/* SPDX-License-Identifier: ISC */
/*
 * A pool: the servers of one user on one database, and the wait queue for them.
 *
 * Waiting borrowers are served in the order in which they asked. A returned server goes to the head
 * of the wait queue at the end of the turn. No function here takes time that grows with the number
 * of idle clients or servers.
 */
#ifndef PGWEIR_POOL_POOL_H
#define PGWEIR_POOL_POOL_H

#include "pgweir/auth/users.h"
#include "pgweir/base/buf.h"
#include "pgweir/pool/server/borrower.h"
#include "pgweir/pool/cancel.h"
#include "pgweir/pool/database.h"
#include "pgweir/pool/fair.h"
#include "pgweir/pool/server/hosts.h"
#include "pgweir/pool/latency.h"
#include "pgweir/pool/listening.h"
#include "pgweir/pool/server/server.h"
#include "pgweir/pool/shed.h"
#include "pgweir/pool/sizing.h"
#include "pgweir/pool/stats.h"

/* How many logins of one pool may be in progress at once. */
#define POOL_LOGINS_MAX 8

/* What depends on the mode of the borrower. */
struct pool_rules {
	enum pool_mode mode;
	bool late_begin; /* only in transaction mode */
	bool is_causal;  /* causal_reads, with route_reads */
	enum session_isolation isolation;
	/* by that and the catalog: which texts may use a sequence that others know, */
	enum catalog_sequences sequences;
	/* and whether nobody can know what a text has left, whatever names it has */
	bool leaves_doubt;
	enum session_state_mode session_state; /* in session mode always SESSION_STATE_OFF */
	unsigned int session_sample;           /* 0 = no transaction is a sample */
	enum route_reads route_reads;
};

/* The number of the rules for a mode. INHERIT: 0, the pool's own, as for a new borrower. */
static inline uint8_t pool_rules_number(enum pool_mode mode)
{
	return mode == POOL_MODE_INHERIT ? 0 : (uint8_t)(1 + mode);
}

/* The settings in force for this pool, computed at each new snapshot. */
struct pool_limits {
	/* its own mode, and then each mode: a listener may have another one */
	struct pool_rules rules[1 + POOL_MODE_INHERIT];
	bool is_mixed; /* some borrowers are in session mode, and others are not */
	/* whether one of the modes that clients can have here wants that */
	bool reads_catalog, isolates, isolates_known, routes_reads, is_causal;
	int max_pinned; /* INT_MAX = no limit */
	int size;       /* now; 0 = no limit */
	int reserve_size;
	int min_size;
	struct sizing_bounds sizes; /* with pool_size = auto; else most is 0 */
	usec_t reserve_after;
	bool guards_queue; /* by any of the next two, or by max_waiting of its database or user */
	int max_waiting;   /* 0 = no limit */
	struct shed_rule shed;
	usec_t lifetime; /* server_lifetime */
	/* of a pool for reads: servers of a standby that is further behind are not lent */
	bool has_lag_limit;
	struct roster_limit lag_limit;
};

/* The greatest number of servers, including the reserve. Only if there is a limit. */
static inline unsigned int pool_limits_most(const struct pool_limits *limits)
{
	return (unsigned int)limits->size + (unsigned int)limits->reserve_size;
}

/* A user may have one pool of each purpose on a database. */
enum pool_purpose {
	POOL_FOR_CLIENTS,
	POOL_FOR_LOOKUPS, /* see pools_lookup_pool() */
	POOL_FOR_READS,   /* for the same clients, on standbys: see pools_twin() */
	POOL_PURPOSES
};

/* What the pool asks for, while a cap keeps servers from it: the first that is full. */
struct pool_block {
	struct claimant claim; /* in the queue of that cap */
	bool is_refused;       /* in this pool_serve() */
	/* the address that it asks for in advance, as it was full; NULL: none */
	struct cap_host *wanted_host;
};

struct wait_queue {
	struct borrower_list list;
	unsigned int count;
};

struct pool {
	struct pools *pools;
	struct share share; /* in the counts of all loops: pool_size, max_pinned_servers */
	struct database *database;
	struct role *role;    /* the user its servers log in as */
	UT_hash_handle hh;    /* in its database, by `filed_by` */
	const void *filed_by; /* an address in its role, another one for each purpose */
	enum pool_purpose purpose;
	TAILQ_ENTRY(pool) node; /* in pools->list */
	struct logger log;
	struct pool_limits limits;
	struct sql_touchers pin_functions; /* mostly empty */
	struct buf read_functions;         /* in lower case: name\0name\0 */
	struct server_site site;           /* what its servers share */
	/* from the entry's password; NULL: the role's are used */
	const struct credentials *credentials;
	/* obtained from a client's authentication, or NULL: pool_learn() */
	const struct credentials *learnt;
	unsigned int learnt_version; /* the role's secret_version when that was */

	struct server_list servers[SERVER_STATES];
	unsigned int server_counts[SERVER_STATES];
	/* all but CLOSING and listening connections: pool_size is about these */
	unsigned int server_count;
	struct listening_list listenings;
	/* listening connections, and those of them that are logging in */
	unsigned int listening_count, listening_login_count;
	unsigned int stuck_count;         /* what it counts in stuck_count of its caps */
	unsigned int counted_login_count; /* in tally->login_count */
	/* logins at a host that had failed: no borrower relies on them */
	unsigned int probe_count;

	struct borrower_list members; /* all borrowers */
	/* by their state; those SERVED wait for a place of max_pinned_servers */
	struct wait_queue queues[BORROWER_SERVED + 1];
	unsigned int member_count, served_count;
	unsigned int dedicated_count; /* of server_count: dedicated servers */
	TAILQ_ENTRY(pool) queueing;   /* in pools->queueing, while it has waiting borrowers */
	TAILQ_ENTRY(pool) sized;      /* in pools->sized, with pool_size = auto */
	bool is_sized;
	bool is_over; /* when they are returned, some servers are closed or held back */
	/* of its USED servers: those for the larger size of a trial, in turns of the other one */
	unsigned int held_back;
	unsigned int hasty_count; /* hasty borrowers in all queues: pool_retry.c */
	usec_t relieved_at;       /* pool_note_relief() */
	uint64_t pins_refused;    /* how often max_pinned_servers refused a statement */
	uint64_t state_refused;   /* how often session_state = refuse, or the statement mode, did */

	struct cancel_queue cancels;

	/* `welcome` and `baseline`: what a server reported at its login */
	bool has_welcome;
	struct buf welcome;            /* name\0value\0 in the server's order */
	const struct params *baseline; /* the same as a map */
	struct buf greeting; /* the welcome as messages, cached by client/login/admit.c; */
	const struct params *greeting_for; /* valid for clients with these parameters */
	uint8_t greeting_rules;            /* and these rules */
	/* Startup parameters of a client, without application_name, and what came of them. */
	struct {
		const struct params *asked;
		const struct params *told; /* the same in PostgreSQL's spelling */
	} tried;

	/* roles of hosts: pool_retry.c */
	unsigned int roster_number; /* roster_number() when the servers were looked at */

	/* failed logins */
	unsigned int failure_count; /* of its hosts, as this loop has heard */
	usec_t failed_at;           /* when the last login failed; 0: never */
	/* until then, attempts are made without a waiting borrower: pool_retry.c */
	usec_t probes_until;
	/* no recent attempt: clients with fail_fast wait for the current one */
	bool is_hopeful;
	struct timer look;        /* pool_wake_after() */
	usec_t unused_since;      /* when it was last empty: pool_idle_timeout */
	struct {                  /* with other loops: pool_trade.c */
		usec_t looked_at; /* when their wants were looked at */
		usec_t load_at;   /* when load was computed */
		int64_t load;     /* the mean number of borrowers that wait or have a server */
	} trade;

	struct pool_block block;
	usec_t yield_at;           /* when it last looked whether to give up a server */
	unsigned int sample_count; /* transactions since the last sample: session_sample */
	bool was_told_unknown;     /* that servers stay because session state cannot be read */
	bool asks_sequences; /* a client has asked for values of sequences: pool_sequences.c */
	signed char *sequence_scores; /* of writing statements; NULL: none yet */
	/* when a server was last closed for server_lifetime: closings are spaced */
	usec_t lifetime_close_at;
	struct task serve_task;
	usec_t causal_since;        /* valid if limits.is_causal */
	struct {                    /* of a pool for reads: what has become of them */
		uint64_t routed;    /* to a standby */
		uint64_t elsewhere; /* the primary served them, as no standby could be used */
		uint64_t behind; /* of `routed`: the primary served them, as causal_reads wants */
		uint64_t wait_count, wait_time; /* for causal_reads */
		uint64_t head;            /* the number in the wait queue of the last head of it, */
		unsigned int passed;      /* and how often another one was served before that */
		usec_t former_told_until; /* the log has it that a standby is not seen to follow */
	} reads;
	struct stats stats;
	/* how long servers were lent, in microseconds, less served_count times the present time */
	uint64_t used_time;
	/*
	 * For SHOW ADVICE, since pool_size was set: how many borrowers of this loop had or wanted a
	 * server when one more did, itself included.
	 */
	struct demand {
		struct sketch wanted;
		int size; /* as pool_size was set */
		uint64_t used_before, lent_before;
	} demand;
	struct pool_measured {
		usec_t at; /* 0: never */
		uint64_t used, done;
	} measured; /* by pools_measure() */
	struct latency latency;
	struct fair *fair; /* NULL: first come, first served */
	enum fair_by fair_by;
	struct shed shed;
	uint64_t queue_hits;   /* clients refused by its max_waiting, */
	uint64_t shed_count;   /* and by queue_target */
	uint64_t size_hits;    /* how often a wait began because pool_size was reached */
	uint64_t reserve_hits; /* and reserve_pool_size, too */
};

static inline const struct pool_rules *pool_own_rules(const struct pool *pool)
{
	return &pool->limits.rules[0];
}

static inline const struct pool_rules *pool_rules(const struct borrower *borrower)
{
	return &borrower->pool->limits.rules[borrower->rules];
}

/* Those of its borrower; of a server that is not lent, the pool's. */
static inline const struct pool_rules *pool_rules_at(const struct server *server)
{
	const struct borrower *borrower = server->lease.borrower;

	return &server->pool->limits.rules[borrower ? borrower->rules : 0];
}

static inline struct borrower *pool_first(const struct pool *pool, enum borrower_state state)
{
	return TAILQ_FIRST(&pool->queues[state].list);
}

/* How long its servers were lent so far: microseconds, added up. */
static inline uint64_t pool_used_time(const struct pool *pool, usec_t now)
{
	return pool->used_time + pool->served_count * (uint64_t)now;
}

/* ---- membership ---- */

/* Makes the borrower a member, at rest. Its ops must be set. */
void pool_join(struct pool *pool, struct borrower *borrower);

/* Leaves any wait queue. A lent server is returned, or closed if it owes something. */
void pool_leave(struct borrower *borrower);

/* ---- the welcome ---- */

/*
 * Waits until the pool has a welcome: on_welcome() or on_refused() follows. The pool must not have
 * one yet. false: PostgreSQL has just refused a login; *err has the reason.
 */
bool pool_await_welcome(struct borrower *borrower, struct err *err);

/* ---- credentials of clients ---- */

/*
 * Notes what a client of this pool authenticated with: servers of this pool log in with it, unless
 * auth_file has the password itself. Only this pool uses it, and the pool for lookups of the same
 * user on the same database.
 */
void pool_learn(struct pool *pool, const struct credentials *shown);

/* ---- lending ---- */

/* Lends an idle server to this borrower at once. NULL: call pool_ask(). */
struct server *pool_take(struct borrower *borrower);

/* on_lent() or on_refused() follows. false: waiting is pointless or forbidden, *err: why. */
bool pool_ask(struct borrower *borrower, struct err *err);

/*
 * The same for a borrower that has lost its server, and has waited since then: it is the first, and
 * no max_waiting counts. But its time counts for queue_target: it may be refused, as it has not
 * run.
 */
bool pool_ask_first(struct borrower *borrower, usec_t since, struct err *err);

/*
 * The same for a dedicated server, which serves only this borrower. The strings of the wish must
 * stay valid until on_lent() or on_refused(). If PostgreSQL refuses the login, only this borrower
 * gets the error.
 */
bool pool_ask_dedicated(struct borrower *borrower, struct server_wish *wish, struct err *err);

void pool_give_up(struct borrower *borrower);

/* fail_fast: it never waits for hosts that are unreachable, and gets ERR_UNREACHABLE instead. */
void pool_hurry(struct borrower *borrower, bool is_hasty);

/* Adds to a text which hosts cannot be reached, and when they are tried again. */
void pool_unreachable_tell(const struct pool *pool, struct buf *out);

/*
 * Sets the lent server's parameters to `params`. true: they are set, messages may be sent. false:
 * on_lent() comes again when they are set, or on_lost() if the server refuses them. sends_now: the
 * borrower sends something next; parameters whose failure would do no harm are then sent ahead of
 * that, without waiting for the reply.
 */
bool pool_prepare(struct borrower *borrower, const struct params *params, bool sends_now);

/*
 * With route_reads: the borrower is at rest, and is about to ask for a server. Makes it a member of
 * the pool for that: a read is served by a standby, if one can be used.
 */
void pool_route(struct borrower *borrower, bool is_read);

/* Notes what a server on a standby has answered about its position. */
void pool_standby_note(struct server *server, const struct facts *facts);

/* Whether a standby has replayed that much, and does not follow a former primary. */
bool pool_standby_has_replayed(struct server *server, uint64_t position);

/*
 * Whether a server is known to show at least what was shown by a transaction that began at `since`
 * on a standby that was started at `started`.
 */
bool pool_standby_shows(const struct server *server, uint64_t started, usec_t since);

/* Whether a server's host, a standby, is known to follow the primary, or nothing else is known. */
bool pool_standby_follows_primary(const struct server *server);

/* The primary serves a read instead: logs it, at times, if that is because it does not. */
void pool_standby_tell_former(const struct server *server);

/* The newest timeline that the host or the primary is known to be on; 0: none. */
uint32_t pool_standby_timeline(const struct server *server);

/*
 * What is left of a position that was found out at `since`, when this timeline was the newest one:
 * after a failover the primary may have less WAL than that. Then it is the primary's position.
 */
uint64_t pool_standby_left_of(const struct server *server, uint64_t position, uint32_t timeline,
                              usec_t since);

/* Returns the server. It must be ready and owe nothing. */
void pool_return(struct borrower *borrower);

/* Servers that are not dedicated, including those that are connecting. */
static inline unsigned int pool_shared_count(const struct pool *pool)
{
	return pool->server_count - pool->dedicated_count;
}

/* Logins in progress among those servers. */
static inline unsigned int pool_shared_login_count(const struct pool *pool)
{
	return pool->server_counts[SERVER_CONNECTING] + pool->server_counts[SERVER_LOGIN] -
	       pool->queues[BORROWER_CONNECT_DEDICATED].count - pool->listening_login_count;
}

/* For monitoring: whether a login failed recently enough that a scrape once a minute sees it. */
bool pool_has_failed_lately(const struct pool *pool);

/* Servers of the pool in other loops, and those on the way. */
static inline unsigned int pool_elsewhere_count(const struct pool *pool)
{
	unsigned int all = share_servers(&pool->share);

	return all > pool->server_count ? all - pool->server_count : 0;
}

/*
 * Servers that have logged in and are not dedicated, in any loop: what a client could wait for. May
 * include dedicated ones of other loops.
 */
static inline unsigned int pool_live_count(const struct pool *pool)
{
	/*
	 * A server's login begins after the server is counted, and ends before it is not counted
	 * any more. So with the lower of two readings, before and after that of the servers, the
	 * result is never too low: a client that could wait is not refused.
	 */
	unsigned int before = pool->share.tally->login_count;
	unsigned int elsewhere = pool_elsewhere_count(pool);
	unsigned int logins = pool->share.tally->login_count;

	if (logins > before)
		logins = before;
	logins = logins > pool->counted_login_count ? logins - pool->counted_login_count : 0;
	return pool_shared_count(pool) - pool_shared_login_count(pool) +
	       (elsewhere > logins ? elsewhere - logins : 0);
}

/* ---- values of sequences: pool_sequences.c ---- */

/* Whether the lent server may have values that are not its borrower's. */
bool pool_has_foreign_values(const struct server *server);

/* The borrower may call nextval() on its server now: it owns that, and no other one. */
void pool_own_sequences(struct borrower *borrower);

/*
 * DISCARD SEQUENCES goes ahead of the next message to the server: then it has no values. `how`:
 * DISCARD_SENT, as a Query, or DISCARD_IN_BATCH. Returns the change of the request, if that is not
 * a query of the pool.
 */
struct ledger_change *pool_discard_sequences(struct server *server, enum server_discard how);

/* A client is about to ask for values. */
void pool_ask_sequences(struct pool *pool);

void pool_forget_sequences(struct borrower *borrower);

/* The server stays with its borrower, so nobody may wait for it. */
void pool_keep_sequences(struct borrower *borrower);

/* Whether the borrower may have to wait for the server that it owns. */
static inline bool pool_may_lack_own(const struct borrower *borrower)
{
	return borrower->owned && (borrower->owned->state != SERVER_IDLE ||
	                           borrower->pool->queues[BORROWER_WAITING].count);
}

/*
 * A statement that may call nextval(), by a number made from its digest. 0: none is known. Its
 * score says how often a question has followed it: above 0 mostly, below 0 rarely, 0: not known.
 */
uint16_t pool_sequences_statement(uint64_t digest);
int pool_sequences_score(const struct pool *pool, uint16_t statement);

/* A question has followed the statement, or a server was kept in vain for one. */
void pool_sequences_note(struct pool *pool, uint16_t statement, bool is_followed);

/* ---- why a borrower waits ---- */

enum wait_reason {
	WAIT_SUSPENDED,
	WAIT_PAUSED,
	WAIT_DATABASE_PAUSED,
	WAIT_NO_PRIMARY,     /* no host fits target_session_attrs */
	WAIT_NO_STANDBY,     /* the same */
	WAIT_NO_HOST,        /* all hosts are drained or disabled */
	WAIT_RETRY,          /* logins fail, and the next attempt is delayed */
	WAIT_LOGIN,          /* a server is logging in, or others in the wait queue come first */
	WAIT_CHECK,          /* a server is being checked or reset */
	WAIT_PINNED,         /* max_pinned_servers */
	WAIT_SEQUENCE,       /* another client has the server with its values of sequences */
	WAIT_SHARE,          /* no server is free, and who came later is served before */
	WAIT_POOL_FULL,      /* pool_size */
	WAIT_DATABASE_LIMIT, /* max_db_connections; in the order of enum cap_kind */
	WAIT_USER_LIMIT,     /* max_user_connections */
	WAIT_HOST_LIMIT,     /* max_host_connections */
	WAIT_SERVER_LIMIT,   /* max_server_connections */
	WAIT_TURN,           /* nothing: served at the end of the turn */
	WAIT_REASONS
};

const char *pool_wait_reason_name(enum wait_reason reason);

/* How long the first of its wait queues has waited; the longest. 0: nobody waits. */
usec_t pool_longest_wait(const struct pool *pool, usec_t now);

/* Why a borrower waits. position: in its wait queue, from 1. It must be in a queue. */
enum wait_reason pool_wait_reason(const struct borrower *borrower, unsigned int position);

/* Adds details: numbers, or the last error; and by whom and since when all is paused. */
void pool_wait_explain_all(const struct pool *pool, enum wait_reason reason,
                           const struct server *holder, struct buf *out);

/* The server that the limit keeps from the waiting pool, held longest. NULL: not known. */
const struct server *pool_wait_holder(const struct pools *pools, const struct pool *waiting,
                                      enum wait_reason reason);

/* Which of the two is held for longer. Each may be NULL. */
const struct server *pool_wait_longer(const struct server *a, const struct server *b);

/* Adds "reason: details", and the last error if logins fail. Returns a static HINT, or NULL. */
const char *pool_wait_tell(const struct borrower *borrower, struct buf *out);

/* The wait queues of a pool, by number from 0. NULL: there is no such queue. */
struct borrower_list *pool_wait_queue_at(struct pool *pool, unsigned int line);

/* Borrowers in all of them. */
static inline unsigned int pool_waiting_count(const struct pool *pool)
{
	return atomic_load_explicit(&pool->share.waiting, memory_order_relaxed);
}

/*
 * The borrower gets a place of max_pinned_servers, unless it has one. false: the limit is reached.
 * pool_take_place_anyway(): beyond the limit.
 */
bool pool_take_place(struct borrower *borrower);
void pool_take_place_anyway(struct borrower *borrower);

/* Since when pins keep a client waiting, without relief (pool_note_relief()). 0: nobody. */
usec_t pool_wait_for_pins_since(const struct pool *pool);
void pool_note_relief(struct pool *pool);

static inline bool pool_awaits_place(const struct pool *pool)
{
	return pool_first(pool, BORROWER_WAIT_PLACE) || pool_first(pool, BORROWER_SERVED);
}

/* Whether a borrower has to wait for a place: all are taken, or others wait for one. */
static inline bool pool_lacks_place(const struct borrower *borrower)
{
	const struct pool *pool = borrower->pool;

	return !borrower->has_place && pool->limits.max_pinned > 0 &&
	       (pool_awaits_place(pool) ||
	        (int)pool->share.tally->pinned_count >= pool->limits.max_pinned);
}

/*
 * A borrower waits for a place with its server, in the same order as those without one: on_place()
 * comes. With max_pinned_servers = 0, it comes without a place. pool_leave_place(): it does not
 * wait any more; safe if it does not wait.
 */
void pool_await_place(struct borrower *borrower);
void pool_leave_place(struct borrower *borrower);

/* The borrower needs no place any more, and does not wait for one without a server. */
void pool_drop_place(struct borrower *borrower);

/* Drops the cached greeting: what it is made of has changed. */
void pool_forget_greeting(struct pool *pool);

/* What its servers log in with. Borrowed. */
const struct credentials *pool_credentials(const struct pool *pool);

/* At the end of the turn the pool serves the borrowers it can, and starts servers it needs. */
void pool_wake(struct pool *pool);

/*
 * ---- vacancies: vacancy.c ----
 *
 * A vacancy: a database that must have no sessions, because a statement of a borrower wants to drop
 * or rename it, or to make a copy of it. While PostgreSQL waits for that, the idle servers of that
 * database are closed, in all loops.
 *
 * It belongs to the server that runs the statement, and ends with it.
 */

struct vacancy;

enum vacancy_state {
	VACANCY_PARSED, /* by the unnamed statement, which is to be bound */
	VACANCY_BOUND,  /* to the unnamed portal, which is to be executed; a Query: to be sent */
	VACANCY_SENT,   /* what was sent before it may still run */
	VACANCY_RUNS
};

/*
 * A text is about to be sent: if it is such a statement, the server has a vacancy. But not behind
 * messages that are not answered and have no Sync.
 */
void vacancy_begin(struct server *server, struct bytes text, enum vacancy_state state);

/* Before a message is judged; and when it is sent: returns the change to note with it, or NULL. */
void vacancy_before(struct server *server, char type);
struct ledger_change *vacancy_follow(struct server *server, char type, struct bytes body);

/* Of a server that has a vacancy: ends it, if it was not sent. */
void vacancy_forget(struct server *server);

/* Another loop has changed the tally of a database: closes idle servers if it has a vacancy. */
void vacancy_hear(struct database *database);

#endif
