/* SPDX-License-Identifier: ISC */
/*
 * config/field.c: the rows are sorted, and each is complete.
 */
#include "pgweir/config/settings.h"

#include <string.h>

#include "../unit.h"
#include "../../lib/config_text.h"

START_TEST(settings_are_in_order)
{
	for (size_t i = 1; i < settings_count; i++)
		ck_assert_msg(strcmp(settings[i - 1].name, settings[i].name) < 0, "%s",
		              settings[i].name);
}
END_TEST

START_TEST(settings_are_found)
{
	for (size_t i = 0; i < settings_count; i++)
		ck_assert_ptr_eq(setting_find(settings[i].name), &settings[i]);
	ck_assert_ptr_null(setting_find("pool"));
	ck_assert_ptr_null(setting_find(""));
}
END_TEST

START_TEST(settings_are_whole)
{
	const struct setting *setting = &settings[_i];
	bool is_ranged = setting->type == SETTING_INT || setting->type == SETTING_BYTES;

	ck_assert_msg(setting->help && setting->help[strlen(setting->help) - 1] == '.', "%s",
	              setting->name);
	ck_assert_msg(is_ranged == (setting->max > setting->min) || setting->type == SETTING_TIME,
	              "%s", setting->name);
	ck_assert_msg(setting->type == SETTING_WORD
	                  ? setting->words != NULL
	                  : !setting->words || setting->type == SETTING_LIST,
	              "%s", setting->name);
	ck_assert_msg(setting->initial || setting->type == SETTING_TEXT ||
	                  setting->type == SETTING_INT,
	              "%s", setting->name);
	ck_assert_int_lt((int)setting->group, SETTING_GROUPS);
}
END_TEST

START_TEST(setting_values_are_shown)
{
	static const char text[] = "[pgbouncer]\nlisten_port = 7000\nquery_timeout = 1500ms\n";
	struct problems problems = { 0 };
	const struct config *config = config_parse(bytes_text(text), "f", &problems);
	char buffer[SETTING_VALUE_SIZE];

	ck_assert_ptr_nonnull(config);
	ck_assert_str_eq(setting_value(config, setting_find("listen_port"), buffer), "7000");
	ck_assert_str_eq(setting_value(config, setting_find("query_timeout"), buffer), "1.5");
	ck_assert_ptr_null(setting_value(config, setting_find("auth_file"), buffer));
	config_unref(&config);
	problems_done(&problems);
}
END_TEST

START_TEST(settings_have_names_for_their_words)
{
	ck_assert_str_eq(config_pool_modes[POOL_MODE_SESSION], "session");
	ck_assert_str_eq(config_pool_modes[POOL_MODE_TRANSACTION], "transaction");
	ck_assert_str_eq(config_pool_modes[POOL_MODE_STATEMENT], "statement");
	ck_assert_ptr_null(config_pool_modes[POOL_MODE_INHERIT]);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config/settings");
	TCase *tcase = tcase_create("settings");

	tcase_add_test(tcase, settings_are_in_order);
	tcase_add_test(tcase, settings_are_found);
	tcase_add_loop_test(tcase, settings_are_whole, 0, (int)settings_count);
	tcase_add_test(tcase, setting_values_are_shown);
	tcase_add_test(tcase, settings_have_names_for_their_words);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
