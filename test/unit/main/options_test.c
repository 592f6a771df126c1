/* SPDX-License-Identifier: ISC */
/*
 * main/options.c
 */
#include "../../../src/main/daemon_priv.h"

#include <stdlib.h>
#include <string.h>

#include "../unit.h"

#define WORDS_MAX 8

static bool parse(struct options *options, const char *const *words, struct err *err)
{
	char *argv[WORDS_MAX + 2] = { (char *)"pgweir" };
	int argc = 1;

	while (*words)
		argv[argc++] = (char *)*words++;
	return options_parse(options, argc, argv, err);
}

static const struct {
	const char *words[WORDS_MAX];
	struct options options;
} good[] = {
	{ { "f.ini" }, { .file = "f.ini" } },
	{ { "-d", "f.ini" }, { .file = "f.ini", .daemon = true } },
	{ { "f.ini", "-d" }, { .file = "f.ini", .daemon = true } },
	{ { "--daemon", "--quiet", "f.ini" }, { .file = "f.ini", .daemon = true, .quiet = true } },
	{ { "-vv", "-v", "--verbose", "f.ini" }, { .file = "f.ini", .verbosity = 4 } },
	{ { "-dqu", "me", "f.ini" },
	  { .file = "f.ini", .user = "me", .daemon = true, .quiet = true } },
	{ { "--user=me", "f.ini" }, { .file = "f.ini", .user = "me" } },
	{ { "--check", "f.ini" }, { .action = OPTIONS_CHECK, .file = "f.ini" } },
	{ { "--check", "f.ini", "--against", "/s" },
	  { .action = OPTIONS_CHECK, .file = "f.ini", .against = "/s" } },
	{ { "--ready", "/s" }, { .action = OPTIONS_READY, .socket = "/s" } },
	{ { "--ready=/s", "--as", "me" }, { .action = OPTIONS_READY, .socket = "/s", .as = "me" } },
	{ { "--drain", "/s" }, { .action = OPTIONS_DRAIN, .socket = "/s" } },
	{ { "--drain", "/s", "30" }, { .action = OPTIONS_DRAIN, .socket = "/s", .seconds = "30" } },
	{ { "--dump-settings" }, { .action = OPTIONS_DUMP } },
	{ { "--dump-settings", "user" }, { .action = OPTIONS_DUMP, .setting = "user" } },
	{ { "--", "-odd.ini" }, { .file = "-odd.ini" } },
	{ { "-V" }, { .action = OPTIONS_VERSION } },
	{ { "--version", "-x" }, { .action = OPTIONS_VERSION } },
	{ { "-h", "f.ini" }, { .action = OPTIONS_HELP } },
	{ { "--help" }, { .action = OPTIONS_HELP } },
};

static bool same(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

START_TEST(options_are_understood)
{
	const struct options *expected = &good[_i].options;
	struct options options;
	struct err err;

	ck_assert_msg(parse(&options, good[_i].words, &err), "%s: %s", good[_i].words[0], err.text);
	ck_assert_int_eq(options.action, expected->action);
	ck_assert(same(options.setting, expected->setting));
	ck_assert(same(options.file, expected->file));
	ck_assert(same(options.user, expected->user));
	ck_assert(same(options.against, expected->against));
	ck_assert(same(options.socket, expected->socket));
	ck_assert(same(options.as, expected->as));
	ck_assert(same(options.seconds, expected->seconds));
	ck_assert_int_eq(options.daemon, expected->daemon);
	ck_assert_int_eq(options.quiet, expected->quiet);
	ck_assert_int_eq(options.verbosity, expected->verbosity);
}
END_TEST

static const struct {
	const char *words[WORDS_MAX];
	const char *says;
} bad[] = {
	{ { NULL }, "no configuration file specified" },
	{ { "-d" }, "no configuration file specified" },
	{ { "--check" }, "no configuration file specified" },
	{ { "--ready" }, "option --ready needs a value" },
	{ { "--ready", "/s", "a.ini" }, "unexpected argument a.ini" },
	{ { "--drain", "/s", "soon" }, "--drain takes a number of seconds, not \"soon\"" },
	{ { "--drain", "/s", "1", "2" }, "unexpected argument 2" },
	{ { "--as", "me", "a.ini" }, "option --as requires --ready or --drain" },
	{ { "a.ini", "b.ini" }, "unexpected argument b.ini" },
	{ { "--dump-settings", "user", "b" }, "unexpected argument b" },
	{ { "-x", "a.ini" }, "unknown option -x" },
	{ { "-dx", "a.ini" }, "unknown option -x" },
	{ { "--nonsense", "a.ini" }, "unknown option --nonsense" },
	{ { "--daemon=yes", "a.ini" }, "unknown option --daemon=yes" },
	{ { "--check=a.ini" }, "unknown option --check=a.ini" },
	{ { "a.ini", "-u" }, "option -u needs a value" },
	{ { "--user" }, "option --user needs a value" },
	{ { "--against" }, "option --against needs a value" },
	{ { "--against", "/s", "f.ini" }, "option --against requires --check" },
};

START_TEST(options_that_are_wrong_are_named)
{
	struct options options;
	struct err err;

	ck_assert(!parse(&options, bad[_i].words, &err));
	ck_assert_str_eq(err.text, bad[_i].says);
}
END_TEST

static const struct {
	const char *program;
	const char *first_line;
} programs[] = {
	{ "pgweir", PACKAGE_NAME " " PACKAGE_VERSION "\n" },
	{ "/usr/sbin/pgweir", PACKAGE_NAME " " PACKAGE_VERSION "\n" },
	{ "pgbouncer", "PgBouncer 1.26.1 (pgweir " PACKAGE_VERSION ")\n" },
	{ "/usr/sbin/pgbouncer", "PgBouncer 1.26.1 (pgweir " PACKAGE_VERSION ")\n" },
	{ "/opt/pgbouncer/pgweir", PACKAGE_NAME " " PACKAGE_VERSION "\n" },
};

START_TEST(version_goes_by_the_name_it_was_called)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	options_print_version(out, programs[_i].program);
	fclose(out);
	ck_assert_int_eq(strncmp(text, programs[_i].first_line, strlen(programs[_i].first_line)),
	                 0);
	ck_assert_ptr_nonnull(strstr(text, "\nlibevent 2."));
	ck_assert_ptr_nonnull(strstr(text, "\nadns: c-ares 1."));
	free(text);
}
END_TEST

START_TEST(help_and_errors_point_the_way)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	struct err err;

	err_set(&err, ERR_CONFIG, "no configuration file specified");
	options_print_error(out, "/usr/sbin/pgweir", &err);
	fflush(out);
	ck_assert_str_eq(text, "pgweir: no configuration file specified\n"
	                       "Try \"pgweir --help\" for more information.\n");
	options_print_help(out, "pgweir");
	fclose(out);
	ck_assert_ptr_nonnull(strstr(text, "Usage: pgweir [OPTION]... CONFIG_FILE\n"));
	ck_assert_ptr_nonnull(strstr(text, "  -u, --user=NAME      switch"));
	ck_assert_ptr_nonnull(strstr(text, "      --check          check"));
	free(text);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("main/options");
	TCase *cases = tcase_create("options");

	tcase_add_loop_test(cases, options_are_understood, 0, COUNT_OF(good));
	tcase_add_loop_test(cases, options_that_are_wrong_are_named, 0, COUNT_OF(bad));
	tcase_add_loop_test(cases, version_goes_by_the_name_it_was_called, 0, COUNT_OF(programs));
	tcase_add_test(cases, help_and_errors_point_the_way);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
