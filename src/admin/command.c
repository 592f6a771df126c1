/* SPDX-License-Identifier: ISC */
/*
 * Functions that several commands use.
 */
#include "admin_priv.h"

#include <stdio.h>

#include "pgweir/base/banned.h"

bool command_not_paused(struct console_session *session, struct err *err)
{
	return !pools_are_held(session->console->with.pools) ||
	       err_set(err, ERR_STATE, "already suspended/paused");
}

bool command_database(struct console_session *session, const char *verb, struct database **database,
                      struct err *err)
{
	const struct words *words = &session->portal->request.words;

	*database = NULL;
	if (words->count < 2)
		return true;
	if (strcmp(words->argument, CONFIG_CONSOLE_DATABASE) == 0)
		return err_set(err, ERR_STATE, "cannot %s admin db: %s", verb, words->argument);
	*database = pools_database(session->console->with.pools, words->argument);
	return *database || err_set(err, ERR_NO_DATABASE, "no such database: %s", words->argument);
}

const char *command_by(const struct console_session *session, const char *command,
                       char by[HOLD_BY_SIZE])
{
	const struct client *client = session->client;
	char buffer[ADDRESS_TEXT_SIZE];

	snprintf(by, HOLD_BY_SIZE, "%s by %.63s@%s", command, client_user(client),
	         address_format_host(&client->peer, buffer, sizeof(buffer)));
	return by;
}
