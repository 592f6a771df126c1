/* SPDX-License-Identifier: ISC */
/*
 * A pool and its borrowers: who is in it, who waits, who is lent what. Its servers are
 * filed, logged in and closed in pool_servers.c.
 *
 *   pool_take --> a server at once
 *   pool_ask  --> the line --> end of turn: a server that is at home, or a new one
 *
 * Hard here: nobody is served from within a callback of somebody else. What comes
 * home wakes the pool, and the line is served at the end of the turn.
 */
#include "pgweir/pool/pool.h"

#include <assert.h>

#include "server/server_priv.h"
#include "pool_priv.h"

#include "pgweir/base/banned.h"

/* For so long a failed login shows in SHOW POOLS, since monitors look once a minute at least. */
#define FAILURE_SHOWN (60 * USEC_PER_SEC)

static struct loop *loop_of(const struct pool *pool) { return pool->pools->with.loop; }

bool pool_is_paused(const struct pool *pool)
{
	return pool->pools->is_paused || pool->database->is_paused;
}

/* Nobody is lent a server, and none is launched. */
bool pool_is_held(const struct pool *pool)
{
	return pool_is_paused(pool) || pool->pools->suspend != SUSPEND_NONE;
}

static void close_for(struct server *server, const char *reason)
{
	struct err err;

	err_set(&err, ERR_SERVER_LOST, "%s", reason);
	server_close(server, &err);
}

/* ---- membership ---- */

void pool_join(struct pool *pool, struct borrower *borrower)
{
	borrower->pool = pool;
	borrower->state = BORROWER_RESTING;
	TAILQ_INSERT_TAIL(&pool->members, borrower, node);
	pool->member_count++;
	timer_clear(&pool->rest);
	if (pool->limits.min_size)
		pool_wake(pool);
}

void pool_leave(struct borrower *borrower)
{
	struct pool *pool = borrower->pool;
	struct server *server = borrower->server;
	struct err err;

	if (!pool)
		return;
	pool_give_up(borrower);
	if (server) {
		bool is_whole =
		    server_rest(server) >= REST_MID_RESPONSE && !borrower->is_mid_message;

		if (is_whole && server->replication == REPLICATION_NONE) {
			pool_return(borrower);
		} else {
			borrower->server = NULL;
			borrower->state = BORROWER_RESTING;
			server->borrower = NULL;
			pool->served_count--;
			cancel_forget_target(borrower, pool);
			err_set(&err, ERR_SERVER_LOST,
			        server->replication
			            ? "replication client has left"
			            : "client disconnect while server was not ready");
			server_close(server, &err);
		}
	}
	TAILQ_REMOVE(&pool->members, borrower, node);
	pool->member_count--;
	borrower->pool = NULL;
	pool_arm_expiry(pool);
}

void pool_expel(struct pool *pool, const struct err *err)
{
	struct borrower_list leaving;
	struct borrower *borrower;

	/* An expelled borrower may stay a member until the end of the turn. */
	TAILQ_INIT(&leaving);
	TAILQ_CONCAT(&leaving, &pool->members, node);
	while ((borrower = TAILQ_FIRST(&leaving))) {
		TAILQ_REMOVE(&leaving, borrower, node);
		TAILQ_INSERT_TAIL(&pool->members, borrower, node);
		borrower->ops->on_expelled(borrower, err);
	}
}

/* ---- the line ---- */

struct borrower_list *pool_wait_queue(struct pool *pool, enum borrower_state state,
                                      unsigned int **count)
{
	switch (state) {
	case BORROWER_NEWCOMER:
		*count = &pool->newcomer_count;
		return &pool->newcomers;
	case BORROWER_WAITING:
		*count = &pool->waiting_count;
		return &pool->waiting;
	case BORROWER_WAIT_DEDICATED:
		*count = &pool->wait_dedicated_count;
		return &pool->wait_dedicated;
	case BORROWER_CONNECT_DEDICATED:
		*count = &pool->connect_dedicated_count;
		return &pool->connect_dedicated;
	default:
		*count = NULL;
		return NULL;
	}
}

struct borrower_list *pool_wait_queue_at(struct pool *pool, unsigned int line)
{
	static const enum borrower_state states[] = { BORROWER_WAITING, BORROWER_NEWCOMER,
		                                      BORROWER_WAIT_DEDICATED,
		                                      BORROWER_CONNECT_DEDICATED };
	unsigned int *count;

	return line < sizeof(states) / sizeof(states[0])
	           ? pool_wait_queue(pool, states[line], &count)
	           : NULL;
}

/* For SHOW LIMITS: somebody has to wait because of these. */
static void count_hits(struct pool *pool)
{
	const struct pool_limits *limits = &pool->limits;

	if (limits->size <= 0 || pool->server_count < (unsigned int)limits->size)
		return;
	pool->size_hits++;
	if (limits->reserve_size > 0 && pool->server_count >= pool_limits_most(limits))
		pool->reserve_hits++;
}

void pool_stand(struct borrower *borrower, enum borrower_state state)
{
	struct pool *pool = borrower->pool;
	unsigned int *count;
	struct borrower_list *line = pool_wait_queue(pool, state, &count);

	assert(borrower->state == BORROWER_RESTING && line);
	borrower->state = state;
	borrower->waiting_since = loop_now(loop_of(pool));
	borrower->wait_number = ++pool->pools->last_line_number;
	pool->hasty_count += borrower->is_hasty;
	pool->database->waiting_count++;
	count_hits(pool);
	TAILQ_INSERT_TAIL(line, borrower, wait_node);
	*count += 1;
	pool_wake(pool);
}

void pool_give_up(struct borrower *borrower)
{
	struct pool *pool = borrower->pool;
	unsigned int *count;
	struct borrower_list *line;
	usec_t wait;

	if (borrower->state == BORROWER_CONNECT_DEDICATED)
		pool_dedicated_give_up(borrower);
	line = pool_wait_queue(pool, borrower->state, &count);
	if (!line)
		return;
	TAILQ_REMOVE(line, borrower, wait_node);
	*count -= 1;
	wait = loop_now(loop_of(pool)) - borrower->waiting_since;
	pool->stats.wait_time += (uint64_t)wait;
	borrower->waited += wait;
	pool->hasty_count -= borrower->is_hasty;
	pool->database->waiting_count--;
	borrower->state = BORROWER_RESTING;
}

/* ---- after logins that failed ---- */

usec_t pool_due(const struct pool *pool)
{
	return hosts_due(&pool->site.hosts, pool->site.limits.retry_gap);
}

/* Whether logins failed at all hosts, so lately that another one would be too early. */
bool pool_is_backing_off(const struct pool *pool)
{
	return pool->is_failing && loop_now(loop_of(pool)) < pool_due(pool);
}

bool pool_has_failed_lately(const struct pool *pool)
{
	return pool->failed_at && loop_now(loop_of(pool)) < pool->failed_at + FAILURE_SHOWN;
}

void pool_reset_retry(struct pool *pool)
{
	pool->is_failing = pool->is_hopeful = false;
	pool->probes_left = 0;
	hosts_reset(&pool->site.hosts);
}

/* PostgreSQL is starting up or shutting down: worth waiting for. */
static bool pool_is_not_yet(const struct err *err) { return strcmp(err->sqlstate, "57P03") == 0; }

/* The server could not be reached, or not yet: not a word about us, so there is hope in waiting. */
bool pool_is_worth_waiting(const struct err *err)
{
	return err->code == ERR_SERVER_CONNECT || err->code == ERR_FILES || pool_is_not_yet(err);
}

bool pool_is_unreachable(const struct pool *pool)
{
	return pool->is_failing && pool_is_worth_waiting(&pool->failure);
}

static bool refuse_for_failure(const struct pool *pool, struct err *err)
{
	*err = pool->failure;
	err_set(err, pool->failure.code,
	        "server login has been failing, cached error: %.99s (server_login_retry)",
	        pool->failure.text);
	if (pool->failure.code == ERR_FOREIGN)
		memcpy(err->sqlstate, pool->failure.sqlstate, sizeof(err->sqlstate));
	err_detail(err, pool->failure.detail);
	return false;
}

/* ---- asking ---- */

bool pool_await_welcome(struct borrower *borrower, struct err *err)
{
	struct pool *pool = borrower->pool;

	assert(!pool->has_welcome);
	if (pool_turns_away(pool, borrower, err))
		return false;
	if (pool_is_backing_off(pool) && pool_shared_count(pool) == 0 &&
	    !pool_is_worth_waiting(&pool->failure))
		return refuse_for_failure(pool, err);
	pool_stand(borrower, BORROWER_NEWCOMER);
	return true;
}

bool pool_ask(struct borrower *borrower, struct err *err)
{
	struct pool *pool = borrower->pool;

	if (pool->pools->is_ending)
		return err_set(err, ERR_ADMIN_SHUTDOWN, "server shutting down");
	if (pool_turns_away(pool, borrower, err))
		return false;
	if (pool_is_backing_off(pool) && pool_shared_count(pool) == 0 && !pool_is_held(pool) &&
	    !(borrower->is_patient && pool_is_worth_waiting(&pool->failure)))
		return refuse_for_failure(pool, err);
	pool_stand(borrower, BORROWER_WAITING);
	return true;
}

/* Refuses all who wait, in one line or the other. */
void pool_refuse(struct pool *pool, const struct err *err)
{
	struct borrower *borrower;

	while ((borrower = TAILQ_FIRST(&pool->newcomers)) ||
	       (borrower = TAILQ_FIRST(&pool->waiting))) {
		pool_give_up(borrower);
		borrower->ops->on_refused(borrower, err);
	}
}

/* ---- lending ---- */

void pool_lend(struct server *server, struct borrower *borrower)
{
	struct pool *pool = server->pool;

	server_enter(server, SERVER_LENT);
	server->borrower = borrower;
	borrower->server = server;
	borrower->state = BORROWER_SERVED;
	borrower->waits_for = LEDGER_WAIT_NOT;
	server->is_rest_unknown = false; /* a reset query of ours is no news to this one */
	server->has_session |= pool->limits.mode == POOL_MODE_SESSION;
	pool->served_count++;
	pool->stats.assignment_count++;
	server->request_at = server->lent_at = loop_now(loop_of(pool));
}

/* An idle server that can be lent, or NULL. Closes those that cannot. */
struct server *pool_idle_server(struct pool *pool)
{
	struct server *server;

	while ((server = TAILQ_FIRST(&pool->servers[SERVER_IDLE]))) {
		if (!server->is_close_needed)
			return server;
		close_for(server, server->close_reason);
	}
	return NULL;
}

struct server *pool_take(struct borrower *borrower)
{
	struct pool *pool = borrower->pool;
	struct server *server;

	if (!TAILQ_EMPTY(&pool->waiting) || pool_is_held(pool) || pool_dedicated_goes_first(pool))
		return NULL;
	server = pool_idle_server(pool);
	if (server)
		pool_lend(server, borrower);
	return server;
}

bool pool_prepare(struct borrower *borrower, const struct params *params, bool sends_now)
{
	struct server *server = borrower->server;
	struct params_table *table = borrower->pool->pools->with.params;
	struct buf *text = &borrower->pool->pools->errand_text;
	bool is_harmless, is_ahead = false;

	if (server->params == params)
		return true;
	is_harmless = server_replay_text(server, params, text);
	params_release(table, &server->before);
	server->before = server->params;
	server->params = params_hold(params);
	if (text->count == 0 || (is_harmless && sends_now))
		params_release(table, &server->before);
	if (text->count == 0 && buf_ok(text))
		return true;
	if (!buf_ok(text))
		server_break(server);
	else if (is_harmless && sends_now)
		is_ahead = server_errand_ahead(server, buf_text(text));
	else
		server_errand(server, ERRAND_REPLAY, buf_text(text));
	buf_reuse(text, ERRAND_KEEP_MAX);
	return is_ahead;
}

/* Borrower and server part. */
static void part(struct borrower *borrower, struct server *server)
{
	struct pool *pool = server->pool;

	assert(server_is_between_transactions(server) && ledger_is_empty(&server->ledger));
	borrower->server = NULL;
	borrower->state = BORROWER_RESTING;
	server->borrower = NULL;
	server->request_at = 0;
	pool->served_count--;
	timer_clear(&server->xact);
	server->xact_at = 0;
	/* Of a frame that nobody asked for the rest may still come. */
	server->forwards_rest = server->is_mid_response = false;
	cancel_forget_target(borrower, pool);
	stream_want(&server->stream, WANT_INPUT);
}

/* Runs the reset query if it is due. false: it is not. */
static bool reset(struct server *server)
{
	const struct config *config = server->pool->pools->config;
	bool is_wanted = *config->server_reset_query &&
	                 (server->has_session || config->server_reset_query_always);

	if (!is_wanted || server->is_close_needed || !ledger_is_certain(&server->ledger))
		return false;
	server_enter(server, SERVER_RESETTING);
	server_errand(server, ERRAND_RESET, config->server_reset_query);
	return true;
}

void pool_return(struct borrower *borrower)
{
	struct server *server = borrower->server;

	part(borrower, server);
	if (!reset(server))
		pool_home(server);
}

/* Sets back what former borrowers had set. false: there is nothing, or it failed. */
static bool set_back(struct server *server)
{
	struct pools *pools = server->pool->pools;
	const struct params *none = params_none(pools->with.params);
	struct buf *text = &pools->errand_text;
	bool is_due = false;

	server_replay_text(server, none, text);
	params_release(pools->with.params, &server->params);
	if (!buf_ok(text))
		server_set_close_needed(server, "out of memory");
	else
		is_due = text->count > 0 && !server->is_close_needed;
	if (is_due) {
		server_enter(server, SERVER_RESETTING);
		server_errand(server, ERRAND_SET_BACK, buf_text(text));
	}
	buf_reuse(text, ERRAND_KEEP_MAX);
	return is_due;
}

/*
 * Its transaction took them all back, so the server is as before. But if it is the server that
 * takes no parameters any more, nobody could use it: it shows that it can go back to its own.
 */
void pool_refuse_params(struct server *server)
{
	struct borrower *borrower = server->borrower;
	struct params_table *table = server->pool->pools->with.params;
	struct err err;

	err_set(&err, ERR_PARAMETER, "invalid server parameter");
	if (server->refusal)
		err = *server->refusal;
	free(server->refusal);
	server->refusal = NULL;
	params_release(table, &server->params);
	server->params = server->before;
	server->before = params_none(table);
	part(borrower, server);
	if (!reset(server) && !set_back(server))
		pool_home(server);
	borrower->ops->on_lost(borrower, &err, false);
}

/* ---- coming home ---- */

bool pool_is_left_over(const struct server *server)
{
	return server->has_session && server->pool->limits.mode != POOL_MODE_SESSION;
}

/* How far apart the servers of a pool are closed for their age. */
static usec_t life_spacing(const struct pool *pool)
{
	return pool->limits.size > 0 ? pool->limits.lifetime / pool->limits.size : 0;
}

static bool is_too_soon(const struct pool *pool, usec_t now)
{
	return pool->lifetime_close_at && now < pool->lifetime_close_at + life_spacing(pool);
}

static bool is_too_old(struct pool *pool, const struct server *server)
{
	usec_t now = loop_now(loop_of(pool)), lifetime = pool->limits.lifetime;

	if (lifetime <= 0)
		return true; /* one use */
	if (now - server->connected_at < lifetime || is_too_soon(pool, now))
		return false;
	pool->lifetime_close_at = now;
	return true;
}

void pool_home(struct server *server)
{
	struct pool *pool = server->pool;
	const struct config *config = pool->pools->config;
	bool is_new = server->state == SERVER_LOGIN;

	server->used_at = loop_now(loop_of(pool));
	if (server->is_close_needed) {
		close_for(server, server->close_reason);
	} else if (server->got_fatal) {
		close_for(server, "server ended the connection");
	} else if (!ledger_is_certain(&server->ledger)) {
		close_for(server, "out of step after a COPY that failed");
	} else if (pool_is_left_over(server)) {
		close_for(server, SERVER_LEFT_OVER);
	} else if (server->cancel_count) {
		server_enter(server, SERVER_CANCELED);
	} else if (pool_is_paused(pool)) {
		close_for(server, "pause mode");
	} else if (!is_new && server->state != SERVER_CHECKING && is_too_old(pool, server)) {
		close_for(server, "server lifetime over");
	} else if (config->server_check_delay == 0 && config_check_query(config) && !is_new &&
	           server->state != SERVER_CHECKING) {
		server_enter(server, SERVER_IDLE);
		server_enter(server, SERVER_USED);
	} else {
		server_enter(server, SERVER_IDLE);
	}
	if (pool->waiting_count || pool->newcomer_count || pool->wait_dedicated_count) {
		pool->has_come_home = true;
		pool_wake(pool);
	} else {
		pool_unblock(pool);
	}
}

/* ---- limits of servers at home ---- */

void pool_idle_due(struct timer *timer)
{
	struct server *server = SERVER_OF(timer, timer);
	const struct pool *pool = server->pool;
	bool is_used = pool->member_count || (pool->database->entry && pool->database->entry->user);

	if (is_used && pool->server_count <= (unsigned int)pool->limits.min_size) {
		timer_set(timer, pool->site.limits.idle, loop_now(loop_of(pool)));
		return;
	}
	close_for(server, "server idle timeout");
}

void pool_life_due(struct timer *timer)
{
	struct server *server = SERVER_OF(timer, life);
	struct pool *pool = server->pool;
	usec_t now = loop_now(loop_of(pool));

	if (server->state != SERVER_IDLE && server->state != SERVER_USED)
		return; /* pool_home() looks at its age */
	if (is_too_soon(pool, now)) {
		timer_set(timer, loop_timer_queue(loop_of(pool), life_spacing(pool), pool_life_due),
		          pool->lifetime_close_at);
		return;
	}
	pool->lifetime_close_at = now;
	close_for(server, "server lifetime over");
}

/* ---- serving the line ---- */

static void check_used(struct pool *pool)
{
	const char *query = config_check_query(pool->pools->config);
	struct server *server;

	while (pool->server_counts[SERVER_CHECKING] < pool->waiting_count &&
	       (server = TAILQ_LAST(&pool->servers[SERVER_USED], server_list))) {
		server_enter(server, SERVER_CHECKING);
		if (server->is_close_needed)
			close_for(server, server->close_reason);
		else if (query)
			server_errand(server, ERRAND_CHECK, query);
		else
			pool_home(server); /* the setting went away meanwhile */
	}
}

static void welcome_newcomers(struct pool *pool)
{
	struct borrower *borrower;

	while (pool->has_welcome && (borrower = TAILQ_FIRST(&pool->newcomers))) {
		pool_give_up(borrower);
		borrower->ops->on_welcome(borrower);
	}
}

void pool_serve(struct task *task)
{
	struct pool *pool = (struct pool *)((char *)task - offsetof(struct pool, serve_task));
	struct borrower *borrower;
	struct server *server;

	if (pool->pools->is_closing)
		return;
	if (!pool_is_current(pool))
		pool_move_members(pool);
	welcome_newcomers(pool);
	if (pool->hasty_count)
		pool_turn_hasty_away(pool);
	if (!pool_is_held(pool))
		pool_dedicated_grow(pool);
	while (!pool_is_held(pool) && (borrower = TAILQ_FIRST(&pool->waiting)) &&
	       (server = pool_idle_server(pool))) {
		pool_give_up(borrower);
		pool_lend(server, borrower);
		borrower->ops->on_lent(borrower);
	}
	if (!pool_is_held(pool)) {
		check_used(pool);
		cancel_serve(pool);
		pool_grow(pool);
	}
	/* Those for whom it came home wait no more: it may make room for somebody else's. */
	if (pool->has_come_home && !pool->waiting_count)
		pool_unblock(pool);
	pool->has_come_home = false;
	pool_pass_on(pool);
}

void pool_wake(struct pool *pool) { loop_defer(loop_of(pool), &pool->serve_task); }
