/* SPDX-License-Identifier: ISC */
/*
 * Functions that several commands use.
 */
#include "admin_priv.h"

#include <stdio.h>

#include "pgweir/base/banned.h"

bool command_not_paused(struct console_session *session, struct err *err)
{
	return !pools_are_held(console_pools(session->console)) ||
	       err_set(err, ERR_STATE, "already suspended/paused");
}

/* false: no such database, or no memory. */
static bool is_in_all_lanes(const struct lanes *lanes, const char *name)
{
	const struct lane *lane;
	bool is_there = true;

	lanes_hold(lanes);
	LANES_EACH(lane, lanes)
	is_there &= pools_database(lane->pools, name) != NULL;
	lanes_release(lanes);
	return is_there;
}

bool command_database(struct console_session *session, const char *verb, const char **database,
                      struct err *err)
{
	const struct words *words = &session->portal->request.words;

	*database = NULL;
	if (words->count < 2)
		return true;
	if (strcmp(words->argument, CONFIG_CONSOLE_DATABASE) == 0)
		return err_set(err, ERR_STATE, "cannot %s admin db: %s", verb, words->argument);
	*database = words->argument;
	return is_in_all_lanes(session->console->with.lanes, words->argument) ||
	       err_set(err, ERR_NO_DATABASE, "no such database: %s", words->argument);
}

void command_each_lane(const struct console *console, const char *database,
                       void (*act)(struct pools *pools, struct database *database, const char *by),
                       const char *by)
{
	const struct lanes *lanes = console->with.lanes;
	const struct lane *lane;

	lanes_hold(lanes);
	LANES_EACH(lane, lanes)
	act(lane->pools, database ? pools_find_database(lane->pools, database) : NULL, by);
	lanes_release(lanes);
}

static void resume(struct pools *pools, struct database *database, const char *by)
{
	(void)by;
	pools_resume(pools, database);
}

void command_resume(const struct console *console, const char *database)
{
	command_each_lane(console, database, resume, NULL);
}

void command_resume_all(const struct console *console)
{
	console->with.go_on(console->with.arg);
	command_resume(console, NULL);
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
