/* SPDX-License-Identifier: ISC */
/*
 * config/entry_keys.c: parses a line of [databases] or [users].
 */
#include "../../../src/config/config_priv.h"

#include <stdlib.h>
#include <string.h>

#include "../unit.h"

#define HINT "(a value that holds blanks, or has a comment behind it, needs single quotes)"

static const struct {
	const char *text;
	const char *error;
} databases[] = {
	{ "", NULL },
	{ "host=127.0.0.1 port=5433 dbname=x user=u password=p", NULL },
	{ "host=::1 connect_query='SELECT 1' client_encoding=UTF8 datestyle=ISO timezone=UTC "
	  "application_name=a",
	  NULL },
	{ "port=05432", NULL },
	{ "pool_mode=Statement", NULL },
	{ "port=0", "port: must be from 1 to 65535" },
	{ "port=abc", "port: \"abc\" is not a whole number" },
	{ "port=5432,5433", "port: there must be as many ports as hosts" },
	{ "port=5432,5433 host=a,b", NULL },
	{ "port=5432,5433 host=a,b,c", "port: there must be as many ports as hosts" },
	{ "host=a,::1 port=5432,x", "port: \"x\" is not a whole number" },
	{ "hosts_from=patroni:http://u:p@a:1,b:2/cluster", NULL },
	{ "hosts_from=srv:_postgresql._tcp.a", NULL },
	{ "hosts_from=srv:",
	  "hosts_from: must be srv:_postgresql._tcp.name or patroni:http://host:8008/cluster" },
	{ "pool_size=20abc", "pool_size: \"20abc\" is not a whole number" },
	{ "pool_size=0x10", "pool_size: \"0x10\" is not a whole number" },
	{ "server_lifetime=soon", "server_lifetime: \"soon\" is not a duration (a number, or one "
	                          "with us, ms, s, min, h or d)" },
	{ "pool_mode=x",
	  "pool_mode: \"x\" is not one of its values: session, transaction or statement" },
	{ "host=a,10.0.0.1,::1,/tmp,@x load_balance_hosts=disable", NULL },
	{ "host=a,b load_balance_hosts=Round-Robin", NULL },
	{ "target_session_attrs=prefer-standby", NULL },
	{ "target_session_attrs=Read-Write", NULL },
	{ "target_session_attrs=master",
	  "target_session_attrs: \"master\" is not one of its values: any, read-write, "
	  "read-only, primary, standby or prefer-standby" },
	{ "host=a,,b", "host: contains an empty name" },
	{ "host=,a", "host: contains an empty name" },
	{ "host=a,", "host: contains an empty name" },
	{ "host='a, b'", "host: contains a blank (separate hosts by commas only)" },
	{ "load_balance_hosts=random", "load_balance_hosts: \"random\" is not one of its values: "
	                               "round-robin, disable or least-connections" },
	{ "session_state=Refuse max_pinned_servers=0 pin_functions=f,g_1,h$2", NULL },
	{ "session_state=folow",
	  "session_state: \"folow\" is not one of its values: follow, refuse "
	  "or off: did you mean \"follow\"?" },
	{ "pin_functions=public.f", "pin_functions: \"public.f\" is not the name of a function "
	                            "(without schema, quotes and arguments)" },
	{ "pin_functions='f, g()'", "pin_functions: \"g()\" is not the name of a function "
	                            "(without schema, quotes and arguments)" },
	{ "pin_functions=2f",
	  "pin_functions: \"2f\" is not the name of a function (without schema, "
	  "quotes and arguments)" },
	{ "auth_user=a auth_query='SELECT a, b FROM c WHERE a = $1' auth_dbname=a", NULL },
	{ "hots=a", "unknown key \"hots\": did you mean \"host\"?" },
	{ "pol_size=3", "unknown key \"pol_size\": did you mean \"pool_size\"?" },
	{ "pool_mode=transactions",
	  "pool_mode: \"transactions\" is not one of its values: session, "
	  "transaction or statement: did you mean \"transaction\"?" },
	{ "server_lifetime=5m", "server_lifetime: \"5m\" is not a duration (a number, or one with "
	                        "us, ms, s, min, h or d): did you mean \"5min\"?" },
	{ "HOST=a", "unknown key \"HOST\": did you mean \"host\"?" },
	{ "client_idle_timeout=5", "unknown key \"client_idle_timeout\"" },
	{ "password=my secret", "key=value is expected after password " HINT },
	{ "password=my se=cret", "unknown key after password " HINT },
	{ "password=my se=", "unknown key after password " HINT },
	{ "password=my se='cret", "unknown key after password " HINT },
	{ "password=my se='c'ret", "unknown key after password " HINT },
	{ "password='my' se=cret", "unknown key \"se\"" },
	{ "password=''", "password: the value is missing (omit the key for its default)" },
};

START_TEST(entry_read_judges_databases)
{
	struct config_database entry = { 0 };
	char *text = strdup(databases[_i].text);
	struct err err = { 0 };
	bool ok;

	entry_reset(&entry, ENTRY_DATABASE);
	ok = entry_read(&entry, ENTRY_DATABASE, text, NULL, &err);
	ck_assert_msg(ok == !databases[_i].error, "%s: %s", databases[_i].text, err.text);
	ck_assert_str_eq(err.text, databases[_i].error ? databases[_i].error : "");
	entry_clear(&entry, ENTRY_DATABASE);
	free(text);
}
END_TEST

static const struct {
	const char *text;
	const char *host; /* of the entry; its password and port */
	const char *password;
	int port;
	const char *error;
} pairs[] = {
	{ "  ", NULL, NULL, 5432, NULL },
	{ "host=a port=5", "a", NULL, 5, NULL },
	{ "host = a\tport =5 ", "a", NULL, 5, NULL },
	{ "password='it''s a secret' host=x", "x", "it's a secret", 5432, NULL },
	{ "password=a;b#c'd", NULL, "a;b#c'd", 5432, NULL },
	{ "host='a' ; here = there", "a", NULL, 5432, NULL },
	{ "host='a' # here", "a", NULL, 5432, NULL },
	{ "host=b=c", "b=c", NULL, 5432, NULL },
	{ "host=a ; here", "a", NULL, 5432, "key=value is expected after host " HINT },
	{ "password=my secret", NULL, "my", 5432, "key=value is expected after password " HINT },
	{ "nonsense", NULL, NULL, 5432, "key=value is expected" },
	{ "=a", NULL, NULL, 5432, "key=value is expected" },
	{ "ho'st=a", NULL, NULL, 5432, "key=value is expected" },
	{ "host", NULL, NULL, 5432, "key=value is expected" },
	{ "host=", NULL, NULL, 5432, "host: the value is missing (omit the key for its default)" },
	{ "host=''", NULL, NULL, 5432,
	  "host: the value is missing (omit the key for its default)" },
	{ "host='a", NULL, NULL, 5432, "host: unterminated quote" },
	{ "host='a''", NULL, NULL, 5432, "host: unterminated quote" },
	{ "host='a'port=5", NULL, NULL, 5432, "host: a blank must follow the quotes" },
	{ "host='a';", NULL, NULL, 5432, "host: a blank must follow the quotes" },
};

static bool same(const char *a, const char *b) { return a && b ? !strcmp(a, b) : a == b; }

START_TEST(entry_read_takes_pairs)
{
	struct config_database entry = { 0 };
	char *text = strdup(pairs[_i].text);
	struct err err = { 0 };

	entry_reset(&entry, ENTRY_DATABASE);
	ck_assert(entry_read(&entry, ENTRY_DATABASE, text, NULL, &err) == !pairs[_i].error);
	ck_assert_str_eq(err.text, pairs[_i].error ? pairs[_i].error : "");
	ck_assert_msg(same(entry.host, pairs[_i].host), "%s: %s", pairs[_i].text, entry.host);
	ck_assert(same(entry.password, pairs[_i].password));
	ck_assert_int_eq(entry.port, pairs[_i].port);
	entry_clear(&entry, ENTRY_DATABASE);
	free(text);
}
END_TEST

static const struct {
	const char *text, *notes;
	int pool_size;
} doubts[] = {
	{ "pool_size=5", "", 5 },
	{ "pool_size=3000000000", "pool_size: must be at most 2147483647, 2147483647 is used",
	  INT32_MAX },
	{ "pool_size=-7", "", CONFIG_INHERIT },
	{ "pool_size=1 late_begin=7 auth_dbname=pgbouncer",
	  "late_begin: must be from 0 to 1, 1 is used; auth_dbname: \"pgbouncer\" is the console's "
	  "name: auth_query cannot run for this entry",
	  1 },
};

START_TEST(entry_read_takes_what_is_doubtful)
{
	struct config_database entry = { 0 };
	char *text = strdup(doubts[_i].text);
	struct buf notes = { 0 };
	struct err err = { 0 };

	entry_reset(&entry, ENTRY_DATABASE);
	ck_assert_msg(entry_read(&entry, ENTRY_DATABASE, text, &notes, &err), "%s", err.text);
	ck_assert_str_eq(buf_text(&notes), doubts[_i].notes);
	ck_assert_int_eq(entry.pool_size, doubts[_i].pool_size);
	entry_clear(&entry, ENTRY_DATABASE);
	buf_free(&notes);
	free(text);
}
END_TEST

START_TEST(entry_read_fills_a_database)
{
	char text[] = "host=h port=1 dbname=d user=u password='p ''q' pool_size=0 min_pool_size=-1 "
		      "reserve_pool=4 max_db_connections=0 max_db_client_connections=9 "
		      "server_lifetime=90s query_wait_timeout=-1 pool_mode=transaction host=i "
		      "pin_functions=x pin_functions='f, g' max_pinned_servers=-3";
	struct config_database entry = { 0 };
	struct err err = { 0 };

	entry_reset(&entry, ENTRY_DATABASE);
	ck_assert_msg(entry_read(&entry, ENTRY_DATABASE, text, NULL, &err), "%s", err.text);
	ck_assert_str_eq(entry.host, "i"); /* the last one counts */
	ck_assert_str_eq(entry.dbname, "d");
	ck_assert_str_eq(entry.user, "u");
	ck_assert_str_eq(entry.password, "p 'q");
	ck_assert_int_eq(entry.port, 1);
	ck_assert_int_eq(entry.pool_size, 0);
	ck_assert_int_eq(entry.min_pool_size, CONFIG_INHERIT);
	ck_assert_int_eq(entry.reserve_pool_size, 4);
	ck_assert_int_eq(entry.max_db_connections, CONFIG_INHERIT);
	ck_assert_int_eq(entry.max_db_client_connections, 9);
	ck_assert_int_eq(entry.server_lifetime, 90 * USEC_PER_SEC);
	ck_assert_int_eq(entry.query_wait_timeout, 0);
	ck_assert_int_eq(entry.pool_mode, POOL_MODE_TRANSACTION);
	ck_assert_int_eq(entry.session_state, SESSION_STATE_INHERIT);
	ck_assert_int_eq(entry.max_pinned_servers, CONFIG_INHERIT);
	ck_assert_uint_eq(entry.pin_functions.count, 2);
	ck_assert_str_eq(entry.pin_functions.names[1], "g");
	entry_clear(&entry, ENTRY_DATABASE);
	ck_assert_ptr_null(entry.password);
}
END_TEST

START_TEST(entry_read_fills_a_user)
{
	char text[] = "pool_size=-2 reserve_pool_size=3 max_user_connections=5 query_timeout=1.5 "
		      "transaction_timeout=0 client_idle_timeout=2min query_wait_timeout=0 "
		      "idle_transaction_timeout=-1 max_user_client_connections=0 "
		      "pin_idle_timeout=5min session_state=off";
	struct config_user entry = { 0 };
	struct err err = { 0 };

	entry_reset(&entry, ENTRY_USER);
	ck_assert_msg(entry_read(&entry, ENTRY_USER, text, NULL, &err), "%s", err.text);
	ck_assert_int_eq(entry.pool_size, CONFIG_INHERIT);
	ck_assert_int_eq(entry.reserve_pool_size, 3);
	ck_assert_int_eq(entry.max_user_connections, 5);
	ck_assert_int_eq(entry.max_user_client_connections, CONFIG_INHERIT);
	ck_assert_int_eq(entry.query_timeout, 1500000);
	ck_assert_int_eq(entry.transaction_timeout, CONFIG_INHERIT);
	ck_assert_int_eq(entry.client_idle_timeout, 120 * USEC_PER_SEC);
	ck_assert_int_eq(entry.query_wait_timeout, 0);
	ck_assert_int_eq(entry.idle_transaction_timeout, CONFIG_INHERIT);
	ck_assert_int_eq(entry.pool_mode, POOL_MODE_INHERIT);
	ck_assert_int_eq(entry.session_state, SESSION_STATE_OFF);
	ck_assert_int_eq(entry.pin_idle_timeout, 300 * USEC_PER_SEC);
}
END_TEST

START_TEST(entry_read_knows_no_auth_keys_of_users)
{
	char text[] = "auth_user=a";
	struct config_user entry = { 0 };
	struct err err = { 0 };

	ck_assert(!entry_read(&entry, ENTRY_USER, text, NULL, &err));
	ck_assert_str_eq(err.text, "unknown key \"auth_user\"");
}
END_TEST

START_TEST(entry_texts_have_a_length)
{
	char text[CONFIG_PASSWORD_MAX + 32] = "password=";
	size_t used = strlen(text);
	struct config_database entry = { 0 };
	struct err err = { 0 };

	memset(text + used, 'x', CONFIG_PASSWORD_MAX);
	ck_assert(entry_read(&entry, ENTRY_DATABASE, text, NULL, &err));
	ck_assert_uint_eq(strlen(entry.password), CONFIG_PASSWORD_MAX);
	entry_clear(&entry, ENTRY_DATABASE);

	memset(text, 0, sizeof(text));
	memcpy(text, "password=", used);
	memset(text + used, 'x', CONFIG_PASSWORD_MAX + 1);
	ck_assert(!entry_read(&entry, ENTRY_DATABASE, text, NULL, &err));
	ck_assert_str_eq(err.text, "password: is longer than 65530 bytes");
	entry_clear(&entry, ENTRY_DATABASE);
}
END_TEST

START_TEST(entry_keys_are_in_order)
{
	for (int kind = 0; kind < ENTRY_KINDS; kind++) {
		const struct setting *keys = entry_kinds[kind].keys;

		for (size_t i = 1; i < entry_kinds[kind].key_count; i++)
			ck_assert_str_lt(keys[i - 1].name, keys[i].name);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config/entry_keys");
	TCase *tcase = tcase_create("entry_keys");

	tcase_add_loop_test(tcase, entry_read_judges_databases, 0, COUNT_OF(databases));
	tcase_add_loop_test(tcase, entry_read_takes_pairs, 0, COUNT_OF(pairs));
	tcase_add_loop_test(tcase, entry_read_takes_what_is_doubtful, 0, COUNT_OF(doubts));
	tcase_add_test(tcase, entry_read_fills_a_database);
	tcase_add_test(tcase, entry_read_fills_a_user);
	tcase_add_test(tcase, entry_read_knows_no_auth_keys_of_users);
	tcase_add_test(tcase, entry_texts_have_a_length);
	tcase_add_test(tcase, entry_keys_are_in_order);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
