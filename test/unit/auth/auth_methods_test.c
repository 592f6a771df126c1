/* SPDX-License-Identifier: ISC */
/*
 * auth/auth_methods.c: each row of the table is whole, and its words are what the settings and
 * the rules have.
 */
#include "pgweir/auth/auth_methods.h"

#include <string.h>

#include "pgweir/config/settings.h"

#include "../unit.h"

START_TEST(rows_are_whole)
{
	const struct auth_method_row *row = &auth_methods[_i];

	ck_assert_ptr_nonnull(row->name);
	ck_assert_msg(row->question == AUTH_ASKS_NOTHING || row->refusal, "%s", row->name);
	ck_assert_msg(row->voucher == AUTH_NO_VOUCHER || row->refusal, "%s", row->name);
	ck_assert_msg(!row->voucher || !row->question, "%s", row->name);
	ck_assert_msg(!row->outside || (row->setting && row->threads && row->question), "%s",
	              row->name);
	ck_assert_msg(!row->hba_alias || row->hba_name, "%s", row->name);
	if (row->outside)
		ck_assert_ptr_nonnull(row->outside->name);
}
END_TEST

/* The setting has the words of the first rows, in their order. */
START_TEST(names_are_those_of_auth_type)
{
	const struct setting *setting = setting_find("auth_type");
	int method = 0;

	for (; setting->words[method]; method++)
		ck_assert_str_eq(auth_methods[method].name, setting->words[method]);
	ck_assert_int_eq(method, AUTH_METHOD_LDAP + 1);
	ck_assert_int_lt(method, AUTH_METHODS);
}
END_TEST

static const struct {
	const char *word;
	enum auth_method method;
} words[] = {
	{ "trust", AUTH_METHOD_TRUST },
	{ "reject", AUTH_METHOD_REJECT },
	{ "password", AUTH_METHOD_PLAIN },
	{ "plain", AUTH_METHOD_PLAIN },
	{ "md5", AUTH_METHOD_MD5 },
	{ "scram-sha-256", AUTH_METHOD_SCRAM },
	{ "peer", AUTH_METHOD_PEER },
	{ "cert", AUTH_METHOD_CERT },
	{ "pam", AUTH_METHOD_PAM },
	{ "ldap", AUTH_METHOD_LDAP },
	{ "any", AUTH_METHODS },
	{ "hba", AUTH_METHODS },
	{ "", AUTH_METHODS },
	{ "Trust", AUTH_METHODS },
};

START_TEST(words_of_rules)
{
	ck_assert_msg(auth_methods_by_hba_name(words[_i].word) == words[_i].method, "\"%s\"",
	              words[_i].word);
}
END_TEST

START_TEST(options_are_those_of_the_settings)
{
	char service[] = "service";
	struct config config = { .auth_pam_service = service };

	ck_assert_ptr_eq(auth_methods_options(AUTH_METHOD_PAM, &config), service);
	ck_assert_ptr_null(auth_methods_options(AUTH_METHOD_LDAP, &config));
	ck_assert_ptr_null(auth_methods_options(AUTH_METHOD_SCRAM, &config));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("auth/auth_methods");
	TCase *tests = tcase_create("auth_methods");

	suite_add_tcase(suite, tests);
	tcase_add_loop_test(tests, rows_are_whole, 0, AUTH_METHODS);
	tcase_add_test(tests, names_are_those_of_auth_type);
	tcase_add_loop_test(tests, words_of_rules, 0, COUNT_OF(words));
	tcase_add_test(tests, options_are_those_of_the_settings);
	return unit_run(suite);
}
