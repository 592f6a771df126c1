/* SPDX-License-Identifier: ISC */
/*
 * config/manual.c: the lists contain every row, and the sample file can be loaded.
 */
#include "../../../src/config/config_priv.h"

#include <string.h>

#include "../unit.h"

#include "pgweir/config/settings.h"
#include "../../lib/config_text.h"

START_TEST(manual_lists_every_setting)
{
	struct buf out = { 0 }, wanted = { 0 };

	manual_fill(NULL, 0, bytes_text("before\n@settings@\nafter"), &out);
	ck_assert_int_eq(strncmp(buf_text(&out), "before\n.SS Generic\n", 19), 0);
	ck_assert_ptr_nonnull(strstr(buf_text(&out), "\nafter"));
	for (size_t i = 0; i < settings_count; i++) {
		buf_clear(&wanted);
		buf_printf(&wanted, "\n.B %s\n", settings[i].name);
		ck_assert_msg(strstr(buf_text(&out), buf_text(&wanted)), "%s", settings[i].name);
	}
	buf_free(&wanted);
	buf_free(&out);
}
END_TEST

START_TEST(manual_lists_keys)
{
	struct buf out = { 0 };

	manual_fill(NULL, 0,
	            bytes_text("@database_keys@\n@user_keys@\n@peer_keys@\n@listener_keys@\n"
	                       "@application_keys@\n@statement_keys@\n"),
	            &out);
	ck_assert_ptr_nonnull(strstr(buf_text(&out), ".B dbname\n"));
	ck_assert_ptr_nonnull(strstr(buf_text(&out), ".B client_idle_timeout\n"));
	ck_assert_ptr_nonnull(strstr(buf_text(&out), ".B pool_size\nMaximum number of cancel"));
	ck_assert_ptr_nonnull(strstr(buf_text(&out), ".B unix_socket_dir\nDirectory of a Unix"));
	ck_assert_ptr_nonnull(strstr(buf_text(&out), "for clients of this application_name"));
	ck_assert_ptr_nonnull(strstr(buf_text(&out), ".B max_running\nHow many servers"));
	buf_free(&out);
}
END_TEST

/* Removes the ; of each line `;name = value`, except for unset settings. */
static void uncomment(const char *text, struct buf *out)
{
	buf_add_text(out, "[pgbouncer]\n");
	for (; *text; text += strcspn(text, "\n") + 1) {
		const struct setting *setting;
		char name[64] = "";
		size_t count = strcspn(text, "\n");

		if (text[0] == ';' && text[1] != ';')
			memcpy(name, text + 1, strcspn(text + 1, " "));
		setting = setting_find(name);
		if (setting && setting->initial)
			buf_add(out, text + 1, count); /* with the end of the line */
	}
}

START_TEST(manual_example_is_the_defaults)
{
	struct problems problems = { 0 };
	struct buf example = { 0 }, all = { 0 }, wanted = { 0 };
	const struct config *config;
	char shown[SETTING_VALUE_SIZE], initial[SETTING_VALUE_SIZE];
	const struct config *plain = config_parse(bytes_text("[pgbouncer]\n"), "f", &problems);

	manual_fill(NULL, 0, bytes_text("@example@"), &example);
	for (size_t i = 0; i < settings_count; i++) {
		buf_clear(&wanted);
		buf_printf(&wanted, "\n;%s =", settings[i].name);
		ck_assert_msg(strstr(buf_text(&example), buf_text(&wanted)), "%s",
		              settings[i].name);
	}
	uncomment(buf_text(&example), &all);
	config = config_parse(bytes_text(buf_text(&all)), "f", &problems);
	ck_assert_msg(config, "%s", problems.errors.count ? problems.errors.texts[0] : "");
	for (size_t i = 0; i < settings_count; i++)
		ck_assert_pstr_eq(setting_value(config, &settings[i], shown),
		                  setting_value(plain, &settings[i], initial));
	config_unref(&config);
	config_unref(&plain);
	buf_free(&wanted);
	buf_free(&all);
	buf_free(&example);
}
END_TEST

/* Each sample file in etc/ can be loaded unchanged. */
START_TEST(manual_files_load)
{
	static const struct {
		const char *path;
		const char *users;
	} files[] = {
		{ SOURCE_DIR "/etc/pgbouncer-minimal.ini", "/etc/pgbouncer/userlist.txt" },
		{ BUILD_DIR "/etc/pgbouncer.ini", CONFIG_FOLDER "/userlist.txt" },
		{ SOURCE_DIR "/etc/debian/pgweir.ini", "/etc/pgweir/userlist.txt" },
	};
	struct problems problems = { 0 };

	for (size_t i = 0; i < COUNT_OF(files); i++) {
		const struct config *config = config_load(files[i].path, &problems);

		ck_assert_msg(config, "%s", problems.errors.count ? problems.errors.texts[0] : "");
		ck_assert_str_eq(config->auth_file, files[i].users);
		config_unref(&config);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config/manual");
	TCase *cases = tcase_create("manual");

	tcase_add_test(cases, manual_lists_every_setting);
	tcase_add_test(cases, manual_lists_keys);
	tcase_add_test(cases, manual_example_is_the_defaults);
	tcase_add_test(cases, manual_files_load);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
