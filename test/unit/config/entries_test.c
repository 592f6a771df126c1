/* SPDX-License-Identifier: ISC */
/*
 * config/entries.c: stored by name, iterated in order, compared by their servers.
 */
#include "../../../src/config/config_priv.h"

#include <stdio.h>
#include <string.h>

#include "../unit.h"

static struct config config;

static void set_up(void)
{
	config.entries = entries_new();
	ck_assert_ptr_nonnull(config.entries);
}

static void tear_down(void)
{
	entries_unref(&config.entries);
	ck_assert_ptr_null(config.entries);
}

/* The first problem; NULL: there is none. */
static const char *try_to_add(enum entry_kind_id kind, const char *name, const char *line)
{
	static char said[300];
	struct problems problems = { 0 };
	char text[256];

	snprintf(text, sizeof(text), "%s", line);
	entries_add(config.entries, kind, (struct source_pos){ "f", 1 }, name, text, true,
	            &problems);
	snprintf(said, sizeof(said), "%s", problems.errors.count ? problems.errors.texts[0] : "");
	problems_done(&problems);
	return *said ? said : NULL;
}

static void add(const char *name, const char *line)
{
	ck_assert_ptr_null(try_to_add(ENTRY_DATABASE, name, line));
}

static const struct config_database *database_of(const struct config *snapshot, const char *name)
{
	return config_entry(snapshot, ENTRY_DATABASE, name);
}

START_TEST(entries_are_found)
{
	add("a", "host=one");
	add("b", "dbname=x");
	ck_assert_str_eq(database_of(&config, "a")->host, "one");
	ck_assert_int_eq(database_of(&config, "a")->port, 5432);
	ck_assert_ptr_null(config_entry(&config, ENTRY_DATABASE, "c"));
	ck_assert_ptr_null(config_database_auto(&config));
	add("*", "host=all");
	ck_assert_str_eq(config_database_auto(&config)->host, "all");
	ck_assert_ptr_null(config_entry(&config, ENTRY_DATABASE, "*"));
	ck_assert_uint_eq(config_entry_count(&config, ENTRY_DATABASE), 2);
}
END_TEST

START_TEST(entries_of_one_name_make_way)
{
	add("a", "host=one port=1");
	add("b", "host=two");
	add("a", "host=three");
	add("*", "host=four");
	add("*", "port=5");
	ck_assert_uint_eq(config_entry_count(&config, ENTRY_DATABASE), 2);
	ck_assert_str_eq(database_of(&config, "a")->host, "three");
	ck_assert_int_eq(database_of(&config, "a")->port, 5432);
	ck_assert_ptr_null(config_database_auto(&config)->host);
}
END_TEST

START_TEST(entries_are_walked_in_order)
{
	const struct config_database *database = NULL;
	const struct config_user *user = NULL;
	char names[16] = "";

	ck_assert_ptr_null(config_entry_next(&config, ENTRY_DATABASE, NULL));
	ck_assert_ptr_null(config_entry_next(&config, ENTRY_USER, NULL));
	add("b", "");
	add("*", "");
	add("a", "");
	while ((database = config_entry_next(&config, ENTRY_DATABASE, database)))
		strncpy(names + strlen(names), database->name, 2);
	ck_assert_str_eq(names, "ba");

	ck_assert_ptr_null(try_to_add(ENTRY_USER, "u", ""));
	ck_assert_ptr_null(try_to_add(ENTRY_USER, "u", ""));
	user = config_entry_next(&config, ENTRY_USER, NULL);
	ck_assert_str_eq(user->name, "u");
	ck_assert_ptr_eq(config_entry(&config, ENTRY_USER, "u"), user);
	ck_assert_ptr_null(config_entry_next(&config, ENTRY_USER, user));
	ck_assert_ptr_null(
	    config_entry_next(&config, ENTRY_USER, config_entry_next(&config, ENTRY_USER, NULL)));
}
END_TEST

static const struct {
	const char *a;
	const char *b;
	bool is_same;
} servers[] = {
	{ "", "", true },
	{ "host=a", "host=a", true },
	{ "host=a", "host=b", false },
	{ "host=a", "", false },
	{ "host=a,b", "host=a,b load_balance_hosts=round-robin", true },
	{ "host=a,b", "host=b,a", false },
	{ "host=a,b", "host=a,b load_balance_hosts=disable", false },
	{ "host=a,b", "host=a,b load_balance_hosts=least-connections", false },
	{ "host=a,b", "host=a,b target_session_attrs=any", true },
	{ "host=a,b", "host=a,b target_session_attrs=primary", false },
	{ "port=5432", "", true },
	{ "port=5433", "", false },
	{ "dbname=asked", "", true },
	{ "dbname=other", "", false },
	{ "user=a", "", false },
	{ "user=a password=x", "user=a password=y", true },
	{ "connect_query=x", "connect_query=y", false },
	{ "pool_size=5 timezone=UTC application_name=a client_encoding=x datestyle=y", "", true },
	{ "pool_mode=statement server_lifetime=5", "", true },
};

START_TEST(entries_know_the_same_server)
{
	add("a", servers[_i].a);
	add("b", servers[_i].b);
	ck_assert_msg(config_database_same_server(config_entry(&config, ENTRY_DATABASE, "a"),
	                                          config_entry(&config, ENTRY_DATABASE, "b"),
	                                          "asked") == servers[_i].is_same,
	              "%s / %s", servers[_i].a, servers[_i].b);
}
END_TEST

static const struct {
	const char *list;
	const char *hosts[4];
} lists[] = {
	{ "a", { "a" } },
	{ "a,::1,/tmp", { "a", "::1", "/tmp" } },
	{ "", { "" } },
};

START_TEST(entries_list_hosts)
{
	const char *list = lists[_i].list;
	struct bytes host;

	for (size_t i = 0; lists[_i].hosts[i]; i++) {
		ck_assert(config_host_next(&list, &host));
		ck_assert_msg(bytes_are(host, lists[_i].hosts[i]), "%s", lists[_i].list);
	}
	ck_assert(!config_host_next(&list, &host));
}
END_TEST

START_TEST(entries_say_how_hosts_are_chosen)
{
	add("one", "host=a load_balance_hosts=disable");
	add("none", "load_balance_hosts=disable");
	add("two", "host=a,b");
	add("sticky", "host=a,b load_balance_hosts=disable");
	ck_assert_ptr_null(config_load_balance_hosts(config_entry(&config, ENTRY_DATABASE, "one")));
	ck_assert_ptr_null(
	    config_load_balance_hosts(config_entry(&config, ENTRY_DATABASE, "none")));
	ck_assert_str_eq(config_load_balance_hosts(config_entry(&config, ENTRY_DATABASE, "two")),
	                 "round-robin");
	ck_assert_str_eq(config_load_balance_hosts(config_entry(&config, ENTRY_DATABASE, "sticky")),
	                 "disable");
}
END_TEST

START_TEST(entries_default_to_the_name_asked_for)
{
	add("a", "");
	add("b", "dbname=x");
	ck_assert_str_eq(
	    config_database_dbname(config_entry(&config, ENTRY_DATABASE, "a"), "asked"), "asked");
	ck_assert_str_eq(
	    config_database_dbname(config_entry(&config, ENTRY_DATABASE, "b"), "asked"), "x");
}
END_TEST

START_TEST(entries_refuse_names)
{
	char name[200] = "", wanted[256];

	ck_assert_str_eq(try_to_add(ENTRY_DATABASE, "pgbouncer", ""),
	                 "f:1: database \"pgbouncer\": this name is reserved for the console");
	memset(name, 'x', CONFIG_DATABASE_NAME_MAX);
	ck_assert_ptr_null(try_to_add(ENTRY_DATABASE, name, ""));
	snprintf(wanted, sizeof(wanted),
	         "f:1: database \"%s...\": its name is longer than 63 bytes", name);
	memset(name, 'x', CONFIG_DATABASE_NAME_MAX + 1);
	ck_assert_str_eq(try_to_add(ENTRY_DATABASE, name, ""), wanted);
	memset(name, 'x', CONFIG_USER_NAME_MAX);
	ck_assert_ptr_null(try_to_add(ENTRY_USER, name, ""));
	memset(name, 'x', CONFIG_USER_NAME_MAX + 1);
	ck_assert_ptr_nonnull(
	    strstr(try_to_add(ENTRY_USER, name, ""), "...\": its name is longer than 127 bytes"));

	ck_assert_str_eq(try_to_add(ENTRY_DATABASE, "a", "port=0"),
	                 "f:1: database \"a\": port: must be from 1 to 65535");
	ck_assert_str_eq(try_to_add(ENTRY_USER, "u", "x=1"), "f:1: user \"u\": unknown key \"x\"");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config/entries");
	TCase *tcase = tcase_create("entries");

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_add_test(tcase, entries_are_found);
	tcase_add_test(tcase, entries_of_one_name_make_way);
	tcase_add_test(tcase, entries_are_walked_in_order);
	tcase_add_loop_test(tcase, entries_know_the_same_server, 0, COUNT_OF(servers));
	tcase_add_loop_test(tcase, entries_list_hosts, 0, COUNT_OF(lists));
	tcase_add_test(tcase, entries_say_how_hosts_are_chosen);
	tcase_add_test(tcase, entries_default_to_the_name_asked_for);
	tcase_add_test(tcase, entries_refuse_names);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
