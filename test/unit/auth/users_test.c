/* SPDX-License-Identifier: ISC */
/*
 * auth/users.c: auth_file is accepted completely or not at all.
 */
#include "pgweir/auth/users.h"
#include "pgweir/base/buf.h"

#include <stdio.h>
#include <unistd.h>

#include "../../lib/auth_text.h"
#include "../unit.h"

#define MD5 "md5900150983cd24fb0d6963f7d28e17f72"
#define SCRAM                                           \
	"SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$"  \
	"WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:" \
	"wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="

static const struct {
	const char *says, *text;
	enum secret_kind kind;
} secrets[] = {
	{ "none", NULL, SECRET_NONE },
	{ "empty", "", SECRET_NONE },
	{ "plain", "hunter2", SECRET_PLAIN },
	{ "md5", MD5, SECRET_MD5 },
	{ "md5 in capitals", "md5900150983CD24FB0D6963F7D28E17F72", SECRET_PLAIN },
	{ "md5 too short", "md5900150983cd24fb0d6963f7d28e17f7", SECRET_PLAIN },
	{ "md5 too long", MD5 "0", SECRET_PLAIN },
	{ "SCRAM", SCRAM, SECRET_SCRAM },
	{ "SCRAM with a broken key", "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$a:b",
	  SECRET_PLAIN },
};

START_TEST(secret_kinds)
{
	ck_assert_msg(users_secret_of(secrets[_i].text).kind == secrets[_i].kind, "%s",
	              secrets[_i].says);
}
END_TEST

static void list_user(const struct user *user, void *arg)
{
	buf_printf(arg, "<%s><%s>", user->name, user->secret.text);
}

static const struct {
	const char *says;
	struct bytes text;
	const char *found; /* NULL: refused */
	const char *error;
} files[] = {
	{ "empty", { "", 0 }, "", NULL },
	{ "one", { "\"a\" \"b\"\n", 8 }, "<a><b>", NULL },
	{ "no line end", { "\"a\" \"b\"", 7 }, "<a><b>", NULL },
	{ "line ends of Windows", { "\"a\" \"b\"\r\n\r\n", 11 }, "<a><b>", NULL },
	{ "no blank between",
	  { "\"a\"\"b\"", 6 },
	  NULL,
	  "f:1: a name and a secret in double quotes are expected" },
	{ "tabs", { "\"a\"\t\"b\"", 7 }, "<a><b>", NULL },
	{ "comments and blank lines", { "; x\n\n  \n\"a\" \"b\"\n;", 18 }, "<a><b>", NULL },
	{ "what follows does not count", { "\"a\" \"b\" \"c\" d\n", 14 }, "<a><b>", NULL },
	{ "quotes within", { "\"a\"\"z\" \"\"\"\"", 11 }, "<a\"z><\">", NULL },
	{ "an empty secret", { "\"a\" \"\"", 6 }, "<a><>", NULL },
	{ "the later line counts",
	  { "\"a\" \"1\"\n\"b\" \"2\"\n\"a\" \"3\"", 23 },
	  "<b><2><a><3>",
	  NULL },
	{ "a hash is no comment",
	  { "\"a\" \"b\"\n# x\n", 12 },
	  NULL,
	  "f:2: a name and a secret in double quotes are expected" },
	{ "a comment not at the start",
	  { " ; x", 4 },
	  NULL,
	  "f:1: a name and a secret in double quotes are expected" },
	{ "no secret",
	  { "\"a\"\n\"b\"", 7 },
	  NULL,
	  "f:1: a name and a secret in double quotes are expected" },
	{ "no closing quote", { "\"a\" \"b\n", 7 }, NULL, "f:1: a closing quote is missing" },
	{ "no closing quote at the end", { "\"a", 2 }, NULL, "f:1: a closing quote is missing" },
	{ "a zero byte", { "\"a\" \"b\0\"", 8 }, NULL, "f:1: a zero byte" },
	{ "a zero byte behind", { "\"a\" \"b\"\0\n\"c\" \"d\"", 16 }, "<a><b><c><d>", NULL },
	{ "a quote over two lines",
	  { "\"a\" \"b\"\n\"c\" \"d\n\"\n", 17 },
	  NULL,
	  "f:2: a closing quote is missing" },
	{ "quotes up to the end", { "\"a\" \"b\"\"", 8 }, NULL, "f:1: a closing quote is missing" },
	{ "an empty name", { "\"\" \"b\"", 6 }, NULL, "f:1: the name is empty" },
};

START_TEST(users_files)
{
	struct buf found = { 0 };
	struct problems problems = { 0 };
	struct users *users = users_parse(files[_i].text, "f", &problems);

	ck_assert_msg(problems_any(&problems) == !files[_i].found, "%s", files[_i].says);
	if (files[_i].found) {
		users_each(users, list_user, &found);
		ck_assert_str_eq(buf_text(&found), files[_i].found);
	} else {
		ck_assert_str_eq(problems.errors.texts[0], files[_i].error);
	}
	users_release(&users);
	problems_done(&problems);
	buf_free(&found);
}
END_TEST

START_TEST(users_have_a_line)
{
	struct problems problems = { 0 };
	struct users *users = users_parse(
	    bytes_text("; x\n\"a\" \"b\"\n\n\"c\" \"d\"\n\"a\" \"e\"\n"), "f", &problems);

	ck_assert_int_eq(users_find(users, "c")->line, 4);
	ck_assert_int_eq(users_find(users, "a")->line, 5);
	ck_assert(!problems_any(&problems));
	ck_assert_str_eq(problems.warnings.texts[0],
	                 "f:5: user \"a\" is also in line 2, which does not count");
	users_release(&users);
	problems_done(&problems);
}
END_TEST

/* Whether a line is valid whose name and secret have so many bytes. */
static bool is_valid(size_t name_count, size_t secret_count)
{
	struct problems problems = { 0 };
	struct buf text = { 0 };
	struct users *users;
	bool is_good;

	buf_add_byte(&text, '"');
	for (size_t i = 0; i < name_count; i++)
		buf_add_byte(&text, 'n');
	buf_add_text(&text, "\" \"");
	for (size_t i = 0; i < secret_count; i++)
		buf_add_byte(&text, 's');
	buf_add_text(&text, "\"\n");
	users = users_parse(buf_bytes(&text), "f", &problems);
	is_good = !problems_any(&problems);
	users_release(&users);
	problems_done(&problems);
	buf_free(&text);
	return is_good;
}

START_TEST(users_lengths_have_limits)
{
	static const struct {
		size_t name, secret;
		bool ok;
	} lengths[] = {
		{ USER_NAME_MAX, 1, true },
		{ USER_NAME_MAX + 1, 1, false },
		{ 1, USER_SECRET_MAX, true },
		{ 1, USER_SECRET_MAX + 1, false },
	};

	for (size_t i = 0; i < COUNT_OF(lengths); i++)
		ck_assert_msg(is_valid(lengths[i].name, lengths[i].secret) == lengths[i].ok,
		              "row %zu", i);
}
END_TEST

START_TEST(users_are_found_and_held)
{
	struct problems problems = { 0 };
	struct users *users =
	    users_parse(bytes_text("\"a\" \"x\"\n\"b\" \"" MD5 "\""), "f", &problems);
	struct users *held = users_hold(users);

	ck_assert_uint_eq(users_count(users), 2);
	users_release(&users);
	ck_assert_ptr_null(users);
	ck_assert_str_eq(users_find(held, "a")->secret.text, "x");
	ck_assert_int_eq(users_find(held, "b")->secret.kind, SECRET_MD5);
	ck_assert_ptr_null(users_find(held, "c"));
	ck_assert_ptr_null(users_find(held, ""));
	users_release(&held);
	users = users_none();
	ck_assert_ptr_null(users_find(users, "a"));
	users_release(&users);
	users_release(&users);
}
END_TEST

static const struct source_pos at = { "main.ini", 7 };

START_TEST(users_from_a_file)
{
	char path[] = "/tmp/pgweir-users-XXXXXX";
	int fd = mkstemp(path);
	struct problems problems = { 0 };
	struct users *users;

	ck_assert_int_eq(write(fd, "\"a\" \"b\"\n", 8), 8);
	users = users_load(path, at, &problems);
	ck_assert(!problems_any(&problems));
	ck_assert_str_eq(users_find(users, "a")->secret.text, "b");
	users_release(&users);
	close(fd);
	unlink(path);
	ck_assert_ptr_null(users_load(path, at, &problems));
	ck_assert_ptr_nonnull(strstr(problems.errors.texts[0], path));
	ck_assert_ptr_nonnull(
	    strstr(problems.errors.texts[0], "main.ini:7: auth_file: cannot open"));
	ck_assert_ptr_null(users_load("/", at, &problems));
	ck_assert_uint_eq(problems.errors.count, 2);
	problems_done(&problems);
}
END_TEST

START_TEST(users_load_says_all_that_is_wrong)
{
	char path[] = "/tmp/pgweir-users-XXXXXX";
	static const char text[] = "\"a\" \"b\"\nb c\n\"c\" \"\n\"\" \"x\"\n\"d\" \"e\"\n";
	int fd = mkstemp(path);
	struct problems problems = { 0 };
	struct users *users;

	ck_assert_int_eq(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	users = users_load(path, at, &problems);
	ck_assert_uint_eq(users_count(users), 2);
	ck_assert_uint_eq(problems.errors.count, 3);
	ck_assert_ptr_nonnull(strstr(problems.errors.texts[0], ":2: "));
	ck_assert_ptr_nonnull(strstr(problems.errors.texts[1], ":3: "));
	ck_assert_ptr_nonnull(strstr(problems.errors.texts[2], ":4: "));
	users_release(&users);
	problems_done(&problems);
	close(fd);
	unlink(path);
	ck_assert_ptr_null(users_load(path, at, &problems));
	ck_assert_uint_eq(problems.errors.count, 1);
	problems_done(&problems);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("auth/users");
	TCase *cases = tcase_create("users");

	tcase_add_loop_test(cases, secret_kinds, 0, COUNT_OF(secrets));
	tcase_add_loop_test(cases, users_files, 0, COUNT_OF(files));
	tcase_add_test(cases, users_have_a_line);
	tcase_add_test(cases, users_lengths_have_limits);
	tcase_add_test(cases, users_are_found_and_held);
	tcase_add_test(cases, users_from_a_file);
	tcase_add_test(cases, users_load_says_all_that_is_wrong);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
