/* SPDX-License-Identifier: ISC */
/*
 * Finds the name and the secret of a client's user.
 *
 *   the name is in auth_file ------------------------------> its secret
 *   else, if auth_user is set: a lookup ----> name and secret, or no such user
 *
 * Hard here: an answer of auth_query may have another name than the client. That is the
 * client's user from then on, for rules, rights and pools. But an answer cannot make a
 * client a user of auth_file, or auth_user: auth_file decides about its own users.
 */
#include "login_priv.h"

#include <stdlib.h>

#include "pgweir/base/container_of.h"
#include "pgweir/config/entries.h"
#include "pgweir/pgwire/message.h"

/*
 * ---- lookups ----
 *
 * auth_query asks PostgreSQL for the name and the secret of a user. A lookup is a borrower without
 * a client. It waits in the queue of a pool that only serves lookups, sends auth_query with the
 * user's name as a bound parameter, and gives the answer to all logins that wait for it.
 *
 *   WAITING --on_lent--> ASKING --on_ready--> DONE --end of the turn--> take_answer()
 *      ^                   |
 *      +------- lost ------+   once: the server may have closed while it was idle
 *
 * Hard here: many logins share one lookup, and each of them may end at any time. The lookup
 * lives as long as a login waits for it. When the last one stops waiting, the lookup is
 * freed, and its server is closed if the query is running.
 *
 * Only the user's name comes from a client, so a client cannot change what the query means:
 * the pool's servers are started without parameters of a client, and are never lent to a
 * client.
 */

enum auth_lookup_state {
	AUTH_LOOKUP_WAITING, /* waits for a server */
	AUTH_LOOKUP_ASKING,  /* the query runs */
	AUTH_LOOKUP_DONE     /* the answer is given to the logins at the end of the turn */
};

struct auth_lookup {
	UT_hash_handle hh;             /* in lookups.under_way, while others may join */
	TAILQ_ENTRY(auth_lookup) node; /* in lookups.list */
	struct clients *clients;
	struct borrower borrower;
	/*
	 * Ends at client_login_timeout, so that no login joins a query that hangs. While the lookup
	 * waits for a server, it ends at query_wait_timeout if that is earlier.
	 */
	struct timer timer;
	usec_t begun_at;
	struct task task;
	TAILQ_HEAD(, auth_query) waits;
	struct auth_reply replies;
	struct auth_answer *answer; /* the question; state DONE and no error: its answer, too */
	struct err err;             /* state DONE: what the clients get, or ERR_NONE */
	enum auth_lookup_state state;
	bool may_be_joined;
	bool was_lost;
};

/* The cached answers of all loops. */
static struct logins *logins_of(const struct clients *clients) { return clients->shared->logins; }

/* ---- end ---- */

static void leave_table(struct auth_lookup *lookup)
{
	if (lookup->may_be_joined)
		HASH_DEL(lookup->clients->lookups.under_way, lookup);
	lookup->may_be_joined = false;
}

static void auth_lookup_free(struct auth_lookup *lookup)
{
	leave_table(lookup);
	TAILQ_REMOVE(&lookup->clients->lookups.list, lookup, node);
	timer_clear(&lookup->timer);
	loop_undefer(lookup->clients->loop, &lookup->task);
	pool_leave(&lookup->borrower);
	auth_reply_done(&lookup->replies);
	auth_answer_release(&lookup->answer);
	free(lookup);
}

/* Unless it is ERR_NONE, *err is the error for the client. */
static void take_answer(struct auth_query *auth_query, struct auth_answer *answer,
                        const struct err *err);

static void answer_waits(struct task *task)
{
	struct auth_lookup *lookup = container_of(task, struct auth_lookup, task);
	struct auth_query *wait;

	while ((wait = TAILQ_FIRST(&lookup->waits))) {
		TAILQ_REMOVE(&lookup->waits, wait, node);
		wait->lookup = NULL;
		take_answer(wait, lookup->answer, &lookup->err);
	}
	auth_lookup_free(lookup);
}

/*
 * Ends the lookup, with or without an answer: returns the server, and gives the answer to
 * the waiting logins at the end of the turn.
 */
static void end_lookup(struct auth_lookup *lookup)
{
	if (lookup->state == AUTH_LOOKUP_DONE)
		return;
	lookup->state = AUTH_LOOKUP_DONE;
	leave_table(lookup);
	timer_clear(&lookup->timer);
	pool_leave(&lookup->borrower);
	lookup->task.run = answer_waits;
	loop_defer(lookup->clients->loop, &lookup->task);
}

static void log_failure(const struct auth_lookup *lookup, const char *reason)
{
	const struct logger log = { lookup->clients->pools->shared.log, NULL };
	const struct pool *pool = lookup->borrower.pool;

	log_error(&log, "auth_query failed, on %s by %s, for %s: %s", pool->database->name,
	          pool->role->name, lookup->answer->user, reason);
}

/*
 * The lookup failed. The reason is logged; clients get a general error. code: shows whether
 * a client should try again.
 */
static void fail_lookup(struct auth_lookup *lookup, enum err_code code, const char *reason)
{
	log_failure(lookup, reason);
	err_set(&lookup->err, code, "bouncer config error");
	end_lookup(lookup);
}

static void judge(struct auth_lookup *lookup)
{
	struct auth_reply *replies = &lookup->replies;
	enum auth_reply_verdict verdict = auth_reply_end(replies);
	struct logins *logins = logins_of(lookup->clients);
	usec_t limit = lookup->clients->config->auth_query_cache;

	if (verdict == AUTH_REPLY_BAD) {
		fail_lookup(lookup, ERR_CONFIG, replies->why.text);
		return;
	}
	if (verdict == AUTH_REPLY_USER) {
		auth_answer_take(lookup->answer, replies);
		auth_cache_learn(logins, lookup->answer->secret);
	}
	if (lookup->may_be_joined && lookup->answer->name) /* else a RELOAD made it outdated */
		auth_cache_keep(logins, lookup->answer,
		                limit > 0 ? loop_now(lookup->clients->loop) + limit : 0);
	end_lookup(lookup);
}

/* ---- the query ---- */

static void add_query(struct buf *out, const struct auth_answer *question)
{
	size_t at = message_begin(out, 'P');

	buf_add_cstr(out, ""); /* unnamed statement */
	buf_add_cstr(out, question->query);
	buf_add_be16(out, 0); /* no parameter types: PostgreSQL determines the type */
	message_end(out, at);
	at = message_begin(out, 'B');
	buf_add_cstr(out, "");
	buf_add_cstr(out, "");
	buf_add_be16(out, 0); /* parameters as text */
	buf_add_be16(out, 1);
	buf_add_be32(out, (uint32_t)strlen(question->user));
	buf_add_text(out, question->user);
	buf_add_be16(out, 0);
	message_end(out, at);
	at = message_begin(out, 'E');
	buf_add_cstr(out, "");
	buf_add_be32(out, AUTH_REPLY_ROWS_MAX);
	message_end(out, at);
	message_bare(out, 'S');
}

/* ---- limits ---- */

static void on_due(struct timer *timer)
{
	fail_lookup(container_of(timer, struct auth_lookup, timer), ERR_CANNOT_CONNECT,
	            "no answer within client_login_timeout");
}

static void on_wait_due(struct timer *timer)
{
	struct auth_lookup *lookup = container_of(timer, struct auth_lookup, timer);
	struct buf reason = { 0 };

	buf_add_text(&reason, "query_wait_timeout: ");
	pool_wait_tell(&lookup->borrower, &reason);
	log_failure(lookup, buf_ok(&reason) ? buf_text(&reason) : "query_wait_timeout");
	buf_free(&reason);
	err_close(&lookup->err, CLOSE_QUERY_WAIT_TIMEOUT);
	end_lookup(lookup);
}

static void arm(struct auth_lookup *lookup)
{
	const struct config *config = lookup->clients->config;
	const struct pool *pool = lookup->borrower.pool;
	struct loop *loop = lookup->clients->loop;
	usec_t login = config->client_login_timeout, since = lookup->borrower.waiting_since;
	usec_t wait = config_query_wait_timeout(config, pool->database->entry, pool->role->entry);

	if (lookup->borrower.state == BORROWER_WAITING && wait &&
	    (!login || since + wait < lookup->begun_at + login))
		timer_set(&lookup->timer, loop_timer_queue(loop, wait, on_wait_due), since);
	else
		timer_set(&lookup->timer, loop_timer_queue(loop, login, on_due), lookup->begun_at);
}

/* ---- run the query ---- */

static void ask(struct auth_lookup *lookup)
{
	static const enum ledger_kind kinds[] = { LEDGER_PARSE, LEDGER_BIND, LEDGER_EXECUTE,
		                                  LEDGER_SYNC };
	struct borrower *borrower = &lookup->borrower;
	usec_t now = loop_now(lookup->clients->loop);
	struct buf out = { 0 };
	bool is_good;

	arm(lookup);
	/*
	 * The server never had a client's parameters, but an earlier auth_query may have set some.
	 */
	if (!pool_prepare(borrower, params_none(lookup->clients->pools->shared.params), true))
		return;
	lookup->state = AUTH_LOOKUP_ASKING;
	add_query(&out, lookup->answer);
	server_begin_query(borrower->server, now, now);
	is_good = buf_ok(&out);
	for (size_t i = 0; is_good && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		is_good = server_note(borrower->server, kinds[i]);
	if (!is_good)
		fail_lookup(lookup, ERR_MEMORY, "out of memory");
	else
		/* if it fails, on_lost() is called */
		server_send(borrower->server, buf_bytes(&out));
	buf_free(&out);
}

/* ---- calls from the pool ---- */

static void on_lent(struct borrower *borrower)
{
	ask(container_of(borrower, struct auth_lookup, borrower));
}

/*
 * A client gets errors about a shutdown or an unreachable server. It does not get
 * PostgreSQL's errors about auth_user.
 */
static bool is_for_clients(const struct err *err)
{
	return err->code == ERR_ADMIN_SHUTDOWN || err->code == ERR_UNREACHABLE;
}

static void on_refused(struct borrower *borrower, const struct err *err)
{
	struct auth_lookup *lookup = container_of(borrower, struct auth_lookup, borrower);

	if (!is_for_clients(err)) {
		fail_lookup(lookup, ERR_CONFIG, err->text);
		return;
	}
	lookup->err = *err;
	end_lookup(lookup);
}

static bool on_bytes(struct borrower *borrower, struct bytes bytes)
{
	struct auth_lookup *lookup = container_of(borrower, struct auth_lookup, borrower);

	if (lookup->state == AUTH_LOOKUP_ASKING)
		auth_reply_take(&lookup->replies, bytes);
	return true;
}

static void on_ready(struct borrower *borrower, char status, bool is_settled)
{
	struct auth_lookup *lookup = container_of(borrower, struct auth_lookup, borrower);

	(void)status; /* if not 'I', the server is closed when the lookup leaves the pool */
	if (is_settled && lookup->state == AUTH_LOOKUP_ASKING)
		judge(lookup);
}

static void on_nothing(struct borrower *borrower) { (void)borrower; }

static void on_lost(struct borrower *borrower, const struct err *err, bool got_fatal)
{
	struct auth_lookup *lookup = container_of(borrower, struct auth_lookup, borrower);
	struct err why;

	(void)got_fatal;
	if (lookup->was_lost || lookup->state == AUTH_LOOKUP_DONE) {
		fail_lookup(lookup, ERR_CANNOT_CONNECT, err->text);
		return;
	}
	lookup->was_lost = true;
	lookup->state = AUTH_LOOKUP_WAITING;
	auth_reply_done(&lookup->replies);
	if (pool_ask(borrower, &why))
		arm(lookup);
	else
		fail_lookup(lookup, ERR_CANNOT_CONNECT, why.text);
}

static void tell_who(const struct borrower *borrower, struct buf *out)
{
	(void)borrower;
	buf_add_text(out, "auth_query");
}

static const struct params *wanted_params(const struct borrower *borrower)
{
	return params_none(borrower->pool->pools->shared.params);
}

static const struct borrower_ops auth_lookup_borrower_ops = {
	.on_lent = on_lent,
	.on_refused = on_refused,
	.on_welcome = on_nothing, /* a lookup never waits for it */
	.on_bytes = on_bytes,
	.on_ready = on_ready,
	.on_deallocated = on_nothing,
	.on_writable = on_nothing,
	.on_lost = on_lost,
	.on_expelled = on_refused,
	.params = wanted_params,
	.tell_who = tell_who,
};

/* ---- begin a lookup ---- */

static struct auth_lookup *auth_lookup_new(struct clients *clients, struct auth_answer *question)
{
	struct auth_lookup *lookup = calloc(1, sizeof(*lookup));

	if (!lookup)
		return NULL;
	lookup->clients = clients;
	lookup->answer = auth_answer_hold(question);
	lookup->borrower.ops = &auth_lookup_borrower_ops;
	TAILQ_INIT(&lookup->waits);
	TAILQ_INSERT_TAIL(&clients->lookups.list, lookup, node);
	TABLE_ADD(hh, &clients->pools->secret, clients->lookups.under_way, question->key,
	          question->key_count, lookup);
	lookup->may_be_joined = true;
	return lookup;
}

/* Waits for a server, or runs the query at once. false: *err is the error for the client. */
static bool begin_lookup(struct auth_lookup *lookup, struct database *database, struct err *err)
{
	struct clients *clients = lookup->clients;
	struct pool *pool = pools_lookup_pool(database, lookup->answer->auth_user);
	struct err why;

	if (!pool)
		return err_set(err, ERR_MEMORY, "no memory for pool");
	pool_join(pool, &lookup->borrower);
	lookup->begun_at = loop_now(clients->loop);
	pool_hurry(&lookup->borrower,
	           config_fail_fast(clients->config, pool->database->entry, pool->role->entry));
	if (pool_take(&lookup->borrower)) {
		ask(lookup);
		return true;
	}
	if (pool_ask(&lookup->borrower, &why)) {
		arm(lookup);
		return true;
	}
	log_failure(lookup, why.text);
	if (is_for_clients(&why))
		*err = why;
	else
		err_set(err, ERR_CONFIG, "bouncer config error");
	return false;
}

/* Joins a running query, or begins one. false: *err is the error for the client. */
static bool await_answer(struct client *client, struct database *database,
                         struct auth_answer *question, struct err *err)
{
	struct clients *clients = client->clients;
	struct auth_query *auth_query = &client->login->auth_query;
	struct auth_lookup *lookup;

	TABLE_FIND(hh, &clients->pools->secret, clients->lookups.under_way, question->key,
	           question->key_count, lookup);
	if (!lookup) {
		lookup = auth_lookup_new(clients, question);
		if (!lookup)
			return err_set(err, ERR_MEMORY, "out of memory");
		if (!begin_lookup(lookup, database, err)) {
			auth_lookup_free(lookup);
			return false;
		}
	}
	auth_query->lookup = lookup;
	TAILQ_INSERT_TAIL(&lookup->waits, auth_query, node);
	return true;
}

/* Stops waiting. The last login that stops ends the query. No effect if it is not waiting. */
static void give_up(struct auth_query *wait)
{
	struct auth_lookup *lookup = wait->lookup;

	if (!lookup)
		return;
	TAILQ_REMOVE(&lookup->waits, wait, node);
	wait->lookup = NULL;
	/* A lookup that is DONE frees itself when all logins have got the answer. */
	if (TAILQ_EMPTY(&lookup->waits) && lookup->state != AUTH_LOOKUP_DONE)
		auth_lookup_free(lookup);
}

/* ---- the set of lookups ---- */

void auth_lookups_configure(struct clients *clients)
{
	struct auth_lookup *lookup, *next;

	/* auth_query may be another query now, with secrets of another kind */
	auth_cache_forget_all(logins_of(clients));
	HASH_ITER (hh, clients->lookups.under_way, lookup, next)
		leave_table(lookup);
}

void auth_lookups_free(struct clients *clients)
{
	while (
	    !TAILQ_EMPTY(&clients->lookups.list)) /* those that are DONE and wait for their task */
		auth_lookup_free(TAILQ_FIRST(&clients->lookups.list));
}

/* ---- one client ---- */

const char *auth_query_claimed(const struct client *client)
{
	const struct auth_answer *question = client->login->auth_query.question;

	return question ? question->user : client->login->user;
}

bool auth_query_likeness(const struct client *client, struct mock_form *like)
{
	if (client->login->auth_query.answer)
		*like = auth_cache_likeness(logins_of(client->clients));
	return client->login->auth_query.answer;
}

void auth_query_done(struct auth_query *auth_query)
{
	give_up(auth_query);
	auth_answer_release(&auth_query->answer);
	auth_answer_release(&auth_query->question);
}

/*
 * ---- question ----
 *
 * AUTH_QUERY_FOUND: there is one; AUTH_QUERY_UNKNOWN: auth_query cannot be used for this client.
 */

static enum auth_query_result misconfigured(struct client *client, const char *reason)
{
	log_error(&client->log, "auth_query cannot be run: %s", reason);
	client_refuse(client, ERR_CONFIG, "bouncer config error");
	return AUTH_QUERY_OVER;
}

/* Finds the database on which auth_query runs for clients of this entry (NULL: of the console). */
static enum auth_query_result find_auth_database(struct client *client,
                                                 const struct config_database *entry,
                                                 struct database **database)
{
	struct clients *clients = client->clients;
	const char *name = config_auth_dbname(clients->config, entry);
	struct err err;

	if (!name && !entry)
		return AUTH_QUERY_UNKNOWN; /* the query cannot run in the console's database */
	if (name && strcmp(name, CONFIG_CONSOLE_DATABASE) == 0)
		return misconfigured(client, "auth_dbname is the console's name");
	*database = pools_database(clients->pools, name ? name : client->login->database);
	if (!*database && !name)
		return AUTH_QUERY_UNKNOWN;
	if (!*database) {
		err_set(&err, ERR_CONFIG, "auth_dbname \"%s\" is not in [databases]", name);
		return misconfigured(client, err.text);
	}
	if (name && (*database)->is_disabled) {
		client_refuse(client, ERR_CANNOT_CONNECT,
		              "authentication database \"%s\" is disabled", (*database)->name);
		return AUTH_QUERY_OVER;
	}
	return AUTH_QUERY_FOUND;
}

/* The entry of the database that the client asked for. NULL: the console, or no such database. */
static const struct config_database *auth_query_entry_of(const struct client *client)
{
	return admit_is_console(client)
	           ? NULL
	           : config_database_of(client->clients->config, client->login->database);
}

/* AUTH_QUERY_FOUND: the caller owns *question, which runs on *database. */
static enum auth_query_result make_question(struct client *client, struct database **database,
                                            struct auth_answer **question)
{
	const struct config *config = client->clients->config;
	const struct config_database *entry = auth_query_entry_of(client);
	const char *auth_user = config_auth_user(config, entry);
	const char *query = config_auth_query(config, entry);
	enum auth_query_result result;

	if (!entry && !admit_is_console(client))
		return AUTH_QUERY_UNKNOWN; /* do not reveal that there is no such database */
	if (!auth_user || !query)
		return AUTH_QUERY_UNKNOWN;
	result = find_auth_database(client, entry, database);
	if (result != AUTH_QUERY_FOUND)
		return result;
	*question =
	    auth_answer_new((*database)->name, auth_user, query, auth_query_claimed(client));
	if (*question)
		return AUTH_QUERY_FOUND;
	client_refuse_for(client, CLOSE_MEMORY);
	return AUTH_QUERY_OVER;
}

/* ---- answer ---- */

/* Makes `name` the client's user. false: the client was refused. */
static bool rename_user(struct client *client, const char *name)
{
	struct client_login *login = client->login;
	char *copy = strdup(name);

	if (!copy)
		return client_refuse_for(client, CLOSE_MEMORY);
	free(login->user);
	login->user = copy;
	return !admit_is_console(client) || admit_console_role(client);
}

/* false: the client was refused. */
static bool adopt(struct client *client)
{
	const struct clients *clients = client->clients;
	const char *auth_user = config_auth_user(clients->config, auth_query_entry_of(client));
	struct auth_query *auth_query = &client->login->auth_query;
	const char *name = auth_query->answer->name;

	if (!name || strcmp(name, client->login->user) == 0)
		return true;
	if (strcmp(name, auth_query_claimed(client)) != 0 &&
	    (users_find(clients->users, name) || text_same(auth_user, name))) {
		log_error(&client->log,
		          "auth_query returned for user %s the name %s, which is in auth_file or "
		          "is auth_user: refused",
		          auth_query_claimed(client), name);
		auth_query->is_refused = true;
		return true;
	}
	return rename_user(client, name);
}

static void take_answer(struct auth_query *auth_query, struct auth_answer *answer,
                        const struct err *err)
{
	struct client_login *login = container_of(auth_query, struct client_login, auth_query);
	struct client *client = login->client;

	if (err->code != ERR_NONE) {
		client_fatal(client, err);
		return;
	}
	auth_query->answer = auth_answer_hold(answer);
	client_enter(client, CLIENT_AUTHENTICATION);
	if (adopt(client))
		authentication_go_on(client);
}

static enum auth_query_result ask_for(struct client *client, struct database *database,
                                      struct auth_answer *question)
{
	struct auth_query *auth_query = &client->login->auth_query;
	struct err err;

	if (!auth_query->question)
		auth_query->question = auth_answer_hold(question);
	auth_answer_release(&auth_query->answer);
	auth_query->is_refused = false;
	auth_query->answer =
	    auth_cache_find(logins_of(client->clients), question, client_now(client));
	auth_query->is_kept = auth_query->answer != NULL;
	if (auth_query->is_kept)
		return adopt(client) ? AUTH_QUERY_RENAMED : AUTH_QUERY_OVER;
	if (await_answer(client, database, question, &err))
		return AUTH_QUERY_LOOKING;
	client_fatal(client, &err);
	return AUTH_QUERY_OVER;
}

enum auth_query_result auth_query_find(struct client *client, struct secret *secret)
{
	const struct user *user = users_find(client->clients->users, client->login->user);
	const struct auth_query *auth_query = &client->login->auth_query;
	struct auth_answer *question;
	struct database *database;
	enum auth_query_result result;

	if (user) {
		*secret = user->secret;
		return AUTH_QUERY_FOUND;
	}
	result = make_question(client, &database, &question);
	if (result != AUTH_QUERY_FOUND)
		return result;
	if (!auth_query->answer || !auth_answer_is_for(auth_query->answer, question))
		result = ask_for(client, database, question);
	else if (auth_query->is_refused || !auth_query->answer->name)
		result = AUTH_QUERY_UNKNOWN;
	else
		*secret = users_secret_of(auth_query->answer->secret);
	auth_answer_release(&question);
	return result;
}

/* ---- after authentication ---- */

bool auth_query_holds(struct client *client)
{
	const struct client_login *login = client->login;
	const struct auth_answer *answer = login->auth_query.answer;
	const struct clients *clients = client->clients;
	const struct user *user = users_find(clients->users, login->user);
	struct auth_answer *question;
	struct database *database;
	bool is_for;

	if (auth_methods[login_config(client)->auth_type].takes_anybody ||
	    auth_methods[login->method].outside)
		return true;
	if (!answer)
		return user && auth_server_is_by(login->auth, &user->secret);
	if (login->generation == clients->generation)
		return true;
	if (user || make_question(client, &database, &question) != AUTH_QUERY_FOUND)
		return false;
	is_for = auth_answer_is_for(answer, question);
	auth_answer_release(&question);
	return is_for;
}

void auth_query_failed(struct client *client)
{
	const struct auth_query *auth_query = &client->login->auth_query;

	if (auth_query->answer && auth_query->is_kept)
		auth_cache_forget(logins_of(client->clients), auth_query->answer);
}
