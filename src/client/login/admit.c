/* SPDX-License-Identifier: ISC */
/*
 * Admits an authenticated client: counts it for its user and database, and connects it to
 * the console or to a pool.
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

#include "pgweir/config/entries.h"

#include "login_priv.h"

/*
 * ---- too many clients ----
 *
 * Refuses a client because max_client_conn is reached. The log names the user with most
 * clients.
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

static void say(struct clients *clients, const char *detail)
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

/* Refuses a client because max_client_conn is reached. */
static void crowd_refuse(struct client *client)
{
	struct clients *clients = client->clients;
	struct err err;

	clients->limit_hits++;
	err_close(&err, CLOSE_CLIENT_LIMIT);
	err_detail(&err, "%u of %d", broker_admitted(clients->pools->with.broker),
	           clients->config->max_client_conn);
	say(clients, err.detail);
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
	if (client->borrower.gate && !gate_admit(client_gate(client))) {
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

/*
 * Counts the client for its user and its database. false: a limit was exceeded, and the
 * client was refused.
 */
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
