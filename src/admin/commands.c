/* SPDX-License-Identifier: ISC */
/*
 * The commands: one row of a table for each.
 */
#include "admin_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "pgweir/base/text.h"
#include "pgweir/config/settings.h"

/* ---- what several commands use ---- */

bool command_not_paused(struct console_session *session, struct err *err)
{
	return !pools_are_held(console_pools(session->console)) ||
	       err_set(err, ERR_STATE, "already suspended/paused");
}

bool command_database(struct console_session *session, const char *verb, struct err *err)
{
	const struct words *words = &session->portal.request.words;
	const struct lanes *lanes = session->console->with.lanes;
	const struct lane *lane;
	bool is_there = *words->argument; /* false: no such database, or no memory */

	if (words->count < 2)
		return true;
	if (strcmp(words->argument, CONFIG_CONSOLE_DATABASE) == 0)
		return err_set(err, ERR_STATE, "cannot %s admin db: %s", verb, words->argument);
	LANES_HELD(lane, lanes)
	is_there = is_there && pools_database(lane->pools, words->argument);
	return is_there || err_set(err, ERR_NO_DATABASE, "no such database: %s", words->argument);
}

void command_resume_all(const struct console *console)
{
	const struct lane *lane;

	console->with.go_on(console->with.daemon);
	LANES_HELD(lane, console->with.lanes)
	pools_resume(lane->pools, NULL);
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

/* The words of the running command. */
static const struct words *words_of(const struct console_session *session)
{
	return &session->portal.request.words;
}

/* ---- databases ---- */

/* How many database names fit into a hint. */
#define NAMED_MAX 5

/* The hint names the databases that a KILL has paused: a RESUME of all does not end that. */
static void refuse_resume(struct console_session *session, struct err *err)
{
	const struct database *database;
	unsigned int count = 0;
	struct strbuf hint = strbuf_begin(session->hint, sizeof(session->hint));

	err_set(err, ERR_STATE, "pooler is not paused/suspended");
	TAILQ_FOREACH (database, &console_pools(session->console)->databases, node) {
		if (!database->is_paused || count++ >= NAMED_MAX)
			continue;
		strbuf_add(&hint,
		           count == 1 ? "Databases that are paused individually: \"" : ", \"");
		strbuf_add(&hint, database->name);
		strbuf_add(&hint, "\"");
	}
	if (count > NAMED_MAX) {
		strbuf_add(&hint, " and ");
		strbuf_add_number(&hint, count - NAMED_MAX);
		strbuf_add(&hint, " more");
	}
	if (count)
		strbuf_add(&hint, ". Use RESUME with a database name.");
}

static bool run_resume(struct console_session *session, struct err *err)
{
	const struct console_with *with = &session->console->with;
	const struct lane *first = with->lanes->at, *lane;
	const struct words *words = words_of(session);
	bool is_console = strcmp(words->argument, CONFIG_CONSOLE_DATABASE) == 0;
	const struct database *database;
	bool is_paused;

	if (!is_console && !command_database(session, "resume", err))
		return false;
	if (words->count < 2 && with->is_shutting_down(with->daemon))
		return err_set(err, ERR_STATE, "pooler is shutting down");
	database = command_database_in(first, words->argument);
	is_paused =
	    database ? database->is_paused
		     : !is_console && (pools_are_held(first->pools) || first->clients->drain.is_on);
	if (!is_paused) {
		if (words->count > 1)
			err_set(err, ERR_STATE, "database %s is not paused", words->argument);
		else
			refuse_resume(session, err);
		return false;
	}
	if (database) {
		LANES_HELD(lane, with->lanes)
		pools_resume(lane->pools, command_database_in(lane, words->argument));
		return true;
	}
	command_resume_all(session->console);
	with->drain_end(with->daemon);
	return true;
}

/* DISABLE and ENABLE */
static bool run_disable(struct console_session *session, struct err *err)
{
	const struct words *words = words_of(session);
	bool disables = strcasecmp(words->command, "DISABLE") == 0;
	const struct lane *lane;

	if (words->count < 2)
		return err_set(err, ERR_SYNTAX, "a database is required");
	if (!command_database(session, disables ? "disable" : "enable", err))
		return false;
	LANES_HELD(lane, session->console->with.lanes)
	command_database_in(lane, words->argument)->is_disabled = disables;
	return true;
}

static bool run_reconnect(struct console_session *session, struct err *err)
{
	const struct lane *lane;

	if (!command_database(session, "reconnect", err))
		return false;
	LANES_HELD(lane, session->console->with.lanes)
	pools_reconnect(lane->pools, command_database_in(lane, words_of(session)->argument));
	return true;
}

static bool run_kill(struct console_session *session, struct err *err)
{
	const struct lanes *lanes = session->console->with.lanes;
	const struct lane *lane, *other;
	const char *name = words_of(session)->argument;
	const struct pool *pool;
	struct database *held;
	char by[HOLD_BY_SIZE];

	if (!command_not_paused(session, err) || !command_database(session, "kill", err))
		return false;
	command_by(session, "KILL", by);
	lanes_hold(lanes);
	/* KILL of all pauses those that have a pool, in all lanes, also where they have none. */
	LANES_EACH(lane, lanes)
	for (pool = *name ? NULL : TAILQ_FIRST(&lane->pools->list); pool;
	     pool = TAILQ_NEXT(pool, node)) {
		LANES_EACH(other, lanes)
		{
			held = pools_database(other->pools, pool->database->name);
			if (held)
				pools_hold(other->pools, held, by);
		}
	}
	LANES_EACH(lane, lanes)
	pools_kill(lane->pools, command_database_in(lane, name), by);
	lanes_release(lanes);
	return true;
}

/* ---- clients ---- */

static bool run_kill_client(struct console_session *session, struct err *err)
{
	const struct lanes *lanes = session->console->with.lanes;
	const char *text = words_of(session)->argument;
	struct client *client = NULL;
	const struct lane *lane;
	char *end;
	unsigned long long id = strtoull(text, &end, 10);

	if (end == text)
		return err_set(err, ERR_PARAMETER, "invalid client pointer supplied");
	lanes_hold(lanes);
	LANES_EACH(lane, lanes)
	{
		client = clients_find(lane->clients, id);
		if (client)
			break;
	}
	if (client)
		clients_kill(client);
	lanes_release(lanes);
	return client || err_set(err, ERR_PARAMETER, "client not found");
}

/* ---- configuration ---- */

/* The value as SHOW CONFIG shows it, with secrets hidden. "": there is no such setting. */
static const char *value_of(const struct console_session *session, struct setting_shown *shown)
{
	const struct setting *setting = setting_find(words_of(session)->argument);
	const struct console_with *with = &session->console->with;

	if (!setting)
		return "";
	setting_show(*with->config, (size_t)(setting - settings), shown);
	return shown->value ? shown->value : "(unset)";
}

/* was: the value before. Empty values are as in a RELOAD. */
static void log_set(const struct console_session *session, const char *was)
{
	struct setting_shown shown;
	const char *is = value_of(session, &shown);

	log_event(&session->client->log, LOG_LEVEL_INFO,
	          &(struct log_facts){ .kept = "set",
	                               .event = "command",
	                               .command = "SET",
	                               .setting = shown.name,
	                               .value = is,
	                               .was = was },
	          "SET %s = %s (was %s)", shown.name, *is ? is : "empty", *was ? was : "empty");
}

/* The reason may quote a part of the value, which may be a password. */
static void note_refusal(struct console_session *session, const struct err *why)
{
	const char *name = words_of(session)->argument;
	const struct setting *setting = setting_find(name);

	snprintf(session->logged, sizeof(session->logged), "SET %s failed: %s", name,
	         setting && setting->hidden_with && strstr(why->text, setting->hidden_with)
	             ? "(hidden: the reason contains a password)"
	             : why->text);
}

static bool run_set(struct console_session *session, struct err *err)
{
	const struct console_with *with = &session->console->with;
	const struct words *words = words_of(session);
	struct setting_shown shown;
	char was[sizeof(words->value)];
	struct err why;

	snprintf(was, sizeof(was), "%s", value_of(session, &shown));
	switch (with->set(with->daemon, words->argument, words->value, &why)) {
	case CONFIG_REFUSED:
		session_notice(session, why.text, NULL);
		note_refusal(session, &why);
		return err_set(err, ERR_PARAMETER, "SET failed");
	case CONFIG_AT_RESTART:
		log_info(&session->client->log,
		         "SET %s: takes effect only after a restart, still %s", words->argument,
		         was);
		session_notice(
		    session,
		    "this setting takes effect only at start: set it in the configuration "
		    "file and restart",
		    NULL);
		break;
	case CONFIG_CHANGED:
		log_set(session, was);
		break;
	}
	snprintf(session->tag, sizeof(session->tag), "SET %s=%s", words->argument, words->value);
	return true;
}

static void notice_change(void *arg, const char *name, const char *line)
{
	(void)name;
	session_notice(arg, line, NULL);
}

static bool run_reload(struct console_session *session, struct err *err)
{
	const struct console_with *with = &session->console->with;
	struct err why;

	if (with->reload(with->daemon, notice_change, session, &why))
		return true;
	session_notice(session, why.text, NULL);
	return err_set(err, ERR_CONFIG, "RELOAD failed, see logs for additional details");
}

/* ---- shutdown ---- */

static bool run_shutdown(struct console_session *session, struct err *err)
{
	const struct console_with *with = &session->console->with;
	const struct words *words = words_of(session);
	bool is_now = words->count < 2;

	(void)err;
	if (is_now)
		session->state = SESSION_MUTE;
	with->shutdown(with->daemon, is_now ? SHUTDOWN_NOW
	                             : strcasecmp(words->argument, "WAIT_FOR_SERVERS") == 0
	                                 ? SHUTDOWN_WAIT_FOR_SERVERS
	                                 : SHUTDOWN_WAIT_FOR_CLIENTS);
	return true;
}

/* ---- take-over ---- */

/* The socket leaves this session and belongs to the hand-over from here on. */
static bool run_takeover(struct console_session *session, struct err *err)
{
	const struct console_with *with = &session->console->with;
	const char *version = words_of(session)->argument;

	if (!session_is_owner(session))
		return err_set(
		    err, ERR_RIGHTS,
		    "only a process of the same system user may take over, through the Unix "
		    "socket");
	if (!with->may_hand_over(with->daemon, version, err))
		return false;
	with->hand_over(with->daemon, client_console_detach(session->client));
	return true;
}

/* ---- help ---- */

static void add_help(struct buf *text, const char *front, const char *words, const char *argument,
                     const char *help)
{
	char usage[64];

	snprintf(usage, sizeof(usage), "%s%s%s", front, words, argument);
	buf_printf(text, "\t%-32s  %s\n", usage, help);
}

static void add_commands(struct buf *text, enum console_role role)
{
	for (size_t i = 0; i < commands_count; i++) {
		if (commands[i].role == role)
			add_help(text, "", commands[i].words, commands[i].usage, commands[i].help);
	}
}

static bool run_reset_statements(struct console_session *session, struct err *err)
{
	const struct lanes *lanes = session->console->with.lanes;
	const struct lane *lane;

	(void)err;
	LANES_HELD(lane, lanes)
	{
		calls_reset(&lane->clients->calls);
		applications_reset(&lane->clients->applications);
	}
	return true;
}

static bool run_help(struct console_session *session, struct err *err)
{
	struct buf text = { 0 };

	(void)err;
	buf_add_text(&text, "\nCommands for stats_users and admin_users (SELECT is an alias of "
	                    "SHOW):\n");
	for (size_t i = 0; shows[i]; i++)
		add_help(&text, "SHOW ", shows[i]->item, show_argument_name(shows[i]->argument),
		         shows[i]->help);
	add_help(&text, "SHOW ", "name", "", "The value of one setting.");
	add_commands(&text, CONSOLE_STATS);
	buf_add_text(&text, "Commands for admin_users only:\n");
	add_commands(&text, CONSOLE_ADMIN);
	buf_add_text(&text,
	             "Arguments in [ ] are optional; without [db], a command applies to all "
	             "databases. A name containing characters other than letters, digits and "
	             "_ must be double-quoted.\nPAUSE, SUSPEND, DRAIN and WAIT_CLOSE return "
	             "when they are complete; a cancel request ends them.\nSHOW COLUMNS "
	             "describes the columns, SHOW CONFIG lists all settings.\n");
	session_notice(session, "Console usage", buf_text(&text));
	buf_free(&text);
	return true;
}

const struct command commands[] = {
	{ "SHOW HELP", "SHOW", ARG_NONE, "", CONSOLE_STATS, run_help, "This list." },
	{ "HELP", "SHOW", ARG_NONE, "", CONSOLE_STATS, run_help, "Same as SHOW HELP." },
	{ "SET", "SET", ARG_SETTING, " key = value", CONSOLE_ADMIN, run_set,
	  "Change a setting until the next RELOAD or restart." },
	{ "RELOAD", "RELOAD", ARG_NONE, "", CONSOLE_ADMIN, run_reload,
	  "Read the configuration files again." },
	{ "PAUSE", "PAUSE", ARG_NAME, " [db]", CONSOLE_ADMIN, command_pause,
	  "Queue new work, wait for running work to finish, and close server "
	  "connections." },
	{ "RESUME", "RESUME", ARG_NAME, " [db]", CONSOLE_ADMIN, run_resume,
	  "End a PAUSE, SUSPEND or DRAIN; with db, end the PAUSE or KILL of that "
	  "database." },
	{ "DISABLE", "DISABLE", ARG_NAME, " db", CONSOLE_ADMIN, run_disable,
	  "Refuse new clients of a database." },
	{ "ENABLE", "ENABLE", ARG_NAME, " db", CONSOLE_ADMIN, run_disable, "Undo DISABLE." },
	{ "DISABLE HOST", "DISABLE", ARG_HOST, " name", CONSOLE_ADMIN, command_disable_host,
	  "Close all server connections to a host at once, and open none until ENABLE HOST." },
	{ "DRAIN HOST", "DRAIN", ARG_HOST, " name", CONSOLE_ADMIN, command_drain_host,
	  "Begin no transaction on a host any more, wait until those that run there have ended, "
	  "and say which standbys have all of its WAL." },
	{ "ENABLE HOST", "ENABLE", ARG_HOST, " name", CONSOLE_ADMIN, command_enable_host,
	  "Undo DISABLE HOST and DRAIN HOST; accept the timeline and the system identifier that "
	  "the hosts have." },
	{ "RECONNECT", "RECONNECT", ARG_NAME, " [db]", CONSOLE_ADMIN, run_reconnect,
	  "Replace each server connection as soon as it is free." },
	{ "WAIT_CLOSE", "WAIT_CLOSE", ARG_NAME, " [db]", CONSOLE_ADMIN, command_wait_close,
	  "Wait until RECONNECT has replaced all server connections." },
	{ "KILL", "KILL", ARG_NAME, " [db]", CONSOLE_ADMIN, run_kill,
	  "Close all clients and servers at once, and pause the database." },
	{ "KILL_CLIENT", "KILL_CLIENT", ARG_NAME, " id", CONSOLE_ADMIN, run_kill_client,
	  "Disconnect one client, by its id in SHOW CLIENTS." },
	{ "RESET STATEMENTS", "RESET", ARG_NONE, "", CONSOLE_ADMIN, run_reset_statements,
	  "Count statements and applications from 0 again." },
	{ "SUSPEND", "SUSPEND", ARG_NONE, "", CONSOLE_ADMIN, command_suspend,
	  "Stop every connection between two messages, until RESUME." },
	{ "TAKEOVER", "TAKEOVER", ARG_NAME, " version", CONSOLE_ADMIN, run_takeover,
	  "Used by pgweir -R to take over from a running process." },
	{ "DRAIN", "DRAIN", ARG_NAME, " [seconds]", CONSOLE_ADMIN, command_drain,
	  "Disconnect clients between transactions, all within the given seconds." },
	{ "SHUTDOWN", "SHUTDOWN", ARG_NONE, "", CONSOLE_ADMIN, run_shutdown,
	  "Stop the process at once." },
	{ "SHUTDOWN WAIT_FOR_SERVERS", "SHUTDOWN", ARG_NONE, "", CONSOLE_ADMIN, run_shutdown,
	  "Stop the process when no server connection is in use any more." },
	{ "SHUTDOWN WAIT_FOR_CLIENTS", "SHUTDOWN", ARG_NONE, "", CONSOLE_ADMIN, run_shutdown,
	  "Stop the process when the last client has disconnected." },
};
const size_t commands_count = sizeof(commands) / sizeof(commands[0]);

bool command_is_event(const struct command *command)
{
	/* SET is logged when it is done, with the old and the new value. */
	return command->role == CONSOLE_ADMIN && command->argument != ARG_SETTING;
}

/* Whether `words` name this command, with a number of arguments that it accepts. */
static bool is_meant(const struct command *command, const struct words *words)
{
	bool has_two = strchr(command->words, ' ');
	unsigned int more = words->count - 1 - has_two; /* behind the command's words */
	char named[sizeof(words->command) + sizeof(words->argument) + 1];

	snprintf(named, sizeof(named), "%s%s%s", words->command, has_two ? " " : "",
	         has_two ? words->argument : "");
	if (strcasecmp(command->words, named) != 0)
		return false;
	switch (command->argument) {
	case ARG_NONE:
		break;
	case ARG_NAME:
		return more <= 1;
	case ARG_HOST:
		return more == 1;
	case ARG_SETTING:
		return more == 2;
	}
	return more == 0;
}

const struct command *command_find(const struct words *words)
{
	for (size_t i = 0; i < commands_count; i++) {
		if (is_meant(&commands[i], words))
			return &commands[i];
	}
	return NULL;
}
