/* SPDX-License-Identifier: ISC */
/*
 * config/config.c: complete loads, SET, and settings that need a restart.
 */
#include "pgweir/config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../unit.h"

#include "pgweir/config/entries.h"
#include "../../lib/config_text.h"

static const struct config *parse(const char *text)
{
	struct problems problems = { 0 };
	const struct config *config = config_parse(bytes_text(text), "f.ini", &problems);

	ck_assert_msg(config, "%s", problems.errors.count ? problems.errors.texts[0] : "?");
	ck_assert(!problems_any(&problems));
	problems_done(&problems);
	return config;
}

static const struct config_database *database_of(const struct config *config, const char *name)
{
	return config_entry(config, ENTRY_DATABASE, name);
}

START_TEST(config_has_defaults)
{
	const struct config *config = parse("[pgbouncer]\n");

	ck_assert_int_eq(config->listen_port, 6432);
	ck_assert_uint_eq(config->listen_addr.count, 0);
	ck_assert_str_eq(config->unix_socket_dir, "/tmp");
	ck_assert_int_eq(config->unix_socket_mode, 0777);
	ck_assert_int_eq(config->pool_mode, POOL_MODE_SESSION);
	ck_assert_int_eq(config->auth_type, AUTH_METHOD_MD5);
	ck_assert_int_eq(config->query_wait_timeout, 120 * USEC_PER_SEC);
	ck_assert_uint_eq(config->pkt_buf, 4096);
	ck_assert_uint_eq(config->max_packet_size, 2147483647);
	ck_assert(config->log_connections);
	ck_assert_uint_eq(config->track_extra_parameters.count, 0);
	ck_assert_str_eq(config->job_name, "pgbouncer");
	ck_assert_int_eq(config->verbose, CONFIG_UNSET);
	ck_assert_ptr_null(config->auth_file);
	ck_assert_ptr_null(config->user);
	ck_assert_str_eq(config->pidfile, "");
	ck_assert_uint_eq(config_entry_count(config, ENTRY_DATABASE), 0);
	config_unref(&config);
	ck_assert_ptr_null(config);
	config_unref(&config);
}
END_TEST

START_TEST(config_takes_the_last_of_each)
{
	const struct config *config = parse("[pgbouncer]\nlisten_port = 1\npool_mode=statement\n"
	                                    "[databases]\na = host=one\n"
	                                    "[pgweir]\nlisten_port = 2\n"
	                                    "[databases]\na = host=two\n* = host=all\n"
	                                    "[users]\nu = pool_size=3\n[peers]\n");

	ck_assert_int_eq(config->listen_port, 2);
	ck_assert_int_eq(config->pool_mode, POOL_MODE_STATEMENT);
	ck_assert_str_eq(database_of(config, "a")->host, "two");
	ck_assert_str_eq(config_database_auto(config)->host, "all");
	ck_assert_int_eq(
	    ((const struct config_user *)config_entry(config, ENTRY_USER, "u"))->pool_size, 3);
	config_unref(&config);
}
END_TEST

START_TEST(config_collects_every_problem)
{
	static const char text[] = "[pgbouncer]\n"
				   "listen_port = 70000\n"
				   "pool_sise = 5\n"
				   "auth_type = cret\n"
				   "auth_query = SELECT 1\n"
				   "server_tls_sslmode = prefer\n"
				   "max_client_conn = 100 ; many\n"
				   "[databases]\n"
				   "pgbouncer = host=a\n"
				   "app = host=a,,b\n"
				   "[users]\n"
				   "u = pool_size=x\n"
				   "[peers]\n"
				   "0 = host=a\n";
	static const char *const texts[] = {
		"f.ini:2: setting \"listen_port\": must be from 0 to 65535",
		"f.ini:3: unknown setting \"pool_sise\": did you mean \"pool_mode\"?",
		("f.ini:4: setting \"auth_type\": \"cret\" is not one of its values: any, trust, "
		 "plain, md5, scram-sha-256, hba, cert, pam or ldap: did you mean \"cert\"?"),
		("f.ini:7: setting \"max_client_conn\": \"100 ; many\" is not a whole number (a "
		 "comment needs a line of its own, or the value in quotes)"),
		"f.ini:9: database \"pgbouncer\": this name is reserved for the console",
		"f.ini:10: database \"app\": host: contains an empty name",
		"f.ini:12: user \"u\": pool_size: \"x\" is not a whole number or auto",
		"f.ini:14: peer \"0\": its id must be a number from 1 to 65535",
	};
	struct problems problems = { 0 };

	ck_assert_ptr_null(config_parse(bytes_text(text), "f.ini", &problems));
	for (size_t i = 0; i < COUNT_OF(texts) && i < problems.errors.count; i++)
		ck_assert_str_eq(problems.errors.texts[i], texts[i]);
	ck_assert_uint_eq(problems.errors.count, COUNT_OF(texts));
	problems_done(&problems);
}
END_TEST

/* Duplicates: the last one counts, and the earlier one is reported. */
START_TEST(config_warns_of_what_comes_twice)
{
	static const char text[] = "[pgbouncer]\nlisten_port = 1\nlisten_port = 2\n"
				   "[databases]\na = host=one\n* = host=one\n"
				   "[users]\nu = pool_size=1\n[peers]\n1 = host=a\n"
				   "[databases]\na = host=two\n* = host=two\n"
				   "[users]\nu = pool_size=2\n[peers]\n01 = host=b\n";
	static const char *const texts[] = {
		("f.ini:3: setting \"listen_port\" is set twice, the value in line 2 is "
		 "ignored"),
		"f.ini:12: database \"a\" is defined twice, line f.ini:5 is ignored",
		"f.ini:13: database \"*\" is defined twice, line f.ini:6 is ignored",
		"f.ini:15: user \"u\" is defined twice, line f.ini:8 is ignored",
		"f.ini:17: peer \"01\" is defined twice, line f.ini:10 is ignored",
	};
	struct problems problems = { 0 };
	const struct config *config = config_parse(bytes_text(text), "f.ini", &problems);

	ck_assert_ptr_nonnull(config);
	ck_assert_uint_eq(problems.warnings.count, COUNT_OF(texts));
	for (size_t i = 0; i < COUNT_OF(texts); i++)
		ck_assert_str_eq(problems.warnings.texts[i], texts[i]);
	ck_assert_str_eq(database_of(config, "a")->host, "two");
	problems_done(&problems);
	config_unref(&config);
}
END_TEST

/* Without the section header, a setting would be an entry without pairs. */
START_TEST(config_misses_a_header)
{
	static const char text[] = "[databases]\nlisten_addr = host=a\na = host=b\n"
				   "listen_addr = *\nlisten_port = 6543\npool_mode = x\n";
	struct problems problems = { 0 };

	ck_assert_ptr_null(config_parse(bytes_text(text), "f.ini", &problems));
	ck_assert_uint_eq(problems.errors.count, 2);
	ck_assert_str_eq(problems.errors.texts[0],
	                 "f.ini:4: \"listen_addr\" is a setting, not a database: the line "
	                 "[pgbouncer] is missing before it");
	ck_assert_ptr_nonnull(strstr(problems.errors.texts[1], "f.ini:6: setting \"pool_mode\""));
	problems_done(&problems);
}
END_TEST

static const struct {
	const char *text;
	int line; /* 0: the file as a whole */
} places[] = {
	{ "client_tls_sslmode = require needs it", 2 },
	{ "client_tls_cert_file and client_tls_key_file must be set", 0 },
	{ "client_tls_cert_file must be set: client_tls_sslmode asks for it", 2 },
	{ "cannot do what client_tls_sslmode wants", 0 },
	{ "", 0 },
};

START_TEST(config_finds_the_line_of_words)
{
	const struct config *config = parse("[pgbouncer]\nclient_tls_sslmode = require\n");

	ck_assert_int_eq(config_source_pos_of_text(config, places[_i].text).line, places[_i].line);
	config_unref(&config);
}
END_TEST

START_TEST(config_takes_the_nearest_value)
{
	static const char text[] = "[pgbouncer]\nverbose = 5\ndefault_pool_size = -3\n"
				   "[databases]\na = host=b pool_size=99999999999\n";
	static const char *const texts[] = {
		"f.ini:2: setting \"verbose\": must be from 0 to 3, 3 is used",
		"f.ini:3: setting \"default_pool_size\": must be at least 0, 0 is used",
		("f.ini:5: database \"a\": pool_size: must be at most 2147483647, 2147483647 is "
		 "used"),
	};
	struct problems problems = { 0 };
	const struct config *config = config_parse(bytes_text(text), "f.ini", &problems);

	ck_assert_ptr_nonnull(config);
	ck_assert_uint_eq(problems.warnings.count, COUNT_OF(texts));
	for (size_t i = 0; i < COUNT_OF(texts); i++)
		ck_assert_str_eq(problems.warnings.texts[i], texts[i]);
	ck_assert_int_eq(config->verbose, 3);
	problems_done(&problems);
	config_unref(&config);
}
END_TEST

START_TEST(config_needs_its_section)
{
	struct problems problems = { 0 };

	ck_assert_ptr_null(config_parse(bytes_text("[databases]\n"), "f.ini", &problems));
	ck_assert_uint_eq(problems.errors.count, 1);
	ck_assert_str_eq(problems.errors.texts[0], "f.ini: section [pgbouncer] is missing");
	problems_done(&problems);
}
END_TEST

START_TEST(config_loads_files)
{
	char path[] = "/tmp/pgweir-config-XXXXXX";
	int file = mkstemp(path);
	static const char text[] = "[pgbouncer]\nlisten_port = 7\n";
	struct problems problems = { 0 };
	const struct config *config;

	ck_assert_int_ge(file, 0);
	ck_assert_int_eq(write(file, text, strlen(text)), (ssize_t)strlen(text));
	close(file);
	config = config_load(path, &problems);
	unlink(path);
	ck_assert_ptr_nonnull(config);
	ck_assert_int_eq(config->listen_port, 7);
	ck_assert_str_eq(config->conffile, path);
	config_unref(&config);

	ck_assert_ptr_null(config_load("/nowhere/at/all", &problems));
	ck_assert_uint_eq(problems.errors.count, 1);
	ck_assert_str_eq(problems.errors.texts[0],
	                 "/nowhere/at/all: cannot open: No such file or directory");
	problems_done(&problems);
}
END_TEST

static const struct {
	const char *name;
	const char *value;
	enum config_change change;
	const char *error;
} changes[] = {
	{ "default_pool_size", "7", CONFIG_CHANGED, NULL },
	{ "query_timeout", "500ms", CONFIG_CHANGED, NULL },
	{ "admin_users", "a, b", CONFIG_CHANGED, NULL },
	{ "max_prepared_statements", "0", CONFIG_CHANGED, NULL },
	{ "listen_port", "7", CONFIG_AT_RESTART, NULL },
	{ "listen_port", "x", CONFIG_REFUSED,
	  "setting \"listen_port\": \"x\" is not a whole number" },
	{ "pool_mode", "x", CONFIG_REFUSED,
	  "setting \"pool_mode\": \"x\" is not one of its values: session, transaction or "
	  "statement" },
	{ "peer_id", "5", CONFIG_CHANGED, NULL },
	{ "peer_id", "16384", CONFIG_REFUSED, "setting \"peer_id\": must be from 0 to 16383" },
	{ "nothing", "5", CONFIG_REFUSED, "unknown setting \"nothing\"" },
};

START_TEST(config_with_answers)
{
	const struct config *old = parse("[pgbouncer]\nauth_file=/x\n[databases]\na = host=one\n");
	const struct config *changed = NULL;
	struct err err = { 0 };

	ck_assert_int_eq(config_with(old, changes[_i].name, changes[_i].value, &changed, &err),
	                 changes[_i].change);
	ck_assert_str_eq(err.text, changes[_i].error ? changes[_i].error : "");
	ck_assert(!changed == (changes[_i].change != CONFIG_CHANGED));
	config_unref(&changed);
	config_unref(&old);
}
END_TEST

START_TEST(config_with_leaves_the_old_one)
{
	const struct config *old = parse("[pgbouncer]\nauth_file=/x\n[databases]\na = host=one\n");
	const struct config *other = config_ref(old), *changed = NULL;
	struct err err;

	ck_assert_int_eq(config_with(old, "default_pool_size", "7", &changed, &err),
	                 CONFIG_CHANGED);
	ck_assert_int_eq(old->default_pool_size, 20);
	config_unref(&old);
	config_unref(&other);
	ck_assert_int_eq(changed->default_pool_size, 7);
	ck_assert_str_eq(changed->auth_file, "/x");
	ck_assert_str_eq(database_of(changed, "a")->host, "one");
	config_unref(&changed);
}
END_TEST

START_TEST(config_keeps_what_only_a_restart_changes)
{
	const struct config *running = parse("[pgbouncer]\nlisten_port=1\npidfile=/a\nuser=u\n");
	const struct config *fresh = parse("[pgbouncer]\nlisten_port=2\npidfile=/b\n"
	                                   "default_pool_size=3\n[databases]\na = host=one\n");
	const struct config *kept;
	struct buf differ = { 0 };

	kept = config_keep_boot_only(fresh, running, &differ);
	ck_assert_str_eq(buf_text(&differ), "listen_port, pidfile, user");
	ck_assert_int_eq(kept->listen_port, 1);
	ck_assert_str_eq(kept->pidfile, "/a");
	ck_assert_str_eq(kept->user, "u");
	ck_assert_int_eq(kept->default_pool_size, 3);
	ck_assert_ptr_nonnull(config_entry(kept, ENTRY_DATABASE, "a"));
	config_unref(&fresh);
	config_unref(&running);

	buf_clear(&differ);
	fresh = config_keep_boot_only(kept, kept, &differ);
	ck_assert_uint_eq(differ.count, 0);
	ck_assert_int_eq(fresh->listen_port, 1);
	config_unref(&fresh);
	config_unref(&kept);
	buf_free(&differ);
}
END_TEST

START_TEST(config_check_query_has_three_answers)
{
	const struct config *config = parse("[pgbouncer]\n");

	ck_assert_str_eq(config_check_query(config), "");
	config_unref(&config);
	config = parse("[pgbouncer]\nserver_check_query =\n");
	ck_assert_ptr_null(config_check_query(config));
	config_unref(&config);
	config = parse("[pgbouncer]\nserver_check_query = select 1;\n");
	ck_assert_str_eq(config_check_query(config), "select 1;");
	config_unref(&config);
}
END_TEST

START_TEST(config_lists_have_names)
{
	const struct config *config = parse("[pgbouncer]\nadmin_users = a, b c\n");

	ck_assert_uint_eq(config->admin_users.count, 3);
	ck_assert(config_list_has(&config->admin_users, "c"));
	ck_assert(!config_list_has(&config->admin_users, "C"));
	config_unref(&config);
}
END_TEST

START_TEST(config_draft_is_there_with_bad_lines_too)
{
	char path[] = "/tmp/pgweir-draft-XXXXXX";
	static const char text[] =
	    "[pgbouncer]\nlisten_port = x\nauth_file = /x\n\nauth_file = /y\n";
	int fd = mkstemp(path);
	struct problems problems = { 0 };
	const struct config *draft;

	ck_assert_int_eq(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	draft = config_draft(path, &problems);
	ck_assert_uint_eq(problems.errors.count, 1);
	ck_assert_int_eq(draft->listen_port, 6432);
	ck_assert_str_eq(draft->auth_file, "/y");
	ck_assert_int_eq(config_origin(draft, "listen_port").line, 2);
	ck_assert_int_eq(config_origin(draft, "auth_file").line, 5);
	ck_assert_str_eq(config_origin(draft, "auth_file").file, path);
	ck_assert_ptr_null(config_origin(draft, "pidfile").file);
	ck_assert_int_eq(config_origin(draft, "pidfile").line, 0);
	config_unref(&draft);
	problems_done(&problems);
	close(fd);
	unlink(path);
}
END_TEST

/* The name of a setting on Windows, in a file from there. */
START_TEST(config_knows_service_name)
{
	const struct config *config = parse("[pgbouncer]\nservice_name = pooler\n");

	ck_assert_str_eq(config->job_name, "pooler");
	config_unref(&config);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config/config");
	TCase *cases = tcase_create("config");

	tcase_add_test(cases, config_has_defaults);
	tcase_add_test(cases, config_takes_the_last_of_each);
	tcase_add_test(cases, config_collects_every_problem);
	tcase_add_test(cases, config_warns_of_what_comes_twice);
	tcase_add_test(cases, config_misses_a_header);
	tcase_add_loop_test(cases, config_finds_the_line_of_words, 0, COUNT_OF(places));
	tcase_add_test(cases, config_takes_the_nearest_value);
	tcase_add_test(cases, config_needs_its_section);
	tcase_add_test(cases, config_loads_files);
	tcase_add_loop_test(cases, config_with_answers, 0, COUNT_OF(changes));
	tcase_add_test(cases, config_with_leaves_the_old_one);
	tcase_add_test(cases, config_keeps_what_only_a_restart_changes);
	tcase_add_test(cases, config_check_query_has_three_answers);
	tcase_add_test(cases, config_lists_have_names);
	tcase_add_test(cases, config_draft_is_there_with_bad_lines_too);
	tcase_add_test(cases, config_knows_service_name);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
