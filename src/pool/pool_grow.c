/* SPDX-License-Identifier: ISC */
/*
 * How many servers a pool needs: for waiting borrowers, and for min_pool_size; and how their logins
 * end.
 *
 * Each limit is one check: after a failure (pool_retry.c), pool_size and the reserve, then the
 * limits of the database and of the role (pool_limits.c).
 */
#include "pool_priv.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "listening_priv.h"
#include "server/server_priv.h"

/* ---- pool_size and the reserve ---- */

static bool may_use_reserve(struct pool *pool)
{
	const struct pool_limits *limits = &pool->limits;
	struct borrower *head = pool_first(pool, BORROWER_WAITING);
	usec_t now = pool_now(pool);

	if (limits->reserve_size <= 0 || limits->reserve_after <= 0 || !head)
		return false;
	if (share_servers(&pool->share) >= pool_limits_most(limits))
		return false;
	if (now - head->waiting_since < limits->reserve_after) {
		pool_wake_after(pool, head->waiting_since, limits->reserve_after);
		return false;
	}
	log_kept(&pool->log, LOG_LEVEL_WARNING, "reserve", "taking connection from reserve_pool");
	return true;
}

static unsigned int most_now(struct pool *pool)
{
	unsigned int size = pool_size_most(pool);

	if (!pool_is_full(pool))
		return size;
	/* No client could log in while all servers are busy and the pool has no welcome. */
	if (!pool->has_welcome && pool->queues[BORROWER_NEWCOMER].count &&
	    pool_login_count(pool) == 0 && pool->share.tally->login_count == 0)
		return size + 1;
	return may_use_reserve(pool) ? pool_limits_most(&pool->limits) : size;
}

/* Closes an idle server whose standby is too far behind: another one needs its place. */
static bool make_space(struct pool *reads)
{
	struct server *server;

	if (!reads->limits.has_lag_limit || reads->share.tally->leaving_count)
		return false;
	TAILQ_FOREACH_REVERSE(server, &reads->servers[SERVER_IDLE], server_list, place.node)
	{
		if (!pool_is_behind(server))
			continue;
		pool_close_server(server, CLOSE_HOST_BEHIND);
		return true;
	}
	return false;
}

static bool take_permit(struct pool *pool, struct permit *permit)
{
	unsigned int most = most_now(pool);

	if (share_servers(&pool->share) < most &&
	    pool_take_permit(pool, most, FOR_BORROWERS, permit))
		return true;
	return make_space(pool) && share_servers(&pool->share) < most &&
	       pool_take_permit(pool, most, FOR_BORROWERS, permit);
}

/* ---- growing ---- */

/*
 * The pool has a permit. All loops together have POOL_LOGINS_MAX logins for borrowers, and after a
 * failure one. false: another loop was faster, or no memory.
 */
static bool launch_shared(struct pool *pool, struct permit *permit)
{
	struct server *server;

	if (!count_below(&pool->share.tally->login_count,
	                 pool_is_failing(pool) ? 1 : POOL_LOGINS_MAX)) {
		permit_give(permit, &pool->pools->member);
		return false;
	}
	server = pool_add_server(pool, false, permit);
	if (!server) {
		pool->share.tally->login_count--;
		share_wake_logins(&pool->share);
		return false;
	}
	server->place.is_login_counted = true;
	pool->counted_login_count++;
	return server_launch(server);
}

/* How many servers the pool has without waiting borrowers: min_pool_size, or 0. */
static unsigned int least_now(const struct pool *pool)
{
	const struct config_database *entry = pool->database->entry;
	int least = pool->limits.min_size;

	if (pool->limits.size > 0 && least > pool->limits.size)
		least = pool->limits.size;
	return !pool->pools->is_leaving && pool_is_current(pool) &&
	               (pool->member_count || entry->user)
	           ? (unsigned int)least
	           : 0;
}

/* The permit is asked for with this limit, as another loop may launch one, too. */
static void grow_to_minimum(struct pool *pool)
{
	unsigned int least = least_now(pool);
	struct permit permit;

	if (share_servers(&pool->share) < least && pool_login_count(pool) == 0 &&
	    pool->share.tally->login_count == 0 && pool_may_try(pool) &&
	    pool_take_permit(pool, least, FOR_MINIMUM, &permit))
		launch_shared(pool, &permit);
}

void pool_grow(struct pool *pool)
{
	struct permit permit;

	while (pool_missing(pool) && pool_may_login(pool) && pool_may_try(pool) &&
	       take_permit(pool, &permit)) {
		if (!launch_shared(pool, &permit))
			return;
	}
	if (pool_missing(pool))
		return;
	if (!pool_wants_probe(pool))
		grow_to_minimum(pool);
	else if (pool_may_try(pool) &&
	         pool_take_permit(pool, pool_size_most(pool), FOR_PROBE, &permit))
		launch_shared(pool, &permit);
}

/*
 * ---- dedicated servers, for replication: such a session cannot be shared ----
 *
 *   pool_ask_dedicated --> WAIT_DEDICATED --> CONNECT_DEDICATED (its server logs in) --> SERVED
 *                             ^                   |
 *                             +-------------------+  could not be reached, or not yet
 *
 * Such a server counts in all limits, but never serves the wait queue. If PostgreSQL refuses its
 * login, only this borrower gets the error; the rest of the pool is not affected.
 *
 * Hard here: fairness. In a full and busy pool no server is idle long enough to be evicted. So a
 * borrower that has waited longer than all borrowers in the wait queue for servers gets the slot of
 * the next server that is returned: that server is closed.
 */

bool pool_ask_dedicated(struct borrower *borrower, struct server_wish *wish, struct err *err)
{
	if (borrower->pool->pools->is_ending)
		return err_close(err, CLOSE_SERVER_SHUTDOWN);
	if (pool_turns_away(borrower->pool, borrower, err))
		return false;
	if (borrower->pool->limits.guards_queue && !pool_admits(borrower->pool, false, err))
		return false;
	pool_stand(borrower, BORROWER_WAIT_DEDICATED);
	borrower->wish = wish;
	return true;
}

/* Whether the borrower has waited longer than all that wait for any server. */
static bool is_eldest(const struct pool *pool, const struct borrower *borrower)
{
	const struct borrower *other = pool_first(pool, BORROWER_WAITING);

	return !other || borrower->waiting_since <= other->waiting_since;
}

/* Login errors of other borrowers say nothing about this one. */
static bool may_try(struct pool *pool)
{
	return pool_may_try(pool) ||
	       (pool_is_failing(pool) && !pool_is_unreachable(pool) && pool_seek_host(pool));
}

/* Makes space in the pool: without the reserve, but an idle server may be closed. */
static bool has_space_for(struct pool *pool, const struct borrower *borrower)
{
	struct server *server;

	if (!pool_is_full(pool))
		return is_eldest(pool, borrower) || pool_missing(pool) == 0;
	if (!is_eldest(pool, borrower) || pool->share.tally->leaving_count)
		return false;
	server = TAILQ_FIRST(&pool->servers[SERVER_USED]);
	if (!server)
		server = TAILQ_LAST(&pool->servers[SERVER_IDLE], server_list);
	if (!server)
		return false;
	server_close_for(server, CLOSE_EVICTED_POOL);
	return !pool_is_full(pool);
}

/* Launches a server that serves only this borrower. false: it is not launched, or no memory. */
static bool launch_for(struct borrower *borrower, struct permit *permit)
{
	enum replication replication = borrower->wish->replication;
	bool is_listening = replication == REPLICATION_NONE;
	struct server *server = pool_add_server(borrower->pool, is_listening, permit);

	if (!server)
		return false;
	server->replication = replication;
	server->lease.expected_by = borrower;
	borrower->wish->expected = server;
	if (!is_listening) {
		server->pool->dedicated_count++;
		pool_wait_move(borrower, BORROWER_CONNECT_DEDICATED);
	}
	return server_launch(server);
}

void pool_dedicated_grow(struct pool *pool)
{
	struct borrower *borrower;
	struct permit permit;

	while ((borrower = pool_first(pool, BORROWER_WAIT_DEDICATED)) && pool_may_login(pool) &&
	       may_try(pool) && has_space_for(pool, borrower) &&
	       pool_take_permit(pool, pool_size_most(pool), FOR_BORROWERS, &permit)) {
		if (!launch_for(borrower, &permit))
			return;
	}
}

/* ---- listening connections ---- */

static void tell_blocked(struct listening *listening)
{
	if (!listening->replace.is_told)
		log_warning(&listening->pool->log,
		            "the listening connection cannot be replaced yet: max_db_connections "
		            "or max_user_connections is reached; it stays in use until there is "
		            "space for a second one");
	listening->replace.is_told = true;
}

/* The others go on with the permit of its server. */
static void refuse_last(struct listening *listening)
{
	struct listener *listener = TAILQ_LAST(&listening->listeners, listener_list);
	struct err err;

	err_close(&err, CLOSE_LISTENING_FULL);
	listening_leave(listener);
	listener->ops->on_lost(listener, &err);
}

/* false: a limit, or no memory. */
static bool launch_link(struct pool *pool, struct listening_link *link)
{
	const struct cap *cap;
	struct permit permit;

	if (!pool_may_login(pool) || !pool_may_try(pool))
		return false;
	if (!pool_take_permit(pool, PERMIT_FOR_LISTENING, FOR_BORROWERS, &permit)) {
		cap = pool_blocked_by(pool);
		if (link == link->listening->next)
			tell_blocked(link->listening);
		/* no permit comes back before a client stops listening */
		else if (cap && cap->share.tally->stuck_count >= share_most(&cap->share))
			refuse_last(link->listening);
		return false;
	}
	return launch_for(&link->borrower, &permit);
}

void pool_grow_listening(struct pool *pool)
{
	/* Clients in the middle of their work wait for it, so a PAUSE does not hold it back. */
	if (TAILQ_EMPTY(&pool->listenings) || pool->pools->suspend != SUSPEND_NONE ||
	    !pool->database->entry)
		return;
	listening_count_stuck(pool);
	TAILQ_EACH (listening, &pool->listenings, node) {
		struct listening_link *link = listening_wanted_link(listening);

		if (link && !launch_link(pool, link))
			return;
	}
}

/* ---- how logins of these end ---- */

/* A success lets all pools try that wait for a host. */
static void note_outcome(struct server *server, enum host_outcome outcome, const struct err *err)
{
	if (server_host_done(server, outcome, err))
		pools_wake(server->pool->pools);
}

static void note_failure(struct server *server, const struct err *err)
{
	note_outcome(server, pool_is_worth_waiting(err) ? HOST_UNREACHABLE : HOST_REFUSED, err);
	share_wake_others(&server->pool->share);
}

static void dedicated_login_done(struct server *server)
{
	struct pool *pool = server->pool;
	struct borrower *borrower = pool_wait_again(server);

	assert(borrower); /* else the server would have been closed */
	if (server->is_listening || !pool_is_failing(pool) || pool_is_unreachable(pool))
		note_outcome(server, HOST_WORKED, NULL);
	server_login_free(server);
	if (server->is_listening) {
		listening_login_done(borrower, server);
		return;
	}
	pool_give_up(borrower);
	pool_lend(server, borrower);
	server->lease.request_at = 0;
	pool_wake(pool);
	borrower->ops->on_lent(borrower);
}

static void dedicated_login_failed(struct server *server, const struct err *err, bool is_ours)
{
	struct borrower *borrower = pool_wait_again(server);
	bool is_again = is_ours;

	pool_wake(server->pool);
	if (!is_ours && pool_is_worth_waiting(err)) {
		note_failure(server, err);
		is_again = !server->is_listening || pool_has_host(server->pool);
	}
	if (borrower && server->is_listening) {
		listening_login_failed(borrower, err, is_again);
	} else if (borrower && !is_again) {
		pool_give_up(borrower);
		borrower->ops->on_refused(borrower, err);
	}
}

/*
 * ---- outages ----
 *
 * One WARNING when a host of an entry fails, one LOG when it answers again.
 *
 * Noted for each database, not for each pool, and for all loops: a hundred pools of different users
 * notice one after the other that the same host is down.
 */

/* The target of a server: its host as in the entry, and the address if that is different. */
static const char *where_is(const struct server *server, char *out, size_t size)
{
	const struct hosts *hosts = server->pool->site.hosts;
	const struct host *host =
	    server->place.host < hosts->count ? &hosts->list[server->place.host] : NULL;
	const char *name = host && *host->at ? host->at : "(no host)";
	char at[ADDRESS_TEXT_SIZE], address[ADDRESS_TEXT_SIZE];

	address_format(&server->place.peer, address, sizeof(address));
	if (*server->place.path)
		snprintf(out, size, "%s", server->place.path);
	else if (server->place.peer.family != AF_INET && server->place.peer.family != AF_INET6)
		snprintf(out, size, "%s:%u", name, host ? host->port : 0U);
	else if (strcmp(address_format_host(&server->place.peer, at, sizeof(at)), name) == 0)
		snprintf(out, size, "%s", address);
	else
		snprintf(out, size, "%s (%s)", name, address);
	return out;
}

static void log_outage(const struct server *server, const struct outage *outage,
                       const struct err *err, usec_t now)
{
	static const char words[] = "connect failed: ";
	const struct database *database = server->pool->database;
	struct logger log = { server->pool->pools->shared.log, NULL };
	unsigned int waiting = share_waiting(&database->cap.share);
	bool has_words = strncmp(err->text, words, sizeof(words) - 1) == 0;
	char more[80] = "";

	if (outage->said_at)
		snprintf(more, sizeof(more), "; %u attempts failed in the last %lld s",
		         outage->failures, (long long)((now - outage->said_at) / USEC_PER_SEC));
	log_kept(&log, LOG_LEVEL_WARNING, "host down",
	         "%s: PostgreSQL at %s cannot be reached: %s; %u client%s%s", database->name,
	         outage->where, err->text + (has_words ? sizeof(words) - 1 : 0), waiting,
	         waiting == 1 ? " waits" : "s wait", more);
}

/* PostgreSQL at this server's address has answered. */
static void outage_of_server_over(struct server *server)
{
	struct database *database = server->pool->database;
	struct logger log = { server->pool->pools->shared.log, NULL };
	char where[OUTAGE_WHERE_SIZE];
	usec_t lasted;

	if (database->cap.share.tally->outage_count &&
	    share_end_outage(&database->cap.share, where_is(server, where, sizeof(where)),
	                     pool_now(server->pool), &lasted))
		log_kept(&log, LOG_LEVEL_INFO, "host up",
		         "%s: PostgreSQL at %s answers again after %lld s", database->name, where,
		         (long long)(lasted / USEC_PER_SEC));
}

/* The login of this server has failed, for any reason. */
static void outage_of_server(struct server *server, const struct err *err)
{
	usec_t now = pool_now(server->pool);
	char where[OUTAGE_WHERE_SIZE];
	struct outage outage;

	/* It has answered, even if only to refuse the login. */
	if (err->code == ERR_NOT_ALLOWED ||
	    (err->code == ERR_FOREIGN && !pool_is_worth_waiting(err))) {
		outage_of_server_over(server);
		if (err->code != ERR_FOREIGN) /* an error of PostgreSQL is in the log already */
			log_warning(&server->log, "%s", err->text);
		return;
	}
	if (share_note_outage(&server->pool->database->cap.share,
	                      where_is(server, where, sizeof(where)), now, &outage))
		log_outage(server, &outage, err, now);
}

/*
 * ---- logins ----
 *
 * How the login of a server ended, and what that means for the pool.
 *
 *   pool_login_done    the server can be lent
 *   pool_login_failed  another host, a later attempt, or waiting borrowers are refused
 */

void pool_login_done(struct server *server)
{
	struct pool *pool = server->pool;
	usec_t now = pool_now(pool);

	outage_of_server_over(server);
	latency_note(&pool->latency, &pool->pools->latency, LATENCY_SERVER_LOGIN,
	             now - server->connected_at, now);
	if (server_is_dedicated(server)) {
		dedicated_login_done(server);
		return;
	}
	if (pool->site.roster && pool->pools->config->host_check_borrow)
		cluster_lend_login(pool->share.tally->cluster, pool->site.user,
		                   pool_credentials(pool));
	if (!pool->has_welcome)
		pool_set_welcome(pool, buf_bytes(&server->login->parameters),
		                 params_text(server->session.baseline));
	note_outcome(server, HOST_WORKED, NULL);
	pool_end_login(server);
	if (share_servers(&pool->share) < (unsigned int)pool->limits.min_size)
		share_wake_others(&pool->share); /* if their clients are all that is left */
	server->lease.sequences.state = SEQUENCES_NONE;
	server_login_free(server);
	timer_set(&server->life, pool->site.limits.life, server->connected_at);
	pool_home(server);
	pool_wake(pool);
}

void pool_login_failed(struct server *server, const struct err *err)
{
	struct pool *pool = server->pool;
	bool is_ours = err->code == ERR_ADMIN_SHUTDOWN || pool_is_unfit(err);

	if (!is_ours) { /* else we closed it ourselves */
		pool->failed_at = pool_now(pool);
		outage_of_server(server, err);
	}
	if (server_is_dedicated(server)) {
		dedicated_login_failed(server, err, is_ours);
		return;
	}
	if (!is_ours)
		note_failure(server, err);
	if (pool_is_unfit(err) && server->wire.is_ready) /* at a host that does not fit */
		note_outcome(server, HOST_ANSWERED, NULL);
	pool_wake(pool);
	pool_end_login(server);
}
