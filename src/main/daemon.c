/* SPDX-License-Identifier: ISC */
/*
 * The daemon and main(): creates all modules, connects them, and runs.
 *
 *   listener --> clients --> pools --> servers
 *                  |
 *                  +--> console --> RELOAD, SET (reload.c), shutdown (lifecycle.c)
 */
#include "daemon_priv.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "pgweir/auth/auth_methods.h"
#include "pgweir/base/version.h"
#include "pgweir/config/settings.h"

#define WORKER_THREADS 2
#define SLOW_WORKER_THREADS 1
#define WORKER_JOBS 4096 /* maximum of key derivations, or of names of users, that wait */
#define HANDSHAKE_THREADS_MAX 4
#define OUTSIDE_JOBS 1024            /* maximum of logins that wait for PAM, or for LDAP */
#define OUTSIDE_LIMIT (USEC_PER_SEC) /* how long daemon_free() waits for these threads */
#define VERIFIERS_MAX 100000         /* maximum of derived keys in the cache */

/* ---- create the modules ---- */

/*
 * A processor is for each loop. More threads than processors would only compete with each
 * other, and OpenSSL's shared data would move between the caches of the processors.
 */
static unsigned int handshake_threads(unsigned int loop_count)
{
	unsigned int processors = processors_count("");
	unsigned int left = processors > loop_count ? processors - loop_count : 1;

	return left < HANDSHAKE_THREADS_MAX ? left : HANDSHAKE_THREADS_MAX;
}

static bool make_outside(struct daemon *daemon, struct err *err)
{
	ldap_prepare();
	for (int method = 0; method < AUTH_METHODS; method++) {
		const struct auth_method_row *row = &auth_methods[method];

		if (!row->threads)
			continue;
		daemon->shared.outside[method] =
		    workers_new(row->threads, row->outside ? OUTSIDE_JOBS : WORKER_JOBS, err);
		if (!daemon->shared.outside[method])
			return false;
	}
	return true;
}

static bool make_threads(struct daemon *daemon, unsigned int loop_count, struct err *err)
{
	daemon->shared.workers = workers_new(WORKER_THREADS, WORKER_JOBS, err);
	daemon->server_workers = workers_new(WORKER_THREADS, WORKER_JOBS, err);
	daemon->slow_workers = workers_new(SLOW_WORKER_THREADS, WORKER_JOBS, err);
	if (!daemon->shared.workers || !daemon->server_workers || !daemon->slow_workers)
		return false;
	/* Each is of one connection, and those are limited. */
	daemon->handshakes = workers_new(handshake_threads(loop_count), UINT_MAX, err);
	return daemon->handshakes && make_outside(daemon, err);
}

/* More loops than processors are allowed, as they cost little, but nobody should want them. */
static unsigned int loops_wanted(const struct daemon *daemon)
{
	unsigned int processors = processors_count("");
	unsigned int count = (unsigned int)daemon->now.config->loops;

	if (!count)
		return processors < LANES_MAX ? processors : LANES_MAX;
	if (count > 1 && count > processors)
		log_warning(&daemon->logger,
		            "loops = %u, but this process may use %u processor%s only", count,
		            processors, processors == 1 ? "" : "s");
	return count;
}

static bool make_lane_ground(struct daemon *daemon, struct lane *lane, struct err *err)
{
	struct resolver_options options = { .resolv_conf = daemon->now.config->resolv_conf,
		                            .other = daemon->lanes.at->resolver };

	lane->loop = loop_new(err);
	if (!lane->loop)
		return false;
	stream_pool_init(&lane->streams, daemon->now.config->pkt_buf);
	lane->streams.handshakes = daemon->handshakes;
	lane->streams.outbox = outbox_new(lane->loop, &daemon->logger);
	lane->params = params_table_new();
	if (!lane->streams.outbox || !lane->params)
		return err_set(err, ERR_MEMORY, "out of memory");
	lane->resolver = resolver_new(lane->loop, &options, err);
	return lane->resolver != NULL;
}

static bool make_ground(struct daemon *daemon, struct err *err)
{
	unsigned int count = loops_wanted(daemon);
	struct loop *loops[LANES_MAX];

	homes_init(&daemon->shared.homes, count);
	daemon->load.looked_at = clock_now();
	daemon->broker = broker_new(count, err);
	daemon->verifiers = verifiers_new(VERIFIERS_MAX, err);
	daemon->shared.logins = logins_new(err);
	daemon->shared.keys.loop_count = count;
	daemon->lanes.at = calloc(count, sizeof(*daemon->lanes.at));
	if (!daemon->broker || !daemon->verifiers || !daemon->shared.logins ||
	    !make_threads(daemon, count, err))
		return false;
	if (!daemon->lanes.at)
		return err_set(err, ERR_MEMORY, "out of memory");
	hash_key_draw(&daemon->shared.digest_key);
	if (!peer_pool_read_peers(&daemon->peers, daemon->now.config, err))
		return false;
	if (!statement_names_draw(&daemon->statement_names))
		return err_set(err, ERR_STATE, "no random bytes for the names of statements");
	for (unsigned int i = 0; i < count; i++) {
		daemon->lanes.at[i].number = i;
		daemon->lanes.count = i + 1;
		if (!make_lane_ground(daemon, &daemon->lanes.at[i], err))
			return false;
		loops[i] = daemon->lanes.at[i].loop;
	}
	daemon->loop = loops[0];
	daemon->lanes.crew = crew_new(loops, count, err);
	return daemon->lanes.crew != NULL;
}

static bool make_pools(struct daemon *daemon, struct lane *lane, struct err *err)
{
	lane->pools = pools_new(
	    &(struct server_shared){
		.loop = lane->loop,
		.log = daemon->log,
		.streams = &lane->streams,
		.resolver = lane->resolver,
		.workers = daemon->server_workers,
		.slow_workers = daemon->slow_workers,
		.verifiers = daemon->verifiers,
		.params = lane->params,
		.tls = daemon->now.tls.server,
	    },
	    &(struct pools_with){
		.broker = daemon->broker,
		.is_main = lane->number == 0,
		.statement_names = &daemon->statement_names,
		.peers = daemon->peers.is_on ? &daemon->peers : NULL,
		.on_hosts_found = reload_hosts,
		.owner = daemon,
	    },
	    daemon->now.config, daemon->now.users, err);
	return lane->pools != NULL;
}

/* What all clients share and call. */
static void make_shared(struct daemon *daemon)
{
	struct clients_shared *shared = &daemon->shared;

	shared->door = console_door(daemon->console);
	shared->on_unknown_cancel_key = takeover_pass_key;
	shared->send_elsewhere = daemon->lanes.count > 1 ? lane_send : NULL;
	shared->pick_home = lane_pick_home;
	shared->files_for_clients = limits_for_clients();
}

static bool make_engine(struct daemon *daemon, struct err *err)
{
	LANES_EACH (lane, &daemon->lanes) {
		if (!make_pools(daemon, lane, err))
			return false;
	}
	if (!lifecycle_make_console(daemon, err))
		return false;
	make_shared(daemon);
	LANES_EACH (lane, &daemon->lanes) {
		lane->clients = clients_new(&daemon->shared, lane->number, lane->pools,
		                            daemon->now.config, daemon->now.users, err);
		if (!lane->clients)
			return false;
	}
	return true;
}

static bool make_web_server(struct daemon *daemon, struct err *err)
{
	return web_new(&daemon->web,
	               &(struct web_with){
			   .log = daemon->log,
			   .main_loop = daemon->loop,
			   .console = daemon->console,
			   .handshakes = daemon->handshakes,
			   .config = daemon->now.config,
			   .rights = daemon->now.web,
		       },
	               err);
}

/* All modules exist: puts the configuration in force in the same way as a RELOAD. */
static bool apply_at_start(struct daemon *daemon, struct handed_sockets *given,
                           struct takeover *takeover, struct err *err)
{
	/* those that the service manager has opened for the old process are used like our own */
	bool is_given = takeover->is_given && given->count == 0;
	struct doors_change doors = {
		.daemon = daemon,
		.given = is_given ? &takeover->sockets : given,
		.takeover = takeover,
	};

	reload_apply(daemon);
	if (!doors_prepare(&doors, &daemon->now.gates, err))
		return false;
	doors_commit(&doors, &daemon->now.gates);
	return true;
}

/* false: a thread still runs that waits for PAM, LDAP or the user database. */
static bool free_threads(struct daemon *daemon)
{
	bool have_ended = true;

	workers_free(&daemon->handshakes);
	workers_free(&daemon->shared.workers);
	workers_free(&daemon->server_workers);
	workers_free(&daemon->slow_workers);
	for (int method = 0; method < AUTH_METHODS; method++)
		have_ended &= workers_leave(&daemon->shared.outside[method], OUTSIDE_LIMIT);
	return have_ended;
}

/* All but its loop and its clients. The helper threads have ended. */
static void free_lane(struct lane *lane)
{
	if (lane->loop)
		loop_open_late(lane->loop);
	pools_free(&lane->pools);
	resolver_free(&lane->resolver);
	params_table_free(&lane->params);
	if (lane->loop) {
		outbox_free(&lane->streams.outbox);
		stream_pool_done(&lane->streams);
	}
}

static void free_lanes(struct daemon *daemon)
{
	LANES_EACH (lane, &daemon->lanes)
		free_lane(lane);
	crew_free(&daemon->lanes.crew);
	LANES_EACH (lane, &daemon->lanes)
		loop_free(&lane->loop);
	free(daemon->lanes.at);
	gates_done(&daemon->shared.gates);
	ranges_release(&daemon->shared.proxies);
	statement_limits_done(&daemon->shared.limits);
	broker_free(&daemon->broker);
	verifiers_free(&daemon->verifiers);
	logins_free(&daemon->shared.logins);
}

/* Accepts NULL. false: a thread still waits for PAM or LDAP, so the process must end by _exit(). */
static bool daemon_free(struct daemon **daemonp)
{
	struct daemon *daemon = *daemonp;
	bool have_threads_ended;

	if (!daemon)
		return true;
	*daemonp = NULL;
	if (daemon->lanes.crew)
		crew_stop(daemon->lanes.crew);
	web_stop(daemon->web);
	lifecycle_end(daemon);
	takeover_stop(daemon, SHUTDOWN_NOW);
	if (daemon->takeover)
		takeover_end(daemon->takeover);
	handover_free(&daemon->handover);
	LANES_EACH (lane, &daemon->lanes) {
		if (lane->pools)
			lane->pools->suspend = SUSPEND_NONE; /* nothing is resumed at the end */
		clients_free(&lane->clients);
	}
	console_free(&daemon->console);
	doors_free(&daemon->doors);
	have_threads_ended = free_threads(daemon);
	web_free(&daemon->web);
	free_lanes(daemon);
	parts_done(&daemon->now);
	notify_close(&daemon->notify);
	free(daemon);
	return have_threads_ended;
}

/* Takes what is loaded, and the sockets. NULL: see *err. */
static struct daemon *daemon_new(struct log *log, const struct options *options,
                                 struct parts *loaded, struct handed_sockets *given,
                                 struct takeover *takeover, struct err *err)
{
	struct daemon *daemon = err_calloc(sizeof(*daemon), "out of memory", err);

	if (!daemon)
		return NULL;
	daemon->log = log;
	daemon->logger = (struct logger){ log, NULL };
	daemon->options = options;
	daemon->certificates_at = wall_now() / USEC_PER_SEC;
	daemon->now = *loaded;
	*loaded = (struct parts){ 0 };
	TAILQ_INIT(&daemon->doors);
	daemon->is_served_elsewhere = takeover->channel.fd >= 0;
	if (!notify_open(&daemon->notify, err))
		log_warning(&daemon->logger, "%s", err->text);
	if (!make_ground(daemon, err) || !make_engine(daemon, err) ||
	    !lifecycle_catch_signals(daemon, err) ||
	    !apply_at_start(daemon, given, takeover, err) || !crew_start(daemon->lanes.crew, err) ||
	    !make_web_server(daemon, err)) {
		load_say_where(daemon->now.config, err);
		daemon_free(&daemon);
	}
	return daemon;
}

/*
 * ---- from the command line to a running daemon, and its end ----
 *
 * The order is that of PgBouncer: configuration, user, old process, background, listeners,
 * pid file, "process up". Errors before the background go to the terminal, later ones to
 * the log. The exit status is 1 in both cases.
 */

/* Handles --dump-settings. */
static int print_settings(const char *name)
{
	struct buf text = { 0 };
	struct err err;
	bool ok;

	if (!name) {
		dump_settings(&text);
	} else if (!dump_setting(name, &text, &err)) {
		fprintf(stderr, "%s\n", err.text);
		return EXIT_FAILURE;
	}
	ok = buf_ok(&text) && fwrite(text.at, 1, text.count, stdout) == text.count &&
	     fflush(stdout) == 0;
	buf_free(&text);
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

static bool enter_background(const struct options *options, const struct config *config,
                             const struct logger *logger, struct takeover *takeover,
                             struct err *err)
{
	bool is_free = true;

	if (!privileges_drop(options->user ? options->user : config->user, err))
		return false;
	if (options->daemon && !*config->pidfile)
		return err_set(err, ERR_CONFIG, "daemon needs pidfile configured");
	if (options->reboot && !takeover_begin(takeover, config, err))
		return false;
	if (*config->pidfile &&
	    !(takeover->channel.fd >= 0 && pidfile_read(config->pidfile, err) == takeover->pid))
		is_free = pidfile_check(config->pidfile, logger, err);
	return is_free && (!options->daemon || daemonize(err));
}

/* No secrets in core dumps, and no reader of our memory but a sanitizer. */
static void close_memory(const struct config *config)
{
#ifdef PGWEIR_SANITIZED
	(void)config;
#else
	if (!config->core_dumps)
		prctl(PR_SET_DUMPABLE, 0);
#endif
}

/* *may_exit: false if the process must end by _exit(). */
static bool run(struct log *log, const struct options *options, struct parts *loaded,
                struct handed_sockets *given, struct takeover *takeover, bool *may_exit,
                struct err *err)
{
	const struct config *config = loaded->config;
	struct logger logger = { log, NULL };
	bool takes_over = takeover->channel.fd >= 0;
	struct rlimit files;
	struct daemon *daemon;
	bool is_up;

	close_memory(config);
	if (limits_raise(&files, err))
		limits_report(&files, load_expected_files(config), &logger);
	daemon = daemon_new(log, options, loaded, given, takeover, err);
	config = daemon ? daemon->now.config : NULL;
	is_up = daemon &&
	        (!*config->pidfile || takes_over || pidfile_write(config->pidfile, err)) &&
	        log_start(log, err);
	/* the last step that can fail: the old process has nothing left to continue with then */
	if (is_up && takes_over)
		is_up = takeover_run(daemon, takeover, err);
	if (is_up) {
		log_kept(&logger, LOG_LEVEL_INFO, "start", "process up: %s, %s", VERSION_OWN,
		         loop_library());
		lifecycle_ready(daemon);
		loop_run(daemon->loop);
		pidfile_remove(daemon->now.config->pidfile);
	}
	*may_exit = daemon_free(&daemon);
	return is_up;
}

static int start(const struct options *options)
{
	struct log *log = log_new();
	struct logger logger = { log, NULL };
	struct parts loaded = { 0 };
	struct handed_sockets given;
	struct takeover takeover = { .channel.fd = -1 };
	struct problems problems = { 0 };
	struct err err = { .code = ERR_NONE }; /* unless it is in the list of problems */
	bool is_good, may_exit = true;

	if (!log)
		return EXIT_FAILURE;
	is_good = activation_take(&given, &err) && load_all(options->file, &loaded, &problems) &&
	          enter_background(options, loaded.config, &logger, &takeover, &err) &&
	          load_log(log, options, loaded.config, &err);
	if (is_good) {
		err.code = ERR_NONE;
		is_good = load_make(&loaded, &problems);
	}
	/* now that the log file is open, it gets the warnings too */
	load_log_problems(&logger, LOG_LEVEL_FATAL, &problems);
	problems_done(&problems);
	if (is_good)
		is_good = run(log, options, &loaded, &given, &takeover, &may_exit, &err);
	parts_done(&loaded);
	takeover_end(&takeover);
	if (!is_good && err.code != ERR_NONE)
		log_fatal(&logger, "%s", err.text);
	log_free(&log);
	if (!may_exit)
		_exit(is_good ? EXIT_SUCCESS : EXIT_FAILURE);
	return is_good ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	struct options options;
	struct err err;

	tls_library_prepare();
	if (!options_parse(&options, argc, argv, &err)) {
		options_print_error(stderr, argv[0], &err);
		return EXIT_FAILURE;
	}
	switch (options.action) {
	case OPTIONS_HELP:
		options_print_help(stdout, argv[0]);
		return EXIT_SUCCESS;
	case OPTIONS_VERSION:
		options_print_version(stdout, argv[0]);
		return EXIT_SUCCESS;
	case OPTIONS_CHECK:
		return check_file(&options) ? EXIT_SUCCESS : EXIT_FAILURE;
	case OPTIONS_READY:
		return probe_ready(&options) ? EXIT_SUCCESS : EXIT_FAILURE;
	case OPTIONS_DRAIN:
		return probe_drain(&options) ? EXIT_SUCCESS : EXIT_FAILURE;
	case OPTIONS_DUMP:
		return print_settings(options.setting);
	case OPTIONS_RUN:
		return start(&options);
	}
	return EXIT_FAILURE;
}
