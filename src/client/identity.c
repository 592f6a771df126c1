/* SPDX-License-Identifier: ISC */
/*
 * As whom a client is known.
 *
 *   auth_file has the name ------------------------------> its secret
 *   else, where auth_user is set: lookup.c asks auth_query --> name and secret, or nobody
 *
 * Hard here: an answer may give the user another name. That is its name from then on,
 * for rules, rights and pools; but auth_file knows its own users better, and nobody gets
 * into one of them, or into auth_user, by an answer for another name.
 */
#include "identity_priv.h"

#include <stdlib.h>

#include "lookup_priv.h"

#include "pgweir/base/banned.h"

/* What auth_query said of one client. */
struct identity {
	struct client *client;
	struct lookup_wait wait;
	struct answer *answer; /* NULL: it has not come yet */
	bool is_kept;          /* it was at hand: it may be out of date */
	bool is_refused;       /* it says who, but nobody may become that one */
	char *claimed;         /* the name that was asked for */
};

const char *identity_claimed(const struct client *client)
{
	const struct identity *identity = client->entrance->identity;

	return identity ? identity->claimed : client->entrance->user;
}

const struct users *identity_likeness(const struct client *client)
{
	const struct identity *identity = client->entrance->identity;

	return identity && identity->answer ? lookups_likeness(client->clients->lookups)
	                                    : client->clients->users;
}

void identity_free(struct client_entrance *entrance)
{
	struct identity *identity = entrance->identity;

	entrance->identity = NULL;
	if (!identity)
		return;
	lookups_give_up(&identity->wait);
	answer_release(&identity->answer);
	free(identity->claimed);
	free(identity);
}

/* ---- the question ---- */

enum asking {
	ASKING_YES,
	ASKING_NOBODY, /* there is nobody to ask */
	ASKING_OVER    /* the client has been told why not */
};

static enum asking misconfigured(struct client *client, const char *reason)
{
	log_error(&client->log, "auth_query cannot be run: %s", reason);
	client_refuse(client, ERR_CONFIG, "bouncer config error");
	return ASKING_OVER;
}

/* Where auth_query runs for clients of this entry (NULL: of the console). */
static enum asking find_place(struct client *client, const struct config_database *entry,
                              struct database **place)
{
	struct clients *clients = client->clients;
	const char *name = config_auth_dbname(clients->config, entry);
	struct err err;

	if (!name && !entry)
		return ASKING_NOBODY; /* it cannot run in the console's database */
	if (name && strcmp(name, CONFIG_CONSOLE_DATABASE) == 0)
		return misconfigured(client, "auth_dbname is the console's name");
	*place = pools_database(clients->with.pools, name ? name : client->entrance->database);
	if (!*place && !name)
		return ASKING_NOBODY;
	if (!*place) {
		err_set(&err, ERR_CONFIG, "auth_dbname \"%s\" is not in [databases]", name);
		return misconfigured(client, err.text);
	}
	if (name && (*place)->is_disabled) {
		client_refuse(client, ERR_CANNOT_CONNECT,
		              "authentication database \"%s\" is disabled", (*place)->name);
		return ASKING_OVER;
	}
	return ASKING_YES;
}

/* The entry of the database that it asks for; NULL: the console, or there is none. */
static const struct config_database *entry_of(const struct client *client)
{
	const struct config *config = client->clients->config;
	const struct config_database *entry;

	if (place_is_console(client))
		return NULL;
	entry = config_database_find(config, client->entrance->database);
	return entry ? entry : config_database_auto(config);
}

static enum asking make_question(struct client *client, struct question *question)
{
	const struct config *config = client->clients->config;
	const struct config_database *entry = entry_of(client);

	if (!entry && !place_is_console(client))
		return ASKING_NOBODY; /* and it is not told that there is no such database */
	question->auth_user = config_auth_user(config, entry);
	question->query = config_auth_query(config, entry);
	question->user = identity_claimed(client);
	if (!question->auth_user || !question->query)
		return ASKING_NOBODY;
	return find_place(client, entry, &question->database);
}

/* ---- the answer ---- */

/* It is somebody else from now on. false: it is done with. */
static bool rename_user(struct client *client, const char *name)
{
	struct client_entrance *entrance = client->entrance;
	char *copy = strdup(name);

	if (!copy) {
		client_refuse(client, ERR_MEMORY, "out of memory");
		return false;
	}
	free(entrance->user);
	entrance->user = copy;
	return !place_is_console(client) || place_take_role(client);
}

/* Nobody becomes one of these by an answer for another name. */
static bool is_reserved(const struct identity *identity, const char *name)
{
	const struct clients *clients = identity->client->clients;
	const char *auth_user = config_auth_user(clients->config, entry_of(identity->client));

	return users_find(clients->users, name) || (auth_user && strcmp(auth_user, name) == 0);
}

/* The answer has come. false: the client is done with. */
static bool adopt(struct identity *identity)
{
	struct client *client = identity->client;
	const char *name = answer_name(identity->answer);

	if (!name || strcmp(name, client->entrance->user) == 0)
		return true;
	if (strcmp(name, identity->claimed) != 0 && is_reserved(identity, name)) {
		log_error(&client->log,
		          "auth_query says that %s is %s, who is in auth_file or is auth_user: "
		          "refused",
		          identity->claimed, name);
		identity->is_refused = true;
		return true;
	}
	return rename_user(client, name);
}

static void on_answer(struct lookup_wait *wait, struct answer *answer, const struct err *err)
{
	struct identity *identity =
	    (struct identity *)((char *)wait - offsetof(struct identity, wait));
	struct client *client = identity->client;

	if (!answer) {
		client_fatal(client, err);
		return;
	}
	identity->answer = answer_hold(answer);
	identity->is_kept = false;
	client_enter(client, CLIENT_PROOF);
	if (adopt(identity))
		proof_look_done(client);
}

/* NULL: no memory. */
static struct identity *identity_of(struct client *client)
{
	struct client_entrance *entrance = client->entrance;
	struct identity *identity = entrance->identity;

	if (identity)
		return identity;
	identity = calloc(1, sizeof(*identity));
	if (!identity)
		return NULL;
	identity->client = client;
	identity->wait.on_answer = on_answer;
	identity->claimed = strdup(entrance->user);
	if (!identity->claimed) {
		free(identity);
		return NULL;
	}
	entrance->identity = identity;
	return identity;
}

static enum identity_result ask(struct client *client, const struct question *question)
{
	struct identity *identity = identity_of(client);
	struct lookups *lookups = client->clients->lookups;
	struct err err;

	if (!identity) {
		client_refuse(client, ERR_MEMORY, "out of memory");
		return IDENTITY_OVER;
	}
	answer_release(&identity->answer);
	identity->is_refused = false;
	switch (lookups_ask(lookups, question, &identity->wait, &identity->answer, &err)) {
	case LOOKUP_KEPT:
		identity->is_kept = true;
		return adopt(identity) ? IDENTITY_RENAMED : IDENTITY_OVER;
	case LOOKUP_WAITS:
		proof_look(client);
		return IDENTITY_LOOKING;
	case LOOKUP_FAILED:
		break;
	}
	client_fatal(client, &err);
	return IDENTITY_OVER;
}

enum identity_result identity_find(struct client *client, struct secret *secret)
{
	const struct user *user = users_find(client->clients->users, client->entrance->user);
	const struct identity *identity = client->entrance->identity;
	struct question question;

	if (user) {
		*secret = user->secret;
		return IDENTITY_FOUND;
	}
	switch (make_question(client, &question)) {
	case ASKING_NOBODY:
		return IDENTITY_UNKNOWN;
	case ASKING_OVER:
		return IDENTITY_OVER;
	case ASKING_YES:
		break;
	}
	if (!identity || !identity->answer || !answer_is_for(identity->answer, &question))
		return ask(client, &question);
	if (identity->is_refused || !answer_name(identity->answer))
		return IDENTITY_UNKNOWN;
	*secret = secret_of(answer_secret(identity->answer));
	return IDENTITY_FOUND;
}

/* ---- afterwards ---- */

bool identity_holds(struct client *client)
{
	const struct client_entrance *entrance = client->entrance;
	const struct identity *identity = entrance->identity;
	const struct clients *clients = client->clients;
	const struct user *user = users_find(clients->users, entrance->user);
	struct question question;

	if (clients->config->auth_type == AUTH_TYPE_ANY || entrance->outside)
		return true;
	if (!identity || !identity->answer)
		return user && entry_is_by(entrance->entry, &user->secret);
	if (entrance->generation == clients->generation)
		return true;
	return !user && make_question(client, &question) == ASKING_YES &&
	       answer_is_for(identity->answer, &question);
}

void identity_failed(struct client *client)
{
	const struct identity *identity = client->entrance->identity;

	if (identity && identity->answer && identity->is_kept)
		lookups_disown(client->clients->lookups, identity->answer);
}
