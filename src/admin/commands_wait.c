/* SPDX-License-Identifier: ISC */
/*
 * Commands that are answered when a state of things has come: PAUSE, WAIT_CLOSE.
 *
 * Each session waits by a watch of its own, and judges for itself. A database is
 * looked up by its name each time: a reload may take it away meanwhile.
 */
#include "admin_priv.h"

#include "pgweir/base/text.h"

#include "pgweir/base/banned.h"

static struct console_session *session_of(const struct pools_watch *watch)
{
	return OWNER_OF(watch, struct console_session, waiting.watch);
}

static struct database *database_of(const struct waiting *waiting, const struct pools *pools)
{
	return pools_find_database((struct pools *)pools, waiting->database);
}

/* Whether the PAUSE that we wait for is still wanted. */
static bool is_paused(const struct waiting *waiting, const struct pools *pools)
{
	const struct database *database = database_of(waiting, pools);

	if (!*waiting->database)
		return pools->is_paused;
	return database && database->is_paused;
}

static bool is_done(const struct waiting *waiting, const struct pools *pools)
{
	const struct database *database = database_of(waiting, pools);

	if (*waiting->database && !database)
		return true;
	if (!waiting->is_pause)
		return (database ? database->close_needed_count : pools->close_needed_count) == 0;
	return !is_paused(waiting, pools) ||
	       (database ? database->busy_count : pools->busy_count) == 0;
}

static bool watch_is_done(struct pools_watch *watch)
{
	struct console_session *session = session_of(watch);

	return is_done(&session->waiting, session->console->with.pools);
}

static void on_done(struct pools_watch *watch)
{
	struct console_session *session = session_of(watch);
	struct waiting *waiting = &session->waiting;
	struct err err;

	waiting->is_on = false;
	if (!waiting->is_pause || is_paused(waiting, session->console->with.pools)) {
		session_complete(session);
	} else {
		err_set(&err, ERR_QUERY_CANCELED, "PAUSE was ended before all servers were free");
		session_fail(session, &err);
	}
	session_later(session);
}

static enum outcome wait_for(struct console_session *session, const struct database *database,
                             bool is_pause)
{
	struct waiting *waiting = &session->waiting;
	struct pools *pools = session->console->with.pools;

	*waiting = (struct waiting){
		.watch = { .is_done = watch_is_done, .on_done = on_done },
		.is_pause = is_pause,
	};
	if (database)
		text_copy(waiting->database, sizeof(waiting->database), database->name);
	if (is_done(waiting, pools))
		return OUTCOME_DONE;
	waiting->is_on = true;
	pools_watch_start(pools, &waiting->watch);
	return OUTCOME_WAIT;
}

enum outcome command_pause(struct console_session *session, struct err *err)
{
	struct database *database;

	if (!command_not_paused(session, err) ||
	    !command_database(session, "pause", &database, err))
		return OUTCOME_FAILED;
	pools_pause(session->console->with.pools, database);
	return wait_for(session, database, true);
}

enum outcome command_wait_close(struct console_session *session, struct err *err)
{
	struct database *database;

	if (!command_database(session, "wait in", &database, err))
		return OUTCOME_FAILED;
	return wait_for(session, database, false);
}
