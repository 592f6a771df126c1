/* SPDX-License-Identifier: ISC */
/*
 * The command line: one row for each option. The tables for getopt and the help text are
 * made from the rows.
 */
#include "options.h"

#include <getopt.h>
#include <stddef.h>
#include <string.h>

#include "pgweir/base/version.h"
#include "pgweir/loop/loop.h"
#include "pgweir/net/resolver.h"
#include "pgweir/net/tls.h"

/* Options without a letter. */
enum { CHECK_OPTION = 256, AGAINST_OPTION, READY_OPTION, DRAIN_OPTION, AS_OPTION, DUMP_OPTION };

#define AT(field) offsetof(struct options, field)

static const struct row {
	int letter;
	const char *name;
	const char *value; /* name of its value in the help text; NULL: it has none */
	size_t at;         /* of its value; or without one, if action is OPTIONS_RUN, of a bool */
	enum options_action action;
	const char *help;
} rows[] = {
	{ 'd', "daemon", NULL, AT(daemon), OPTIONS_RUN, "run in the background (needs pidfile)" },
	{ 'q', "quiet", NULL, AT(quiet), OPTIONS_RUN, "do not log to stderr" },
	{ 'R', "reboot", NULL, AT(reboot), OPTIONS_RUN,
	  "take over from the running process of this configuration, if any" },
	{ 'u', "user", "NAME", AT(user), OPTIONS_RUN,
	  "switch to this system user; with SOCKET: the user of that pgweir" },
	{ 'v', "verbose", NULL, 0, OPTIONS_RUN, "log more details; can be given several times" },
	{ CHECK_OPTION, "check", NULL, 0, OPTIONS_CHECK,
	  "check the configuration file, print all problems, then exit" },
	{ AGAINST_OPTION, "against", "SOCKET", AT(against), OPTIONS_RUN,
	  "with --check: also print what a RELOAD of that pgweir would change" },
	{ READY_OPTION, "ready", "SOCKET", AT(socket), OPTIONS_READY,
	  "exit with status 0 if that pgweir accepts new work, else with 1" },
	{ DRAIN_OPTION, "drain", "SOCKET", AT(socket), OPTIONS_DRAIN,
	  "disconnect the clients of that pgweir, all within SECONDS, then exit" },
	{ AS_OPTION, "as", "NAME", AT(as), OPTIONS_RUN,
	  "with --ready, --drain: console user to log in as (default: pgbouncer)" },
	{ DUMP_OPTION, "dump-settings", NULL, 0, OPTIONS_DUMP,
	  "print a description of all settings or of one, then exit" },
	{ 'V', "version", NULL, 0, OPTIONS_VERSION, "print the version, then exit" },
	{ 'h', "help", NULL, 0, OPTIONS_HELP, "print this help, then exit" },
};
#define ROW_COUNT (sizeof(rows) / sizeof(rows[0]))

static const char *base_name(const char *program)
{
	const char *slash = strrchr(program, '/');

	return slash ? slash + 1 : program;
}

static void make_tables(char *letters, struct option *longs)
{
	*letters++ = ':'; /* getopt then tells a missing value from an unknown option */
	for (size_t i = 0; i < ROW_COUNT; i++) {
		longs[i] =
		    (struct option){ rows[i].name, rows[i].value ? required_argument : no_argument,
			             NULL, rows[i].letter };
		if (rows[i].letter >= CHECK_OPTION)
			continue;
		*letters++ = (char)rows[i].letter;
		if (rows[i].value)
			*letters++ = ':';
	}
	*letters = 0;
	longs[ROW_COUNT] = (struct option){ 0 };
}

static void take_option(struct options *options, int letter)
{
	const struct row *row = rows;
	char *field;

	while (row->letter != letter)
		row++;
	field = (char *)options + row->at;
	if (row->action != OPTIONS_RUN)
		options->action = row->action;
	if (row->value)
		*(const char **)field = optarg;
	else if (letter == 'v')
		options->verbosity++;
	else if (row->action == OPTIONS_RUN)
		*(bool *)field = true;
}

/* getopt only says that there is an error, and at which word. */
static bool complain(int letter, char **argv, struct err *err)
{
	/* musl counts a value that is not there. */
	const char *word = argv[optind - 1] ? argv[optind - 1] : argv[optind - 2];

	if (letter == ':')
		return err_set(err, ERR_CONFIG, "option %s needs a value", word);
	if (optopt != 0 && optopt < CHECK_OPTION && strncmp(word, "--", 2) != 0)
		return err_set(err, ERR_CONFIG, "unknown option -%c", optopt);
	return err_set(err, ERR_CONFIG, "unknown option %s", word);
}

/* Parses what is no option: the file; what may follow --drain or --dump-settings. */
static bool take_words(struct options *options, int count, char **words, struct err *err)
{
	bool is_dump = options->action == OPTIONS_DUMP, needs_file = !is_dump && !options->socket;
	int most = options->action != OPTIONS_READY;

	if (needs_file && count == 0)
		return err_set(err, ERR_CONFIG, "no configuration file specified");
	if (count > most)
		return err_set(err, ERR_CONFIG, "unexpected argument %s", words[most]);
	if (count == 0)
		return true;
	if (!needs_file && !is_dump && (!*words[0] || words[0][strspn(words[0], "0123456789")]))
		return err_set(err, ERR_CONFIG, "--drain takes a number of seconds, not \"%s\"",
		               words[0]);
	*(needs_file ? &options->file : is_dump ? &options->setting : &options->seconds) = words[0];
	return true;
}

bool options_parse(struct options *options, int argc, char **argv, struct err *err)
{
	char letters[2 * ROW_COUNT + 2];
	struct option longs[ROW_COUNT + 1];
	int letter;

	*options = (struct options){ .action = OPTIONS_RUN };
	make_tables(letters, longs);
	optind = 0; /* restarts getopt: tests call this several times */
	opterr = 0;
	while ((letter = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		if (letter == '?' || letter == ':')
			return complain(letter, argv, err);
		take_option(options, letter);
		/* These act at once: the words after them are not parsed. */
		if (options->action == OPTIONS_HELP || options->action == OPTIONS_VERSION)
			return true;
	}
	if (options->against && options->action != OPTIONS_CHECK)
		return err_set(err, ERR_CONFIG, "option --against requires --check");
	if (options->as && !options->socket)
		return err_set(err, ERR_CONFIG, "option --as requires --ready or --drain");
	return take_words(options, argc - optind, argv + optind, err);
}

static void print_row(FILE *out, const struct row *row)
{
	char left[40], letter[8] = "    ";

	if (row->letter < CHECK_OPTION)
		snprintf(letter, sizeof(letter), "-%c, ", row->letter);
	snprintf(left, sizeof(left), "%s--%s%s%s", letter, row->name, row->value ? "=" : "",
	         row->value ? row->value : "");
	fprintf(out, "  %-20s %s\n", left, row->help);
}

void options_print_help(FILE *out, const char *program)
{
	const char *name = base_name(program);

	fprintf(out,
	        "%s is a connection pooler for PostgreSQL.\n\n"
	        "Usage: %s [OPTION]... CONFIG_FILE\n"
	        "       %s --check CONFIG_FILE [--against=SOCKET]\n"
	        "       %s --ready=SOCKET [--as=NAME]\n"
	        "       %s --drain=SOCKET [SECONDS] [--as=NAME]\n"
	        "       %s --dump-settings [NAME]\n\n"
	        "Options:\n",
	        name, name, name, name, name, name);
	for (size_t i = 0; i < ROW_COUNT; i++)
		print_row(out, &rows[i]);
	fputs("\nSOCKET is the Unix socket of a running pgweir, or its configuration file.\n", out);
}

void options_print_version(FILE *out, const char *program)
{
	bool as_pgbouncer = strcmp(base_name(program), "pgbouncer") == 0;

	fprintf(out, "%s\n", as_pgbouncer ? VERSION_SHOW : VERSION_OWN);
	if (!as_pgbouncer)
		fprintf(out, "compatible with PgBouncer %s\n", VERSION_COMPATIBLE);
	fprintf(out, "%s\nadns: %s\ntls: %s\n", loop_library(), dns_library(), tls_library());
}

void options_print_error(FILE *out, const char *program, const struct err *err)
{
	const char *name = base_name(program);

	fprintf(out, "%s: %s\nTry \"%s --help\" for more information.\n", name, err->text, name);
}
