/* SPDX-License-Identifier: ISC */
/*
 * Reload, SET, pause and shutdown, by signal or from the console.
 *
 * Hard here: a reload is all or nothing. Whatever can fail is done before the
 * first room is told, so that a bad line anywhere leaves everything as it was.
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "daemon_priv.h"
#include "roster.h"

#include "pgweir/config/origin.h"

#include "pgweir/base/banned.h"

/* ---- a new snapshot ---- */

void lifecycle_put_in_force(struct daemon *daemon, const struct config *config, struct parts *parts)
{
	config_unref(&daemon->config);
	users_release(&daemon->users);
	hba_release(&daemon->hba);
	tls_sets_done(&daemon->tls);
	daemon->config = config;
	daemon->users = parts->users;
	daemon->hba = parts->hba;
	daemon->tls = parts->tls;
	pools_configure(daemon->pools, config, daemon->users);
	clients_set_hba(daemon->clients, daemon->hba);
	clients_configure(daemon->clients, config, daemon->users);
	clients_set_tls(daemon->clients, daemon->tls.client);
	if (parts->proxies)
		clients_set_proxies(daemon->clients, parts->proxies);
	pools_set_tls(daemon->pools, daemon->tls.server);
	verifiers_trim(daemon->verifiers, daemon->users);
	resolver_set_ttl(daemon->resolver, config->dns_max_ttl, config->dns_nxdomain_ttl);
	resolver_set_zone_period(daemon->resolver, config->dns_zone_check_period);
	listener_set_options(daemon->listener, &daemon->pools->server_sockets,
	                     config->tcp_defer_accept);
	console_configure(daemon->console);
	loop_poll(daemon->loop, config->busy_poll);
	outbox_use_ring(daemon->streams.outbox, config->io_uring);
	*parts = (struct parts){ 0 };
}

/* Certificates are read and the log is asked first: their files may be bad. */
static bool change_config(struct daemon *daemon, const struct config *config, struct users *users,
                          struct hba *hba, struct err *err)
{
	struct log_options log = daemon_log_options(daemon->options, config);
	struct parts parts = { .users = users, .hba = hba };

	if (!tls_sets_make(&parts.tls, config, &daemon->tls, err) ||
	    !daemon_load_proxies(config, &parts.proxies, err) ||
	    !log_configure(daemon->log, &log, err)) {
		parts_done(&parts);
		config_unref(&config);
		return false;
	}
	lifecycle_put_in_force(daemon, config, &parts);
	daemon_forget_sets(daemon);
	return true;
}

/* All problems of a reload go to the log, the first one into *err too. */
static void report(struct daemon *daemon, const struct problems *problems, struct err *err)
{
	const struct logger *logger = &daemon->logger;

	daemon_log_warnings(logger, problems);
	for (size_t i = 0; i < problems->count; i++)
		log_error(logger, "%s", problems->texts[i]);
	if (problems->dropped_count)
		log_error(logger, "... and %zu more problems", problems->dropped_count);
	if (problems_any(problems) && err->code == ERR_NONE)
		err_set(err, ERR_CONFIG, "%s",
		        problems->count ? problems->texts[0] : "out of memory");
}

/* Where the changes of a reload go: in words to whoever asked for it, by name to the log. */
struct telling {
	config_tell *tell; /* NULL: nobody asked */
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

/* What a configuration names besides itself. */
struct before {
	const struct config *config;
	struct users *users;
	struct hba *hba;
};

static void before_done(struct before *before)
{
	config_unref(&before->config);
	users_release(&before->users);
	hba_release(&before->hba);
}

/* "auth_file: 7 users (1 new, 0 gone, 2 changed)", in the log too. */
static void tell_count(struct daemon *daemon, struct telling *telling, const char *setting,
                       struct buf *count)
{
	struct buf line = { 0 };

	buf_printf(&line, "%s: %s", setting, buf_text(count));
	log_info(&daemon->logger, "%s", buf_text(&line));
	tell_change(telling, setting, buf_text(&line));
	buf_free(&line);
}

static void tell_counts(struct daemon *daemon, const struct before *old, struct telling *telling)
{
	struct roster old_rules = ROSTER_EMPTY, fresh_rules = ROSTER_EMPTY;
	struct buf count = { 0 };

	if (roster_compare_users(old->users, daemon->users, &count))
		tell_count(daemon, telling, "auth_file", &count);
	buf_clear(&count);
	roster_add_rules(&old_rules, old->hba);
	roster_add_rules(&fresh_rules, daemon->hba);
	if (roster_compare(&old_rules, &fresh_rules, "rule", &count))
		tell_count(daemon, telling, "auth_hba_file", &count);
	roster_done(&old_rules);
	roster_done(&fresh_rules);
	buf_free(&count);
}

static void tell_changes(struct daemon *daemon, const struct before *old,
                         const struct config *fresh, config_tell *tell, void *arg)
{
	struct telling telling = { .tell = tell, .arg = arg };

	config_compare(old->config, fresh, tell_change, &telling);
	tell_counts(daemon, old, &telling);
	if (telling.names.count)
		log_info(&daemon->logger, "changed in the configuration: %s",
		         buf_text(&telling.names));
	buf_free(&telling.names);
}

/* The console that asked for the reload gets the warnings too. */
static void tell_warnings(const struct problems *problems, config_tell *tell, void *arg)
{
	for (size_t i = 0; tell && i < problems->warning_count; i++) {
		struct buf line = { 0 };

		buf_printf(&line, "warning: %s", problems->warnings[i]);
		tell(arg, "warning", buf_text(&line));
		buf_free(&line);
	}
}

/* Reads all files. false: *err, and the log has it all. */
static bool load_files(struct daemon *daemon, const struct config **config, struct users **users,
                       struct hba **hba, struct problems *problems, struct err *err)
{
	bool is_good = daemon_load(daemon->config->conffile, config, users, hba, problems);

	report(daemon, problems, err);
	return is_good;
}

static bool load_anew(void *arg, config_tell *tell, void *tell_arg, struct err *err)
{
	struct daemon *daemon = arg;
	struct before old = {
		.config = config_ref(daemon->config),
		.users = users_hold(daemon->users),
		.hba = daemon->hba ? hba_hold(daemon->hba) : NULL,
	};
	const struct config *fresh, *config;
	struct problems problems = { 0 };
	struct buf differ = { 0 };
	struct users *users;
	struct hba *hba;
	bool is_done;

	err->code = ERR_NONE;
	is_done = load_files(daemon, &fresh, &users, &hba, &problems, err);
	tell_warnings(&problems, tell, tell_arg);
	problems_done(&problems);
	if (!is_done) {
		before_done(&old);
		return false;
	}
	config = config_keep_boot_only(fresh, daemon->config, &differ);
	if (differ.count)
		log_warning(&daemon->logger, "changed only by a restart: %s", buf_text(&differ));
	buf_free(&differ);
	if (config) {
		is_done = change_config(daemon, config, users, hba, err);
	} else {
		users_release(&users);
		hba_release(&hba);
		is_done = err_set(err, ERR_MEMORY, "out of memory");
	}
	if (is_done) {
		tell_changes(daemon, &old, fresh, tell, tell_arg);
	} else {
		daemon_say_where(fresh, err);
		log_error(&daemon->logger, "%s", err->text);
	}
	config_unref(&fresh);
	before_done(&old);
	return is_done;
}

static bool reload(void *arg, config_tell *tell, void *tell_arg, struct err *err)
{
	struct daemon *daemon = arg;
	bool is_done;

	notify_send(&daemon->notify, "RELOADING=1\nMONOTONIC_USEC=%lld\nSTATUS=reloading",
	            (long long)clock_now());
	is_done = load_anew(arg, tell, tell_arg, err);
	notify_send(&daemon->notify, "READY=1\nSTATUS=%s",
	            is_done ? "reloaded" : "reload failed: the old configuration stays in force");
	return is_done;
}

static enum config_change set(void *arg, const char *name, const char *value, struct err *err)
{
	return daemon_set(arg, name, value, err);
}

/* ---- the end ---- */

static bool is_empty(struct pools_watch *watch)
{
	struct daemon *daemon = (struct daemon *)((char *)watch - offsetof(struct daemon, watch));

	if (daemon->shutdown == SHUTDOWN_SERVERS)
		return daemon->pools->server_count == 0;
	/* Consoles and unfinished logins do not hold up a shutdown that has a deadline. */
	return daemon->clients->count == 0 ||
	       (daemon->is_draining_to_end && daemon->clients->drain.is_done);
}

static void on_empty(struct pools_watch *watch)
{
	struct daemon *daemon = (struct daemon *)((char *)watch - offsetof(struct daemon, watch));

	log_info(&daemon->logger, "%s, shutting down",
	         daemon->shutdown == SHUTDOWN_SERVERS ? "all servers have gone"
	                                              : "all clients have gone");
	daemon->shutdown = SHUTDOWN_NONE;
	loop_stop(daemon->loop);
}

void lifecycle_stop_watching(struct daemon *daemon)
{
	if (daemon->shutdown != SHUTDOWN_NONE)
		pools_watch_stop(daemon->pools, &daemon->watch);
	daemon->shutdown = SHUTDOWN_NONE;
}

/*
 * Who has connected before is a client to wait for, also if its login is not over, or if the
 * kernel has not handed it over yet. For servers only nobody is waited for.
 */
static void stop_accepting(struct daemon *daemon, enum shutdown_state how)
{
	struct clients *clients = daemon->clients;
	bool is_first = !clients->is_shutting_down;

	clients->is_shutting_down = true;
	clients->shutdown_id = how == SHUTDOWN_SERVERS ? 0
	                       : is_first              ? UINT64_MAX
	                                               : clients->shutdown_id;
	listener_close_tcp(daemon->listener);
	if (how == SHUTDOWN_CLIENTS && is_first)
		clients->shutdown_id = pools_next_id(daemon->pools);
}

static void stop_gracefully(struct daemon *daemon, enum shutdown_state how)
{
	struct err err;

	lifecycle_stop_watching(daemon);
	daemon_go_on(daemon); /* who is held back could never leave */
	daemon->shutdown = how;
	stop_accepting(daemon, how);
	successor_stop(daemon->takeover, how == SHUTDOWN_SERVERS ? SHUTDOWN_WAIT_FOR_SERVERS
	                                                         : SHUTDOWN_WAIT_FOR_CLIENTS);
	if (how == SHUTDOWN_SERVERS) {
		err_set(&err, ERR_ADMIN_SHUTDOWN, "server shutting down");
		pools_pause(daemon->pools, NULL, "shutdown");
		pools_refuse_waiting(daemon->pools, &err);
	}
	daemon->watch = (struct pools_watch){ .is_done = is_empty, .on_done = on_empty };
	pools_watch_start(daemon->pools, &daemon->watch);
}

static void stop_now(struct daemon *daemon) { loop_stop(daemon->loop); }

void daemon_stop(struct daemon *daemon, enum shutdown_kind kind)
{
	if (kind == SHUTDOWN_NOW)
		stop_now(daemon);
	else
		stop_gracefully(daemon, kind == SHUTDOWN_WAIT_FOR_SERVERS ? SHUTDOWN_SERVERS
		                                                          : SHUTDOWN_CLIENTS);
}

/* ---- the service manager ---- */

/* That a turn comes to its timers is what a watchdog wants to know. */
static void on_watchdog(struct timer *timer)
{
	struct daemon *daemon =
	    (struct daemon *)((char *)timer - offsetof(struct daemon, watchdog));

	notify_send(&daemon->notify, "WATCHDOG=1");
	timer_set(timer, loop_timer_queue(daemon->loop, daemon->notify.watchdog / 2, on_watchdog),
	          loop_now(daemon->loop));
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
	log_info(&daemon->logger, "got SIGHUP, re-reading config");
	if (!reload(daemon, NULL, NULL, &err))
		log_error(&daemon->logger, "reload failed: the old configuration stays in force");
}

/* The process ends with the last client, and there is none when the limit has passed. */
static void drain_and_stop(struct daemon *daemon, usec_t limit)
{
	notify_send(&daemon->notify, "STOPPING=1\nSTATUS=draining");
	log_info(&daemon->logger,
	         "got SIGTERM, shutting down, sending clients away within %lld s (shutdown_drain)",
	         (long long)((limit + USEC_PER_SEC - 1) / USEC_PER_SEC));
	stop_gracefully(daemon, SHUTDOWN_CLIENTS);
	daemon->is_draining_to_end = true;
	drain_begin(daemon->clients, limit);
	pools_changed(daemon->pools);
}

static void on_terminate(int number, void *arg)
{
	struct daemon *daemon = arg;
	const char *name = number == SIGTERM ? "SIGTERM" : "SIGINT";

	if (daemon->clients->is_shutting_down) {
		log_info(&daemon->logger, "got %s while shutting down, fast exit", name);
		stop_now(daemon);
		return;
	}
	if (number == SIGTERM && daemon->config->shutdown_drain) {
		drain_and_stop(daemon, daemon->config->shutdown_drain);
		return;
	}
	notify_send(&daemon->notify, "STOPPING=1\nSTATUS=waiting for %s to disconnect",
	            number == SIGTERM ? "clients" : "servers");
	log_info(&daemon->logger, "got %s, shutting down, waiting for all %s to disconnect", name,
	         number == SIGTERM ? "clients" : "servers");
	stop_gracefully(daemon, number == SIGTERM ? SHUTDOWN_CLIENTS : SHUTDOWN_SERVERS);
}

static void on_quit(int number, void *arg)
{
	struct daemon *daemon = arg;

	(void)number;
	notify_send(&daemon->notify, "STOPPING=1");
	log_info(&daemon->logger, "got SIGQUIT, fast exit");
	stop_now(daemon);
}

static void on_pause(int number, void *arg)
{
	struct daemon *daemon = arg;

	(void)number;
	if (pools_are_held(daemon->pools)) {
		log_info(&daemon->logger, "got SIGUSR1, but already paused/suspended");
		return;
	}
	log_info(&daemon->logger, "got SIGUSR1, pausing all activity");
	pools_pause(daemon->pools, NULL, "SIGUSR1");
}

static void on_resume(int number, void *arg)
{
	struct daemon *daemon = arg;
	bool is_held = pools_are_held(daemon->pools) || daemon->clients->drain.is_on;

	(void)number;
	if (daemon->clients->is_shutting_down) {
		log_info(&daemon->logger, "got SIGUSR2 while shutting down, ignoring");
		return;
	}
	if (!is_held) {
		log_info(&daemon->logger, "got SIGUSR2, but not paused");
		return;
	}
	log_info(&daemon->logger, "got SIGUSR2, continuing from PAUSE");
	daemon_go_on(daemon);
	pools_resume(daemon->pools, NULL);
	daemon_drain_end(daemon);
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
	/* What comes before the loop listens, or when it has ended, does not kill us. */
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		signal(signals[i].number, SIG_IGN);
		if (!loop_on_signal(daemon->loop, signals[i].number, signals[i].on_signal, daemon,
		                    err))
			return false;
	}
	return true;
}

/* ---- the console ---- */

static const struct config *config_in_force(void *arg)
{
	struct daemon *daemon = arg;

	return daemon->config;
}

static const struct config *config_wanted(void *arg)
{
	struct daemon *daemon = arg;

	return daemon->wanted;
}

static const char *why_held(void *arg, const char *name) { return daemon_why_held(arg, name); }

static void shut_down(void *arg, enum shutdown_kind kind) { daemon_stop(arg, kind); }

static void suspend(void *arg, const char *by) { daemon_suspend(arg, by); }

static void go_on(void *arg) { daemon_go_on(arg); }

static bool may_hand_over(void *arg, const char *version, struct err *err)
{
	return handover_may_start(arg, version, err);
}

static void hand_over(void *arg, int fd) { handover_start(arg, fd); }

static void on_drain(void *arg, usec_t limit) { daemon_drain(arg, limit); }

static void on_drain_end(void *arg) { daemon_drain_end(arg); }

static int listening(void *arg, size_t index, struct address *address)
{
	struct daemon *daemon = arg;

	return listener_fd(daemon->listener, index, address);
}

static void tell_status(void *arg, const char *text)
{
	struct daemon *daemon = arg;

	notify_send(&daemon->notify, "STATUS=%s", text);
}

static bool is_shutting_down(void *arg)
{
	struct daemon *daemon = arg;

	return daemon->clients->is_shutting_down;
}

bool lifecycle_make_console(struct daemon *daemon, struct err *err)
{
	daemon->console = console_new(
	    &(struct console_with){
		.loop = daemon->loop,
		.log = daemon->log,
		.pools = daemon->pools,
		.resolver = daemon->resolver,
		.streams = &daemon->streams,
		.params = daemon->params,
		.arg = daemon,
		.config = config_in_force,
		.wanted = config_wanted,
		.why_held = why_held,
		.reload = reload,
		.set = set,
		.shutdown = shut_down,
		.suspend = suspend,
		.go_on = go_on,
		.may_hand_over = may_hand_over,
		.hand_over = hand_over,
		.drain = on_drain,
		.drain_end = on_drain_end,
		.listening = listening,
		.status = tell_status,
		.is_shutting_down = is_shutting_down,
	    },
	    err);
	return daemon->console != NULL;
}

void lifecycle_free_console(struct daemon *daemon) { console_free(&daemon->console); }
