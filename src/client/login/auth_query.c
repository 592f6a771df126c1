/* SPDX-License-Identifier: ISC */
/*
 * Finds the name and the secret of a client's user.
 *
 *   the name is in auth_file ------------------------------> its secret
 *   else, if auth_user is set: auth_lookup.c --> name and secret, or no such user
 *
 * Hard here: an answer of auth_query may have another name than the client. That is the
 * client's user from then on, for rules, rights and pools. But an answer cannot make a
 * client a user of auth_file, or auth_user: auth_file decides about its own users.
 */
#include "login_priv.h"

#include <stdlib.h>

#include "pgweir/base/container_of.h"

#include "auth_lookup_priv.h"

/* The use of auth_query for one client. */
struct auth_query {
	struct client *client;
	struct auth_wait wait;
	struct auth_answer *answer; /* NULL: there is none yet */
	bool is_kept;               /* the answer came from the cache: it may be out of date */
	bool is_refused;            /* the answer has a name that no client may get */
	char *claimed;              /* the name that the client sent */
};

const char *auth_query_claimed(const struct client *client)
{
	const struct auth_query *auth_query = client->login->auth_query;

	return auth_query ? auth_query->claimed : client->login->user;
}

struct users *auth_query_likeness(const struct client *client)
{
	const struct auth_query *auth_query = client->login->auth_query;
	const struct clients *clients = client->clients;

	return auth_query && auth_query->answer ? likeness_users(clients->with.likeness)
	                                        : users_hold(clients->users);
}

void auth_query_free(struct client_login *login)
{
	struct auth_query *auth_query = login->auth_query;

	login->auth_query = NULL;
	if (!auth_query)
		return;
	auth_lookups_give_up(&auth_query->wait);
	auth_answer_release(&auth_query->answer);
	free(auth_query->claimed);
	free(auth_query);
}

/* ---- question ---- */

enum asking {
	ASKING_YES,
	ASKING_NOBODY, /* auth_query cannot be used for this client */
	ASKING_OVER    /* the client was refused */
};

static enum asking misconfigured(struct client *client, const char *reason)
{
	log_error(&client->log, "auth_query cannot be run: %s", reason);
	client_refuse(client, ERR_CONFIG, "bouncer config error");
	return ASKING_OVER;
}

/* Finds the database on which auth_query runs for clients of this entry (NULL: of the console). */
static enum asking find_auth_database(struct client *client, const struct config_database *entry,
                                      struct database **database)
{
	struct clients *clients = client->clients;
	const char *name = config_auth_dbname(clients->config, entry);
	struct err err;

	if (!name && !entry)
		return ASKING_NOBODY; /* the query cannot run in the console's database */
	if (name && strcmp(name, CONFIG_CONSOLE_DATABASE) == 0)
		return misconfigured(client, "auth_dbname is the console's name");
	*database = pools_database(clients->with.pools, name ? name : client->login->database);
	if (!*database && !name)
		return ASKING_NOBODY;
	if (!*database) {
		err_set(&err, ERR_CONFIG, "auth_dbname \"%s\" is not in [databases]", name);
		return misconfigured(client, err.text);
	}
	if (name && (*database)->is_disabled) {
		client_refuse(client, ERR_CANNOT_CONNECT,
		              "authentication database \"%s\" is disabled", (*database)->name);
		return ASKING_OVER;
	}
	return ASKING_YES;
}

/* The entry of the database that the client asked for. NULL: the console, or no such database. */
static const struct config_database *auth_query_entry_of(const struct client *client)
{
	const struct config *config = client->clients->config;
	const struct config_database *entry;

	if (admit_is_console(client))
		return NULL;
	entry = config_database_find(config, client->login->database);
	return entry ? entry : config_database_auto(config);
}

static enum asking make_question(struct client *client, struct question *question)
{
	const struct config *config = client->clients->config;
	const struct config_database *entry = auth_query_entry_of(client);

	if (!entry && !admit_is_console(client))
		return ASKING_NOBODY; /* do not reveal that there is no such database */
	question->auth_user = config_auth_user(config, entry);
	question->query = config_auth_query(config, entry);
	question->user = auth_query_claimed(client);
	if (!question->auth_user || !question->query)
		return ASKING_NOBODY;
	return find_auth_database(client, entry, &question->database);
}

/* ---- answer ---- */

/* Makes `name` the client's user. false: the client was refused. */
static bool rename_user(struct client *client, const char *name)
{
	struct client_login *login = client->login;
	char *copy = strdup(name);

	if (!copy) {
		client_refuse_for(client, CLOSE_MEMORY);
		return false;
	}
	free(login->user);
	login->user = copy;
	return !admit_is_console(client) || admit_console_role(client);
}

/* Whether a client that sent another name must not become this user. */
static bool is_reserved(const struct auth_query *auth_query, const char *name)
{
	const struct clients *clients = auth_query->client->clients;
	const char *auth_user =
	    config_auth_user(clients->config, auth_query_entry_of(auth_query->client));

	return users_find(clients->users, name) || (auth_user && strcmp(auth_user, name) == 0);
}

/* Uses an answer. false: the client was refused. */
static bool adopt(struct auth_query *auth_query)
{
	struct client *client = auth_query->client;
	const char *name = auth_answer_name(auth_query->answer);

	if (!name || strcmp(name, client->login->user) == 0)
		return true;
	if (strcmp(name, auth_query->claimed) != 0 && is_reserved(auth_query, name)) {
		log_error(&client->log,
		          "auth_query returned for user %s the name %s, which is in auth_file or "
		          "is auth_user: refused",
		          auth_query->claimed, name);
		auth_query->is_refused = true;
		return true;
	}
	return rename_user(client, name);
}

static void on_answer(struct auth_wait *wait, struct auth_answer *answer, const struct err *err)
{
	struct auth_query *auth_query = container_of(wait, struct auth_query, wait);
	struct client *client = auth_query->client;

	if (!answer) {
		client_fatal(client, err);
		return;
	}
	auth_query->answer = auth_answer_hold(answer);
	auth_query->is_kept = false;
	client_enter(client, CLIENT_AUTHENTICATION);
	if (adopt(auth_query))
		client->login->on_looked_up(client);
}

/* The struct of this client, made if needed. NULL: no memory. */
static struct auth_query *auth_query_of(struct client *client)
{
	struct client_login *login = client->login;
	struct auth_query *auth_query = login->auth_query;

	if (auth_query)
		return auth_query;
	auth_query = calloc(1, sizeof(*auth_query));
	if (!auth_query)
		return NULL;
	auth_query->client = client;
	auth_query->wait.on_answer = on_answer;
	auth_query->claimed = strdup(login->user);
	if (!auth_query->claimed) {
		free(auth_query);
		return NULL;
	}
	login->auth_query = auth_query;
	return auth_query;
}

static enum auth_query_result ask(struct client *client, const struct question *question)
{
	struct auth_query *auth_query = auth_query_of(client);
	struct auth_lookups *lookups = client->clients->lookups;
	struct err err;

	if (!auth_query) {
		client_refuse_for(client, CLOSE_MEMORY);
		return AUTH_QUERY_OVER;
	}
	auth_answer_release(&auth_query->answer);
	auth_query->is_refused = false;
	switch (auth_lookups_ask(lookups, question, &auth_query->wait, &auth_query->answer, &err)) {
	case AUTH_LOOKUP_KEPT:
		auth_query->is_kept = true;
		return adopt(auth_query) ? AUTH_QUERY_RENAMED : AUTH_QUERY_OVER;
	case AUTH_LOOKUP_WAITS:
		return AUTH_QUERY_LOOKING;
	case AUTH_LOOKUP_FAILED:
		break;
	}
	client_fatal(client, &err);
	return AUTH_QUERY_OVER;
}

enum auth_query_result auth_query_find(struct client *client, struct secret *secret)
{
	const struct user *user = users_find(client->clients->users, client->login->user);
	const struct auth_query *auth_query = client->login->auth_query;
	struct question question;

	if (user) {
		*secret = user->secret;
		return AUTH_QUERY_FOUND;
	}
	switch (make_question(client, &question)) {
	case ASKING_NOBODY:
		return AUTH_QUERY_UNKNOWN;
	case ASKING_OVER:
		return AUTH_QUERY_OVER;
	case ASKING_YES:
		break;
	}
	if (!auth_query || !auth_query->answer ||
	    !auth_answer_is_for(auth_query->answer, &question))
		return ask(client, &question);
	if (auth_query->is_refused || !auth_answer_name(auth_query->answer))
		return AUTH_QUERY_UNKNOWN;
	*secret = users_secret_of(auth_answer_secret(auth_query->answer));
	return AUTH_QUERY_FOUND;
}

/* ---- after authentication ---- */

bool auth_query_holds(struct client *client)
{
	const struct client_login *login = client->login;
	const struct auth_query *auth_query = login->auth_query;
	const struct clients *clients = client->clients;
	const struct user *user = users_find(clients->users, login->user);
	struct question question;

	if (auth_methods[clients->config->auth_type].takes_anybody || login->outside)
		return true;
	if (!auth_query || !auth_query->answer)
		return user && auth_server_is_by(login->auth, &user->secret);
	if (login->generation == clients->generation)
		return true;
	return !user && make_question(client, &question) == ASKING_YES &&
	       auth_answer_is_for(auth_query->answer, &question);
}

void auth_query_failed(struct client *client)
{
	const struct auth_query *auth_query = client->login->auth_query;

	if (auth_query && auth_query->answer && auth_query->is_kept)
		auth_lookups_disown(client->clients->lookups, auth_query->answer);
}
