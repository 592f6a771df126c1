/* SPDX-License-Identifier: ISC */
/*
 * config/field.c: unknown setting names, and similar known ones.
 */
#include "../../../src/config/config_priv.h"

#include <stdio.h>
#include <string.h>

#include "../unit.h"

#include "pgweir/config/settings.h"

static const struct {
	const char *name;
	const char *error;
} cases[] = {
	{ "no_such_name", "unknown setting \"no_such_name\"" },
	{ "defualt_pool_size",
	  "unknown setting \"defualt_pool_size\": did you mean \"default_pool_size\"?" },
	{ "auth_hba_fil", "unknown setting \"auth_hba_fil\": did you mean \"auth_hba_file\"?" },
	{ "zzz", "unknown setting \"zzz\"" },
};

START_TEST(suggest_refuse_answers)
{
	struct err err = { 0 };
	bool ok = setting_refuse(cases[_i].name, &err);

	ck_assert_msg(ok == !cases[_i].error, "%s", cases[_i].name);
	ck_assert_str_eq(err.text, cases[_i].error ? cases[_i].error : "");
}
END_TEST

START_TEST(unknown_names_have_a_code_of_their_own)
{
	struct err err;

	setting_refuse("no_such_thing", &err);
	ck_assert_int_eq(err.code, ERR_NO_PARAMETER);
}
END_TEST

START_TEST(suggest_nearest_of_a_setting_is_itself)
{
	for (size_t i = 0; i < settings_count; i++) {
		struct err err;
		char meant[100];

		setting_refuse(settings[i].name, &err);
		snprintf(meant, sizeof(meant), "did you mean \"%s\"?", settings[i].name);
		ck_assert_ptr_nonnull(strstr(err.text, meant));
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config/known");
	TCase *tcase = tcase_create("known");

	tcase_add_loop_test(tcase, suggest_refuse_answers, 0, COUNT_OF(cases));
	tcase_add_test(tcase, unknown_names_have_a_code_of_their_own);
	tcase_add_test(tcase, suggest_nearest_of_a_setting_is_itself);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
