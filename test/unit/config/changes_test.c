/* SPDX-License-Identifier: ISC */
/*
 * config/config.c
 */

#include <string.h>

#include "../unit.h"
#include "../../lib/config_text.h"

static const struct config *parse(const char *text)
{
	struct problems problems = { 0 };
	const struct config *config = config_parse(bytes_text(text), "test", &problems);

	ck_assert_msg(config, "%s", problems.errors.count ? problems.errors.texts[0] : "?");
	problems_done(&problems);
	return config;
}

static void collect(void *arg, const char *name, const char *line)
{
	buf_printf(arg, "%s|%s\n", name, line);
}

#define SETTINGS(text) "[pgbouncer]\n" text "\n"
#define BASE "[databases]\na = host=one password=secret\n[users]\nu = pool_size=3\n"

static const struct {
	const char *old, *fresh;
	const char *says;
} cases[] = {
	{ SETTINGS(""), SETTINGS(""), "" },
	{ SETTINGS("query_timeout = 5"), SETTINGS("query_timeout = 5000ms"), "" },
	{ SETTINGS("admin_users = a,b"), SETTINGS("admin_users = a, b"), "" },
	{ SETTINGS(""), SETTINGS("default_pool_size = 30"),
	  "default_pool_size|default_pool_size: 20 -> 30\n" },
	{ SETTINGS("listen_port = 7"), SETTINGS(""),
	  "listen_port|listen_port: 7 -> 6432 (needs a restart)\n" },
	{ SETTINGS("auth_file = /x"), SETTINGS("logfile = /y"),
	  "auth_file|auth_file: /x -> not set\nlogfile|logfile: empty -> /y\n" },
	{ SETTINGS("auth_ldap_options = ldapbindpasswd=one"),
	  SETTINGS("auth_ldap_options = ldapbindpasswd=two"),
	  "auth_ldap_options|auth_ldap_options: (hidden: contains a password) -> "
	  "(hidden: contains a password)\n" },
	{ SETTINGS("") BASE, SETTINGS("") BASE, "" },
	{ SETTINGS("") BASE, SETTINGS("") "[databases]\nb = \n",
	  "database \"a\"|database \"a\": gone\ndatabase \"b\"|database \"b\": new\n"
	  "user \"u\"|user \"u\": gone\n" },
	{ SETTINGS("") BASE, SETTINGS("") BASE "[databases]\na = host=one password=other\n",
	  "database \"a\"|database \"a\": changed password\n" },
	{ SETTINGS("") BASE, SETTINGS("") BASE "[databases]\na = host=two pool_size=1\n",
	  "database \"a\"|database \"a\": changed host, password, pool_size (its servers are "
	  "replaced)\n" },
	{ SETTINGS("") BASE, SETTINGS("") BASE "[databases]\n* = host=two\n[users]\nu = \n",
	  "database \"*\"|database \"*\": new\nuser \"u\"|user \"u\": changed pool_size\n" },
	{ SETTINGS("") "[peers]\n1 = host=/a\n2 = host=/b\n",
	  SETTINGS("") "[peers]\n2 = host=/c\n3 = host=/d\n",
	  "peer \"1\"|peer \"1\": gone\npeer \"2\"|peer \"2\": changed host\n"
	  "peer \"3\"|peer \"3\": new\n" },
};

START_TEST(config_compare_tells)
{
	const struct config *old = parse(cases[_i].old), *fresh = parse(cases[_i].fresh);
	struct buf said = { 0 };

	config_compare(old, fresh, collect, &said);
	ck_assert_str_eq(buf_text(&said), cases[_i].says);
	buf_free(&said);
	config_unref(&old);
	config_unref(&fresh);
}
END_TEST

START_TEST(config_compare_has_an_end)
{
	const struct config *old = parse("[pgbouncer]\n"), *fresh;
	struct buf text = { 0 }, said = { 0 };
	size_t lines = 0;

	buf_add_text(&text, "[pgbouncer]\n[databases]\n");
	for (int i = 0; i < CONFIG_CHANGES_MAX + 7; i++)
		buf_printf(&text, "d%d = host=x\n", i);
	fresh = parse(buf_text(&text));
	config_compare(old, fresh, collect, &said);
	for (const char *at = buf_text(&said); (at = strchr(at, '\n')); at++)
		lines++;
	ck_assert_uint_eq(lines, CONFIG_CHANGES_MAX + 1);
	ck_assert_ptr_nonnull(strstr(buf_text(&said), "...|and 7 more changes\n"));
	buf_free(&text);
	buf_free(&said);
	config_unref(&old);
	config_unref(&fresh);
}
END_TEST

START_TEST(config_compare_shown_goes_by_what_is_shown)
{
	const struct config *fresh = parse("[pgbouncer]\nquery_timeout = 1500ms\n");
	struct buf said = { 0 };

	config_compare_shown("query_timeout", "1.5", fresh, collect, &said);
	config_compare_shown("auth_file", NULL, fresh, collect, &said);
	config_compare_shown("of_another_release", "1", fresh, collect, &said);
	ck_assert_uint_eq(said.count, 0);
	config_compare_shown("query_timeout", "2", fresh, collect, &said);
	config_compare_shown("auth_file", "/x", fresh, collect, &said);
	ck_assert_str_eq(buf_text(&said), "query_timeout|query_timeout: 2 -> 1.5\n"
	                                  "auth_file|auth_file: /x -> not set\n");
	buf_free(&said);
	config_unref(&fresh);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config/changes");
	TCase *tcase = tcase_create("changes");

	tcase_add_loop_test(tcase, config_compare_tells, 0, COUNT_OF(cases));
	tcase_add_test(tcase, config_compare_has_an_end);
	tcase_add_test(tcase, config_compare_shown_goes_by_what_is_shown);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
