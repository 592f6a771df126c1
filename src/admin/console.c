/* SPDX-License-Identifier: ISC */
/*
 * The console: what its sessions share, with the timers of the statistics; and the commands, one
 * row of a table for each. Some are answered when a condition is met: PAUSE, SUSPEND, WAIT_CLOSE,
 * DRAIN, DRAIN HOST.
 */
#include "admin_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "pgweir/base/text.h"
#include "pgweir/config/settings.h"

#define TICK_PERIOD USEC_PER_SEC
#define DRAIN_SECONDS_MAX 10000000

/* ---- what several commands use ---- */

/* The words of the running command. */
static const struct words *words_of(const struct console_session *session)
{
	return &session->portal.request.words;
}

static bool check_not_held(struct console_session *session, struct err *err)
{
	return !pools_are_held(console_pools(session->console)) ||
	       err_set(err, ERR_STATE, "already suspended/paused");
}

/*
 * Checks the database that the argument names: created from `*` in all lanes if needed. `verb`
 * completes the error for the console's own database: "cannot <verb> admin db". false: *err has
 * the reason.
 */
static bool check_database(struct console_session *session, const char *verb, struct err *err)
{
	const struct words *words = words_of(session);
	bool is_there = *words->argument; /* false: no such database, or no memory */

	if (!words->count)
		return true;
	if (strcmp(words->argument, CONFIG_CONSOLE_DATABASE) == 0)
		return err_set(err, ERR_STATE, "cannot %s admin db: %s", verb, words->argument);
	LANES_EACH (lane, session->console->with.lanes)
		is_there = is_there && pools_database(lane->pools, words->argument);
	return is_there || err_set(err, ERR_NO_DATABASE, "no such database: %s", words->argument);
}

/* The database of this name in the lane. NULL: the name is "", for all; or it is gone. */
static struct database *database_in(const struct lane *lane, const char *name)
{
	return *name ? pools_find_database(lane->pools, name) : NULL;
}

/* For struct hold: "PAUSE by admin@127.0.0.1". Writes to `by` and returns it. */
static const char *held_by(const struct console_session *session, const char *command,
                           char by[HOLD_BY_SIZE])
{
	const struct client *client = session->client;
	char buffer[ADDRESS_TEXT_SIZE];

	snprintf(by, HOLD_BY_SIZE, "%s by %.63s@%s", command, client_user(client),
	         address_format_host(&client->peer, buffer, sizeof(buffer)));
	return by;
}

/* ---- databases ---- */

/* How many database names fit into a hint. */
#define NAMED_MAX 5

/* The hint names the databases that a KILL has paused: a RESUME of all does not end that. */
static void refuse_resume(struct console_session *session, struct err *err)
{
	unsigned int count = 0;
	struct strbuf hint = strbuf_begin(session->hint, sizeof(session->hint));

	err_set(err, ERR_STATE, "pooler is not paused/suspended");
	TAILQ_EACH (database, &console_pools(session->console)->databases, node) {
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
	const struct lane *first = with->lanes->at;
	const struct words *words = words_of(session);
	bool is_console = strcmp(words->argument, CONFIG_CONSOLE_DATABASE) == 0;
	const struct database *database;
	bool is_paused;

	if (!is_console && !check_database(session, "resume", err))
		return false;
	if (!words->count && with->is_shutting_down(with->daemon))
		return err_set(err, ERR_STATE, "pooler is shutting down");
	database = database_in(first, words->argument);
	is_paused =
	    database ? database->is_paused
		     : !is_console && (pools_are_held(first->pools) || first->clients->drain.is_on);
	if (!is_paused) {
		if (words->count)
			err_set(err, ERR_STATE, "database %s is not paused", words->argument);
		else
			refuse_resume(session, err);
		return false;
	}
	with->resume(with->daemon, words->argument);
	if (!database)
		with->drain_end(with->daemon);
	return true;
}

/* DISABLE and ENABLE */
static bool run_disable(struct console_session *session, struct err *err)
{
	const struct words *words = words_of(session);
	bool disables = strcmp(session->portal.request.tag, "DISABLE") == 0;

	if (!words->count)
		return err_set(err, ERR_SYNTAX, "a database is required");
	if (!check_database(session, disables ? "disable" : "enable", err))
		return false;
	LANES_EACH (lane, session->console->with.lanes)
		database_in(lane, words->argument)->is_disabled = disables;
	return true;
}

static bool run_reconnect(struct console_session *session, struct err *err)
{
	if (!check_database(session, "reconnect", err))
		return false;
	LANES_EACH (lane, session->console->with.lanes)
		pools_reconnect(lane->pools, database_in(lane, words_of(session)->argument));
	return true;
}

static bool run_kill(struct console_session *session, struct err *err)
{
	const struct lanes *lanes = session->console->with.lanes;
	const char *name = words_of(session)->argument;
	const struct pool *pool;
	struct database *held;
	char by[HOLD_BY_SIZE];

	if (!check_not_held(session, err) || !check_database(session, "kill", err))
		return false;
	held_by(session, "KILL", by);
	/* KILL of all pauses those that have a pool, in all lanes, also where they have none. */
	LANES_EACH (lane, lanes)
		for (pool = *name ? NULL : TAILQ_FIRST(&lane->pools->list); pool;
		     pool = TAILQ_NEXT(pool, node)) {
			LANES_EACH (other, lanes) {
				held = pools_database(other->pools, pool->database->name);
				if (held)
					pools_hold(other->pools, held, by);
			}
		}
	LANES_EACH (lane, lanes)
		pools_kill(lane->pools, database_in(lane, name), by);
	return true;
}

/* ---- clients ---- */

static bool run_kill_client(struct console_session *session, struct err *err)
{
	const char *text = words_of(session)->argument;
	struct client *client = NULL;
	char *end;
	unsigned long long id = strtoull(text, &end, 10);

	if (end == text)
		return err_set(err, ERR_PARAMETER, "invalid client pointer supplied");
	LANES_EACH (lane, session->console->with.lanes) {
		client = clients_find(lane->clients, id);
		if (client)
			break;
	}
	if (client)
		clients_kill(client);
	return client || err_set(err, ERR_PARAMETER, "client not found");
}

/* ---- configuration ---- */

/* With secrets hidden. */
static const char *value_of(const struct console_session *session, const struct setting *setting,
                            char buffer[SETTING_VALUE_SIZE])
{
	const char *value = setting_value(console_pools(session->console)->config, setting, buffer);

	return value ? value : "(unset)";
}

/* was: the value before. Empty values are as in a RELOAD. */
static void log_set(const struct console_session *session, const struct setting *setting,
                    const char *was)
{
	char buffer[SETTING_VALUE_SIZE];
	const char *is = value_of(session, setting, buffer);

	log_event(&session->client->log, LOG_LEVEL_INFO,
	          &(struct log_facts){ .kept = "set",
	                               .event = "command",
	                               .command = "SET",
	                               .setting = setting->name,
	                               .value = is,
	                               .was = was },
	          "SET %s = %s (was %s)", setting->name, *is ? is : "empty", *was ? was : "empty");
}

/* The reason may quote a part of the value, which may be a password. setting NULL: no such one. */
static void note_refusal(struct console_session *session, const struct setting *setting,
                         const struct err *why)
{
	snprintf(session->logged, sizeof(session->logged), "SET %s failed: %s",
	         words_of(session)->argument,
	         setting && setting->hidden_with && strstr(why->text, setting->hidden_with)
	             ? "(hidden: the reason contains a password)"
	             : why->text);
}

static bool run_set(struct console_session *session, struct err *err)
{
	const struct console_with *with = &session->console->with;
	const struct words *words = words_of(session);
	const struct setting *setting = setting_find(words->argument);
	char buffer[SETTING_VALUE_SIZE], was[sizeof(words->value)] = "";
	struct err why;

	if (setting)
		text_copy(was, sizeof(was), value_of(session, setting, buffer));
	switch (with->set(with->daemon, words->argument, words->value, &why)) {
	case CONFIG_REFUSED:
		session_notice(session, why.text, NULL);
		note_refusal(session, setting, &why);
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
		log_set(session, setting, was);
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
	const char *how = session->portal.request.command->words + strlen("SHUTDOWN");

	(void)err;
	if (!*how)
		session->state = SESSION_MUTE;
	with->shutdown(with->daemon, !*how ? SHUTDOWN_NOW
	                             : strcmp(how, " WAIT_FOR_SERVERS") == 0
	                                 ? SHUTDOWN_WAIT_FOR_SERVERS
	                                 : SHUTDOWN_WAIT_FOR_CLIENTS);
	return true;
}

/* ---- take-over ---- */

/* The socket leaves this session, which may be gone then. */
static bool run_takeover(struct console_session *session, struct err *err)
{
	const struct console_with *with = &session->console->with;

	if (!session_is_owner(session))
		return err_set(
		    err, ERR_RIGHTS,
		    "only a process of the same system user may take over, through the Unix "
		    "socket");
	return with->hand_over(with->daemon, session->client, words_of(session)->argument, err);
}

/*
 * ---- commands that wait ----
 *
 * Each session checks its own condition, again and again. It finds the database by name each time,
 * because a reload may remove the database while the session waits.
 */

#define LOOK_PERIOD (10 * USEC_PER_MS)

static struct broker *broker_of(const struct console_session *session)
{
	return console_pools(session->console)->with.broker;
}

/* Whether it is still to be waited for. false: another command ended that, for example RESUME. */
static bool is_wanted(const struct console_session *session)
{
	const struct lane *first = &session->console->with.lanes->at[0];
	const struct waiting *waiting = &session->waiting;
	const struct database *database = database_in(first, waiting->name);

	if (first->pools->is_leaving != waiting->is_leaving)
		return false; /* what it waits for may be in the new process of a take-over */
	switch (waiting->kind) {
	case WAITING_PAUSE:
		return *waiting->name ? database && database->is_paused : first->pools->is_paused;
	case WAITING_SUSPEND:
		return first->pools->suspend != SUSPEND_NONE;
	case WAITING_DRAIN:
		return first->clients->drain.is_on;
	case WAITING_HOST:
		return clusters_admin(broker_of(session), waiting->name) != HOST_ENABLED;
	case WAITING_CLOSE:
		break;
	}
	return true;
}

/* How many connections of a lane are waited for. */
static unsigned int left_in_lane(const struct waiting *waiting, const struct lane *lane)
{
	const struct database *database = database_in(lane, waiting->name);
	const struct pools *pools = lane->pools;

	if (waiting->kind == WAITING_SUSPEND)
		return pools->suspend == SUSPEND_QUIESCING;
	if (waiting->kind == WAITING_HOST)
		return pools_busy_at(lane->pools, waiting->name);
	if (*waiting->name && !database)
		return 0;
	if (waiting->kind == WAITING_CLOSE)
		return database ? database->close_needed_count : pools->close_needed_count;
	return database ? database->busy_count : pools->busy_count;
}

static void note_asked(void *arg, const char *standby, enum roster_copy copy, uint64_t missing)
{
	bool *is_asked = arg;

	(void)standby;
	(void)missing;
	*is_asked |= copy == ROSTER_COPY_ASKED;
}

static bool is_done(struct console_session *session)
{
	const struct lanes *lanes = session->console->with.lanes;
	struct waiting *waiting = &session->waiting;
	unsigned int left = 0;
	bool is_asked = false;

	if (!is_wanted(session))
		return true;
	if (waiting->kind == WAITING_DRAIN)
		return lanes_drain(lanes).left == 0;
	lanes_hold(lanes);
	LANES_EACH (lane, lanes)
		left += left_in_lane(waiting, lane);
	/* what a server in a letter becomes is known when it has arrived */
	left += broker_of(session)->moving_count > 0;
	lanes_release(lanes);
	if (waiting->kind != WAITING_HOST)
		return !left;
	/* nothing runs there, and the host watches of the standbys have asked, or are lost */
	waiting->idle_at = left ? 0 : waiting->idle_at ? waiting->idle_at : clock_now();
	if (!left)
		clusters_copies(broker_of(session), waiting->name, waiting->idle_at, note_asked,
		                &is_asked);
	return !left && !is_asked;
}

/* The error if another command ended the wait, or a take-over. */
static const char *const endings[] = {
	[WAITING_CLOSE] = "WAIT_CLOSE was ended before all servers were replaced",
	[WAITING_PAUSE] = "PAUSE was ended before all servers were free",
	[WAITING_SUSPEND] = "SUSPEND was ended before all connections were at rest",
	[WAITING_HOST] = "DRAIN HOST was ended before all transactions there had ended",
	[WAITING_DRAIN] = "DRAIN was ended before all clients had left",
};

void commands_wait_stop(struct console_session *session)
{
	struct waiting *waiting = &session->waiting;

	timer_clear(&waiting->tick);
	timer_clear(&waiting->look);
}

/* Which standbys can be promoted in its place without a loss. */
static void tell_copy(void *arg, const char *standby, enum roster_copy copy, uint64_t missing)
{
	struct console_session *session = arg;
	const char *host = session->waiting.name;
	struct buf text = { 0 };

	if (copy == ROSTER_COPY_WHOLE) {
		buf_printf(&text, "standby %s has replayed all WAL of %s", standby, host);
		session_notice(session, buf_text(&text), NULL);
	} else if (copy == ROSTER_COPY_BEHIND) {
		buf_printf(&text, "standby %s has not replayed %" PRIu64 " bytes of the WAL of %s",
		           standby, missing, host);
		session_notice(session, buf_text(&text),
		               "What it has not received either is lost if it is promoted now.");
	} else {
		buf_printf(&text, "whether standby %s has replayed all WAL of %s is not known",
		           standby, host);
		session_notice(session, buf_text(&text), "SHOW HOSTS has its state.");
	}
	buf_free(&text);
}

static void on_look(struct timer *timer)
{
	struct console_session *session = container_of(timer, struct console_session, waiting.look);
	struct waiting *waiting = &session->waiting;
	struct err err;

	if (!is_done(session)) {
		timer_begin(timer, session->console->with.loop, LOOK_PERIOD, on_look);
		return;
	}
	timer_clear(&waiting->tick);
	if (is_wanted(session)) {
		if (waiting->kind == WAITING_HOST)
			clusters_copies(broker_of(session), waiting->name, waiting->idle_at,
			                tell_copy, session);
		session_complete(session);
	} else {
		err_set(&err, ERR_QUERY_CANCELED, "%s", endings[waiting->kind]);
		if (console_pools(session->console)->is_leaving)
			text_copy(
			    session->hint, sizeof(session->hint),
			    "Another process has taken over: whether it is complete there is not "
			    "known.");
		session_fail(session, &err);
	}
	session_later(session);
}

/* name: of a database; "": all. WAITING_HOST: of a host. Returns true. */
static bool begin_waiting(struct console_session *session, const char *name, enum waiting_kind kind)
{
	struct waiting *waiting = &session->waiting;

	*waiting = (struct waiting){
		.kind = kind,
		.is_leaving = console_pools(session->console)->is_leaving,
	};
	text_copy(waiting->name, sizeof(waiting->name), name);
	if (!is_done(session))
		timer_begin(&waiting->look, session->console->with.loop, LOOK_PERIOD, on_look);
	return true;
}

static bool run_pause(struct console_session *session, struct err *err)
{
	const char *name = words_of(session)->argument;
	char by[HOLD_BY_SIZE];

	if (!check_not_held(session, err) || !check_database(session, "pause", err))
		return false;
	held_by(session, "PAUSE", by);
	LANES_EACH (lane, session->console->with.lanes)
		pools_pause(lane->pools, database_in(lane, name), by);
	return begin_waiting(session, name, WAITING_PAUSE);
}

static bool run_suspend(struct console_session *session, struct err *err)
{
	const struct console_with *with = &session->console->with;
	char by[HOLD_BY_SIZE];

	if (!check_not_held(session, err))
		return false;
	TAILQ_EACH (database, &console_pools(session->console)->databases, node) {
		if (database->is_paused)
			return err_set(err, ERR_STATE, "cannot suspend with paused databases");
	}
	with->suspend(with->daemon, held_by(session, "SUSPEND", by));
	return begin_waiting(session, "", WAITING_SUSPEND);
}

static bool run_wait_close(struct console_session *session, struct err *err)
{
	if (!check_database(session, "wait in", err))
		return false;
	return begin_waiting(session, words_of(session)->argument, WAITING_CLOSE);
}

/* ---- DRAIN ---- */

/* Sends a NOTICE with the progress, but not while the client has unread output. */
static void on_drain_tick(struct timer *timer)
{
	struct console_session *session = container_of(timer, struct console_session, waiting.tick);
	char text[256];

	timer_begin(timer, session->console->with.loop, TICK_PERIOD, on_drain_tick);
	if (stream_unsent(&session->client->stream))
		return;
	drain_describe(session->console->with.lanes, text, sizeof(text));
	session_notice(session, text, NULL);
	session_later(session);
}

static bool take_seconds(const struct words *words, usec_t *limit, struct err *err)
{
	int64_t seconds;

	*limit = DRAIN_NO_LIMIT;
	if (!words->count)
		return true;
	if (!text_to_i64(words->argument, &seconds) || seconds < 0 || seconds > DRAIN_SECONDS_MAX)
		return err_set(err, ERR_PARAMETER, "DRAIN takes seconds, from 0 to %d, not \"%s\"",
		               DRAIN_SECONDS_MAX, words->argument);
	*limit = seconds * USEC_PER_SEC;
	return true;
}

static bool run_drain(struct console_session *session, struct err *err)
{
	const struct console_with *with = &session->console->with;
	usec_t limit;

	if (!take_seconds(words_of(session), &limit, err) || !check_not_held(session, err))
		return false;
	with->drain(with->daemon, limit);
	begin_waiting(session, "", WAITING_DRAIN);
	if (timer_is_set(&session->waiting.look))
		on_drain_tick(&session->waiting.tick);
	return true;
}

/* ---- hosts ---- */

/* Whether an entry has this host. */
static bool is_host(const struct config *config, const char *name)
{
	const struct config_database *entry = NULL;

	while ((entry = config_database_each(config, entry))) {
		const char *list = config_hosts(config, entry);
		struct bytes host;

		while (config_host_next(&list, &host)) {
			if (bytes_are(host, name))
				return true;
		}
	}
	return false;
}

/* DISABLE HOST, DRAIN HOST and ENABLE HOST */
static bool run_host(struct console_session *session, struct err *err)
{
	const char *host = words_of(session)->value, *verb = session->portal.request.tag;
	bool drains = strcmp(verb, "DRAIN") == 0;
	enum host_admin admin = drains                         ? HOST_DRAINING
	                        : strcmp(verb, "DISABLE") == 0 ? HOST_DISABLED
	                                                       : HOST_ENABLED;
	bool is_set;

	if (!is_host(console_pools(session->console)->config, host))
		return err_set(err, ERR_PARAMETER,
		               "no entry has the host \"%s\" (SHOW HOSTS has their names)", host);
	is_set = clusters_set_admin(broker_of(session), host, admin, false,
	                            loop_now(session->console->with.loop));
	LANES_EACH (lane, session->console->with.lanes)
		pools_leave_hosts(lane->pools);
	if (!is_set)
		return err_set(err, ERR_STATE,
		               "no memory, or too many hosts are drained or disabled: "
		               "ENABLE HOST for some of them first");
	if (!drains)
		return true;
	begin_waiting(session, host, WAITING_HOST);
	if (!timer_is_set(&session->waiting.look))
		clusters_copies(broker_of(session), session->waiting.name, session->waiting.idle_at,
		                tell_copy, session);
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
	for (const struct command *command = commands; command->words; command++) {
		if (command->role == role)
			add_help(text, "", command->words, command->usage, command->help);
	}
}

static bool run_reset_statements(struct console_session *session, struct err *err)
{
	(void)err;
	LANES_HELD (lane, session->console->with.lanes) {
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
	{ "PAUSE", "PAUSE", ARG_NAME, " [db]", CONSOLE_ADMIN, run_pause,
	  "Queue new work, wait for running work to finish, and close server "
	  "connections." },
	{ "RESUME", "RESUME", ARG_NAME, " [db]", CONSOLE_ADMIN, run_resume,
	  "End a PAUSE, SUSPEND or DRAIN; with db, end the PAUSE or KILL of that "
	  "database." },
	{ "DISABLE", "DISABLE", ARG_NAME, " db", CONSOLE_ADMIN, run_disable,
	  "Refuse new clients of a database." },
	{ "ENABLE", "ENABLE", ARG_NAME, " db", CONSOLE_ADMIN, run_disable, "Undo DISABLE." },
	{ "DISABLE HOST", "DISABLE", ARG_HOST, " name", CONSOLE_ADMIN, run_host,
	  "Close all server connections to a host at once, and open none until ENABLE HOST." },
	{ "DRAIN HOST", "DRAIN", ARG_HOST, " name", CONSOLE_ADMIN, run_host,
	  "Begin no transaction on a host any more, wait until those that run there have ended, "
	  "and say which standbys have all of its WAL." },
	{ "ENABLE HOST", "ENABLE", ARG_HOST, " name", CONSOLE_ADMIN, run_host,
	  "Undo DISABLE HOST and DRAIN HOST; accept the timeline and the system identifier that "
	  "the hosts have." },
	{ "RECONNECT", "RECONNECT", ARG_NAME, " [db]", CONSOLE_ADMIN, run_reconnect,
	  "Replace each server connection as soon as it is free." },
	{ "WAIT_CLOSE", "WAIT_CLOSE", ARG_NAME, " [db]", CONSOLE_ADMIN, run_wait_close,
	  "Wait until RECONNECT has replaced all server connections." },
	{ "KILL", "KILL", ARG_NAME, " [db]", CONSOLE_ADMIN, run_kill,
	  "Close all clients and servers at once, and pause the database." },
	{ "KILL_CLIENT", "KILL_CLIENT", ARG_NAME, " id", CONSOLE_ADMIN, run_kill_client,
	  "Disconnect one client, by its id in SHOW CLIENTS." },
	{ "RESET STATEMENTS", "RESET", ARG_NONE, "", CONSOLE_ADMIN, run_reset_statements,
	  "Count statements and applications from 0 again." },
	{ "SUSPEND", "SUSPEND", ARG_NONE, "", CONSOLE_ADMIN, run_suspend,
	  "Stop every connection between two messages, until RESUME." },
	{ "TAKEOVER", "TAKEOVER", ARG_NAME, " version", CONSOLE_ADMIN, run_takeover,
	  "Used by pgweir -R to take over from a running process." },
	{ "DRAIN", "DRAIN", ARG_NAME, " [seconds]", CONSOLE_ADMIN, run_drain,
	  "Disconnect clients between transactions, all within the given seconds." },
	{ "SHUTDOWN", "SHUTDOWN", ARG_NONE, "", CONSOLE_ADMIN, run_shutdown,
	  "Stop the process at once." },
	{ "SHUTDOWN WAIT_FOR_SERVERS", "SHUTDOWN", ARG_NONE, "", CONSOLE_ADMIN, run_shutdown,
	  "Stop the process when no server connection is in use any more." },
	{ "SHUTDOWN WAIT_FOR_CLIENTS", "SHUTDOWN", ARG_NONE, "", CONSOLE_ADMIN, run_shutdown,
	  "Stop the process when the last client has disconnected." },
	{ .words = NULL },
};

bool command_is_event(const struct command *command)
{
	/* SET is logged when it is done, with the old and the new value. */
	return command->role == CONSOLE_ADMIN && command->argument != ARG_SETTING;
}

/* ---- each second ---- */

/* The averages begin at the end of the period before, so this line covers one stats_period. */
static void end_period(struct console *console, usec_t now)
{
	const struct logger log = { console_pools(console)->shared.log, NULL };
	struct stats average;
	char text[512];

	show_stats_tick(&console->source, now);
	show_stats_average_all(&console->source, now, &average);
	snprintf(text, sizeof(text),
	         "%" PRIu64 " xacts/s, %" PRIu64 " queries/s, %" PRIu64 " client parses/s, %" PRIu64
	         " server parses/s, %" PRIu64 " binds/s, %" PRIu64 " client logins/s, in %" PRIu64
	         " B/s, out %" PRIu64 " B/s, xact %" PRIu64 " us, query %" PRIu64
	         " us, wait %" PRIu64 " us",
	         average.xact_count, average.query_count, average.client_parse_count,
	         average.server_parse_count, average.bind_count, average.client_login_count,
	         average.client_bytes, average.server_bytes, average.xact_time, average.query_time,
	         average.wait_time);
	if (show_source_config(&console->source)->log_stats)
		log_info(&log, "stats: %s", text);
	console->with.on_period(console->with.daemon, text);
}

static void on_second(struct timer *timer);

static void arm_second(struct console *console, usec_t now, usec_t period)
{
	timer_set(&console->second, loop_timer_queue(console->with.loop, period, on_second), now);
}

/* Whether a pool wants to be measured again in a quarter of a second. */
static bool measure_pools(const struct console *console, usec_t now)
{
	bool is_sized = false;

	LANES_EACH (lane, console->with.lanes)
		is_sized |= pools_measure(lane->pools, now);
	LANES_EACH (lane, console->with.lanes)
		pools_resize(lane->pools, now);
	return is_sized;
}

/* Few sums for each lane, however many pools there are. */
static void on_second(struct timer *timer)
{
	struct console *console = container_of(timer, struct console, second);
	usec_t now = loop_now(console->with.loop);
	bool is_second = console->quarters == 0, is_sized;

	lanes_hold(console->with.lanes);
	if (is_second) {
		timeline_tick(&console->source.timeline, console->with.lanes, now);
		LANES_EACH (lane, console->with.lanes)
			latency_drain(&console->source.latency, &lane->pools->latency, now);
		if (now - console->source.history.newer_at >=
		    show_source_config(&console->source)->stats_period)
			end_period(console, now);
	}
	is_sized = measure_pools(console, now);
	lanes_release(console->with.lanes);
	if (is_second)
		logins_sweep(console->with.lanes->at->clients->shared->logins, now);
	console->quarters = is_sized ? (console->quarters + 1) % 4 : 0;
	arm_second(console, now, is_sized ? USEC_PER_SEC / 4 : USEC_PER_SEC);
}

/* ---- the console ---- */

struct console *console_new(const struct console_with *with, struct err *err)
{
	struct console *console = err_calloc(sizeof(*console), "out of memory", err);
	usec_t now = loop_now(with->loop);

	if (!console)
		return NULL;
	console->source.history.older_at = console->source.history.newer_at = now;
	console->source.timeline.rings[TIMELINE_MINUTES].began_at = now;
	console->with = *with;
	console->source.with = &console->with;
	console->door = session_door;
	console->door.arg = console;
	arm_second(console, now, USEC_PER_SEC);
	/* see log_command() */
	for (const struct command *command = commands; command->words; command++) {
		if (command_is_event(command))
			log_expect(console_pools(console)->shared.log, command->words);
	}
	return console;
}

const struct console_door *console_door(const struct console *console) { return &console->door; }

void console_begin_at(struct console *console)
{
	usec_t now = loop_now(console->with.loop);

	lanes_hold(console->with.lanes);
	for (int i = 0; i < 2; i++)
		show_stats_tick(&console->source, now);
	lanes_release(console->with.lanes);
}

void console_free(struct console **consolep)
{
	struct console *console = *consolep;

	if (!console)
		return;
	*consolep = NULL;
	timer_clear(&console->second);
	latency_done(&console->source.latency);
	free(console);
}
