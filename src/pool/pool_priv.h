/* SPDX-License-Identifier: ISC */
/*
 * Pools, internal to the module. The files form layers; a file calls only layers below its own:
 *
 *   pools                                made, configured, held and freed
 *   pool_serve                           a pool's turn; the table of server_ops
 *   handover  pool_grow                  what happens to many of them; how logins end
 *   pool_trade                           servers that move from loop to loop
 *   handover_server
 *   pools_add  pool_lend                 pools, and their borrowers
 *   pool_servers                         their servers
 *   pool_configure  cancel  pool_standby  pool_wait_reason
 *   pool_retry                           which hosts fit; after failed logins
 *   listening
 *   pool_home  host_watches  database
 *   pool_limits  pool_size
 *   finders                              the hosts of hosts_from
 *   pool_sequences  pool_catalog
 *   pool_wait                            wait queues
 *   pool                                 what all of these ask a pool; one of the pools
 */
#ifndef PGWEIR_POOL_POOL_PRIV_H
#define PGWEIR_POOL_POOL_PRIV_H

#include "pgweir/base/container_of.h"
#include "pgweir/pool/database.h"
#include "pgweir/pool/pool_catalog.h"
#include "pgweir/pool/pools.h"

/* ---- short queries ---- */

static inline bool pool_is_full(const struct pool *pool)
{
	return pool->limits.size > 0 &&
	       share_servers(&pool->share) >= (unsigned int)pool->limits.size;
}

/* pool_size: the greatest number of servers, without the reserve. */
static inline unsigned int pool_size_most(const struct pool *pool)
{
	return pool->limits.size > 0 ? (unsigned int)pool->limits.size : PERMIT_NO_LIMIT;
}

/* Logins in progress, including those of dedicated servers. */
static inline unsigned int pool_login_count(const struct pool *pool)
{
	return pool->server_counts[SERVER_CONNECTING] + pool->server_counts[SERVER_LOGIN];
}

static inline struct loop *pool_loop(const struct pool *pool) { return pool->pools->shared.loop; }

static inline usec_t pool_now(const struct pool *pool) { return loop_now(pool_loop(pool)); }

/* Of its servers: idle, or to be checked before it is lent. */
static inline bool pool_is_home(enum server_state state)
{
	return state == SERVER_IDLE || state == SERVER_USED;
}

static inline bool pool_is_logging_in(enum server_state state)
{
	return state == SERVER_CONNECTING || state == SERVER_LOGIN;
}

/* Works for somebody, or for us since somebody had it. */
static inline bool pool_is_busy(enum server_state state)
{
	return state >= SERVER_CHECKING && state < SERVER_CLOSING;
}

/* One borrower more, or less, has a server. */
static inline void pool_count_served(struct pool *pool, int change)
{
	pool->served_count += (unsigned int)change;
	pool->used_time -= (uint64_t)(change * loop_now(pool_loop(pool)));
}

static inline bool pool_is_paused(const struct pool *pool)
{
	return pool->pools->is_paused || pool->database->is_paused;
}

/* Paused or suspended: no server is lent, and none is launched. */
static inline bool pool_is_held(const struct pool *pool)
{
	return pool_is_paused(pool) || pool->pools->suspend != SUSPEND_NONE;
}

/* Whether clients of its database may be members: the entry forces no other user on them. */
bool pool_is_current(const struct pool *pool);

/* Of a standby too far behind for reads: max_standby_lag. Only with limits.has_lag_limit. */
bool pool_is_behind(const struct server *server);

/* Whether its borrowers may prefer some of its servers: causal_reads. */
static inline bool pool_is_choosy(const struct pool *pool)
{
	return pool->limits.is_causal && pool->purpose == POOL_FOR_READS;
}

static inline bool pool_may_lend(const struct server *server)
{
	return !server->close_reason &&
	       !(server->pool->limits.has_lag_limit && pool_is_behind(server));
}

/* For SHOW LIMITS and the log: max_pinned_servers refuses, or lets wait. */
void pool_note_pins_met(struct pool *pool);

/* pool_wake() at since + limit; of several such times the first counts, and then all are due. */
void pool_wake_after(struct pool *pool, usec_t since, usec_t limit);

/* ---- wait queues: pool_wait.c ---- */

void pool_give_places(struct pool *pool);

/* Puts an idle borrower into the wait queue of this state. */
void pool_stand(struct borrower *borrower, enum borrower_state state);

/*
 * Moves a waiting borrower to the front of its wait queue, behind those that have a place: others
 * wait for that. It has waited since then at least.
 */
void pool_wait_first(struct borrower *borrower, usec_t since);

/* Moves a waiting borrower to another wait queue. Its waiting time continues. */
void pool_wait_move(struct borrower *borrower, enum borrower_state next);

/* A server that was launched for it is lost or ready: it is the first again. NULL: none. */
struct borrower *pool_wait_again(struct server *server);

/* With pool->fair: a borrower is lent a server. */
void pool_fair_lend(struct borrower *borrower);

/* A borrower parts from its server, in any way. */
void pool_fair_part(struct pool *pool, const struct borrower *borrower,
                    const struct server *server);

static inline void pool_part(struct pool *pool, struct borrower *borrower, struct server *server)
{
	borrower->server = NULL;
	borrower->state = BORROWER_RESTING;
	server->lease.borrower = NULL;
	pool_count_served(pool, -1);
	if (pool->fair)
		pool_fair_part(pool, borrower, server);
}

/* Whether one of another group comes first, who has come later. */
bool pool_fair_passes(const struct borrower *borrower);

/* Adds who comes first. */
void pool_fair_tell(const struct pool *pool, struct buf *out);

void pool_fair_configure(struct pool *pool);

/* Refuses all in wait queues up to this one: WAITING, or CONNECT_DEDICATED. */
void pool_refuse(struct pool *pool, enum borrower_state last, const struct err *err);

/*
 * Only if limits.guards_queue. false: the queue is full; *err has the reason. may_be_shed: it will
 * be in the queue that pool_shed() shortens, which knows whose turn it is to be refused.
 */
bool pool_admits(struct pool *pool, bool may_be_shed, struct err *err);

/* Only with queue_target: refuses the newest of a queue that stands. */
void pool_shed(struct pool *pool);

/* The same, before servers are lent: refuses those that have waited for too long. */
void pool_shed_late(struct pool *pool);

/* ---- after failed logins: pool_retry.c ---- */

/* Whether logins have failed, and no host is up. Takes a lock. */
static inline bool pool_is_failing(const struct pool *pool)
{
	return hosts_are_failing(pool->site.hosts, NULL);
}

bool pool_is_backing_off(const struct pool *pool);
void pool_reset_retry(struct pool *pool); /* it may try at once */
bool pool_may_try(struct pool *pool);
bool pool_may_login(const struct pool *pool); /* POOL_LOGINS_MAX */

/*
 * The login of a server for borrowers ends, and is not counted any more. pool_end_login() wakes
 * other loops, pool_uncount_login() does not. Both do nothing for other servers.
 */
void pool_end_login(struct server *server);
void pool_uncount_login(struct server *server);

/* After a failure, of any loop: refuses waiting borrowers, if waiting does not end it. */
void pool_hear_failure(struct pool *pool);

/* Whether an error is about reachability, not our credentials, so that retrying may help. */
bool pool_is_worth_waiting(const struct err *err);

/* Whether the pool is failing because of such an error. */
bool pool_is_unreachable(const struct pool *pool);

/* All hosts refuse, with *err, and it is too early for another attempt: waiting is pointless. */
bool pool_is_refused(const struct pool *pool, struct err *err);

/* Wakes the pools of all loops: some may wait for a host. */
void pools_wake(struct pools *pools);

/* ---- roles of hosts: pool_retry.c ---- */

/* server_ops: the server has shown the role of its host. */
void pool_note_report(struct server *server, const struct host_report *report);

/* If the roster has changed: closes servers whose host does not fit any more. */
void pool_hear_roster(struct pool *pool);

usec_t pool_due(const struct pool *pool); /* when a failing pool may try a host again */

/* Whether a host fits; pool_seek_host(): if not, the pool is woken when one may be tried. */
bool pool_has_host(const struct pool *pool);
bool pool_seek_host(struct pool *pool);

/* A login has failed only because its host does not fit: the next one is tried at once. */
bool pool_is_unfit(const struct err *err);

/* false: its host is fenced, or does not answer any more. */
bool pool_host_answers(const struct server *server);

/* Why an idle server must be closed because of its host; CLOSE_NONE: it may stay. */
enum close_reason pool_host_reason(const struct server *server);

/* ---- limits of servers: pool_limits.c ---- */

/* Who a server is for. */
enum permit_for {
	FOR_MINIMUM,  /* nobody; and the claim of the pool is the last one */
	FOR_PROBE,    /* nobody */
	FOR_BORROWERS /* idle servers give way */
};

/*
 * Counts one more server of the pool, if there are fewer than `most`, and if its caps allow one
 * more, perhaps after an eviction: then the pool is not blocked any more. false: it waits for them.
 * PERMIT_FOR_LISTENING: the server does not count for the pool.
 */
#define PERMIT_FOR_LISTENING 0
bool pool_take_permit(struct pool *pool, unsigned int most, enum permit_for whom,
                      struct permit *permit);

/*
 * Whatever the limits are: the server exists already. pools_note_host(): at its address; a host
 * watch counts from then on.
 */
struct permit pool_take_permit_anyway(struct pool *pool, bool is_listening);
void pools_note_host(struct pools *pools, struct server *server);

/* The new server gets the permit that its pool has taken. */
void pool_pass_permit(struct server *server, struct permit *permit);

/* server_ops: its address is known, and counted. false: there is no space for it. */
bool pool_may_connect(struct server *server);

/* server_ops: with max_host_connections = auto, the limit at this address, less a margin. */
void pool_note_slots(struct server *server, unsigned int count);

/* The server, or host watch, is closed: wakes the pools that wait for it. */
void pools_give_permit(struct pools *pools, struct server *server);

const char *pool_cap_setting(enum cap_kind kind);

/* false: no memory. */
bool pool_cap_open(struct cap *cap, struct pools *pools, enum cap_kind kind, const char *name);

/* After a new snapshot. */
void pools_set_caps(struct pools *pools);

/* A server has come home; it leaves. */
void pool_file_idle(struct server *server);
void pool_unfile_idle(struct server *server);

/* At the end of its turn: idle servers leave for it, or its own for pools that its caps block. */
void pool_make_way(struct pool *pool);

/* At home, while clients wait in any loop: closed if a blocked pool comes before (permits.c). */
void pool_yield(struct pool *pool);

/* Whether a pool is blocked by a cap where the server counts. */
bool pool_is_claimed(const struct server *server);

/*
 * Ends each pool_serve(). A pool that was blocked, and was not refused since (its borrowers have
 * left or got a server that has moved, or another limit applies), claims nothing any more.
 */
void pool_pass_on(struct pool *pool);

/* Its hosts or their roles have changed: it waits no more for one of them that is full. */
void pool_forget_host(struct pool *pool);

static inline bool pool_is_blocked(const struct pool *pool)
{
	return pool->block.claim.cap != NULL;
}

/* The cap that blocks it; NULL: none. */
struct cap *pool_blocked_by(const struct pool *pool);

/* Adds, behind something else, how many servers of the pool stay with clients, if any. */
void pool_tell_pins(const struct pool *pool, struct buf *out);

/* ---- fail_fast: pool_retry.c ---- */

/* Whether this borrower must not wait. true: *err has the reason. */
bool pool_turns_away(struct pool *pool, const struct borrower *borrower, struct err *err);

/* The same for all waiting borrowers. Only if pool->hasty_count is not 0. */
void pool_turn_hasty_away(struct pool *pool);

/* The pool tries to connect for a while without waiting borrowers, until it succeeds. */
void pool_keep_trying(struct pool *pool);

/* Whether the pool tries to connect without a waiting borrower. */
bool pool_wants_probe(const struct pool *pool);

/* ---- unused pools: pool_home.c ---- */

bool pool_is_empty(const struct pool *pool);

/* If the pool is empty, pool_idle_timeout begins. */
void pool_arm_expiry(struct pool *pool);

/* ---- returned servers: pool_home.c ---- */

/* Closes a server for a reason of our own that is not an error. */
void pool_close_server(struct server *server, enum close_reason reason);

/* A server was returned: it is ready, and gets its next state. */
void pool_home(struct server *server);

/* The server has become idle, or is lost: for borrowers that wait, or for another pool. */
void pool_note_home(struct server *server);

/* ---- servers in ENDING: cancel.c ---- */

/* on_ending() of servers. */
void pool_begin_ending(struct server *server, enum ending_how how);

void pool_ending_due(struct timer *timer);
void pool_grace_due(struct timer *timer);

/* What must be done with a server before another borrower gets it. */
static inline enum held_need pool_need(const struct server *server)
{
	const struct pool *pool = server->pool;

	if (!server->session.held)
		return NEEDS_NOTHING;
	return held_need(server->session.held,
	                 pool_own_rules(pool)->mode == POOL_MODE_SESSION && !pool->limits.is_mixed,
	                 !server->site->cannot_clean);
}

/* server_distrust() of all its servers. */
void pool_distrust(struct pool *pool, bool is_of_others);

/* Why a server at rest must not be lent any more: a session's, after a change of the mode. */
enum close_reason pool_unfit(const struct server *server);

/* server_idle_timeout and server_lifetime. */
void pool_idle_due(struct timer *timer);
void pool_life_due(struct timer *timer);

/* ---- credentials for logins at servers: pool_configure.c ---- */

void pool_tell_secret(const struct server *server, struct buf *out);

/* What other loops have found out about the pool. */
void pool_hear_news(struct pool *pool);

/* ---- pool_size: pool_size.c ---- */

/* Sets limits.size from the setting, which may be CONFIG_AUTO. */
void pool_set_size(struct pool *pool, int size);

void pool_leave_sized(struct pool *pool);

/* A pool whose servers are taken over has a size of at least so many, if that is auto. */
void pool_keep_size(struct pool *pool);

/* Closes unused servers above pool_size, the longest unused first; others when they come home. */
void pool_shrink(struct pool *pool);

/* Whether a server that comes home is above pool_size. Only if pool->is_over. */
bool pool_has_over(struct pool *pool);

/* Or whether it must not be lent for now. */
static inline bool pool_holds_back(const struct pool *pool)
{
	return pool->server_counts[SERVER_USED] < pool->held_back;
}

/* Whether one of those that are used may be checked, and lent. */
static inline bool pool_may_check(const struct pool *pool)
{
	return pool->server_counts[SERVER_USED] > pool->held_back;
}

/* ---- settings in force for a pool: pool_configure.c ---- */

void pool_configure(struct pool *pool);

/* ---- its servers: pool_servers.c ---- */

/* About to connect. It has the permit; NULL: no memory, and the permit is given back. */
struct server *pool_add_server(struct pool *pool, bool is_listening, struct permit *permit);

void pool_remove_server(struct server *server);

/* Functions of struct server_ops. */
void pool_file_server(struct server *server, enum server_state from);
void pool_address_removed(struct server *server);

/* Its host is not in the list any more: it is closed, or ends with its transaction. */
void pool_leave_host(struct server *server, enum close_reason reason);

void pool_close_all(struct pool *pool, enum close_reason reason);

/* Replaces all servers of the pool: closes idle ones now, and the others when they are returned. */
void pool_recycle(struct pool *pool, enum close_reason reason);

/* Closes idle servers and those that are logging in, for PAUSE. */
void pool_close_idle(struct pool *pool, enum close_reason reason);

/* ---- its borrowers: pool_lend.c ---- */

void pool_lend(struct server *server, struct borrower *borrower);

/* An idle one for this borrower, or NULL. Closes those that cannot be lent. */
struct server *pool_idle_server(struct borrower *borrower);

void pool_lost_server(struct server *server, struct borrower *borrower);

void pool_expel(struct pool *pool, const struct err *err);

/* ---- what the catalog says: pool_catalog.c, and its header ---- */

/*
 * The database has an entry, perhaps another one: what is known of a catalog counts for all entries
 * with the same hosts, port and dbname. false: no memory.
 */
bool pool_catalog_join(struct database *database);

/* Its rules, or what they depend on, have changed. */
void pool_catalog_settle(struct pool *pool);

/* Whether the catalog may have to be read or looked at again. */
static inline bool pool_catalog_is_due(const struct pool *pool, usec_t now)
{
	return pool->limits.reads_catalog &&
	       now >= atomic_load_explicit(&pool->database->catalog.tally->catalog.due_at,
	                                   memory_order_relaxed);
}

/* Asks an idle server about it, unless clients wait. */
void pool_read_catalog(struct server *server);

/* What the server is asked about it is answered, or it is lost. */
void pool_end_catalog(struct server *server);

/* For struct server_ops. */
void pool_definition_seen(struct server *server, enum server_definition what);

/* ---- the welcome: pool_configure.c ---- */

/* Sets it, also for the other loops. baseline: as params_text() writes it. */
void pool_set_welcome(struct pool *pool, struct bytes welcome, struct bytes baseline);

/* Sets it if another loop has it. */
void pool_find_welcome(struct pool *pool);

void pool_forget_welcome(struct pool *pool);

/* ---- values of sequences: pool_sequences.c ---- */

#define SEQUENCES_KEPT USEC_PER_SEC /* how long others take another server if there is one */

/* The server is lent to another borrower than before; the borrower returns it. */
void pool_sequences_lend(struct server *server, struct borrower *borrower);
void pool_sequences_return(struct server *server, struct borrower *borrower);

/* The server has no owner any more, and its values are nobody's. NULL: does nothing. */
void pool_disown(struct server *server);

/* A borrower that waits for the server that it owns waits for any one from now on, as the first. */
void pool_await_no_more(struct borrower *borrower);

/* The server that the borrower owns, if this pool lends it again. NULL: none. */
static inline struct server *pool_owned(const struct borrower *borrower)
{
	struct server *server = borrower->owned;

	return server && server->pool == borrower->pool && !server_is_over(server) &&
	               !server->close_reason
	           ? server
	           : NULL;
}

static inline bool pool_waits_for_own(const struct borrower *borrower)
{
	return borrower->wants_own && pool_owned(borrower);
}

/* Whether the values of another borrower are so new that a question is likely. */
bool pool_is_kept(const struct server *server, const struct borrower *borrower);

/* ---- servers of other loops: pool_trade.c ---- */

/* Gives idle servers to other loops whose borrowers have waited longer. */
void pool_trade_first(struct pool *pool);

/* Gives away idle servers that nobody here waits for, and asks other loops for theirs. */
void pool_trade(struct pool *pool);

/* ---- growing: pool_grow.c, pool_size.c ---- */

/* How many more servers the waiting borrowers need. */
unsigned int pool_missing(const struct pool *pool);

/* Launches servers for waiting borrowers, and up to min_pool_size. */
void pool_grow(struct pool *pool);

void pool_dedicated_grow(struct pool *pool);

/* Launches listening connections that clients wait for, or successors. */
void pool_grow_listening(struct pool *pool);

void pool_login_done(struct server *server);
void pool_login_failed(struct server *server, const struct err *err);

/* ---- listening connections: listening.c ---- */

/* Its server has logged in, or it gets none; is_again: not now. */
void listening_login_done(struct borrower *borrower, struct server *server);
void listening_login_failed(struct borrower *borrower, const struct err *err, bool is_again);

/* A server that listens must be closed: it is replaced, so that its clients lose nothing. */
void listening_replace(struct server *server);

/* What listening holds, or waits for. Before such a permit is given back: never too high. */
void listening_count_stuck(struct pool *pool);

/* Frees all; they must have no listeners. */
void listening_forget_all(struct pool *pool);

/* ---- reads on standbys: pool_standby.c ---- */

/* An idle server that suits the borrower, preferably its last one; or NULL. */
struct server *pool_standby_suitable(const struct borrower *borrower);

/* The borrower to be served next. Some have to wait. */
struct borrower *pool_standby_next(struct pool *reads);

/* ---- a pool's turn: pool_serve.c ---- */

/* Serves the wait queues, and launches servers if necessary: at the end of a turn. */
void pool_serve(struct task *task);

extern const struct server_ops pool_server_ops;

/* ---- roles: database.c ---- */

/* Finds the role's entry in the configuration and its secret in auth_file. */
void role_configure(struct pools *pools, struct role *role);
void role_free(struct pools *pools, struct role *role);
void role_forget_unused(struct pools *pools, struct role *role);

/* ---- databases: database.c ---- */

struct database *database_add(struct pools *pools, const char *name,
                              const struct config_database *entry, bool is_auto);

/* If `*` made the database and it is unused, autodb_idle_timeout begins. */
void database_arm_expiry(struct database *database);

/* Counts that a server was lent for a read, at its host. */
void database_count_read(struct database *database, struct server *server);
void database_forget_reads(struct database *database);

/* ---- all pools ---- */

/* The address that is the key of a pool in its database. */
const void *pools_file_by(const struct role *role, enum pool_purpose purpose);

struct pool *pools_find_of(const struct database *database, const struct role *role,
                           enum pool_purpose purpose);

/* The pool of exactly this user, whatever user the entry forces. NULL: no memory. pools_add.c */
struct pool *pools_exact_pool(struct database *database, const char *user,
                              enum pool_purpose purpose);

/* Frees databases and pools that have expired, or have no entry: at the end of the turn, */
void pools_sweep_later(struct pools *pools);

/* and when those that are unused now may have expired. */
void pools_sweep_in_time(struct pools *pools);

/* Adds the pool's counters to those of its database, and sets them to zero. pools_add.c */
void pools_keep_stats(struct pool *pool);

/* The pools must have neither members nor servers. pools_add.c */
void pools_forget_database(struct database *database);
void pools_sweep(struct task *task);

/* ---- host watches: host_watches.c ---- */

/* Makes pools->host_watches, or changes them. New ones begin when the loop runs. */
void host_watches_configure(struct pools *pools);

/* Databases were paused or resumed. Nothing if there are no host_watches. */
void host_watches_update(struct pools *pools);

/* Closes all connections at once. Accepts NULL, sets NULL. */
void host_watches_free(struct host_watches **watches);

/* ---- hosts_from: finders.c ---- */

/* Makes pools->finders, or changes them. New ones ask when the loop runs. */
void finders_configure(struct pools *pools);

/* Accepts NULL, sets NULL. */
void finders_free(struct finders **finders);

#endif
