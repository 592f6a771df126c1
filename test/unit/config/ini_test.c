/* SPDX-License-Identifier: ISC */
/*
 * config/ini.c: lines, sections, names, %include.
 */

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../unit.h"

#include "pgweir/base/buf.h"
#include "pgweir/config/entries.h"
#include "../../lib/config_text.h"

#define ALL "[pgbouncer]\n"

static const struct {
	const char *says;
	const char *text;
	const char *notes; /* see note(); not with an error */
	const char *error; /* the first problem */
} cases[] = {
	{ "nothing", "", NULL, "f: section [pgbouncer] is missing" },
	{ "one pair", "[pgbouncer]\njob_name = b c \n", "job b c|", NULL },
	{ "our own name", "[pgweir]\njob_name=b", "job b|", NULL },
	{ "sections go on", ALL "[users]\nu=\n[databases]\nd=host=x\n[users]\nv=", "5 d=x|3 u|7 v|",
	  NULL },
	{ "comments and blank lines", "; x\n\n # y\n[peers]\n;a=b\n1=host=c\n" ALL, "6 1=c|",
	  NULL },
	{ "line ends of other systems", "[pgbouncer]\r\njob_name = b\r\n", "job b|", NULL },
	{ "byte order mark", "\xEF\xBB\xBF[pgbouncer]\njob_name=b", "job b|", NULL },
	{ "no comment behind a value", "[pgbouncer]\njob_name = b ; c", "job b ; c|", NULL },
	{ "quoted names", ALL "[databases]\n'my ''db' = host=x\n\"a\"\"b\"=host=y",
	  "3 my 'db=x|4 a\"b=y|", NULL },
	{ "star", ALL "[databases]\n* = host=x\na.b-c_d=host=y", "4 a.b-c_d=y|3 *=x|", NULL },
	{ "no end of quote", ALL "[databases]\n'my = x", NULL,
	  "f:3: the quote of the name has no end" },
	{ "no name", ALL "[databases]\n = x", NULL, "f:3: the name before = is missing" },
	{ "empty name", ALL "[databases]\n'' = x", NULL, "f:3: the name before = is missing" },
	{ "blank in a name", ALL "[databases]\nmy db = x", NULL,
	  "f:3: a name of other characters than letters, digits and _ . - * must stand in quotes" },
	{ "no pair", ALL "[databases]\nnonsense", NULL, "f:3: a line must read: name = value" },
	{ "unknown section", ALL "[nothing]\na=b\n[users]\nu=", NULL,
	  "f:2: unknown section [nothing]: valid sections are [pgbouncer], "
	  "[databases], [users], [peers], [listeners], [applications] and [statements]" },
	{ "case of a section", ALL "[Users]", NULL,
	  "f:2: unknown section [Users]: did you mean [users]?" },
	{ "section without end", ALL "[users", NULL,
	  "f:2: a section is written as [name], alone on its line" },
	{ "section with more", ALL "[users] x", NULL,
	  "f:2: a section is written as [name], alone on its line" },
	{ "outside", "a=b\nc=d\n[users]\nu=\n" ALL, NULL,
	  "f:1: a line before the first section: [pgbouncer] must come first" },
	{ "other percent", ALL "%insert x", NULL,
	  "f:2: a line beginning with % must read: %include path" },
	{ "include without blank", ALL "%includex", NULL,
	  "f:2: a line beginning with % must read: %include path" },
	{ "include of nothing", ALL "%include ", NULL, "f:2: %include needs the path of a file" },
};

/* The job's name, if it is set, and of each entry its line, name and host. */
static void note(const struct config *config, struct buf *notes)
{
	const struct config_database *database = NULL;
	const struct config_peer *peer = NULL;
	const struct config_user *user = NULL;

	if (strcmp(config->job_name, "pgbouncer") != 0)
		buf_printf(notes, "job %s|", config->job_name);
	while ((database = config_database_each(config, database)))
		buf_printf(notes, "%d %s=%s|", database->pos.line, database->name, database->host);
	while ((user = config_entry_next(config, ENTRY_USER, user)))
		buf_printf(notes, "%d %s|", user->pos.line, user->name);
	while ((peer = config_entry_next(config, ENTRY_PEER, peer)))
		buf_printf(notes, "%d %s=%s|", peer->pos.line, peer->name, peer->host);
}

static void expect_one(struct problems *problems, const char *text)
{
	ck_assert_uint_eq(problems->errors.count, 1);
	ck_assert_str_eq(problems->errors.texts[0], text);
	problems_done(problems);
}

START_TEST(ini_loads_lines)
{
	struct problems problems = { 0 };
	const struct config *config = config_parse(bytes_text(cases[_i].text), "f", &problems);
	struct buf notes = { 0 };

	ck_assert_msg((config != NULL) == (cases[_i].error == NULL), "%s", cases[_i].says);
	if (config) {
		note(config, &notes);
		ck_assert_str_eq(buf_text(&notes), cases[_i].notes);
	} else {
		expect_one(&problems, cases[_i].error);
	}
	config_unref(&config);
	buf_free(&notes);
}
END_TEST

START_TEST(ini_refuses_a_zero_byte)
{
	struct problems problems = { 0 };

	ck_assert_ptr_null(
	    config_parse(bytes_of("[pgbouncer]\na=b\0c\nverbose=1", 27), "f", &problems));
	expect_one(&problems, "f:2: a zero byte: this is not a text file");
}
END_TEST

static char directory[PATH_MAX];

static void enter_directory(void)
{
	snprintf(directory, sizeof(directory), "/tmp/pgweir-ini-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(directory));
	ck_assert_int_eq(chdir(directory), 0);
}

static void leave_directory(void)
{
	static const char *const names[] = { "main", "part", "loop" };

	for (size_t i = 0; i < COUNT_OF(names); i++)
		unlink(names[i]);
	ck_assert_int_eq(chdir("/"), 0);
	rmdir(directory);
}

static void write_file(const char *name, const char *text)
{
	FILE *file = fopen(name, "we");

	ck_assert_ptr_nonnull(file);
	ck_assert(fputs(text, file) >= 0);
	ck_assert_int_eq(fclose(file), 0);
}

START_TEST(ini_includes_share_the_section)
{
	struct problems problems = { 0 };
	const struct config *draft;
	struct buf notes = { 0 };

	write_file("main", "[pgbouncer]\njob_name=a\n%include part\nd=\n%include  missing \n");
	write_file("part", "verbose=2\n[users]\nc=\n");
	draft = config_draft("main", &problems);
	note(draft, &notes);
	ck_assert_str_eq(buf_text(&notes), "job a|3 c|4 d|");
	ck_assert_int_eq(draft->verbose, 2);
	ck_assert_str_eq(config_origin(draft, "verbose").file, "part");
	expect_one(&problems, "missing: cannot open: No such file or directory");
	config_unref(&draft);
	buf_free(&notes);
}
END_TEST

START_TEST(ini_includes_end)
{
	struct problems problems = { 0 };

	write_file("loop", "[pgbouncer]\n%include loop\n");
	ck_assert_ptr_null(config_load("loop", &problems));
	expect_one(&problems, "loop:2: %include loop: more than 10 files within each other");

	/* includes itself three times, ten levels deep: ended by the number of files */
	write_file("loop", "[pgbouncer]\n%include loop\n%include loop\n%include loop\n");
	ck_assert_ptr_null(config_load("loop", &problems));
	ck_assert_uint_gt(problems.errors.dropped_count, 0);
	problems_done(&problems);
}
END_TEST

START_TEST(ini_says_what_cannot_be_read)
{
	struct problems problems = { 0 };

	ck_assert_ptr_null(config_load("/", &problems));
	expect_one(&problems, "/: cannot read: Is a directory");
}
END_TEST

START_TEST(ini_has_a_limit_of_bytes)
{
	struct source_files files = { .byte_count = SOURCE_BYTES_MAX - 3 };
	struct problems problems = { 0 };
	struct buf text = { 0 };

	write_file("main", ";23");
	ck_assert_ptr_nonnull(source_read(&files, "main", false, &text, &problems));
	buf_clear(&text);
	ck_assert_ptr_null(source_read(&files, "main", false, &text, &problems));
	expect_one(&problems, "main: more than 64 MB in all files");
	source_files_done(&files);
	buf_free(&text);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config/ini");
	TCase *tcase = tcase_create("ini"), *files = tcase_create("files");

	tcase_add_loop_test(tcase, ini_loads_lines, 0, COUNT_OF(cases));
	tcase_add_test(tcase, ini_refuses_a_zero_byte);
	tcase_add_test(tcase, ini_says_what_cannot_be_read);
	suite_add_tcase(suite, tcase);
	tcase_add_checked_fixture(files, enter_directory, leave_directory);
	tcase_add_test(files, ini_includes_share_the_section);
	tcase_add_test(files, ini_includes_end);
	tcase_add_test(files, ini_has_a_limit_of_bytes);
	suite_add_tcase(suite, files);
	return unit_run(suite);
}
