/* SPDX-License-Identifier: ISC */
/*
 * config/ini.c: lines, sections, names, %include.
 */
#include "../../../src/config/config_priv.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../unit.h"

#include "pgweir/base/buf.h"

/* Records its arguments: section, line, name, value. */
struct notes {
	struct ini_reader reader;
	struct buf text;
};

static void note_pair(struct ini_reader *reader, const struct ini_pair *pair)
{
	struct notes *notes = (struct notes *)reader;

	buf_printf(&notes->text, "%d:%d %s=%s|", pair->section, pair->pos.line, pair->name,
	           pair->value);
}

static const struct {
	const char *says;
	const char *text;
	const char *notes;
	const char *error; /* the first problem */
} cases[] = {
	{ "nothing", "", "", NULL },
	{ "one pair", "[pgbouncer]\na = b c \n", "1:2 a=b c|", NULL },
	{ "our own name", "[pgweir]\na=b", "1:2 a=b|", NULL },
	{ "sections go on", "[users]\nu=\n[databases]\nd=x\n[users]\nv=", "3:2 u=|2:4 d=x|3:6 v=|",
	  NULL },
	{ "comments and blank lines", "; x\n\n # y\n[peers]\n;a=b\n1=c\n", "4:6 1=c|", NULL },
	{ "line ends of other systems", "[pgbouncer]\r\na = b\r\n", "1:2 a=b|", NULL },
	{ "byte order mark", "\xEF\xBB\xBF[pgbouncer]\na=b", "1:2 a=b|", NULL },
	{ "no comment behind a value", "[pgbouncer]\na = b ; c", "1:2 a=b ; c|", NULL },
	{ "quoted names", "[databases]\n'my ''db' = x\n\"a\"\"b\"=y", "2:2 my 'db=x|2:3 a\"b=y|",
	  NULL },
	{ "star", "[databases]\n* = x\na.b-c_d=y", "2:2 *=x|2:3 a.b-c_d=y|", NULL },
	{ "no end of quote", "[databases]\n'my = x", "", "f:2: the quote of the name has no end" },
	{ "no name", "[databases]\n = x", "", "f:2: the name before = is missing" },
	{ "empty name", "[databases]\n'' = x", "", "f:2: the name before = is missing" },
	{ "blank in a name", "[databases]\nmy db = x", "",
	  "f:2: a name of other characters than letters, digits and _ . - * must stand in quotes" },
	{ "no pair", "[databases]\nnonsense", "", "f:2: a line must read: name = value" },
	{ "unknown section", "[nothing]\na=b\n[users]\nu=", "3:4 u=|",
	  "f:1: unknown section [nothing]: valid sections are [pgbouncer], "
	  "[databases], [users], [peers], [listeners], [applications] and [statements]" },
	{ "case of a section", "[Users]", "",
	  "f:1: unknown section [Users]: did you mean [users]?" },
	{ "section without end", "[users", "",
	  "f:1: a section is written as [name], alone on its line" },
	{ "section with more", "[users] x", "",
	  "f:1: a section is written as [name], alone on its line" },
	{ "outside", "a=b\nc=d\n[users]\nu=", "3:4 u=|",
	  "f:1: a line before the first section: [pgbouncer] must come first" },
	{ "other percent", "%insert x", "",
	  "f:1: a line beginning with % must read: %include path" },
	{ "include without blank", "%includex", "",
	  "f:1: a line beginning with % must read: %include path" },
	{ "include here", "%include x", "", "f:1: %include is not possible here" },
};

START_TEST(ini_read_bytes_answers)
{
	struct problems problems = { 0 };
	struct notes notes = { .reader = { .pair = note_pair, .problems = &problems } };

	ini_read_bytes(&notes.reader, bytes_text(cases[_i].text), "f");
	ck_assert_msg(strcmp(buf_text(&notes.text), cases[_i].notes) == 0, "%s: %s", cases[_i].says,
	              buf_text(&notes.text));
	ck_assert_msg(problems.errors.count == (cases[_i].error ? 1 : 0), "%s", cases[_i].says);
	if (cases[_i].error)
		ck_assert_str_eq(problems.errors.texts[0], cases[_i].error);
	problems_done(&problems);
	source_files_done(&notes.reader.files);
	buf_free(&notes.text);
}
END_TEST

START_TEST(ini_refuses_a_zero_byte)
{
	struct problems problems = { 0 };
	struct notes notes = { .reader = { .pair = note_pair, .problems = &problems } };

	ini_read_bytes(&notes.reader, bytes_of("[users]\na=b\0c\nd=e", 17), "f");
	ck_assert_str_eq(buf_text(&notes.text), "3:3 d=e|");
	ck_assert_uint_eq(problems.errors.count, 1);
	ck_assert_str_eq(problems.errors.texts[0], "f:2: a zero byte: this is not a text file");
	problems_done(&problems);
	source_files_done(&notes.reader.files);
	buf_free(&notes.text);
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
	struct notes notes = {
		.reader = { .pair = note_pair, .problems = &problems, .may_include = true }
	};

	write_file("main", "[pgbouncer]\na=1\n%include part\nd=4\n%include  missing \n");
	write_file("part", "b=2\n[users]\nc=3");
	ini_read_file(&notes.reader, "main");
	ck_assert_str_eq(buf_text(&notes.text), "1:2 a=1|1:1 b=2|3:3 c=3|3:4 d=4|");
	ck_assert_uint_eq(problems.errors.count, 1);
	ck_assert_str_eq(problems.errors.texts[0],
	                 "missing: cannot open: No such file or directory");
	ck_assert(notes.reader.has_settings);
	problems_done(&problems);
	source_files_done(&notes.reader.files);
	buf_free(&notes.text);
}
END_TEST

START_TEST(ini_includes_end)
{
	struct problems problems = { 0 };
	struct ini_reader reader = { .pair = note_pair,
		                     .problems = &problems,
		                     .may_include = true };

	write_file("loop", "%include loop\n");
	ini_read_file(&reader, "loop");
	ck_assert_uint_eq(problems.errors.count, 1);
	ck_assert_str_eq(problems.errors.texts[0],
	                 "loop:1: %include loop: more than 10 files within each other");
	problems_done(&problems);
	source_files_done(&reader.files);

	/* includes itself twice, ten levels deep: ended by the number of files */
	reader =
	    (struct ini_reader){ .pair = note_pair, .problems = &problems, .may_include = true };
	write_file("loop", "%include loop\n%include loop\n%include loop\n");
	ini_read_file(&reader, "loop");
	ck_assert_uint_eq(reader.files.count, SOURCE_FILES_MAX);
	ck_assert_uint_gt(problems.errors.dropped_count, 0);
	problems_done(&problems);
	source_files_done(&reader.files);
}
END_TEST

START_TEST(ini_says_what_cannot_be_read)
{
	struct problems problems = { 0 };
	struct ini_reader reader = { .pair = note_pair, .problems = &problems };

	ini_read_file(&reader, "/");
	ck_assert_uint_eq(problems.errors.count, 1);
	ck_assert_str_eq(problems.errors.texts[0], "/: cannot read: Is a directory");
	problems_done(&problems);
	source_files_done(&reader.files);
}
END_TEST

START_TEST(ini_has_a_limit_of_bytes)
{
	struct problems problems = { 0 };
	struct ini_reader reader = { .pair = note_pair,
		                     .problems = &problems,
		                     .files.byte_count = SOURCE_BYTES_MAX - 3 };

	ini_read_bytes(&reader, bytes_text(";23"), "f");
	ck_assert(!problems_any(&problems));
	ini_read_bytes(&reader, bytes_text(";"), "f");
	ck_assert_uint_eq(problems.errors.count, 1);
	ck_assert_str_eq(problems.errors.texts[0], "f: more than 64 MB in all files");
	problems_done(&problems);
	source_files_done(&reader.files);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config/ini");
	TCase *tcase = tcase_create("ini"), *files = tcase_create("files");

	tcase_add_loop_test(tcase, ini_read_bytes_answers, 0, COUNT_OF(cases));
	tcase_add_test(tcase, ini_refuses_a_zero_byte);
	tcase_add_test(tcase, ini_says_what_cannot_be_read);
	tcase_add_test(tcase, ini_has_a_limit_of_bytes);
	suite_add_tcase(suite, tcase);
	tcase_add_checked_fixture(files, enter_directory, leave_directory);
	tcase_add_test(files, ini_includes_share_the_section);
	tcase_add_test(files, ini_includes_end);
	suite_add_tcase(suite, files);
	return unit_run(suite);
}
