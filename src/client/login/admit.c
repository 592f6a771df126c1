/* SPDX-License-Identifier: ISC */
/*
 * Admits an authenticated client: counts it for its user and database, and connects it to
 * the console or to a pool.
 *
 * Hard here: user and database are looked up only now. A client that has not authenticated
 * must not cost memory or use up a limit, and a reload during the login may have changed
 * both. The same applies to the parameters of its startup packet.
 */
#include <stdlib.h>
#include <unistd.h>

#include "pgweir/config/entries.h"

#include "login_priv.h"

/* The rights of a user on the console. */
static enum console_role role_of(const struct clients *clients, const char *user)
{
	const struct config *config = clients->config;

	if (config_list_has(&config->admin_users, user))
		return CONSOLE_ADMIN;
	if (config_list_has(&config->stats_users, user) ||
	    auth_methods[config->auth_type].takes_anybody)
		return CONSOLE_STATS;
	return CONSOLE_NOBODY;
}

bool admit_is_owner(const struct client *client)
{
	return address_is_unix(&client->peer) && client->peer.un.uid == geteuid() &&
	       strcmp(client->login->user, CONFIG_CONSOLE_DATABASE) == 0;
}

bool admit_is_console(const struct client *client)
{
	return strcmp(client->login->database, CONFIG_CONSOLE_DATABASE) == 0;
}

bool admit_hold(struct client *client)
{
	struct clients *clients = client->clients;
	int limit = clients->config->max_client_conn;
	unsigned int most = limit > 0 ? (unsigned int)limit : PERMIT_NO_LIMIT;

	if (client->is_admitted || admit_is_console(client))
		return true;
	if (!broker_admit(clients->with.pools->with.broker, most)) {
		crowd_refuse(client);
		return false;
	}
	client->is_admitted = true;
	return true;
}

/* A limit on clients was met by one of this loop. */
static void note_limit(const struct clients *clients, struct limit_met *met,
                       const struct limit_event *event)
{
	limit_event_note(met, loop_now(clients->with.loop), clients->with.log, event);
}

/* The console's own database has no entry in [databases], so the global limit applies. */
static bool count_guest(struct client *client)
{
	struct clients *clients = client->clients;
	int limit = config_max_db_client_connections(clients->config, NULL);

	client->is_guest = true;
	if (++clients->guest_count <= (unsigned int)limit || limit <= 0)
		return true;
	clients->guest_limit_hits++;
	note_limit(clients, &clients->with.told->guests_met,
	           &(struct limit_event){ "max_db_client_connections", limit, "the clients",
	                                  CONFIG_CONSOLE_DATABASE, NULL });
	client_refuse_for(client, CLOSE_DATABASE_CLIENT_LIMIT);
	return false;
}

/*
 * Counts the client for its user and its database. false: a limit was exceeded, and the
 * client was refused.
 */
static bool count_in(struct client *client)
{
	const struct clients *clients = client->clients;
	const struct config *config = clients->config;
	struct database *database = client->database;
	struct role *role = client->role;
	int database_limit, user_limit;

	if (database)
		database_count_client(client->database, 1);
	client->is_exempt = client->login->console_role == CONSOLE_ADMIN;
	role_enter(client->role, client->is_exempt);
	client->is_counted = true;
	if (client->is_exempt)
		return true;
	if (client->login->console_role != CONSOLE_NOBODY && !count_guest(client))
		return false;
	database_limit = database ? config_max_db_client_connections(config, database->entry) : 0;
	user_limit = config_max_user_client_connections(config, role->entry);
	if (database_limit > 0 && share_clients(&database->share) > (unsigned int)database_limit) {
		database->client_limit_hits++;
		note_limit(clients, &database->share.tally->clients_met,
		           &(struct limit_event){ "max_db_client_connections", database_limit,
		                                  "the clients", database->name, NULL });
		client_refuse_for(client, CLOSE_DATABASE_CLIENT_LIMIT);
		return false;
	}
	if (user_limit > 0 && share_clients(&role->share) > (unsigned int)user_limit) {
		role->client_limit_hits++;
		note_limit(clients, &role->share.tally->clients_met,
		           &(struct limit_event){ "max_user_client_connections", user_limit,
		                                  "the clients", NULL, role->name });
		client_refuse_for(client, CLOSE_USER_CLIENT_LIMIT);
		return false;
	}
	return true;
}

bool admit_console_role(struct client *client)
{
	struct client_login *login = client->login;

	login->console_role =
	    admit_is_owner(client) ? CONSOLE_ADMIN : role_of(client->clients, login->user);
	if (login->console_role != CONSOLE_NOBODY)
		return true;
	client_refuse_for(client, CLOSE_CONSOLE_USER);
	return false;
}

/*
 * Stores the parameters of the startup packet as the client's parameters. false: the client
 * was refused.
 */
static bool settle_parameters(struct client *client)
{
	struct buf *parameters = &client->login->parameters;

	if (buf_ok(parameters) &&
	    params_add_text(client->clients->with.params, &client->params, buf_bytes(parameters))) {
		buf_free(parameters);
		return true;
	}
	client_refuse(client, ERR_LIMIT, "startup parameters are too large");
	return false;
}

bool admit_count(struct client *client)
{
	struct pools *pools = client->clients->with.pools;
	const struct client_login *login = client->login;

	/* Authentication has ended: input from here on contains no password. */
	client->stream.is_secret = false;
	client->role = role_of_name(pools, login->user);
	if (!client->role) {
		client_refuse_for(client, CLOSE_MEMORY);
		return false;
	}
	if (!admit_is_console(client))
		client->database = pools_database(pools, login->database);
	return count_in(client) && settle_parameters(client);
}

void admit_enter(struct client *client)
{
	struct clients *clients = client->clients;
	struct client_login *login = client->login;

	if (login->console_role != CONSOLE_NOBODY) {
		console_begin(client);
	} else if (!client->database) {
		log_info(&client->log, "login failed: db=%s user=%s", login->database, login->user);
		client_refuse_with(client, CLOSE_NO_DATABASE, "no such database: %s",
		                   login->database);
	} else if (client->database->is_disabled) {
		client_refuse_with(client, CLOSE_DATABASE_DISABLED, "database \"%s\" is disabled",
		                   client->database->name);
	} else if (clients->drain.is_on) {
		client_refuse_for(client, CLOSE_DRAINING);
	} else if (clients->is_shutting_down && client->id >= clients->shutdown_id) {
		client_refuse_for(client, CLOSE_POOLER_SHUTDOWN);
	} else if (unauthenticated_is_short(client)) {
		unauthenticated_refuse(client);
	} else if (auth_methods[clients->config->auth_type].takes_anybody &&
	           !client->database->entry->user) {
		client_refuse(client, ERR_CONFIG, "bouncer config error");
	} else {
		stream_defer(&client->stream);
		welcome_begin(client);
	}
}
