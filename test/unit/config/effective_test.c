/* SPDX-License-Identifier: ISC */
/*
 * config/entries.c: the first value of user, database and setting.
 */
#include "pgweir/config/entries.h"

#include <limits.h>

#include "../unit.h"
#include "../../lib/config_text.h"

static const char text[] =
    "[pgbouncer]\n"
    "default_pool_size = 10\nmin_pool_size = 11\nreserve_pool_size = 12\n"
    "server_lifetime = 13\nmax_db_connections = 14\n"
    "max_db_client_connections = 15\nmax_user_connections = 16\n"
    "max_user_client_connections = 17\nquery_timeout = 18\n"
    "query_wait_timeout = 19\nidle_transaction_timeout = 20\n"
    "transaction_timeout = 21\nclient_idle_timeout = 22\n"
    "pool_mode = statement\nsession_state = off\nmax_pinned_servers = 23\n"
    "pin_idle_timeout = 24\npin_functions = f\n"
    "max_standby_lag = 25\nmax_standby_lag_bytes = 26kB\n"
    "[databases]\n"
    "silent =\n"
    "loud = pool_size=30 min_pool_size=31 reserve_pool_size=32 "
    "server_lifetime=33 max_db_connections=34 "
    "max_db_client_connections=35 query_wait_timeout=39 "
    "pool_mode=transaction late_begin=1 fail_fast=1 session_state=refuse "
    "max_pinned_servers=43 pin_functions=g,h "
    "max_standby_lag=45 max_standby_lag_bytes=46kB\n"
    "low = pool_size=0 min_pool_size=0 reserve_pool_size=0 "
    "server_lifetime=0 max_db_connections=0 "
    "max_db_client_connections=0 query_wait_timeout=0 max_pinned_servers=0 "
    "session_state=follow max_standby_lag=0 max_standby_lag_bytes=0\n"
    "unset = max_standby_lag=-1 max_standby_lag_bytes=-1\n"
    "[users]\n"
    "silent =\n"
    "loud = pool_size=50 reserve_pool_size=52 max_user_connections=56 "
    "max_user_client_connections=57 query_timeout=58 "
    "query_wait_timeout=59 idle_transaction_timeout=60 "
    "transaction_timeout=61 client_idle_timeout=62 pool_mode=session late_begin=0 "
    "fail_fast=0 session_state=follow pin_idle_timeout=64\n"
    "low = pool_size=0 reserve_pool_size=0 max_user_connections=0 "
    "max_user_client_connections=0 query_timeout=0 query_wait_timeout=0 "
    "idle_transaction_timeout=0 transaction_timeout=0 "
    "client_idle_timeout=0 late_begin=-1 fail_fast=0 pin_idle_timeout=0 "
    "session_state=follow\n";

static const struct {
	const char *database, *user; /* NULL = no entry */
	int mode, pool_size, min_pool_size, reserve_pool_size;
	int max_db_connections, max_db_client_connections;
	int max_user_connections, max_user_client_connections;
	/* seconds */
	int server_lifetime, query_timeout, query_wait_timeout;
	int idle_transaction_timeout, transaction_timeout, client_idle_timeout;
	int late_begin, fail_fast;
	int pin_idle_timeout, session_state, max_pinned_servers;
	const char *pin_functions;
} cases[] = {
	{ NULL, NULL, POOL_MODE_STATEMENT, 10, 11, 12, 14, 15, 16, 17, 13, 18, 19, 20, 21, 22, 0,
	  0,    24,   SESSION_STATE_OFF,   23, "f" },
	{ "silent",
	  "silent",
	  POOL_MODE_STATEMENT,
	  10,
	  11,
	  12,
	  14,
	  15,
	  16,
	  17,
	  13,
	  18,
	  19,
	  20,
	  21,
	  22,
	  0,
	  0,
	  24,
	  SESSION_STATE_OFF,
	  23,
	  "f" },
	{ "loud",
	  NULL,
	  POOL_MODE_TRANSACTION,
	  30,
	  31,
	  32,
	  34,
	  35,
	  16,
	  17,
	  33,
	  18,
	  39,
	  20,
	  21,
	  22,
	  1,
	  1,
	  24,
	  SESSION_STATE_REFUSE,
	  43,
	  "g,h" },
	{ NULL, "loud", POOL_MODE_SESSION, 50, 11, 52, 14, 15, 56, 57, 13, 58, 59, 60, 61, 62, 0,
	  0,    64,     SESSION_STATE_OFF, 23, "f" },
	{ "loud",
	  "loud",
	  POOL_MODE_SESSION,
	  50,
	  31,
	  52,
	  34,
	  35,
	  56,
	  57,
	  33,
	  58,
	  59,
	  60,
	  61,
	  62,
	  0,
	  0,
	  64,
	  SESSION_STATE_OFF,
	  43,
	  "g,h" },
	{ "low", NULL, POOL_MODE_STATEMENT,  0, 0,  0, 14, 15, 16, 17, 13, 18, 0, 20, 21, 22, 0,
	  0,     24,   SESSION_STATE_REFUSE, 0, "f" },
	{ "loud",
	  "low",
	  POOL_MODE_TRANSACTION,
	  0,
	  31,
	  0,
	  34,
	  35,
	  16,
	  17,
	  33,
	  18,
	  0,
	  20,
	  21,
	  22,
	  1,
	  0,
	  24,
	  SESSION_STATE_FOLLOW,
	  43,
	  "g,h" },
};

START_TEST(effective_values)
{
	struct problems problems = { 0 };
	const struct config *config = config_parse(bytes_text(text), "f", &problems);
	const struct config_database *database = NULL;
	const struct config_user *user = NULL;
	struct config_times times;

	ck_assert_msg(config, "%s", problems.errors.count ? problems.errors.texts[0] : "");
	if (cases[_i].database)
		database = config_entry(config, ENTRY_DATABASE, cases[_i].database);
	if (cases[_i].user)
		user = config_entry(config, ENTRY_USER, cases[_i].user);
#define CHECK(name, ...) ck_assert_int_eq(config_##name(config, __VA_ARGS__), cases[_i].name)
#define CHECK_TIME(name, ...) \
	ck_assert_int_eq(config_##name(config, __VA_ARGS__), cases[_i].name *USEC_PER_SEC)
	ck_assert_int_eq((int)config_pool_mode(config, database, user), cases[_i].mode);
	CHECK(pool_size, database, user);
	CHECK(reserve_pool_size, database, user);
	CHECK(min_pool_size, database);
	CHECK(late_begin, database, user);
	CHECK(fail_fast, database, user);
	CHECK(max_db_connections, database);
	CHECK(max_db_client_connections, database);
	CHECK(max_user_connections, user);
	CHECK(max_user_client_connections, user);
	CHECK_TIME(server_lifetime, database);
	CHECK_TIME(query_wait_timeout, database, user);
	times = config_times(config, database, user, NULL);
	ck_assert_int_eq(times.query, cases[_i].query_timeout * USEC_PER_SEC);
	ck_assert_int_eq(times.idle_transaction, cases[_i].idle_transaction_timeout * USEC_PER_SEC);
	ck_assert_int_eq(times.transaction, cases[_i].transaction_timeout * USEC_PER_SEC);
	CHECK_TIME(client_idle_timeout, user);
	CHECK_TIME(pin_idle_timeout, user);
	ck_assert_int_eq((int)config_rules(config, database, user, cases[_i].mode).session_state,
	                 cases[_i].session_state);
	CHECK(max_pinned_servers, database, user);
	ck_assert_str_eq(config_pin_functions(config, database)->text, cases[_i].pin_functions);
	config_unref(&config);
	problems_done(&problems);
}
END_TEST

/* The user's limit, else the database's, else the setting; that of the application is only shorter.
 */
START_TEST(limits_of_applications)
{
	struct problems problems = { 0 };
	const struct config *config = config_parse(
	    bytes_text("[pgbouncer]\nquery_timeout=30\ntransaction_timeout=30\n"
	               "[databases]\nd = query_timeout=20\n[users]\nu = query_timeout=40\n"
	               "[applications]\na* = query_timeout=30\n"
	               "* = transaction_timeout=60 idle_transaction_timeout=5\n"),
	    "f", &problems);
	const struct config_database *database = config_entry(config, ENTRY_DATABASE, "d");
	const struct config_user *user = config_entry(config, ENTRY_USER, "u");
	const struct config_application *some = config_application_find(config, "ab");
	const struct config_application *other = config_application_find(config, "b");

	ck_assert_str_eq(some->name, "a*");
	ck_assert_str_eq(other->name, "*");
	ck_assert_int_eq(config_times(config, database, NULL, NULL).query, 20 * USEC_PER_SEC);
	ck_assert_int_eq(config_times(config, database, user, NULL).query, 40 * USEC_PER_SEC);
	ck_assert_int_eq(config_times(config, database, user, some).query, 30 * USEC_PER_SEC);
	ck_assert_int_eq(config_times(config, database, NULL, some).query, 20 * USEC_PER_SEC);
	ck_assert_int_eq(config_times(config, NULL, NULL, other).transaction, 30 * USEC_PER_SEC);
	ck_assert_int_eq(config_times(config, NULL, NULL, other).idle_transaction,
	                 5 * USEC_PER_SEC);
	config_unref(&config);
	problems_done(&problems);
}
END_TEST

static const struct {
	const char *databases, *name;
	bool has;
} patterns[] = {
	{ "app", "app", true },
	{ "app", "apps", false },
	{ "app", "ap", false },
	{ "app*", "app", true },
	{ "*", "", true },
	{ "*_live,x", "app_live", true },
	{ "*_live,x", "app_live2", false },
	{ "*_live,x", "x", true },
	{ "a*b*c", "aXbXbXc", true },
	{ "a*b*c", "aXbXbX", false },
	{ "a**", "a", true },
	{ "*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false },
};

START_TEST(listeners_have_databases)
{
	struct problems problems = { 0 };
	const struct config *config;
	struct buf file = { 0 };

	buf_printf(&file, "[pgbouncer]\n[listeners]\nl = addr=* port=1 databases='%s'\n",
	           patterns[_i].databases);
	config = config_parse(buf_bytes(&file), "f", &problems);
	ck_assert_msg(config, "%s", problems.errors.count ? problems.errors.texts[0] : "");
	ck_assert_msg(config_listener_has(config_entry(config, ENTRY_LISTENER, "l"),
	                                  patterns[_i].name) == patterns[_i].has,
	              "%s: %s", patterns[_i].databases, patterns[_i].name);
	config_unref(&config);
	problems_done(&problems);
	buf_free(&file);
}
END_TEST

static const struct {
	const char *database; /* NULL = no entry */
	int seconds, kilobytes;
} lags[] = {
	{ NULL, 25, 26 }, { "silent", 25, 26 }, { "loud", 45, 46 },
	{ "low", 0, 0 },  { "unset", 25, 26 },
};

START_TEST(limits_of_the_lag)
{
	struct problems problems = { 0 };
	const struct config *config = config_parse(bytes_text(text), "f", &problems);
	const struct config_database *database = NULL;

	ck_assert_msg(config, "%s", problems.errors.count ? problems.errors.texts[0] : "");
	if (lags[_i].database)
		database = config_entry(config, ENTRY_DATABASE, lags[_i].database);
	ck_assert_int_eq(config_max_standby_lag(config, database), lags[_i].seconds * USEC_PER_SEC);
	ck_assert_uint_eq(config_max_standby_lag_bytes(config, database),
	                  (size_t)lags[_i].kilobytes * 1024);
	config_unref(&config);
	problems_done(&problems);
}
END_TEST

/* All but one of the pool's servers, and at least one. */
static const struct {
	const char *database;
	int most;
} by_size[] = {
	{ "none", INT_MAX }, { "one", 1 }, { "two", 1 }, { "ten", 9 }, { "own", 4 }, { "zero", 0 },
};

START_TEST(pins_follow_the_size)
{
	static const char ini[] = "[pgbouncer]\n[databases]\nnone = pool_size=0\n"
				  "one = pool_size=1\ntwo = pool_size=2\nten = pool_size=10\n"
				  "own = pool_size=10 max_pinned_servers=4\n"
				  "zero = pool_size=10 max_pinned_servers=0\n";
	struct problems problems = { 0 };
	const struct config *config = config_parse(bytes_text(ini), "f", &problems);

	ck_assert_msg(config, "%s", problems.errors.count ? problems.errors.texts[0] : "");
	ck_assert_int_eq(
	    config_max_pinned_servers(
		config, config_entry(config, ENTRY_DATABASE, by_size[_i].database), NULL),
	    by_size[_i].most);
	config_unref(&config);
	problems_done(&problems);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config/effective");
	TCase *tcase = tcase_create("effective");

	tcase_add_test(tcase, limits_of_applications);
	tcase_add_loop_test(tcase, listeners_have_databases, 0,
	                    sizeof(patterns) / sizeof(patterns[0]));
	tcase_add_loop_test(tcase, effective_values, 0, COUNT_OF(cases));
	tcase_add_loop_test(tcase, limits_of_the_lag, 0, COUNT_OF(lags));
	tcase_add_loop_test(tcase, pins_follow_the_size, 0, COUNT_OF(by_size));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
