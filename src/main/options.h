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
	OPTIONS_RUN,     /* be the daemon */
	OPTIONS_CHECK,   /* load and judge `file`, say so, end */
	OPTIONS_READY,   /* ask the daemon behind `socket` whether it takes work, end */
	OPTIONS_DRAIN,   /* drain it, within `seconds`, end */
	OPTIONS_DUMP,    /* dump_settings() to stdout, or only `setting`, end */
	OPTIONS_HELP,    /* options_print_help() to stdout, end with 0 */
	OPTIONS_VERSION, /* options_print_version() to stdout, end with 0 */
};

struct options {
	enum options_action action;
	const char *file;    /* the configuration; NULL for help and version */
	const char *against; /* --against: a Unix socket; NULL = not given */
	const char *socket;  /* of --ready and --drain */
	const char *as;      /* --as: who asks there; NULL = not given */
	const char *setting; /* of --dump-settings; NULL = all */
	const char *seconds; /* of --drain: its deadline; NULL = none */
	const char *user;    /* -u, wins over the setting; NULL = not given */
	bool daemon;
	bool reboot; /* take over from a running process */
	bool quiet;
	int verbosity; /* how many -v */
};

/*
 * Fills *options, whose texts point into argv; argv may be reordered. false:
 * *err is for options_print_error(), and the exit status is 1.
 */
bool options_parse(struct options *options, int argc, char **argv, struct err *err);

/* `program` is argv[0]: started as `pgbouncer`, the version's first line is that of SHOW VERSION.
 */
void options_print_help(FILE *out, const char *program);
void options_print_version(FILE *out, const char *program);

/* The error and a hint at --help. */
void options_print_error(FILE *out, const char *program, const struct err *err);

#endif
