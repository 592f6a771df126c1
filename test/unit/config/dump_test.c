/* SPDX-License-Identifier: ISC */
/*
 * config/manual.c: --dump-settings
 */
#include "pgweir/config/settings.h"

#include <string.h>

#include "../unit.h"

/* The description of one setting, up to the next empty line. */
static void paragraph(struct buf *out, const char *name)
{
	struct buf all = { 0 }, head = { 0 };
	const char *at, *end;

	dump_settings(&all);
	buf_printf(&head, "\n\n%s\n", name);
	at = strstr(buf_text(&all), buf_text(&head));
	ck_assert_msg(at, "%s is missing", name);
	end = strstr(at + 2, "\n\n");
	buf_add(out, at + 2, end ? (size_t)(end - at - 1) : strlen(at + 2));
	buf_free(&all);
	buf_free(&head);
}

START_TEST(dump_has_each_setting_with_its_help)
{
	const struct setting *setting = &settings[_i];
	struct buf text = { 0 };

	paragraph(&text, setting->name);
	ck_assert_ptr_nonnull(strstr(buf_text(&text), "\n    kind: "));
	ck_assert_ptr_nonnull(strstr(buf_text(&text), "\n    default: "));
	ck_assert_ptr_nonnull(strstr(buf_text(&text), setting->reload == RELOAD_BOOT
	                                                  ? "changes with: restart\n"
	                                                  : "changes with: RELOAD or SET\n"));
	buf_free(&text);
}
END_TEST

static const struct {
	const char *name, *says;
} cases[] = {
	{ "max_packet_size", "    range: 1024 to 4294967295\n    default: 2147483647\n" },
	{ "query_timeout", "    kind: duration in seconds, or with us, ms, s, min, h, d\n"
	                   "    range: 0 or more\n    default: 0\n" },
	{ "busy_poll", "    kind: duration in microseconds" },
	{ "tcp_user_timeout", "    kind: duration in milliseconds" },
	{ "unix_socket_mode", "    range: 0 to 0777\n    default: 0777\n" },
	{ "pool_mode", "    kind: one of session, transaction, statement\n" },
	{ "auth_file", "    default: not set\n" },
	{ "logfile", "    default: empty\n" },
};

START_TEST(dump_says_kind_range_and_default)
{
	struct buf text = { 0 };

	paragraph(&text, cases[_i].name);
	ck_assert_msg(strstr(buf_text(&text), cases[_i].says), "%s", buf_text(&text));
	buf_free(&text);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config/dump");
	TCase *tcase = tcase_create("dump");

	tcase_add_loop_test(tcase, dump_has_each_setting_with_its_help, 0, (int)settings_count);
	tcase_add_loop_test(tcase, dump_says_kind_range_and_default, 0, COUNT_OF(cases));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
