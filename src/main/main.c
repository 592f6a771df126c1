/* SPDX-License-Identifier: ISC */
/*
 * From the command line to a running daemon, and its end.
 *
 * The order is that of PgBouncer: configuration, user, old process, background, listeners,
 * pid file, "process up". Errors before the background go to the terminal, later ones to
 * the log. The exit status is 1 in both cases.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "pgweir/base/version.h"
#include "pgweir/config/settings.h"
#include "pgweir/loop/loop.h"

#include "daemon_priv.h"

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
	struct limits limits;
	struct daemon *daemon;
	bool is_up;

	close_memory(config);
	if (limits_raise(&limits, err))
		limits_report(&limits, load_expected_files(config), &logger);
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
