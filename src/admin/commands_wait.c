/* SPDX-License-Identifier: ISC */
/*
 * Commands that are answered when a condition is met: PAUSE, SUSPEND, WAIT_CLOSE, DRAIN.
 *
 * Each session has its own watch and checks its own condition. It finds the database by
 * name each time, because a reload may remove the database while the session waits.
 */
#include "admin_priv.h"

#include <inttypes.h>

#include "pgweir/base/text.h"
#include "pgweir/pool/pools.h"

#define TICK_PERIOD USEC_PER_SEC
#define DRAIN_SECONDS_MAX 10000000

static struct console_session *session_of(const struct pools_watch *watch)
{
	return container_of(watch, struct console_session, waiting.watch);
}

static struct broker *broker_of(const struct console_session *session)
{
	return console_pools(session->console)->with.broker;
}

/* Whether it is still to be waited for. false: another command ended that, for example RESUME. */
static bool is_wanted(const struct console_session *session)
{
	const struct lane *first = &session->console->with.lanes->at[0];
	const struct waiting *waiting = &session->waiting;
	const struct database *database = command_database_in(first, waiting->name);

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
	const struct database *database = command_database_in(lane, waiting->name);
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
	struct drain_progress sum;
	const struct lane *lane;
	unsigned int left = 0;
	bool is_asked = false;

	if (!is_wanted(session))
		return true;
	if (waiting->kind == WAITING_DRAIN) {
		lanes_drain(lanes, &sum);
		return sum.left == 0;
	}
	lanes_hold(lanes);
	LANES_EACH(lane, lanes)
	left += left_in_lane(waiting, lane);
	/* what a server in a letter becomes is known when it has arrived */
	left += broker_is_moving(broker_of(session));
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

/* The error if another command ended the wait. A WAIT_CLOSE cannot be ended like this. */
static const char *const endings[] = {
	[WAITING_PAUSE] = "PAUSE was ended before all servers were free",
	[WAITING_SUSPEND] = "SUSPEND was ended before all connections were at rest",
	[WAITING_HOST] = "DRAIN HOST was ended before all transactions there had ended",
	[WAITING_DRAIN] = "DRAIN was ended before all clients had left",
};

static bool watch_is_done(struct pools_watch *watch) { return is_done(session_of(watch)); }

void commands_wait_stop(struct console_session *session)
{
	struct waiting *waiting = &session->waiting;

	timer_clear(&waiting->tick);
	if (waiting->is_on)
		watches_stop(session->console->with.watches, &waiting->watch);
	waiting->is_on = false;
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

static void on_done(struct pools_watch *watch)
{
	struct console_session *session = session_of(watch);
	struct waiting *waiting = &session->waiting;
	struct err err;

	waiting->is_on = false;
	timer_clear(&waiting->tick);
	if (is_wanted(session)) {
		if (waiting->kind == WAITING_HOST)
			clusters_copies(broker_of(session), waiting->name, waiting->idle_at,
			                tell_copy, session);
		session_complete(session);
	} else {
		err_set(&err, ERR_QUERY_CANCELED, "%s", endings[waiting->kind]);
		session_fail(session, &err);
	}
	session_later(session);
}

/* name: of a database; "": all. WAITING_HOST: of a host. Returns true. */
static bool begin_waiting(struct console_session *session, const char *name, enum waiting_kind kind)
{
	struct waiting *waiting = &session->waiting;

	*waiting = (struct waiting){
		.watch = { .is_done = watch_is_done, .on_done = on_done },
		.kind = kind,
	};
	text_copy(waiting->name, sizeof(waiting->name), name);
	waiting->is_on = !is_done(session);
	if (waiting->is_on)
		watches_start(session->console->with.watches, &waiting->watch);
	return true;
}

bool command_pause(struct console_session *session, struct err *err)
{
	const char *name = session->portal.request.words.argument;
	const struct lane *lane;
	char by[HOLD_BY_SIZE];

	if (!command_not_paused(session, err) || !command_database(session, "pause", err))
		return false;
	command_by(session, "PAUSE", by);
	LANES_HELD(lane, session->console->with.lanes)
	pools_pause(lane->pools, command_database_in(lane, name), by);
	return begin_waiting(session, name, WAITING_PAUSE);
}

bool command_suspend(struct console_session *session, struct err *err)
{
	const struct console_with *with = &session->console->with;
	const struct database *database;
	char by[HOLD_BY_SIZE];

	if (!command_not_paused(session, err))
		return false;
	TAILQ_FOREACH (database, &console_pools(session->console)->databases, node) {
		if (database->is_paused)
			return err_set(err, ERR_STATE, "cannot suspend with paused databases");
	}
	with->suspend(with->daemon, command_by(session, "SUSPEND", by));
	return begin_waiting(session, "", WAITING_SUSPEND);
}

bool command_wait_close(struct console_session *session, struct err *err)
{
	if (!command_database(session, "wait in", err))
		return false;
	return begin_waiting(session, session->portal.request.words.argument, WAITING_CLOSE);
}

/* ---- DRAIN ---- */

/* Sends a NOTICE with the progress, but not while the client has unread output. */
static void on_drain_tick(struct timer *timer)
{
	struct console_session *session = container_of(timer, struct console_session, waiting.tick);
	struct loop *loop = session->console->with.loop;
	struct drain_progress sum;
	char text[256];

	timer_begin(timer, loop, TICK_PERIOD, on_drain_tick);
	if (stream_unsent(&session->client->stream))
		return;
	lanes_drain(session->console->with.lanes, &sum);
	drain_describe(&sum, text, sizeof(text));
	session_notice(session, text, NULL);
	session_later(session);
}

static bool take_seconds(const struct words *words, usec_t *limit, struct err *err)
{
	int64_t seconds;

	*limit = DRAIN_NO_LIMIT;
	if (words->count < 2)
		return true;
	if (!text_to_i64(words->argument, &seconds) || seconds < 0 || seconds > DRAIN_SECONDS_MAX)
		return err_set(err, ERR_PARAMETER, "DRAIN takes seconds, from 0 to %d, not \"%s\"",
		               DRAIN_SECONDS_MAX, words->argument);
	*limit = seconds * USEC_PER_SEC;
	return true;
}

bool command_drain(struct console_session *session, struct err *err)
{
	const struct console_with *with = &session->console->with;
	usec_t limit;

	if (!take_seconds(&session->portal.request.words, &limit, err) ||
	    !command_not_paused(session, err))
		return false;
	with->drain(with->daemon, limit);
	begin_waiting(session, "", WAITING_DRAIN);
	if (session->waiting.is_on)
		on_drain_tick(&session->waiting.tick);
	return true;
}

/* ---- hosts ---- */

/* Whether the entry, or none, has this host. */
static bool has_host(const struct config *config, const struct config_database *entry,
                     const char *name)
{
	const char *list = config_hosts(config, entry);
	struct bytes host;

	while (config_host_next(&list, &host)) {
		if (bytes_are(host, name))
			return true;
	}
	return false;
}

/* Whether an entry has this host. */
static bool is_host(const struct config *config, const char *name)
{
	const struct config_database *entry = NULL;

	while ((entry = config_database_each(config, entry))) {
		if (has_host(config, entry, name))
			return true;
	}
	return false;
}

static bool set_host(struct console_session *session, enum host_admin admin, struct err *err)
{
	const struct lanes *lanes = session->console->with.lanes;
	const char *host = session->portal.request.words.value;
	const struct pools *pools = console_pools(session->console);
	const struct lane *lane;
	bool is_set;

	if (!is_host(pools->config, host))
		return err_set(err, ERR_PARAMETER,
		               "no entry has the host \"%s\" (SHOW HOSTS has their names)", host);
	lanes_hold(lanes);
	is_set = clusters_set_admin(broker_of(session), host, admin, false,
	                            loop_now(session->console->with.loop));
	LANES_EACH(lane, lanes)
	pools_leave_hosts(lane->pools);
	lanes_release(lanes);
	return is_set || err_set(err, ERR_STATE,
	                         "no memory, or too many hosts are drained or disabled: "
	                         "ENABLE HOST for some of them first");
}

bool command_disable_host(struct console_session *session, struct err *err)
{
	return set_host(session, HOST_DISABLED, err);
}

bool command_enable_host(struct console_session *session, struct err *err)
{
	return set_host(session, HOST_ENABLED, err);
}

bool command_drain_host(struct console_session *session, struct err *err)
{
	if (!set_host(session, HOST_DRAINING, err))
		return false;
	begin_waiting(session, session->portal.request.words.value, WAITING_HOST);
	if (!session->waiting.is_on)
		clusters_copies(broker_of(session), session->waiting.name, session->waiting.idle_at,
		                tell_copy, session);
	return true;
}
