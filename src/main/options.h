/* SPDX-License-Identifier: ISC */
/*
 * The command line.
 */
#ifndef PGWEIR_MAIN_OPTIONS_H
#define PGWEIR_MAIN_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "pgweir/base/err.h"

enum options_action {
	OPTIONS_RUN,     /* run the daemon */
	OPTIONS_CHECK,   /* check `file`, print the result, exit */
	OPTIONS_READY,   /* ask the daemon at `socket` whether it accepts work, exit */
	OPTIONS_DRAIN,   /* drain the daemon at `socket` within `seconds`, exit */
	OPTIONS_DUMP,    /* print dump_settings(), or only `setting`, to stdout, exit */
	OPTIONS_HELP,    /* options_print_help() to stdout, exit with 0 */
	OPTIONS_VERSION, /* options_print_version() to stdout, exit with 0 */
};

struct options {
	enum options_action action;
	const char *file;    /* configuration file; NULL unless OPTIONS_RUN or OPTIONS_CHECK */
	const char *against; /* --against: a Unix socket; NULL: not given */
	const char *socket;  /* value of --ready and --drain */
	const char *as;      /* --as: console user to log in as; NULL: not given */
	const char *setting; /* argument of --dump-settings; NULL: all */
	const char *seconds; /* argument of --drain: its limit; NULL: none */
	const char *user;    /* -u, overrides the setting; NULL: not given */
	bool daemon;
	bool reboot; /* -R: take over from a running process */
	bool quiet;
	int verbosity; /* how many -v */
};

/* Texts point into argv, which may be reordered. false: see options_print_error(). */
bool options_parse(struct options *options, int argc, char **argv, struct err *err);

/* program: argv[0]. That of `pgbouncer` prints the version as SHOW VERSION does. */
void options_print_help(FILE *out, const char *program);
void options_print_version(FILE *out, const char *program);

/* Prints the error, and a hint at --help. */
void options_print_error(FILE *out, const char *program, const struct err *err);

#endif
