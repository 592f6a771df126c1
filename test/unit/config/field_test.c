/* SPDX-License-Identifier: ISC */
/*
 * config/field.c: set, show, copy and compare each type; ranges are enforced.
 */
#include "../../../src/config/config_priv.h"

#include <stdlib.h>
#include <string.h>

#include "../unit.h"

static const struct {
	const char *name;
	const char *text;
	const char *shown; /* as SHOW CONFIG has it; NULL: refused */
	const char *error;
} cases[] = {
	{ "default_pool_size", "0x10", "16", NULL },
	{ "default_pool_size", "'20' ; twenty", "20", NULL },
	{ "default_pool_size", "-1", NULL, "must be at least 0" },
	{ "default_pool_size", "3000000000", NULL, "must be at most 2147483647" },
	{ "default_pool_size", "abc", NULL, "\"abc\" is not a whole number or auto" },
	{ "listen_port", "0", "0", NULL },
	{ "loops", "4", "4", NULL },
	{ "loops", "auto", "auto", NULL },
	{ "loops", "'AUTO'", "auto", NULL },
	{ "loops", "0", NULL, "must be from 1 to 64" },
	{ "loops", "65", NULL, "must be from 1 to 64" },
	{ "loops", "all", NULL, "\"all\" is not a whole number or auto" },
	{ "listen_port", "70000", NULL, "must be from 0 to 65535" },
	{ "unix_socket_mode", "0700", "448", NULL },
	{ "unix_socket_mode", "01000", NULL, "must be from 0 to 0777" },
	{ "verbose", "2", "2", NULL },
	{ "verbose", "4", NULL, "must be from 0 to 3" },
	{ "syslog", "yes", "1", NULL },
	{ "log_stats", "0", "0", NULL },
	{ "pkt_buf", "8kB", "8192", NULL },
	{ "pkt_buf", "100", NULL, "must be at least 512" },
	{ "max_packet_size", "4294967295", "4294967295", NULL },
	{ "query_timeout", "1.5", "1.5", NULL },
	{ "query_timeout", "500ms", "0.5", NULL },
	{ "query_timeout", "1000000", "1e+06", NULL },
	{ "query_timeout", "-1", NULL, "must be at least 0" },
	{ "stats_period", "2min", "120", NULL },
	{ "stats_period", "0x3c", "60", NULL },
	{ "stats_period", "0", NULL, "must be at least 1s" },
	{ "tcp_keepidle", "1min", "60", NULL },
	{ "tcp_keepidle", "500ms", NULL, "must be a whole number of seconds" },
	{ "tcp_keepidle", "10h", NULL, "must be from 0 to 32767s" },
	{ "max_packet_size", "5GB", NULL, "must be at most 4294967295" },
	{ "tcp_user_timeout", "60d", NULL, "must be from 0 to 2147483647ms" },
	{ "tcp_user_timeout", "7", "7", NULL },
	{ "tcp_user_timeout", "7s", "7000", NULL },
	{ "busy_poll", "50", "50", NULL },
	{ "busy_poll", "2ms", "2000", NULL },
	{ "busy_poll", "2s", NULL, "must be from 0 to 1s" },
	{ "tcp_user_timeout", "5us", NULL, "must be a whole number of milliseconds" },
	{ "pool_mode", "TRANSACTION", "transaction", NULL },
	{ "pool_mode", "x", NULL,
	  "\"x\" is not one of its values: session, transaction or statement" },
	{ "pool_mode", "transactions", NULL,
	  "\"transactions\" is not one of its values: session, transaction or statement: did you "
	  "mean \"transaction\"?" },
	{ "auth_type", "scram", NULL,
	  "\"scram\" is not one of its values: any, trust, plain, md5, scram-sha-256, hba, cert, "
	  "pam or ldap: did you mean \"scram-sha-256\"?" },
	{ "server_idle_timeout", "5m", NULL,
	  "\"5m\" is not a duration (a number, or one with us, ms, s, min, h or d): did you mean "
	  "\"5min\"?" },
	{ "pkt_buf", "8k", NULL,
	  "\"8k\" is not a size (a number of bytes, or one with B, kB, MB or GB): did you mean "
	  "\"8kB\"?" },
	{ "auth_type", "scram-sha-256", "scram-sha-256", NULL },
	{ "auth_type", "cert", "cert", NULL },
#if PGWEIR_PAM
	{ "auth_type", "pam", "pam", NULL },
#else
	{ "auth_type", "PAM", NULL, "pgweir was built without PAM" },
#endif
#if PGWEIR_LDAP
	{ "auth_type", "ldap", "ldap", NULL },
#else
	{ "auth_type", "ldap", NULL, "pgweir was built without LDAP" },
#endif
	{ "listen_addr", "a, b", "a, b", NULL },
	{ "server_require_auth", "MD5 !none", "MD5 !none", NULL },
	{ "shutdown_drain_signals", "SIGTERM sigint", "SIGTERM sigint", NULL },
	{ "shutdown_drain_signals", "!SIGINT", NULL,
	  "\"!SIGINT\" is not one of its values: SIGINT or SIGTERM: did you mean \"SIGINT\"?" },
	{ "server_require_auth", "md5, x", NULL,
	  "\"x\" is not one of its values: password, md5, scram-sha-256 or none" },
	{ "server_reset_query", "''", "''", NULL },
	{ "server_reset_query", "", "", NULL },
};

START_TEST(field_put_answers)
{
	const struct setting *setting = setting_find(cases[_i].name);
	struct config config = { 0 };
	struct err err = { 0 };
	char room[32];
	bool ok = field_put(&config, setting, cases[_i].text, NULL, &err);

	ck_assert_msg(ok == !cases[_i].error, "%s=%s: %s", cases[_i].name, cases[_i].text,
	              err.text);
	if (ok)
		ck_assert_str_eq(setting_value(&config, setting, room), cases[_i].shown);
	else
		ck_assert_str_eq(err.text, cases[_i].error);
	field_free(&config, setting);
}
END_TEST

static const struct {
	const char *name, *text, *shown, *note;
} near[] = {
	{ "default_pool_size", "7", "7", "" },
	{ "default_pool_size", "-1", "0", "must be at least 0, 0 is used" },
	{ "max_client_conn", "3000000000", "2147483647",
	  "must be at most 2147483647, 2147483647 is used" },
	{ "pkt_buf", "100", "512", "must be at least 512, 512 is used" },
	{ "scram_iterations", "0", "1", "must be at least 1, 1 is used" },
	{ "verbose", "5", "3", "must be from 0 to 3, 3 is used" },
	{ "verbose", "-1", "0", "must be from 0 to 3, 0 is used" },
	{ "max_packet_size", "5GB", "4294967295",
	  "must be at most 4294967295, 4294967295 is used" },
	{ "stats_period", "0", "1", "must be at least 1s, 1s is used" },
	{ "tcp_keepidle", "-1", "0", "must be from 0 to 32767s, 0 is used" },
	{ "busy_poll", "2s", "1000000", "must be from 0 to 1s, 1s is used" },
	/* without a nearest value, or not a value at all */
	{ "query_timeout", "-1", NULL, "must be at least 0" },
	{ "listen_port", "70000", NULL, "must be from 0 to 65535" },
	{ "peer_id", "16384", NULL, "must be from 0 to 16383" },
	{ "unix_socket_mode", "01777", NULL, "must be from 0 to 0777" },
	{ "tcp_keepidle", "500ms", NULL, "must be a whole number of seconds" },
	{ "max_pinned_servers", "-7", "-1", "must be at least -1, -1 is used" },
	{ "pin_functions", "\"f\"", NULL,
	  "\"\"f\"\" is not the name of a function (without schema, quotes and arguments)" },
	{ "verbose", "much", NULL, "\"much\" is not a whole number" },
};

START_TEST(field_takes_the_nearest)
{
	const struct setting *setting = setting_find(near[_i].name);
	struct config config = { 0 };
	struct err err = { 0 }, note = { .code = ERR_INTERNAL };
	char room[32];
	bool ok = field_put(&config, setting, near[_i].text, &note, &err);

	ck_assert_msg(ok == (near[_i].shown != NULL), "%s: %s", near[_i].name, err.text);
	ck_assert_str_eq(ok ? note.text : err.text, near[_i].note);
	ck_assert(ok ? (note.code == ERR_NONE) == !*near[_i].note : note.code == ERR_NONE);
	if (ok)
		ck_assert_str_eq(setting_value(&config, setting, room), near[_i].shown);
}
END_TEST

/* A valid value other than the default, by type. */
static const char *other_value(const struct setting *setting)
{
	if (setting->type == SETTING_LIST && setting->words)
		return setting->words[0];
	if (setting->type == SETTING_WORD)
		return setting->words[strcmp(setting->words[0], setting->initial) == 0];
	if (setting->type == SETTING_BOOL)
		return strcmp(setting->initial, "0") == 0 ? "1" : "0";
	if (setting->type == SETTING_BYTES)
		return "12345";
	if (setting->judge == field_judges_function)
		return "f";
	return setting->initial && strcmp(setting->initial, "2") == 0 ? "3" : "2";
}

START_TEST(field_copies_and_compares)
{
	const struct setting *setting = &settings[_i];
	struct config a = { 0 }, b = { 0 };
	struct err err = { 0 };
	const char *text = other_value(setting);

	ck_assert_msg(field_reset(&a, setting, &err), "%s: %s", setting->name, err.text);
	ck_assert_msg(field_put(&b, setting, text, NULL, &err), "%s: %s", setting->name, err.text);
	ck_assert_msg(!field_equal(&a, &b, setting), "%s", setting->name);
	ck_assert(field_copy(&b, &a, setting));
	ck_assert_msg(field_equal(&a, &b, setting), "%s", setting->name);
	ck_assert(field_put(&b, setting, text, NULL, &err));
	ck_assert(field_copy(&a, &b, setting));
	ck_assert_msg(field_equal(&a, &b, setting), "%s", setting->name);
	field_free(&a, setting);
	field_free(&b, setting);
}
END_TEST

START_TEST(field_that_is_refused_stays)
{
	const struct setting *setting = setting_find("default_pool_size");
	struct config config = { .default_pool_size = 7 };
	struct err err;

	ck_assert(!field_put(&config, setting, "seven", NULL, &err));
	ck_assert_int_eq(config.default_pool_size, 7);
}
END_TEST

START_TEST(field_may_be_unset)
{
	struct config config = { 0 };
	char room[32];

	ck_assert(field_reset(&config, setting_find("verbose"), NULL));
	ck_assert_int_eq(config.verbose, CONFIG_UNSET);
	ck_assert_ptr_null(setting_value(&config, setting_find("verbose"), room));
	ck_assert_ptr_null(setting_value(&config, setting_find("auth_file"), room));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config/field");
	TCase *tcase = tcase_create("field");

	tcase_add_loop_test(tcase, field_put_answers, 0, COUNT_OF(cases));
	tcase_add_loop_test(tcase, field_takes_the_nearest, 0, COUNT_OF(near));
	tcase_add_loop_test(tcase, field_copies_and_compares, 0, (int)settings_count);
	tcase_add_test(tcase, field_that_is_refused_stays);
	tcase_add_test(tcase, field_may_be_unset);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
