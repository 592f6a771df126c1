/* SPDX-License-Identifier: ISC */
/*
 * config/known.c: what is not supported yet, told apart from what is not known.
 */
#include "../../../src/config/known_priv.h"

#include "../unit.h"

#include "pgweir/config/settings.h"

static const struct {
	const char *name;
	const char *value;
	const char *error;
} cases[] = {
	{ "suspend_timeout", "10", "setting \"suspend_timeout\" is not supported yet" },
	{ "service_name", "x", "unknown setting \"service_name\"" },
	{ "defualt_pool_size", "5",
	  "unknown setting \"defualt_pool_size\": did you mean \"default_pool_size\"?" },
	{ "auth_hba_fil", "", "unknown setting \"auth_hba_fil\": did you mean \"auth_hba_file\"?" },
	{ "zzz", "", "unknown setting \"zzz\"" },
};

START_TEST(known_judge_answers)
{
	struct err err = { 0 };
	bool ok = known_judge(cases[_i].name, cases[_i].value, &err);

	ck_assert_msg(ok == !cases[_i].error, "%s", cases[_i].name);
	ck_assert_str_eq(err.text, cases[_i].error ? cases[_i].error : "");
}
END_TEST

START_TEST(known_codes_tell_the_two_apart)
{
	struct err err;

	known_judge("suspend_timeout", "10", &err);
	ck_assert_int_eq(err.code, ERR_UNSUPPORTED);
	known_judge("no_such_thing", "", &err);
	ck_assert_int_eq(err.code, ERR_NO_PARAMETER);
}
END_TEST

START_TEST(known_settings_have_no_row)
{
	/* the nearest of a known name is itself: so a row of that name would be found */
	for (size_t i = 0; i < settings_count; i++) {
		struct err err;

		known_judge(settings[i].name, "\n", &err);
		ck_assert_msg(err.code == ERR_NO_PARAMETER, "%s has a row", settings[i].name);
		ck_assert_str_eq(known_nearest(settings[i].name), settings[i].name);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config/known");
	TCase *tcase = tcase_create("known");

	tcase_add_loop_test(tcase, known_judge_answers, 0, COUNT_OF(cases));
	tcase_add_test(tcase, known_codes_tell_the_two_apart);
	tcase_add_test(tcase, known_settings_have_no_row);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
