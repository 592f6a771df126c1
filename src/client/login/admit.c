/* SPDX-License-Identifier: ISC */
/*
 * Admits an authenticated client: counts it for its user and database, and connects it to
 * the console or to a pool, with the welcome.
 *
 * Hard here: user and database are looked up only now. A client that has not authenticated
 * must not cost memory or use up a limit, and a reload during the login may have changed
 * both. The same applies to the parameters of its startup packet.
 */
#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "pgweir/auth/digest.h"
#include "pgweir/base/probes.h"
#include "pgweir/base/version.h"
#include "pgweir/client/client.h"
#include "pgweir/config/entries.h"
#include "pgweir/pgwire/message.h"
#include "pgweir/pgwire/startup.h"

#include "login_priv.h"

/*
 * ---- too many clients ----
 *
 * Because max_client_conn is reached. The log names the user with most clients.
 *
 * Hard here: the refused client has not authenticated, so its error contains the number of
 * clients and no user. There may be thousands of refused clients per second, so the user
 * with most clients is searched once for an event, among the first ROLES_MAX users.
 */

#define ROLES_MAX 10000

/* The user with most clients, of those with a client in this loop. NULL: there are no clients. */
static const struct role *largest(const struct clients *clients)
{
	const struct role *role, *found = NULL;
	unsigned int left = ROLES_MAX;

	TAILQ_FOREACH (role, &clients->pools->roles, node) {
		if (role->client_count && (!found || role->cap.share.tally->client_count >
		                                         found->cap.share.tally->client_count))
			found = role;
		if (--left == 0)
			break;
	}
	return found;
}

static void log_crowd(struct clients *clients, const char *detail)
{
	struct logger log = { clients->pools->shared.log, NULL };
	const struct role *role;

	if (!limit_event_begins(&clients->shared->told.all_met, loop_now(clients->loop)))
		return;
	role = largest(clients);
	if (role)
		log_kept(&log, LOG_LEVEL_WARNING, LIMIT_EVENT_KIND,
		         "max_client_conn is reached: %s; user %s has most of them: %u", detail,
		         role->name, role->cap.share.tally->client_count);
	else
		log_kept(&log, LOG_LEVEL_WARNING, LIMIT_EVENT_KIND,
		         "max_client_conn is reached: %s; no user is logged in", detail);
}

/* The detail is in *err. */
static void refuse_crowd(struct client *client, struct err *err)
{
	err_hint(err, "Close clients that are idle, or raise max_client_conn.");
	client_fatal(client, err);
}

static void crowd_refuse(struct client *client)
{
	struct clients *clients = client->clients;
	struct err err;

	clients->limit_hits++;
	err_close(&err, CLOSE_CLIENT_LIMIT);
	err_detail(&err, "%u of %d", clients->pools->with.broker->admitted_count,
	           clients->config->max_client_conn);
	log_crowd(clients, err.detail);
	refuse_crowd(client, &err);
}

/* Refuses a client because the max_client_conn of its listener is reached. */
static void gate_refuse(struct client *client)
{
	struct gate *gate = client_gate(client);
	int most = gate->rules.entry->max_client_conn;
	struct err err;

	limit_event_note(&gate->full_met, client_now(client), client->clients->pools->shared.log,
	                 &(struct limit_event){ .limit = "max_client_conn of a listener",
	                                        .value = most,
	                                        .counted = "the clients" });
	err_close(&err, CLOSE_CLIENT_LIMIT);
	err_detail(&err, "Listener %s: %u of %d", gate->name, atomic_load(&gate->client_count),
	           most);
	refuse_crowd(client, &err);
}

/*
 * ---- open files ----
 *
 * Limits the file descriptors of connections that have not logged in.
 *
 * A client can open connections and send nothing for client_login_timeout. So when file
 * descriptors run short, each new connection closes the oldest of those, and the last
 * descriptors are kept for servers, consoles and cancel requests. The kernel always assigns
 * the lowest free descriptor, so a descriptor of `files_for_clients` or more shows that all
 * lower ones are in use. While a connection that has not logged in has such a descriptor,
 * descriptors count as short: the next connection may get a lower one that was just freed.
 */

#define FILES_ADVICE "raise the limit on open files (ulimit -n; systemd: LimitNOFILE=)"

static bool is_high(const struct clients *clients, int fd)
{
	return clients->shared->files_for_clients && fd >= clients->shared->files_for_clients;
}

void unauthenticated_add(struct client *client)
{
	struct clients *clients = client->clients;
	struct client_login *login = client->login;

	TAILQ_INSERT_TAIL(&clients->unauthenticated, login, unauthenticated);
	login->client = client;
	login->is_high = is_high(clients, client->stream.watch.fd);
	clients->high_count += login->is_high;
	if (clients->high_count && TAILQ_FIRST(&clients->unauthenticated) != login)
		clients_evict_oldest(clients);
}

static void report_shortage(struct clients *clients)
{
	struct logger log = { clients->pools->shared.log, NULL };

	if (limit_event_begins(&clients->shared->told.files_met, loop_now(clients->loop)))
		log_kept(&log, LOG_LEVEL_WARNING, LIMIT_EVENT_KIND,
		         "running out of open files: for each new connection, the oldest one that "
		         "has not logged in is closed; " FILES_ADVICE
		         ", or lower client_login_timeout");
}

usec_t clients_oldest_login(const struct clients *clients)
{
	const struct client_login *oldest = TAILQ_FIRST(&clients->unauthenticated);

	return oldest ? oldest->client->connected_at : 0;
}

bool clients_evict_oldest(struct clients *clients)
{
	struct client_login *oldest = TAILQ_FIRST(&clients->unauthenticated);

	report_shortage(clients);
	if (!oldest)
		return false;
	clients->files_hits++;
	client_close(oldest->client, CLOSE_FILES_EVICTED);
	return true;
}

int clients_files_used(void)
{
	int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);

	if (fd >= 0)
		close(fd);
	return fd < 0 ? INT_MAX : fd;
}

bool unauthenticated_is_short(const struct client *client)
{
	/* Lower descriptors may have been freed since: find the lowest free one now. */
	return is_high(client->clients, client->stream.watch.fd) &&
	       is_high(client->clients, clients_files_used());
}

static void unauthenticated_refuse(struct client *client)
{
	struct clients *clients = client->clients;
	struct err err;

	clients->files_hits++;
	report_shortage(clients);
	err_close(&err, CLOSE_FILES_LIMIT);
	err_detail(&err, "%d open files of pgweir may belong to clients.",
	           clients->shared->files_for_clients);
	err_hint(&err, "To the administrator: " FILES_ADVICE ".");
	client_fatal(client, &err);
}

bool admit_is_owner(const struct client *client)
{
	return address_is_unix(&client->peer) && client->peer.un.uid == geteuid() &&
	       strcmp(client->login->user, CONFIG_CONSOLE_DATABASE) == 0;
}

/* Whether the client's listener is for this database. */
static bool has_database(const struct client *client)
{
	const struct config_listener *entry = login_rules(client)->entry;

	return !entry || config_listener_has(entry, client->login->database);
}

bool admit_is_console(const struct client *client)
{
	return strcmp(client->login->database, CONFIG_CONSOLE_DATABASE) == 0 &&
	       has_database(client);
}

bool admit_hold(struct client *client)
{
	struct clients *clients = client->clients;
	int limit = clients->config->max_client_conn;
	unsigned int most = limit > 0 ? (unsigned int)limit : PERMIT_NO_LIMIT;

	if (client->is_admitted || admit_is_console(client))
		return true;
	if (!count_below(&clients->pools->with.broker->admitted_count, most)) {
		crowd_refuse(client);
		return false;
	}
	if (!gate_admit(client_gate(client))) {
		clients->pools->with.broker->admitted_count--;
		gate_refuse(client);
		return false;
	}
	client->is_admitted = true;
	return true;
}

/* A limit on clients was met by one of this loop. */
static void note_limit(const struct clients *clients, struct limit_met *met,
                       const struct limit_event *event)
{
	limit_event_note(met, loop_now(clients->loop), clients->pools->shared.log, event);
}

/* The console's own database has no entry in [databases], so the global limit applies. */
static bool count_guest(struct client *client)
{
	struct clients *clients = client->clients;
	int limit = config_max_db_client_connections(clients->config, NULL);

	if (++clients->guest_count <= (unsigned int)limit || limit <= 0)
		return true;
	clients->guest_limit_hits++;
	note_limit(clients, &clients->shared->told.guests_met,
	           &(struct limit_event){ "max_db_client_connections", limit, "the clients",
	                                  CONFIG_CONSOLE_DATABASE, NULL });
	return client_refuse_for(client, CLOSE_DATABASE_CLIENT_LIMIT);
}

/* Whether a database or user has more clients than its limit; counts and notes that. */
static bool exceeds(const struct clients *clients, const struct share *share, uint64_t *hits,
                    const struct limit_event *event)
{
	if (event->value <= 0 || share->tally->client_count <= (unsigned int)event->value)
		return false;
	++*hits;
	note_limit(clients, &share->tally->clients_met, event);
	return true;
}

static bool count_in(struct client *client)
{
	static const enum client_count counts[] = { CLIENT_COUNTED, CLIENT_COUNTED_AS_GUEST,
		                                    CLIENT_COUNTED_AS_EXEMPT };
	const struct clients *clients = client->clients;
	const struct config *config = clients->config;
	struct database *database = client->database;
	struct role *role = client->role;

	if (database)
		database_count_client(client->database, 1);
	client->count = counts[client->login->console_role];
	role_enter(client->role, client->count == CLIENT_COUNTED_AS_EXEMPT);
	if (client->count == CLIENT_COUNTED_AS_EXEMPT)
		return true;
	if (client->count == CLIENT_COUNTED_AS_GUEST && !count_guest(client))
		return false;
	if (database && exceeds(clients, &database->cap.share, &database->client_limit_hits,
	                        &(struct limit_event){
				    "max_db_client_connections",
				    config_max_db_client_connections(config, database->entry),
				    "the clients", database->name, NULL }))
		return client_refuse_for(client, CLOSE_DATABASE_CLIENT_LIMIT);
	if (exceeds(clients, &role->cap.share, &role->client_limit_hits,
	            &(struct limit_event){ "max_user_client_connections",
	                                   config_max_user_client_connections(config, role->entry),
	                                   "the clients", NULL, role->name }))
		return client_refuse_for(client, CLOSE_USER_CLIENT_LIMIT);
	return true;
}

bool admit_console_role(struct client *client)
{
	const struct config *config = client->clients->config;
	struct client_login *login = client->login;

	if (admit_is_owner(client) || config_list_has(&config->admin_users, login->user))
		login->console_role = CONSOLE_ADMIN;
	else if (config_list_has(&config->stats_users, login->user) ||
	         auth_methods[login_config(client)->auth_type].takes_anybody)
		login->console_role = CONSOLE_STATS;
	else
		return client_refuse_for(client, CLOSE_CONSOLE_USER);
	return true;
}

bool admit_count(struct client *client)
{
	struct pools *pools = client->clients->pools;
	struct client_login *login = client->login;
	struct buf *parameters = &login->parameters;

	/* Authentication has ended: input from here on contains no password. */
	client->stream.is_secret = false;
	client->role = role_of_name(pools, login->user);
	if (!client->role)
		return client_refuse_for(client, CLOSE_MEMORY);
	if (client->borrower.gate)
		client->borrower.rules =
		    pool_rules_number(client_gate(client)->rules.entry->pool_mode);
	if (!admit_is_console(client) && has_database(client))
		client->database = pools_database(pools, login->database);
	if (!count_in(client))
		return false;
	/* Only now are the parameters of the startup packet its own. */
	if (!buf_ok(parameters) ||
	    !params_add_text(pools->shared.params, &client->params, buf_bytes(parameters)))
		return client_refuse(client, ERR_LIMIT, "startup parameters are too large");
	buf_free(parameters);
	return true;
}

/*
 * ---- the welcome ----
 *
 * A pool stores what one of its servers reported, so later logins need no server.
 */

/* Gives a client its cancel key. false: no memory; the client was refused. */
static bool give_key(struct client *client)
{
	struct clients *clients = client->clients;
	bool is_long = startup_agreed(client->login->minor) == PROTOCOL_3_2;
	unsigned char drawn[CANCEL_KEY_LONG_SIZE];
	struct bytes key = bytes_of(drawn, is_long ? CANCEL_KEY_LONG_SIZE : CANCEL_KEY_SIZE);
	const struct peers *peers = clients->pools->with.peers;
	struct address own = { 0 };
	bool is_added = false;

	do {
		if (!digest_random(drawn, key.count))
			break;
		drawn[0] &= 0x7f;
		if (clients->config->peer_id)
			cancel_key_sign(drawn, clients->config->peer_id);
		if (clients->keys.shared)
			cancel_key_set_loop(drawn, clients->keys.loop_number,
			                    clients->keys.shared->loop_count);
		/* For peers_dns: the owner's address is the one at which it was reached. */
		if (peers) {
			address_of_self(&own, client->stream.watch.fd, 0);
			peer_pool_seal_key(peers, drawn, key.count, &own);
		}
		is_added = !cancel_keys_find(&clients->keys, key);
	} while (!is_added);
	is_added = is_added && cancel_keys_add(&clients->keys, client, key);
	explicit_bzero(drawn, sizeof(drawn));
	if (!is_added)
		client_refuse_for(client, CLOSE_MEMORY);
	return is_added;
}

void welcome_negotiate(struct client *client)
{
	unsigned int minor = client->login->minor;
	const struct buf *unknown = &client->login->unknown;
	uint32_t agreed = startup_agreed(minor);
	struct buf out = { 0 };

	if (agreed == PROTOCOL_3_0 + minor && unknown->count == 0)
		return;
	message_negotiate(&out, agreed, buf_bytes(unknown));
	out.is_broken |= unknown->is_broken;
	client_send_all(client, &out);
}

#define BEHIND_GREETING 64 /* bytes that usually follow it: BackendKeyData, ReadyForQuery */

/*
 * Prefix of pgweir's own parameters. A server that is itself a pooler reports such names
 * too; these are not forwarded.
 */
#define OWN_PREFIX "pgbouncer."

static bool is_own(const char *name)
{
	return strncmp(name, OWN_PREFIX, sizeof(OWN_PREFIX) - 1) == 0;
}

/* Parameters that describe this pool, for drivers that look for them. */
static void add_about(struct buf *out, const struct pool *pool, enum pool_mode mode)
{
	char count[16];

	snprintf(count, sizeof(count), "%d", pool->pools->config->max_prepared_statements);
	message_parameter(out, OWN_PREFIX "version", VERSION_COMPATIBLE);
	message_parameter(out, OWN_PREFIX "pool_mode", config_pool_modes[mode]);
	message_parameter(out, OWN_PREFIX "max_prepared_statements", count);
}

/* Adds what the server reported, except tracked parameters and those of OWN_PREFIX. */
static void add_reported(struct buf *out, const struct pool *pool, const struct params *params)
{
	struct bytes list = buf_bytes(&pool->welcome);
	const char *name, *value;

	while (bytes_take_text(&list, &name) && bytes_take_text(&list, &value)) {
		const char *own = params_find(params, name);

		if (!tracked_find(pool->pools->config, name) && !is_own(name))
			message_parameter(out, name, own ? own : value);
	}
}

static void add_tracked(struct buf *out, const struct pool *pool, const struct params *params)
{
	const char *name;

	for (size_t i = 0; (name = tracked_at(pool->pools->config, i)); i++) {
		const char *own = params_find(params, name);
		const char *value = params_find(pool->baseline, name);

		/* A tracked name may be listed in track_extra_parameters again: send it once. */
		if (value && tracked_find(pool->pools->config, name) == name)
			message_parameter(out, name, own ? own : value);
	}
}

/*
 * The parameters that a client gets. The next client usually has the same ones, so the pool
 * caches the messages.
 */
static struct bytes greet(struct client *client, const struct params *params)
{
	struct pool *pool = client->borrower.pool;
	uint8_t rules = client->borrower.rules;
	struct buf *greeting = &pool->greeting;

	if (greeting->count && pool->greeting_for == params && pool->greeting_rules == rules)
		return buf_bytes(greeting);
	buf_free(greeting);
	params_release(pool->pools->shared.params, &pool->greeting_for);
	message_auth(greeting, AUTH_OK, bytes_of("", 0));
	add_reported(greeting, pool, params);
	add_tracked(greeting, pool, params);
	add_about(greeting, pool, client_rules(client)->mode);
	pool->greeting_rules = rules;
	pool->greeting_for = params_hold(params);
	return buf_bytes(greeting);
}

/* Completes the welcome that `out` begins, and sends it. The client enters `next`. */
static void say(struct client *client, struct buf *out, enum client_state next)
{
	const char *notice = client->clients->config->login_notify_message;
	struct pool *pool = client->borrower.pool;
	usec_t now = client_now(client);

	if (!give_key(client))
		return;
	message_key(out, client_key(client));
	if (*notice)
		message_notice(
		    out,
		    &(struct report){ .severity = "NOTICE", .sqlstate = "00000", .text = notice });
	message_ready(out, 'I');
	client_login_free(client);
	timer_clear(&client->timer);
	client_enter(client, next);
	pool->stats.client_login_count++;
	latency_note(&pool->latency, &pool->pools->latency, LATENCY_CLIENT_LOGIN,
	             now - client->connected_at, now);
	PROBE_CLIENT_LOGIN(client->id, client_database(client), client_user(client),
	                   now - client->connected_at);
	if (!buf_ok(out))
		client_close(client, CLOSE_NO_GREETING);
	else if (client_send(client, buf_bytes(out)) && next == CLIENT_IDLE)
		client_idle_begin(client);
	if (client->state == next)
		stream_want(&client->stream,
		            stream_unsent(&client->stream) ? WANT_NOTHING : WANT_INPUT);
}

static void welcome_send(struct client *client)
{
	struct pool *pool = client->borrower.pool;
	struct bytes greeting = greet(client, client->params);
	struct buf out = { 0 };

	buf_reserve(&out, greeting.count + BEHIND_GREETING);
	buf_add(&out, greeting.at, greeting.count);
	if (!buf_ok(&pool->greeting)) {
		pool_forget_greeting(pool);
		out.is_broken = true;
	}
	say(client, &out, CLIENT_IDLE);
	buf_free(&out);
}

/* ---- what PostgreSQL makes of the client's parameters ---- */

/* Any application_name is taken as it is. */
static const char name_of_client[] = "application_name";

/* The client has the same parameters as another one: PostgreSQL would spell them so. */
static void respell(struct client *client, const struct params *told)
{
	struct params_table *table = client->clients->pools->shared.params;
	const struct params *old = client->params;

	params_release(table, &client->startup);
	client->startup = params_hold(told);
	params_change(table, &client->startup, name_of_client, params_find(old, name_of_client));
	client->params = params_hold(client->startup);
	params_release(table, &old);
}

void welcome_try(struct client *client)
{
	struct params_table *table = client->clients->pools->shared.params;
	const struct pool *pool = client->borrower.pool;
	const struct params *asked = params_hold(client->startup);

	params_change(table, &asked, name_of_client, NULL);
	if (params_count(asked) && asked == pool->tried.asked) {
		respell(client, pool->tried.told);
		welcome_send(client);
	} else if (!params_count(asked) || !pool_take(&client->borrower)) {
		welcome_send(client);
	} else {
		if (client->state != CLIENT_NEWCOMER)
			client_enter(client, CLIENT_NEWCOMER);
		client_login_begin(client);
		if (pool_prepare(&client->borrower, client->params, false))
			welcome_tried(client);
	}
	params_release(table, &asked);
}

void welcome_tried(struct client *client)
{
	struct params_table *table = client->clients->pools->shared.params;
	const struct server *server = client->borrower.server;
	struct pool *pool = client->borrower.pool;
	const char *name, *value;

	params_release(table, &pool->tried.asked);
	params_release(table, &pool->tried.told);
	pool->tried.asked = params_hold(client->startup);
	params_change(table, &pool->tried.asked, name_of_client, NULL);
	pool->tried.told = params_hold(pool->tried.asked);
	for (size_t i = 0; (name = tracked_at(pool->pools->config, i)); i++) {
		value = server_value(server, server->session.params, name);
		if (value && params_find(pool->tried.asked, name))
			params_change(table, &pool->tried.told, name, value);
	}
	respell(client, pool->tried.told);
	pool_return(&client->borrower);
	welcome_send(client);
}

/* Whether an error is about the parameters, and not about the server or its state. */
static bool is_about_parameters(const struct err *err)
{
	static const char *const others[] = { "08", "53", "57", "58", "XX" };

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (strncmp(err->sqlstate, others[i], 2) == 0)
			return false;
	}
	return true;
}

void welcome_lost(struct client *client, const struct err *err)
{
	if (is_about_parameters(err))
		client_fatal(client, err);
	else
		welcome_send(client); /* its first statement tries them again */
}

void welcome_send_dedicated(struct client *client)
{
	const struct params *reported = client->borrower.server->session.baseline;
	struct buf out = { 0 };

	message_auth(&out, AUTH_OK, bytes_of("", 0));
	PARAMS_EACH (name, value, reported) {
		if (!is_own(name))
			message_parameter(&out, name, value);
	}
	add_about(&out, client->borrower.pool, POOL_MODE_SESSION);
	say(client, &out, CLIENT_ACTIVE);
	buf_free(&out);
}

/* Replication: the client's dedicated server must log in first. */
static void ask_own(struct client *client)
{
	struct client_login *login = client->login;
	struct err err;

	login->wish = (struct server_wish){
		.replication = (enum replication)client->replication,
		.params = client->params,
		.options = login->options,
	};
	if (!pool_ask_dedicated(&client->borrower, &login->wish, &err)) {
		client_turn_away(client, &err);
		return;
	}
	client_enter(client, CLIENT_NEWCOMER);
	client_newcomer_begin(client);
}

/*
 * The credentials of the client may also log in to servers as the same user. Not needed if
 * the database has a fixed user.
 */
static void learn_secret(struct client *client)
{
	const struct auth_server *entry = client->login->auth;
	const struct credentials *shown;

	if (client->database->entry->user)
		return;
	shown = auth_server_credentials(entry);
	if (shown)
		pool_learn(client->borrower.pool, shown);
	credentials_release(&shown);
}

/* Sends the welcome when the pool knows it; replication: when its server has logged in. */
static void welcome_begin(struct client *client)
{
	struct pool *pool = pools_pool(client->database, client->role->name);
	struct err err;

	if (!pool) {
		client_refuse(client, ERR_MEMORY, "no memory for pool");
		return;
	}
	client->startup = params_hold(client->params);
	pool_join(pool, &client->borrower);
	learn_secret(client);
	auth_server_free(&client->login->auth); /* frees secrets early */
	if (client->replication || !pool->has_welcome)
		client_hurry(client);
	if (client->replication) {
		ask_own(client);
		return;
	}
	if (pool->has_welcome) {
		welcome_try(client);
		return;
	}
	if (!pool_await_welcome(&client->borrower, &err)) {
		client_turn_away(client, &err);
		return;
	}
	client_enter(client, CLIENT_NEWCOMER);
	client_newcomer_begin(client);
}

/* ---- or the console ---- */

void console_begin(struct client *client)
{
	struct clients *clients = client->clients;
	enum console_role role = client->login->console_role;

	if (!give_key(client))
		return;
	client_login_free(client);
	timer_clear(&client->timer);
	client_enter(client, CLIENT_CONSOLE);
	client->console = clients->shared->door->open(clients->shared->door->arg, client, role);
	if (client->state != CLIENT_CONSOLE)
		return;
	if (client->console)
		stream_want(&client->stream, WANT_INPUT);
	else
		client_close(client, CLOSE_MEMORY);
}

bool console_input(struct client *client, struct bytes in)
{
	const struct console_door *door = client->clients->shared->door;

	while (in.count && !client->request_at) {
		struct frame frame;
		enum wire_result result = frame_peek(in, CONSOLE_MESSAGE_MAX, &frame);

		if (result == WIRE_BAD)
			return client_refuse_for(client, CLOSE_BAD_HEADER);
		if (result == WIRE_MORE || in.count < frame.length)
			break;
		client->request_at = client_now(client);
		if (door->message(client->console, frame.type, frame_body(in, &frame)))
			client->request_at = 0;
		if (client->state != CLIENT_CONSOLE)
			return false;
		in = bytes_skip(in, frame.length);
	}
	if (!stream_keep(&client->stream, in))
		return client_close(client, CLOSE_MEMORY);
	return stream_want(&client->stream, client->request_at ? WANT_END : WANT_INPUT) &&
	       !client->request_at;
}

bool client_console_send(struct client *client, struct bytes bytes)
{
	/* The loop detects a broken connection: the session is in the middle of its work. */
	if (client->state != CLIENT_CONSOLE || client->stream.error)
		return true;
	if (!stream_send(&client->stream, bytes))
		return true;
	return stream_unsent(&client->stream) == 0;
}

void client_console_next(struct client *client)
{
	client->request_at = 0;
	if (client->state == CLIENT_CONSOLE && stream_want(&client->stream, WANT_INPUT))
		client_judge_kept(client);
}

void client_console_end(struct client *client, enum close_reason reason)
{
	struct err err;

	err_close(&err, reason);
	client_leave(client, &err);
}

int client_console_detach(struct client *client)
{
	int fd = stream_take_socket(&client->stream);

	client_close(client, CLOSE_CONSOLE_TAKEN_OVER);
	return fd;
}

/* ---- what the core calls, in CLIENT_CONSOLE ---- */

void console_flushed(struct client *client)
{
	client->clients->shared->door->on_writable(client->console);
}

bool console_cancel(struct client *client)
{
	client->clients->shared->door->cancel(client->console);
	return true;
}

void console_end(struct client *client)
{
	if (client->console)
		client->clients->shared->door->close(client->console);
	client->console = NULL;
}

/* ---- to the console, or to a pool ---- */

void admit_enter(struct client *client)
{
	struct clients *clients = client->clients;
	struct client_login *login = client->login;

	if (login->console_role != CONSOLE_NOBODY) {
		console_begin(client);
	} else if (!client->database) {
		log_info(&client->log, "login failed: db=%s user=%s", login->database, login->user);
		client_refuse(client, CLOSE_NO_DATABASE, "no such database: %s", login->database);
	} else if (client->database->is_disabled) {
		client_refuse(client, CLOSE_DATABASE_DISABLED, "database \"%s\" is disabled",
		              client->database->name);
	} else if (clients->drain.is_on) {
		client_refuse_for(client, CLOSE_DRAINING);
	} else if (clients->is_shutting_down && client->id >= clients->shutdown_id) {
		client_refuse_for(client, CLOSE_POOLER_SHUTDOWN);
	} else if (unauthenticated_is_short(client)) {
		unauthenticated_refuse(client);
	} else if (auth_methods[login_config(client)->auth_type].takes_anybody &&
	           !client->database->entry->user) {
		client_refuse(client, ERR_CONFIG, "bouncer config error");
	} else {
		stream_defer(&client->stream);
		welcome_begin(client);
	}
}
