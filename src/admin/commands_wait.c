/* SPDX-License-Identifier: ISC */
/*
 * Commands that are answered when a condition is met: PAUSE, SUSPEND, WAIT_CLOSE, DRAIN.
 *
 * Each session has its own watch and checks its own condition. It finds the database by
 * name each time, because a reload may remove the database while the session waits.
 */
#include "admin_priv.h"

#include <ctype.h>
#include <stdlib.h>

#include "pgweir/base/text.h"

#include "pgweir/base/banned.h"

#define TICK_PERIOD USEC_PER_SEC
#define DRAIN_SECONDS_MAX 10000000

static struct console_session *session_of(const struct pools_watch *watch)
{
	return container_of(watch, struct console_session, waiting.watch);
}

static struct database *database_of(const struct waiting *waiting, const struct pools *pools)
{
	return pools_find_database((struct pools *)pools, waiting->database);
}

/* Whether the PAUSE that the session waits for is still in effect. */
static bool is_paused(const struct waiting *waiting, const struct pools *pools)
{
	const struct database *database = database_of(waiting, pools);

	if (!*waiting->database)
		return pools->is_paused;
	return database && database->is_paused;
}

static bool is_done(const struct console_session *session)
{
	const struct waiting *waiting = &session->waiting;
	const struct clients *clients = session->console->source.clients;
	const struct pools *pools = session->console->with.pools;
	const struct database *database = database_of(waiting, pools);

	if (waiting->kind == WAITING_DRAIN)
		return !clients->drain.is_on || drain_left(clients) == 0;
	if (*waiting->database && !database)
		return true;
	if (waiting->kind == WAITING_SUSPEND)
		return pools->suspend != SUSPEND_QUIESCING;
	if (waiting->kind == WAITING_CLOSE)
		return (database ? database->close_needed_count : pools->close_needed_count) == 0;
	return !is_paused(waiting, pools) ||
	       (database ? database->busy_count : pools->busy_count) == 0;
}

/* Whether the condition was met. false: another command ended the wait, for example RESUME. */
static bool has_come(const struct console_session *session)
{
	const struct waiting *waiting = &session->waiting;
	const struct pools *pools = session->console->with.pools;

	switch (waiting->kind) {
	case WAITING_PAUSE:
		return is_paused(waiting, pools);
	case WAITING_SUSPEND:
		return pools->suspend == SUSPEND_DONE;
	case WAITING_DRAIN:
		return session->console->source.clients->drain.is_on;
	case WAITING_CLOSE:
		break;
	}
	return true;
}

/* The error in that case. A WAIT_CLOSE cannot be ended like this. */
static const char *const endings[] = {
	[WAITING_PAUSE] = "PAUSE was ended before all servers were free",
	[WAITING_SUSPEND] = "SUSPEND was ended before all connections were at rest",
	[WAITING_DRAIN] = "DRAIN was ended before all clients had left",
};

static bool watch_is_done(struct pools_watch *watch) { return is_done(session_of(watch)); }

void commands_wait_stop(struct console_session *session)
{
	struct waiting *waiting = &session->waiting;

	timer_clear(&waiting->tick);
	if (waiting->is_on)
		pools_watch_stop(session->console->with.pools, &waiting->watch);
	waiting->is_on = false;
}

static void on_done(struct pools_watch *watch)
{
	struct console_session *session = session_of(watch);
	struct waiting *waiting = &session->waiting;
	struct err err;

	waiting->is_on = false;
	timer_clear(&waiting->tick);
	if (has_come(session)) {
		session_complete(session);
	} else {
		err_set(&err, ERR_QUERY_CANCELED, "%s", endings[waiting->kind]);
		session_fail(session, &err);
	}
	session_later(session);
}

static enum outcome begin_waiting(struct console_session *session, const struct database *database,
                                  enum waiting_kind kind)
{
	struct waiting *waiting = &session->waiting;
	struct pools *pools = session->console->with.pools;

	*waiting = (struct waiting){
		.watch = { .is_done = watch_is_done, .on_done = on_done },
		.kind = kind,
	};
	if (database)
		text_copy(waiting->database, sizeof(waiting->database), database->name);
	if (is_done(session))
		return OUTCOME_DONE;
	waiting->is_on = true;
	pools_watch_start(pools, &waiting->watch);
	return OUTCOME_WAIT;
}

enum outcome command_pause(struct console_session *session, struct err *err)
{
	struct database *database;
	char by[HOLD_BY_SIZE];

	if (!command_not_paused(session, err) ||
	    !command_database(session, "pause", &database, err))
		return OUTCOME_FAILED;
	pools_pause(session->console->with.pools, database, command_by(session, "PAUSE", by));
	return begin_waiting(session, database, WAITING_PAUSE);
}

enum outcome command_suspend(struct console_session *session, struct err *err)
{
	const struct console_with *with = &session->console->with;
	const struct database *database;
	char by[HOLD_BY_SIZE];

	if (!command_not_paused(session, err))
		return OUTCOME_FAILED;
	TAILQ_FOREACH (database, &with->pools->databases, node) {
		if (database->is_paused) {
			err_set(err, ERR_STATE, "cannot suspend with paused databases");
			return OUTCOME_FAILED;
		}
	}
	with->suspend(with->arg, command_by(session, "SUSPEND", by));
	return begin_waiting(session, NULL, WAITING_SUSPEND);
}

enum outcome command_wait_close(struct console_session *session, struct err *err)
{
	struct database *database;

	if (!command_database(session, "wait in", &database, err))
		return OUTCOME_FAILED;
	return begin_waiting(session, database, WAITING_CLOSE);
}

/* ---- DRAIN ---- */

/* Sends a NOTICE with the progress, but not while the client has unread output. */
static void on_drain_tick(struct timer *timer)
{
	struct console_session *session = container_of(timer, struct console_session, waiting.tick);
	struct loop *loop = session->console->with.loop;
	char text[256];

	timer_set(timer, loop_timer_queue(loop, TICK_PERIOD, on_drain_tick), loop_now(loop));
	if (stream_unsent(&session->client->stream))
		return;
	drain_describe(session->console->source.clients, text, sizeof(text));
	session_notice(session, text, NULL);
	session_later(session);
}

static bool take_seconds(const struct words *words, usec_t *limit, struct err *err)
{
	unsigned long seconds;
	char *end;

	*limit = DRAIN_NO_LIMIT;
	if (words->count < 2)
		return true;
	seconds = strtoul(words->argument, &end, 10);
	if (!isdigit((unsigned char)words->argument[0]) || *end || seconds > DRAIN_SECONDS_MAX)
		return err_set(err, ERR_PARAMETER, "DRAIN takes seconds, from 0 to %d, not \"%s\"",
		               DRAIN_SECONDS_MAX, words->argument);
	*limit = (usec_t)seconds * USEC_PER_SEC;
	return true;
}

enum outcome command_drain(struct console_session *session, struct err *err)
{
	const struct console_with *with = &session->console->with;
	enum outcome outcome;
	usec_t limit;

	if (!take_seconds(&session->portal->request.words, &limit, err) ||
	    !command_not_paused(session, err))
		return OUTCOME_FAILED;
	with->drain(with->arg, limit);
	outcome = begin_waiting(session, NULL, WAITING_DRAIN);
	if (outcome == OUTCOME_WAIT)
		on_drain_tick(&session->waiting.tick);
	return outcome;
}
