/* SPDX-License-Identifier: ISC */
/*
 * Reload, SET, pause and shutdown, by signal or from the console.
 *
 * Hard here: a reload applies all changes or none. Everything that can fail is done before
 * the first module is changed, so that an error in any line leaves everything as it was.
 */
#include <signal.h>
#include <strings.h>
#include <unistd.h>

#include "daemon_priv.h"
#include "check.h"

#include "pgweir/base/container_of.h"
#include "pgweir/config/changes.h"

/* ---- a new snapshot ---- */

/* Makes all that is needed, and opens the log, before anything changes. Takes the parts. */
static bool change_config(struct daemon *daemon, struct parts *parts, struct problems *problems)
{
	struct doors_change doors = { .daemon = daemon };
	struct err err;

	parts->tls.client = tls_context_ref(daemon->tls.client);
	parts->tls.server = tls_context_ref(daemon->tls.server);
	if (!load_make(parts, problems))
		return false;
	if (!doors_prepare(&doors, &parts->gates, &err) ||
	    !load_log(daemon->log, daemon->options, parts->config, &err)) {
		doors_abandon(&doors);
		load_say_where(parts->config, &err);
		return problems_add(problems, (struct source_pos){ 0 }, "%s", err.text);
	}
	apply_snapshot(daemon, parts);
	doors_commit(&doors);
	return true;
}

/* The changes of a reload: as lines to the console that asked for it, by name to the log. */
struct telling {
	config_tell *tell; /* NULL: no console asked */
	void *arg;
	struct buf names;
};

static void tell_change(void *arg, const char *name, const char *line)
{
	struct telling *telling = arg;

	buf_printf(&telling->names, "%s%s", telling->names.count ? ", " : "", name);
	if (telling->tell)
		telling->tell(telling->arg, name, line);
}

/* Reports and logs a line like "auth_file: 7 users (1 new, 0 gone, 2 changed)". */
static void tell_count(struct daemon *daemon, struct telling *telling, const char *setting,
                       struct buf *count)
{
	struct buf line = { 0 };

	buf_printf(&line, "%s: %s", setting, buf_text(count));
	log_info(&daemon->logger, "%s", buf_text(&line));
	tell_change(telling, setting, buf_text(&line));
	buf_free(&line);
}

static void tell_counts(struct daemon *daemon, const struct parts *old, struct telling *telling)
{
	struct buf count = { 0 };
	struct recount recount = { 0 };

	if (recount_users(old->users, daemon->users, &count))
		tell_count(daemon, telling, "auth_file", &count);
	buf_clear(&count);
	recount_rules(&recount, old->hba, RECOUNT_OLD);
	recount_rules(&recount, daemon->hba, RECOUNT_NEW);
	if (recount_end(&recount, &count))
		tell_count(daemon, telling, "auth_hba_file", &count);
	buf_free(&count);
}

static void tell_changes(struct daemon *daemon, const struct parts *old, const struct config *fresh,
                         config_tell *tell, void *arg)
{
	struct telling telling = { .tell = tell, .arg = arg };

	config_compare(old->config, fresh, tell_change, &telling);
	tell_counts(daemon, old, &telling);
	if (telling.names.count)
		log_kept(&daemon->logger, LOG_LEVEL_INFO, "reload",
		         "changed in the configuration: %s", buf_text(&telling.names));
	buf_free(&telling.names);
}

/* The console that asked for the reload also gets the warnings. */
static void tell_warnings(const struct problems *problems, config_tell *tell, void *arg)
{
	for (size_t i = 0; tell && i < problems->warnings.count; i++) {
		struct buf line = { 0 };

		buf_printf(&line, "warning: %s", problems->warnings.texts[i]);
		tell(arg, "warning", buf_text(&line));
		buf_free(&line);
	}
}

/* Settings that need a restart keep their values. */
static const struct config *keep_boot_only(struct daemon *daemon, const struct config *config,
                                           struct problems *problems)
{
	struct buf differ = { 0 };
	const struct config *kept = config_keep_boot_only(config, daemon->config, &differ);

	if (differ.count)
		log_kept(&daemon->logger, LOG_LEVEL_WARNING, "reload",
		         "changes that need a restart: %s", buf_text(&differ));
	buf_free(&differ);
	if (!kept)
		problems_add(problems, (struct source_pos){ 0 }, "out of memory");
	return kept;
}

static bool load_again(struct daemon *daemon, config_tell *tell, void *tell_arg, struct err *err)
{
	struct parts old = apply_hold(daemon, config_ref(daemon->config)), fresh;
	const struct config *config = NULL; /* as it is in the file */
	struct problems problems = { 0 };
	bool is_done = load_all(daemon->config->conffile, &fresh, &problems);

	if (is_done) {
		config = fresh.config;
		fresh.config = keep_boot_only(daemon, config, &problems);
		is_done = fresh.config && change_config(daemon, &fresh, &problems);
		parts_done(&fresh);
	}
	load_log_problems(&daemon->logger, LOG_LEVEL_ERROR, &problems);
	tell_warnings(&problems, tell, tell_arg);
	if (is_done)
		tell_changes(daemon, &old, config, tell, tell_arg);
	else
		problems_first(&problems, err);
	problems_done(&problems);
	config_unref(&config);
	parts_done(&old);
	return is_done;
}

static bool reload(struct daemon *daemon, config_tell *tell, void *tell_arg, struct err *err)
{
	bool is_done;

	notify_send(&daemon->notify, "RELOADING=1\nMONOTONIC_USEC=%lld\nSTATUS=reloading",
	            (long long)clock_now());
	is_done = load_again(daemon, tell, tell_arg, err);
	if (!is_done)
		log_kept(&daemon->logger, LOG_LEVEL_ERROR, "reload",
		         "reload failed, keeping the old configuration");
	notify_send(&daemon->notify, "READY=1\nSTATUS=%s",
	            is_done ? "reloaded" : "reload failed, keeping the old configuration");
	return is_done;
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
	reload(daemon, NULL, NULL, &err);
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
	main_drain_clients(daemon, limit); /* its end is logged before the end of the process */
	stop_daemon(daemon, SHUTDOWN_WAIT_FOR_CLIENTS);
	daemon->is_draining_to_end = true;
}

static bool is_for_drain(const struct daemon *daemon)
{
	const struct config_list *signals = &daemon->config->shutdown_drain_signals;

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

	if (daemon->config->shutdown_drain && is_for_drain(daemon)) {
		drain_and_stop(daemon, daemon->config->shutdown_drain);
		return;
	}
	notify_send(&daemon->notify, "STOPPING=1\nSTATUS=waiting for %s to disconnect", awaited);
	log_kept(&daemon->logger, LOG_LEVEL_INFO, "shutdown",
	         "got %s, shutting down, waiting for all %s to disconnect", stop_name(daemon),
	         awaited);
	stop_daemon(daemon, is_for_clients ? SHUTDOWN_WAIT_FOR_CLIENTS : SHUTDOWN_WAIT_FOR_SERVERS);
}

static void on_announced(struct timer *timer)
{
	begin_stop(container_of(timer, struct daemon, announced));
}

/* Until load balancers have learned by their probes that it is not ready, they send clients. */
static void announce_stop(struct daemon *daemon, usec_t limit)
{
	long long seconds = (limit + USEC_PER_SEC - 1) / USEC_PER_SEC;

	daemon->shutdown = SHUTDOWN_ANNOUNCED;
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
	return daemon->shutdown != SHUTDOWN_NONE || daemon->lanes.at[0].clients->is_shutting_down;
}

static void on_terminate(int number, void *arg)
{
	struct daemon *daemon = arg;

	daemon->stop_signal = number;
	if (is_stopping(daemon)) {
		log_kept(&daemon->logger, LOG_LEVEL_INFO, "shutdown",
		         "got %s while shutting down, fast exit", stop_name(daemon));
		stop_daemon(daemon, SHUTDOWN_NOW);
	} else if (daemon->config->shutdown_accept && is_accepting(daemon)) {
		announce_stop(daemon, daemon->config->shutdown_accept);
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
	stop_daemon(daemon, SHUTDOWN_NOW);
}

static void on_pause(int number, void *arg)
{
	struct daemon *daemon = arg;
	struct lane *lane;

	(void)number;
	if (pools_are_held(daemon->lanes.at[0].pools)) {
		log_info(&daemon->logger, "got SIGUSR1, but already paused/suspended");
		return;
	}
	log_kept(&daemon->logger, LOG_LEVEL_INFO, "pause", "got SIGUSR1, pausing all activity");
	LANES_HELD(lane, &daemon->lanes)
	pools_pause(lane->pools, NULL, "SIGUSR1");
}

static void on_resume(int number, void *arg)
{
	struct daemon *daemon = arg;
	struct lane *lane = daemon->lanes.at;
	bool is_held = pools_are_held(lane->pools) || lane->clients->drain.is_on;

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
	suspend_end(daemon);
	LANES_HELD(lane, &daemon->lanes)
	pools_resume(lane->pools, NULL);
	main_drain_end(daemon);
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
		.log = daemon->log,
		.lanes = &daemon->lanes,
		.watches = &daemon->watches,
		.daemon = daemon,
		.config = &daemon->config,
		.reload = reload,
		.set = set_setting,
		.shutdown = stop_daemon,
		.suspend = suspend_begin,
		.go_on = suspend_end,
		.may_hand_over = handover_may_start,
		.hand_over = handover_start,
		.drain = main_drain_begin,
		.drain_end = main_drain_end,
		.listener = doors_show,
		.certificate = certificates_show,
		.on_period = on_period,
		.is_shutting_down = is_stopping,
	    },
	    err);
	return daemon->console != NULL;
}
