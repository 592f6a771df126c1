/* SPDX-License-Identifier: ISC */
/*
 * A pool's servers: filed by their state, logged in, closed for administrators.
 *
 *   server_enter --> pool_file          one list for each state, and the counts
 *   login        --> pool_login_done    home: the line is served at the end of the turn
 *                --> pool_login_failed  another host, a later try, or those who wait are refused
 *
 * Hard here: a server counts for its pool, its database, its account and all pools at once,
 * from its launch until it closes, and each of their limits trusts these counts. And to
 * close a server takes it out of the list that is being walked.
 */
#include "pgweir/pool/pool.h"

#include "outage_priv.h"
#include "pool_priv.h"
#include "server/server_priv.h"

#include "pgweir/base/banned.h"

/* ---- filing ---- */

static bool is_home(enum server_state state)
{
	return state == SERVER_IDLE || state == SERVER_USED;
}

static bool is_busy(enum server_state state)
{
	return state == SERVER_LENT || state == SERVER_CHECKING || state == SERVER_RESETTING ||
	       state == SERVER_CANCELED;
}

static void count_busy(struct pool *pool, int change)
{
	pool->database->busy_count += (unsigned int)change;
	pool->pools->busy_count += (unsigned int)change;
	if (change < 0)
		pools_changed(pool->pools);
}

static void count_server(struct pool *pool, int change)
{
	pool->server_count += (unsigned int)change;
	pool->database->server_count += (unsigned int)change;
	pool->role->server_count += (unsigned int)change;
	pool->pools->server_count += (unsigned int)change;
}

/* Those at home, in the order in which they came: the first is the one to evict. */
static void file_home(struct pool *pool, struct server *server, bool was, bool is)
{
	if (was && !is) {
		TAILQ_REMOVE(&pool->database->idle, server, database_node);
		TAILQ_REMOVE(&pool->role->idle, server, role_node);
	} else if (is && !was) {
		TAILQ_INSERT_TAIL(&pool->database->idle, server, database_node);
		TAILQ_INSERT_TAIL(&pool->role->idle, server, role_node);
	}
}

/* The only place that files a server under its state. */
void pool_file_server(struct server *server, enum server_state from)
{
	struct pool *pool = server->pool;
	enum server_state to = server->state;
	bool goes_last = pool->pools->config->server_round_robin || to != SERVER_IDLE;

	TAILQ_REMOVE(&pool->servers[from], server, node);
	pool->server_counts[from]--;
	if (goes_last)
		TAILQ_INSERT_TAIL(&pool->servers[to], server, node);
	else
		TAILQ_INSERT_HEAD(&pool->servers[to], server, node);
	pool->server_counts[to]++;
	file_home(pool, server, is_home(from), is_home(to));
	if (is_busy(from) != is_busy(to))
		count_busy(pool, is_busy(to) ? 1 : -1);
	if (to != SERVER_CLOSING)
		return;
	count_server(pool, -1);
	pool->dedicated_count -= server->replication != REPLICATION_NONE;
	server_set_close_needed(server, NULL);
	cancel_forget_server(server);
	pool_unblock(pool);
	pool_wake(pool);
	pools_changed(pool->pools);
}

void pool_count_close_needed(struct server *server)
{
	int change = server->is_close_needed ? 1 : -1;

	server->pool->database->close_needed_count += (unsigned int)change;
	server->pool->pools->close_needed_count += (unsigned int)change;
}

/* ---- adding and removing ---- */

struct server *pool_add_server(struct pool *pool)
{
	struct pools *pools = pool->pools;
	struct server *server = slab_take(&pools->server_slab);

	if (!server)
		return NULL;
	server_init(server, &pool->site, pool, pools_next_id(pools));
	TAILQ_INSERT_TAIL(&pools->servers, server, all_node);
	TAILQ_INSERT_TAIL(&pool->servers[SERVER_CONNECTING], server, node);
	pool->server_counts[SERVER_CONNECTING]++;
	count_server(pool, 1);
	return server;
}

void pool_remove_server(struct server *server)
{
	struct pool *pool = server->pool;
	struct pools *pools = pool->pools;

	WALKS_SKIP(pools, next_server, server, all_node);
	loop_undefer(pools->with.loop, &server->free_task);
	TAILQ_REMOVE(&pools->servers, server, all_node);
	TAILQ_REMOVE(&pool->servers[SERVER_CLOSING], server, node);
	pool->server_counts[SERVER_CLOSING]--;
	slab_put(&pools->server_slab, server);
	pool_arm_expiry(pool);
}

/* ---- logins at hosts that have failed ---- */

bool pool_may_probe(const struct server *server) { return !pool_is_full(server->pool); }

void pool_count_probe(struct server *server, int change)
{
	server->pool->probe_count += (unsigned int)change;
	if (change > 0)
		pool_wake(server->pool); /* those who wait need another one */
}

/* ---- logins ---- */

/* What clients of this user on this database have shown. */
static const struct credentials *shown_to(const struct pool *pool)
{
	const struct pool *sibling;

	if (!pool->is_for_lookups || pool->learnt.kind != CREDENTIALS_NONE)
		return &pool->learnt;
	sibling = pools_lookup_sibling(pool);
	return sibling ? &sibling->learnt : &pool->learnt;
}

const struct credentials *pool_credentials(const struct pool *pool)
{
	const struct credentials *file = &pool->role->credentials;
	const struct credentials *shown = shown_to(pool);

	if (pool->credentials.kind != CREDENTIALS_NONE)
		return &pool->credentials;
	if (file->kind == CREDENTIALS_PLAIN || shown->kind == CREDENTIALS_NONE)
		return file;
	return shown;
}

const struct credentials *pool_server_credentials(const struct server *server)
{
	return pool_credentials(server->pool);
}

/* "line 3 of auth_file", or who else said the secret. */
static void add_origin(const struct user *user, struct buf *out)
{
	if (user)
		buf_printf(out, "line %lu of auth_file", user->line);
	else
		buf_add_text(out, "auth_query");
}

/* There is nothing that could be shown. */
static void add_lack(const struct user *user, struct buf *out)
{
	buf_add_text(out, ", without a secret: ");
	if (!user) {
		buf_add_text(out, "neither the entry nor auth_file has one, and no client has "
		                  "shown one");
	} else if (user->secret.kind == SECRET_SCRAM) {
		add_origin(user, out);
		buf_add_text(out, " has a SCRAM secret, which serves for logins to PostgreSQL "
		                  "when a client has logged in by SCRAM");
	} else {
		add_origin(user, out);
		buf_add_text(out, " has none");
	}
}

void pool_tell_secret(const struct server *server, struct buf *out)
{
	const struct pool *pool = server->pool;
	const struct credentials *credentials = pool_credentials(pool);
	const struct user *user = users_find(pool->pools->users, pool->role->name);

	if (credentials->kind == CREDENTIALS_NONE) {
		add_lack(user, out);
		return;
	}
	if (credentials == &pool->credentials) {
		buf_add_text(out, ", with password= of the entry");
		return;
	}
	switch (credentials->kind) {
	case CREDENTIALS_PLAIN:
		buf_add_text(out, credentials->is_shown ? ", with the password that a client sent"
		                                        : ", with the password of ");
		if (!credentials->is_shown)
			add_origin(user, out);
		return;
	case CREDENTIALS_MD5:
		buf_add_text(out, ", with the md5 secret of ");
		break;
	default:
		buf_add_text(out, ", with what a client's login has shown of the SCRAM secret of ");
		break;
	}
	add_origin(user, out);
}

/* Where the old ones did not let us in, these may. */
static void try_again(struct pool *pool)
{
	if (!pool->is_failing)
		return;
	pool_reset_retry(pool);
	pool_wake(pool);
}

void pool_learn(struct pool *pool, const struct credentials *shown)
{
	struct pool *sibling = (struct pool *)pools_lookup_sibling(pool);

	if (pool->role->credentials.kind == CREDENTIALS_PLAIN)
		return; /* auth_file knows better */
	if (credentials_equal(&pool->learnt, shown))
		return;
	credentials_done(&pool->learnt);
	credentials_copy(&pool->learnt, shown);
	pool->learnt_version = pool->role->secret_version;
	try_again(pool);
	if (sibling)
		try_again(sibling);
}

void pool_forget_greeting(struct pool *pool)
{
	buf_free(&pool->greeting);
	params_release(pool->pools->with.params, &pool->greeting_for);
}

void pool_login_done(struct server *server)
{
	struct pool *pool = server->pool;

	server_outage_over(server);
	if (server->replication) {
		pool_dedicated_login_done(server);
		return;
	}
	if (!pool->has_welcome) {
		buf_free(&pool->welcome);
		pool->welcome = server->login->parameters;
		server->login->parameters = (struct buf){ 0 };
		params_release(pool->pools->with.params, &pool->baseline);
		pool->baseline = params_hold(server->baseline);
		pool->has_welcome = true;
		pool_forget_greeting(pool);
	}
	pool->is_failing = pool->is_hopeful = false;
	server_host_done(server, true);
	server_login_free(server);
	timer_set(&server->life, pool->site.limits.life, server->connected_at);
	pool_home(server);
	pool_wake(pool);
}

void pool_login_failed(struct server *server, const struct err *err)
{
	struct pool *pool = server->pool;

	if (err->code != ERR_ADMIN_SHUTDOWN) { /* else we ended it ourselves */
		pool->failed_at = loop_now(pool->pools->with.loop);
		server_outage(server, err);
	}
	if (server->replication) {
		pool_dedicated_login_failed(server, err);
		return;
	}
	if (err->code == ERR_ADMIN_SHUTDOWN)
		return;
	server_host_done(server, false);
	pool->is_failing = !hosts_has_good(&pool->site.hosts);
	pool->is_hopeful = false;
	pool->failure = *err;
	/* While there is a host that may be tried, those who wait are not told. */
	if (pool_is_backing_off(pool) && !pool_is_worth_waiting(err) &&
	    (pool_live_count(pool) == 0 || !pool->has_welcome))
		pool_refuse(pool, err);
	pool_wake(pool);
}

/* ---- for administrators ---- */

/* Calls `act` for each server in a state; it may close the server. */
static void each_in(struct pool *pool, enum server_state state,
                    void (*act)(struct server *server, const char *reason), const char *reason)
{
	struct server *server = TAILQ_FIRST(&pool->servers[state]);

	while (server) {
		struct server *next = TAILQ_NEXT(server, node);

		act(server, reason);
		server = next;
	}
}

static void close_by_admin(struct server *server, const char *reason)
{
	struct err err;

	err_set(&err, ERR_ADMIN_SHUTDOWN, "%s", reason);
	server_close(server, &err);
}

/* A server for replication never comes home: it is closed at once. */
static void need_close(struct server *server, const char *reason)
{
	server_set_close_needed(server, reason);
	if (server->replication)
		close_by_admin(server, reason);
}

void pool_close_idle(struct pool *pool, const char *reason)
{
	static const enum server_state resting[] = { SERVER_IDLE, SERVER_USED, SERVER_CONNECTING,
		                                     SERVER_LOGIN };

	for (size_t i = 0; i < sizeof(resting) / sizeof(resting[0]); i++)
		each_in(pool, resting[i], close_by_admin, reason);
}

/* With server_fast_close, a session that is between two transactions loses its server too. */
static bool closes_fast(const struct pool *pool)
{
	return pool->pools->config->server_fast_close && pool->limits.mode == POOL_MODE_SESSION;
}

static void fast_close(struct server *server, const char *reason)
{
	if (server_is_between_transactions(server))
		close_by_admin(server, reason);
}

void pool_recycle(struct pool *pool, const char *reason)
{
	static const enum server_state working[] = { SERVER_LENT, SERVER_CHECKING, SERVER_RESETTING,
		                                     SERVER_CANCELED };

	pool_close_idle(pool, reason);
	for (size_t i = 0; i < sizeof(working) / sizeof(working[0]); i++)
		each_in(pool, working[i], need_close, reason);
	if (closes_fast(pool))
		each_in(pool, SERVER_LENT, fast_close, reason);
	pool->has_welcome = false;
	buf_free(&pool->welcome);
	pool_reset_retry(pool);
	pool_wake(pool);
}

void pool_close_all(struct pool *pool, const char *reason)
{
	for (int state = 0; state < SERVER_CLOSING; state++)
		each_in(pool, (enum server_state)state, close_by_admin, reason);
}

/* ---- what servers tell ---- */

void pool_address_removed(struct server *server)
{
	static const char reason[] = "its address has left DNS";

	need_close(server, reason);
	switch (server->state) {
	case SERVER_CONNECTING:
	case SERVER_LOGIN:
	case SERVER_IDLE:
	case SERVER_USED:
		close_by_admin(server, reason);
		return;
	case SERVER_LENT:
		if (closes_fast(server->pool))
			fast_close(server, reason);
		return;
	default:
		return; /* pool_home() closes it */
	}
}

void pool_lost_server(struct server *server, struct borrower *borrower)
{
	server->pool->served_count--;
	cancel_forget_target(borrower, server->pool);
}

const struct server_ops pool_server_ops = {
	.on_state = pool_file_server,
	.on_close_needed = pool_count_close_needed,
	.on_login_done = pool_login_done,
	.on_login_failed = pool_login_failed,
	.on_home = pool_home,
	.on_params_refused = pool_refuse_params,
	.on_borrower_lost = pool_lost_server,
	.on_address_removed = pool_address_removed,
	.on_probe = pool_count_probe,
	.may_probe = pool_may_probe,
	.credentials = pool_server_credentials,
	.tell_secret = pool_tell_secret,
	.on_free = pool_remove_server,
};
