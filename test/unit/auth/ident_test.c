/* SPDX-License-Identifier: ISC */
/*
 * auth/hba.c: maps of names.
 */
#include "../../../src/auth/hba_priv.h"

#include "../../lib/auth_text.h"
#include "../unit.h"

static const char maps[] = "# a map is all its lines\n"
			   "one  root       alice\n"
			   "one  \"a b\"      bob\n"
			   "two  root       all\n"
			   "two  carol      \"all\"\n"
			   "mail /^(.*)@example\\.com$  \\1\n"
			   "mail /^(.*)@old\\.org$      x\\1y\n"
			   "any  /^adm      /^[a-c]+$\n"
			   "alt  /^(x)?z    \\1\n"
			   "lit  name       \\1\n";

static const struct {
	const char *map, *system_user, *user;
	bool is_admitted;
} cases[] = {
	{ "one", "root", "alice", true },
	{ "one", "root", "bob", false },
	{ "one", "a b", "bob", true },
	{ "one", "Root", "alice", false },
	{ "one", "", "", false },
	{ "none", "root", "alice", false },
	{ "two", "root", "anybody", true },
	{ "two", "carol", "anybody", false },
	{ "two", "carol", "all", true },
	{ "mail", "alice@example.com", "alice", true },
	{ "mail", "alice@example.com", "alic", false },
	{ "mail", "alice@example.com", "alicex", false },
	{ "mail", "alice@examplexcom", "alice", false },
	{ "mail", "all@example.com", "anybody", false },
	{ "mail", "@example.com", "", true },
	{ "mail", "bob@old.org", "xboby", true },
	{ "mail", "bob@old.org", "xbob", false },
	{ "mail", "bob@old.org", "boby", false },
	{ "any", "admin", "abc", true },
	{ "any", "admin", "abd", false },
	{ "any", "xadmin", "abc", false },
	{ "alt", "xz", "x", true },
	{ "alt", "z", "", false },
	{ "lit", "name", "\\1", true },
	{ "lit", "name", "name", false },
};

static struct hba *parse(struct bytes ident, struct problems *problems)
{
	return hba_parse(bytes_text("local all all peer\n"), ident, problems);
}

START_TEST(maps_admit)
{
	struct problems problems = { 0 };
	struct hba *hba = parse(bytes_text(maps), &problems);

	ck_assert_ptr_nonnull(hba);
	ck_assert_msg(map_admits(hba, cases[_i].map, cases[_i].system_user, cases[_i].user) ==
	                  cases[_i].is_admitted,
	              "%s: %s as %s", cases[_i].map, cases[_i].system_user, cases[_i].user);
	hba_release(&hba);
}
END_TEST

/* A system user name can have any length: it matches nothing, at no cost. */
START_TEST(a_very_long_name)
{
	struct problems problems = { 0 };
	struct hba *hba = parse(bytes_text("m /.* all\n"), &problems);
	char *name = malloc(65536);

	memset(name, 'a', 65535);
	name[65535] = 0;
	ck_assert(!map_admits(hba, "m", name, "a"));
	ck_assert(map_admits(hba, "m", "a", name));
	free(name);
	hba_release(&hba);
}
END_TEST

static const struct {
	const char *text, *problem;
} bad[] = {
	{ "m a", "ident:1: a line must read: map system-user database-user" },
	{ "m a b c", "ident:1: a line must read: map system-user database-user" },
	{ "m a,b c", "ident:1: a line must read: map system-user database-user" },
	{ "\nm a +b", "ident:2: +b: groups are not supported: list the names, or put them into a "
	              "file and write @file" },
	{ "m /^a$ \\1", "ident:1: /^a$ has no (group) for \\1" },
	{ "m /(a)\\1 b", "ident:1: /(a)\\1: back-references are not supported" },
	{ "m /a\\ b", "ident:1: /a\\: Trailing backslash" },
	{ "m / b", "ident:1: an empty regular expression" },
	{ "m /a{100}{100} b", "ident:1: /a{100}{100} repeats too often" },
	{ "m /(a+)+++++++++ b", "ident:1: /(a+)+++++++++ repeats too often" },
	{ "m /a********** b", "ident:1: /a********** repeats too often" },
	{ "m /((((((((a*)*)*)*)*)*)*)*)* b",
	  "ident:1: /((((((((a*)*)*)*)*)*)*)*)* repeats too often" },
	{ "m \"/((((((((a){1,}){1,}){1,}){1,}){1,}){1,}){1,}){1,}\" b",
	  "ident:1: /((((((((a){1,}){1,}){1,}){1,}){1,}){1,}){1,}){1,} repeats too often" },
	{ "m \"/a{1,99999999999999999999999}\" b",
	  "ident:1: /a{1,99999999999999999999999} repeats too often" },
};

START_TEST(bad_lines)
{
	struct problems problems = { 0 };
	struct hba *hba = parse(bytes_text(bad[_i].text), &problems);

	ck_assert_ptr_null(hba);
	ck_assert_uint_eq(problems.errors.count, 1);
	ck_assert_str_eq(problems.errors.texts[0], bad[_i].problem);
	problems_done(&problems);
}
END_TEST

START_TEST(rows)
{
	struct problems problems = { 0 };
	struct hba *hba = parse(bytes_text(maps), &problems);
	const struct mapping *row = &hba->mappings[1];

	ck_assert_uint_eq(hba->mapping_count, 9);
	ck_assert_str_eq(row->pos.file, "ident");
	ck_assert_int_eq(row->pos.line, 3);
	ck_assert_str_eq(row->map, "one");
	ck_assert_str_eq(row->system_user.text, "a b");
	ck_assert_str_eq(row->user.text, "bob");
	ck_assert(ident_has_map(hba, "alt"));
	ck_assert(!ident_has_map(hba, "al"));
	hba_release(&hba);
}
END_TEST

START_TEST(no_file)
{
	struct problems problems = { 0 };
	struct hba *hba = parse(bytes_text(""), &problems);

	ck_assert_ptr_nonnull(hba);
	ck_assert(!ident_has_map(hba, ""));
	hba_release(&hba);
	hba = hba_load("/nowhere/rules", "/nowhere/at/all", &problems);
	ck_assert_ptr_null(hba);
	ck_assert_str_eq(problems.errors.texts[0],
	                 "/nowhere/at/all: cannot open: No such file or directory");
	problems_done(&problems);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("ident");
	TCase *tcase = tcase_create("ident");

	tcase_add_loop_test(tcase, maps_admit, 0, (int)COUNT_OF(cases));
	tcase_add_test(tcase, a_very_long_name);
	tcase_add_loop_test(tcase, bad_lines, 0, (int)COUNT_OF(bad));
	tcase_add_test(tcase, rows);
	tcase_add_test(tcase, no_file);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
