/* SPDX-License-Identifier: ISC */
/*
 * How work comes to rest, and ends: SUSPEND, DRAIN, shutdown, by signal or from the console.
 */
#include <inttypes.h>
#include <signal.h>
#include <strings.h>
#include <unistd.h>

#include "daemon_priv.h"

#define LOOK_PERIOD (USEC_PER_SEC / 50) /* between two looks at what is awaited */

/*
 * ---- SUSPEND: all connections come to rest between two messages, and stay at rest ----
 *
 *   NONE --> QUIESCING --[all at rest, or suspend_timeout]--> DONE --> NONE
 *
 * Hard here: only its peer decides when a message ends, so all connections are looked at again and
 * again. During QUIESCING new ones are accepted, because a cancel request may be needed to complete
 * it. In DONE they wait in the backlog.
 */

static void finish_suspend(struct daemon *daemon)
{
	log_kept(&daemon->logger, LOG_LEVEL_INFO, "suspend", "suspended");
	LANES_EACH (lane, &daemon->lanes)
		pools_suspended(lane->pools);
	doors_accept(daemon);
}

static bool is_late(const struct daemon *daemon)
{
	usec_t limit = daemon->now.config->suspend_timeout;

	return limit && loop_now(daemon->loop) - daemon->suspended_at >= limit;
}

static void drop_undrained(struct daemon *daemon)
{
	struct err err;

	err_close(&err, CLOSE_SUSPEND_TIMEOUT);
	LANES_EACH (lane, &daemon->lanes) {
		clients_drop_busy(lane->clients, &err);
		pools_drop_busy(lane->pools, &err);
	}
}

static void look(struct timer *timer)
{
	struct daemon *daemon = container_of(timer, struct daemon, suspend);
	bool is_done = true;

	lanes_hold(&daemon->lanes);
	LANES_EACH (lane, &daemon->lanes) {
		is_done &= pools_quiesce(lane->pools);
		is_done &= clients_quiesce(lane->clients);
	}
	is_done &= !daemon->broker->moving_count;
	if (!is_done && is_late(daemon)) {
		drop_undrained(daemon);
		is_done = true;
	}
	if (is_done)
		finish_suspend(daemon);
	else
		timer_begin(timer, daemon->loop, LOOK_PERIOD, look);
	lanes_release(&daemon->lanes);
}

static void suspend_begin(struct daemon *daemon, const char *by)
{
	daemon->suspended_at = loop_now(daemon->loop);
	lanes_hold(&daemon->lanes);
	LANES_EACH (lane, &daemon->lanes)
		pools_suspend(lane->pools, by);
	look(&daemon->suspend);
	lanes_release(&daemon->lanes);
}

static void suspend_end(struct daemon *daemon)
{
	timer_clear(&daemon->suspend);
	if (daemon->lanes.at[0].pools->suspend == SUSPEND_NONE)
		return;
	log_kept(&daemon->logger, LOG_LEVEL_INFO, "suspend", "SUSPEND ended");
	LANES_HELD (lane, &daemon->lanes) {
		pools_go_on(lane->pools);
		clients_go_on(lane->clients);
	}
	doors_accept(daemon);
}

/* Clients that another process still serves are resumed there, too. */
static void resume(struct daemon *daemon, const char *name)
{
	if (!*name)
		suspend_end(daemon);
	LANES_HELD (lane, &daemon->lanes) {
		struct database *held = *name ? pools_find_database(lane->pools, name) : NULL;

		if (!*name || held)
			pools_resume(lane->pools, held);
	}
	takeover_resume(daemon, name);
}

/*
 * ---- DRAIN; client/clients_stop.c disconnects the clients of each lane ----
 *
 * Hard here: the order. The port is left to other instances before the first client is
 * disconnected, so that clients do not reconnect here. The DRAIN is marked as active before the
 * last connections are accepted, so that their logins are refused with a request to try again.
 */

#define REPORT_PERIOD (10 * USEC_PER_SEC)

static void report(struct daemon *daemon)
{
	char text[256];

	daemon->drain.reported_at = loop_now(daemon->loop);
	drain_describe(&daemon->lanes, text, sizeof(text));
	log_info(&daemon->logger, "%s", text);
}

static void on_deadline(struct timer *timer)
{
	struct daemon *daemon = container_of(timer, struct daemon, drain.deadline);
	struct drain_progress sum;

	lanes_hold(&daemon->lanes);
	sum = lanes_drain(&daemon->lanes);
	log_kept(&daemon->logger, LOG_LEVEL_WARNING, "drain",
	         "the deadline of DRAIN has passed: closing the %u clients left",
	         sum.left - sum.leaving);
	LANES_EACH (lane, &daemon->lanes)
		drain_overrun(lane->clients);
	lanes_release(&daemon->lanes);
}

/* ---- the last client ---- */

static bool is_drained(const struct daemon *daemon)
{
	struct drain_progress sum = lanes_drain(&daemon->lanes);

	return sum.is_on && !sum.left;
}

static void look_for_drained(struct timer *timer)
{
	struct daemon *daemon = container_of(timer, struct daemon, drain.look);
	struct drain_progress sum = lanes_drain(&daemon->lanes);

	if (sum.left) {
		if (loop_now(daemon->loop) - daemon->drain.reported_at >= REPORT_PERIOD)
			report(daemon);
		timer_begin(timer, daemon->loop, LOOK_PERIOD, look_for_drained);
		return;
	}
	timer_clear(&daemon->drain.deadline);
	log_kept(&daemon->logger, LOG_LEVEL_INFO, "drain",
	         "drained: no client is left; %" PRIu64 " closed between transactions, %" PRIu64
	         " at the deadline",
	         sum.closed, sum.cut);
}

static void stop_drain(struct daemon *daemon)
{
	timer_clear(&daemon->drain.look);
	timer_clear(&daemon->drain.deadline);
}

/* ---- begin and end ---- */

/* Leaves the listeners alone. */
static void drain_clients(struct daemon *daemon, usec_t limit)
{
	lanes_hold(&daemon->lanes);
	LANES_EACH (lane, &daemon->lanes)
		drain_begin(lane->clients, limit);
	report(daemon);
	lanes_release(&daemon->lanes);
	timer_begin(&daemon->drain.look, daemon->loop, LOOK_PERIOD, look_for_drained);
	timer_begin(&daemon->drain.deadline, daemon->loop, limit, on_deadline);
}

/* Begins a DRAIN, or changes its limit. See drain_begin(). */
static void begin_drain(struct daemon *daemon, usec_t limit)
{
	drain_clients(daemon, limit);
	doors_accept(daemon);
	notify_send(&daemon->notify, "STATUS=draining");
}

static void end_drain(struct daemon *daemon)
{
	if (!daemon->lanes.at[0].clients->drain.is_on)
		return;
	log_kept(&daemon->logger, LOG_LEVEL_INFO, "drain", "DRAIN %s, accepting clients",
	         is_drained(daemon) ? "ended" : "canceled");
	stop_drain(daemon);
	LANES_HELD (lane, &daemon->lanes)
		drain_end(lane->clients);
	doors_accept(daemon);
	notify_send(&daemon->notify, "STATUS=ready");
}

/* ---- shutdown ---- */

static bool lane_stop_is_due(const struct daemon *daemon, const struct lane *lane)
{
	if (daemon->awaits == SHUTDOWN_WAIT_FOR_SERVERS)
		return lane->pools->server_count == lane->pools->listening_count;
	if (lane->pools->ending_count)
		return false; /* for 10 s at most */
	/* Consoles and unfinished logins do not delay a shutdown that has a deadline. */
	if (daemon->is_draining_to_end && lane->clients->drain.is_on)
		return !timer_is_set(&daemon->drain.look);
	return lane->clients->count == 0 && lane->arriving_count == 0;
}

static bool stop_is_due(const struct daemon *daemon)
{
	bool is_due = true;

	if (daemon->awaits == SHUTDOWN_WAIT_FOR_SERVERS && daemon->broker->moving_count)
		return false;
	LANES_HELD (lane, &daemon->lanes)
		is_due &= lane_stop_is_due(daemon, lane);
	return is_due;
}

static void look_for_end(struct timer *timer)
{
	struct daemon *daemon = container_of(timer, struct daemon, stop);

	if (!stop_is_due(daemon)) {
		timer_begin(timer, daemon->loop, LOOK_PERIOD, look_for_end);
		return;
	}
	log_kept(&daemon->logger, LOG_LEVEL_INFO, "shutdown", "%s, shutting down",
	         daemon->awaits == SHUTDOWN_WAIT_FOR_SERVERS ? "all server connections are closed"
	                                                     : "all clients have disconnected");
	daemon->awaits = SHUTDOWN_NOW;
	loop_stop(daemon->loop);
}

/* Stops waiting for the last client or server: the daemon ends in another way. */
static void stop_waiting(struct daemon *daemon)
{
	timer_clear(&daemon->announced);
	timer_clear(&daemon->stop);
	daemon->awaits = SHUTDOWN_NOW;
}

/*
 * New clients are refused. Those that have connected before are waited for, those in the backlog
 * too: they are accepted first, and get lower ids.
 */
static void stop_accepting(struct daemon *daemon)
{
	bool is_first = !daemon->lanes.at[0].clients->is_shutting_down;
	uint64_t id;

	TAILQ_EACH (door, &daemon->doors, node)
		listener_close_tcp(door->listener);
	id = broker_next_id(daemon->broker);
	LANES_EACH (lane, &daemon->lanes) {
		struct clients *clients = lane->clients;

		clients->is_shutting_down = true;
		if (daemon->awaits == SHUTDOWN_WAIT_FOR_SERVERS)
			clients->shutdown_id = 0;
		else if (is_first)
			clients->shutdown_id = id;
	}
}

static void refuse_work(struct daemon *daemon)
{
	struct err err;

	err_close(&err, CLOSE_SERVER_SHUTDOWN);
	LANES_EACH (lane, &daemon->lanes) {
		pools_pause(lane->pools, NULL, "shutdown");
		pools_refuse_waiting(lane->pools, &err);
	}
}

void lifecycle_stop(struct daemon *daemon, enum shutdown_kind kind)
{
	if (kind == SHUTDOWN_NOW) {
		loop_stop(daemon->loop);
		return;
	}
	lanes_hold(&daemon->lanes);
	stop_waiting(daemon);
	suspend_end(daemon); /* a suspended client could never disconnect */
	daemon->awaits = kind;
	stop_accepting(daemon);
	takeover_stop(daemon, kind);
	if (kind == SHUTDOWN_WAIT_FOR_SERVERS)
		refuse_work(daemon);
	timer_begin(&daemon->stop, daemon->loop, LOOK_PERIOD, look_for_end);
	lanes_release(&daemon->lanes);
}

void lifecycle_end(struct daemon *daemon)
{
	stop_waiting(daemon);
	stop_drain(daemon);
	timer_clear(&daemon->suspend);
	timer_clear(&daemon->watchdog);
}

/* ---- the service manager ---- */

static void on_watchdog(struct timer *timer)
{
	struct daemon *daemon = container_of(timer, struct daemon, watchdog);

	/* Waits for all loops: nothing is sent while one of them does not turn. */
	lanes_hold(&daemon->lanes);
	lanes_release(&daemon->lanes);
	notify_send(&daemon->notify, "WATCHDOG=1");
	timer_begin(timer, daemon->loop, daemon->notify.watchdog / 2, on_watchdog);
}

void lifecycle_ready(struct daemon *daemon)
{
	notify_send(&daemon->notify, "READY=1\nSTATUS=ready\nMAINPID=%ld", (long)getpid());
	if (daemon->notify.watchdog)
		on_watchdog(&daemon->watchdog);
}

/* ---- signals ---- */

static void on_hangup(int number, void *arg)
{
	struct daemon *daemon = arg;
	struct err err;

	(void)number;
	log_kept(&daemon->logger, LOG_LEVEL_INFO, "reload", "got SIGHUP, re-reading config");
	reload_config(daemon, NULL, NULL, &err);
}

static const char *stop_name(const struct daemon *daemon)
{
	return daemon->stop_signal == SIGTERM ? "SIGTERM" : "SIGINT";
}

/* The process stops with the last client; shutdown_drain limits how long that takes. */
static void drain_and_stop(struct daemon *daemon, usec_t limit)
{
	notify_send(&daemon->notify, "STOPPING=1\nSTATUS=draining");
	log_kept(&daemon->logger, LOG_LEVEL_INFO, "shutdown",
	         "got %s, shutting down, disconnecting clients within %lld s (shutdown_drain)",
	         stop_name(daemon), (long long)((limit + USEC_PER_SEC - 1) / USEC_PER_SEC));
	drain_clients(daemon, limit); /* its end is logged before the end of the process */
	lifecycle_stop(daemon, SHUTDOWN_WAIT_FOR_CLIENTS);
	daemon->is_draining_to_end = true;
}

static bool is_for_drain(const struct daemon *daemon)
{
	const struct config_list *signals = &daemon->now.config->shutdown_drain_signals;

	for (size_t i = 0; i < signals->count; i++) {
		if (strcasecmp(signals->names[i], stop_name(daemon)) == 0)
			return true;
	}
	return false;
}

static void begin_stop(struct daemon *daemon)
{
	bool is_for_clients = daemon->stop_signal == SIGTERM;
	const char *awaited = is_for_clients ? "clients" : "servers";

	if (daemon->now.config->shutdown_drain && is_for_drain(daemon)) {
		drain_and_stop(daemon, daemon->now.config->shutdown_drain);
		return;
	}
	notify_send(&daemon->notify, "STOPPING=1\nSTATUS=waiting for %s to disconnect", awaited);
	log_kept(&daemon->logger, LOG_LEVEL_INFO, "shutdown",
	         "got %s, shutting down, waiting for all %s to disconnect", stop_name(daemon),
	         awaited);
	lifecycle_stop(daemon,
	               is_for_clients ? SHUTDOWN_WAIT_FOR_CLIENTS : SHUTDOWN_WAIT_FOR_SERVERS);
}

static void on_announced(struct timer *timer)
{
	begin_stop(container_of(timer, struct daemon, announced));
}

/* Until load balancers have learned by their probes that it is not ready, they send clients. */
static void announce_stop(struct daemon *daemon, usec_t limit)
{
	long long seconds = (limit + USEC_PER_SEC - 1) / USEC_PER_SEC;

	timer_begin(&daemon->announced, daemon->loop, limit, on_announced);
	notify_send(&daemon->notify, "STOPPING=1\nSTATUS=stopping, accepting clients for %lld s",
	            seconds);
	log_kept(&daemon->logger, LOG_LEVEL_INFO, "shutdown",
	         "got %s, accepting clients for %lld s more (shutdown_accept)", stop_name(daemon),
	         seconds);
}

/* Whether new clients are accepted now: not during a DRAIN, and not beside a successor. */
static bool is_accepting(const struct daemon *daemon)
{
	return !daemon->lanes.at[0].clients->drain.is_on && !daemon->handover;
}

static bool is_stopping(struct daemon *daemon)
{
	return timer_is_set(&daemon->announced) || daemon->lanes.at[0].clients->is_shutting_down;
}

static void on_terminate(int number, void *arg)
{
	struct daemon *daemon = arg;

	daemon->stop_signal = number;
	if (is_stopping(daemon)) {
		log_kept(&daemon->logger, LOG_LEVEL_INFO, "shutdown",
		         "got %s while shutting down, fast exit", stop_name(daemon));
		lifecycle_stop(daemon, SHUTDOWN_NOW);
	} else if (daemon->now.config->shutdown_accept && is_accepting(daemon)) {
		announce_stop(daemon, daemon->now.config->shutdown_accept);
	} else {
		begin_stop(daemon);
	}
}

static void on_quit(int number, void *arg)
{
	struct daemon *daemon = arg;

	(void)number;
	notify_send(&daemon->notify, "STOPPING=1");
	log_kept(&daemon->logger, LOG_LEVEL_INFO, "shutdown", "got SIGQUIT, fast exit");
	lifecycle_stop(daemon, SHUTDOWN_NOW);
}

static void on_pause(int number, void *arg)
{
	struct daemon *daemon = arg;

	(void)number;
	if (pools_are_held(daemon->lanes.at[0].pools)) {
		log_info(&daemon->logger, "got SIGUSR1, but already paused/suspended");
		return;
	}
	log_kept(&daemon->logger, LOG_LEVEL_INFO, "pause", "got SIGUSR1, pausing all activity");
	LANES_HELD (lane, &daemon->lanes)
		pools_pause(lane->pools, NULL, "SIGUSR1");
}

static void on_resume(int number, void *arg)
{
	struct daemon *daemon = arg;
	const struct lane *first = daemon->lanes.at;
	bool is_held = pools_are_held(first->pools) || first->clients->drain.is_on;

	(void)number;
	if (is_stopping(daemon)) {
		log_info(&daemon->logger, "got SIGUSR2 while shutting down, ignoring");
		return;
	}
	if (!is_held) {
		log_info(&daemon->logger, "got SIGUSR2, but not paused");
		return;
	}
	log_kept(&daemon->logger, LOG_LEVEL_INFO, "resume", "got SIGUSR2, continuing from PAUSE");
	resume(daemon, "");
	end_drain(daemon);
}

bool lifecycle_catch_signals(struct daemon *daemon, struct err *err)
{
	static const struct {
		int number;
		void (*on_signal)(int number, void *arg);
	} signals[] = {
		{ SIGHUP, on_hangup }, { SIGTERM, on_terminate }, { SIGINT, on_terminate },
		{ SIGQUIT, on_quit },  { SIGUSR1, on_pause },     { SIGUSR2, on_resume },
	};

	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a log file that may not grow is no reason to end */
	/* Ignore a signal that comes before the loop runs, or after it has ended. */
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		signal(signals[i].number, SIG_IGN);
		if (!loop_on_signal(daemon->loop, signals[i].number, signals[i].on_signal, daemon,
		                    err))
			return false;
	}
	return true;
}

/* ---- the console ---- */

static void on_period(struct daemon *daemon, const char *text)
{
	notify_send(&daemon->notify, "STATUS=%s", text);
	certificates_look(daemon);
}

bool lifecycle_make_console(struct daemon *daemon, struct err *err)
{
	daemon->console = console_new(
	    &(struct console_with){
		.loop = daemon->loop,
		.lanes = &daemon->lanes,
		.daemon = daemon,
		.reload = reload_config,
		.set = reload_set,
		.shutdown = lifecycle_stop,
		.suspend = suspend_begin,
		.resume = resume,
		.hand_over = handover_start,
		.drain = begin_drain,
		.drain_end = end_drain,
		.listener = doors_show,
		.certificate = certificates_show,
		.on_period = on_period,
		.is_shutting_down = is_stopping,
	    },
	    err);
	return daemon->console != NULL;
}
