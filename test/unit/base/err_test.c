/* SPDX-License-Identifier: ISC */
/*
 * base/err.c: codes, texts, and prefixes.
 */
#include "pgweir/base/err.h"

#include <string.h>

#include "../unit.h"

START_TEST(err_has_code_and_words)
{
	struct err err;

	ck_assert(!err_set(&err, ERR_PASSWORD, "no %s", "entry"));
	ck_assert_str_eq(err.sqlstate, "28P01");
	ck_assert_str_eq(err.text, "no entry");
	ck_assert(!err_prefix(&err, "%s:%d: ", "file", 7));
	ck_assert_str_eq(err.text, "file:7: no entry");
	ck_assert(!err_set(NULL, ERR_PASSWORD, "nobody listens"));
}
END_TEST

START_TEST(err_foreign_keeps_its_sqlstate)
{
	struct err err;

	err_set_foreign(&err, "42P01", "relation does not exist");
	ck_assert_str_eq(err.sqlstate, "42P01");
	err_set_foreign(&err, "nonsense", "words");
	ck_assert_str_eq(err.sqlstate, "XX000");
}
END_TEST

START_TEST(err_cuts_long_words)
{
	struct err err;
	char words[2 * ERR_TEXT_SIZE];

	memset(words, 'x', sizeof(words));
	words[sizeof(words) - 1] = 0;
	err_set(&err, ERR_LIMIT, "%s", words);
	ck_assert_uint_eq(strlen(err.text), ERR_TEXT_SIZE - 1);
	err_prefix(&err, "%s", words);
	ck_assert_uint_eq(strlen(err.text), ERR_TEXT_SIZE - 1);
}
END_TEST

START_TEST(err_cuts_no_character)
{
	struct err err;
	char words[2 * ERR_DETAIL_SIZE];

	/* the first byte makes the texts end within a character */
	words[0] = 'x';
	for (size_t i = 1; i + 2 < sizeof(words); i += 2)
		memcpy(words + i, "\xc3\xa4", 2);
	words[sizeof(words) - 1] = 0;
	err_set(&err, ERR_LIMIT, "x%s", words);
	ck_assert_uint_eq(strlen(err.text), ERR_TEXT_SIZE - 2);
	err_set(&err, ERR_LIMIT, "x");
	err_suffix(&err, "%s", words);
	ck_assert_uint_eq(strlen(err.text), ERR_TEXT_SIZE - 2);
	err_detail(&err, "x%s", words);
	ck_assert_uint_eq(strlen(err.detail), ERR_DETAIL_SIZE - 2);
}
END_TEST

START_TEST(err_codes_all_have_a_sqlstate)
{
	for (int code = 0; code < ERR_CODES; code++)
		ck_assert_uint_eq(strlen(err_sqlstate((enum err_code)code)), 5);
}
END_TEST

START_TEST(a_detail_belongs_to_one_error)
{
	struct err err;

	err_set(&err, ERR_PASSWORD, "no");
	ck_assert_str_eq(err.detail, "");
	ck_assert(!err_detail(&err, "because"));
	err_prefix(&err, "oh ");
	ck_assert_str_eq(err.text, "oh no");
	ck_assert(!err_hint(&err, "do that"));
	ck_assert_str_eq(err.detail, "because");
	ck_assert_str_eq(err.hint, "do that");
	err_set_foreign(&err, "28P01", "no");
	ck_assert_str_eq(err.detail, "");
	ck_assert_ptr_null(err.hint);
	ck_assert(!err_detail(NULL, "nobody asks"));
	ck_assert(!err_hint(NULL, "nobody asks"));
}
END_TEST

START_TEST(an_error_has_the_reason_of_its_code_or_its_own)
{
	struct err err;

	err_set(&err, ERR_LIMIT, "too much");
	ck_assert_int_eq(err.reason, ERR_LIMIT);
	ck_assert(!err_close(&err, CLOSE_NO_DATABASE));
	ck_assert_str_eq(err.text, "no such database");
	ck_assert_str_eq(err.sqlstate, "3D000");
	err_suffix(&err, ": %s", "x");
	ck_assert_int_eq(err.reason, CLOSE_NO_DATABASE);
	ck_assert(!err_recode(&err, ERR_ADMIN_SHUTDOWN));
	ck_assert_int_eq(err.code, ERR_ADMIN_SHUTDOWN);
	ck_assert_str_eq(err.sqlstate, "57P01");
	ck_assert_str_eq(err.text, "no such database: x");
	ck_assert_int_eq(err.reason, CLOSE_NO_DATABASE);
	err_set_foreign(&err, "42P01", "no");
	ck_assert(!err_reason(&err, CLOSE_LOGIN_FAILING));
	ck_assert_str_eq(err.sqlstate, "42P01");
	ck_assert_int_eq(err.reason, CLOSE_LOGIN_FAILING);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/err");
	TCase *cases = tcase_create("err");

	tcase_add_test(cases, err_has_code_and_words);
	tcase_add_test(cases, an_error_has_the_reason_of_its_code_or_its_own);
	tcase_add_test(cases, a_detail_belongs_to_one_error);
	tcase_add_test(cases, err_foreign_keeps_its_sqlstate);
	tcase_add_test(cases, err_cuts_long_words);
	tcase_add_test(cases, err_cuts_no_character);
	tcase_add_test(cases, err_codes_all_have_a_sqlstate);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
