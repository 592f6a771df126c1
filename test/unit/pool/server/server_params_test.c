/* SPDX-License-Identifier: ISC */
/*
 * pool/server/server_params.c: the effect of reports, resets and libraries. No server is
 * connected.
 */
#include <stdio.h>

#include "../../../lib/mapped_server.h"

#include "../../compares.h"
#include "../../unit.h"

static const struct {
	const char *says;
	struct pair baseline[MAP_MAX];
	struct pair have[MAP_MAX];
	struct pair report;
	bool is_news;
	struct pair baseline_after[MAP_MAX];
	struct pair have_after[MAP_MAX];
} reports[] = {
	{ "a followed one changes",
	  { { "TimeZone", "UTC" } },
	  { { 0 } },
	  { "TimeZone", "CET" },
	  true,
	  { { "TimeZone", "UTC" } },
	  { { "TimeZone", "CET" } } },
	{ "it goes back to the default",
	  { { "TimeZone", "UTC" } },
	  { { "TimeZone", "CET" } },
	  { "TimeZone", "UTC" },
	  true,
	  { { "TimeZone", "UTC" } },
	  { { 0 } } },
	{ "it is what it was",
	  { { "TimeZone", "UTC" } },
	  { { "TimeZone", "CET" } },
	  { "TimeZone", "CET" },
	  false,
	  { { "TimeZone", "UTC" } },
	  { { "TimeZone", "CET" } } },
	{ "its default again",
	  { { "TimeZone", "UTC" } },
	  { { 0 } },
	  { "TimeZone", "UTC" },
	  false,
	  { { "TimeZone", "UTC" } },
	  { { 0 } } },
	{ "the name's spelling is ours",
	  { { "TimeZone", "UTC" } },
	  { { 0 } },
	  { "timezone", "CET" },
	  true,
	  { { "TimeZone", "UTC" } },
	  { { "TimeZone", "CET" } } },
	{ "another spelling of the value is news",
	  { { 0 } },
	  { { "client_encoding", "utf8" } },
	  { "client_encoding", "UTF8" },
	  true,
	  { { 0 } },
	  { { "client_encoding", "UTF8" } } },
	{ "one that is not followed is the server's",
	  { { "is_superuser", "on" } },
	  { { 0 } },
	  { "is_superuser", "off" },
	  true,
	  { { "is_superuser", "off" } },
	  { { 0 } } },
	{ "but a client has given it",
	  { { 0 } },
	  { { "work_mem", "1MB" } },
	  { "work_mem", "2MB" },
	  true,
	  { { 0 } },
	  { { "work_mem", "2MB" } } },
	{ "one that is followed by setting",
	  { { 0 } },
	  { { 0 } },
	  { "my.x", "1" },
	  true,
	  { { 0 } },
	  { { "my.x", "1" } } },
};

START_TEST(server_parameter_files)
{
	struct mapped_server mapped;
	bool is_news;

	mapped_make(&mapped, reports[_i].baseline, reports[_i].have);
	ck_assert(server_report(&mapped.server, reports[_i].report.name, reports[_i].report.value,
	                        &is_news));
	ck_assert_msg(is_news == reports[_i].is_news, "%s", reports[_i].says);
	mapped_check(&mapped, reports[_i].says, reports[_i].baseline_after, reports[_i].have_after);
	mapped_done(&mapped);
}
END_TEST

/* The server responds to a query of its borrower. */
static void put_to_work(struct mapped_server *mapped)
{
	mapped->server.state = SERVER_LENT;
	ck_assert(ledger_add(&mapped->server.wire.ledger, LEDGER_QUERY, LEDGER_CLIENT));
}

START_TEST(server_files_reports_when_its_work_is_done)
{
	struct mapped_server mapped;
	bool is_news;

	mapped_make(&mapped, reports[_i].baseline, reports[_i].have);
	put_to_work(&mapped);
	ck_assert(server_report(&mapped.server, "is_superuser", "on", &is_news));
	ck_assert(server_report(&mapped.server, reports[_i].report.name, "before", &is_news));
	ck_assert(server_report(&mapped.server, reports[_i].report.name, reports[_i].report.value,
	                        &is_news));
	ck_assert(server_report(&mapped.server, "is_superuser", "gone", &is_news));
	ck_assert(is_news);
	mapped_check(&mapped, reports[_i].says, reports[_i].baseline, reports[_i].have);
	server_settle_reports(&mapped.server);
	ck_assert_str_eq(params_find(mapped.server.session.baseline, "is_superuser"), "gone");
	ck_assert(params_change(mapped.shared.params, &mapped.server.session.baseline,
	                        "is_superuser", NULL));
	if (strcmp(reports[_i].report.name, "is_superuser") != 0)
		mapped_check(&mapped, reports[_i].says, reports[_i].baseline_after,
		             reports[_i].have_after);
	mapped_done(&mapped);
}
END_TEST

/* A megabyte of reports: memory and comparisons do not grow with the input. */
START_TEST(server_reports_are_little_work)
{
	static const struct pair zone[MAP_MAX] = { { "TimeZone", "UTC" } },
				 none[MAP_MAX] = { { 0 } };
	const size_t count = 100000;
	struct mapped_server mapped;
	char name[16], value[16];
	bool is_news;
	size_t most = 0, flood_count = 0;

	mapped_make(&mapped, zone, none);
	for (int i = 0; i < 400; i++) {
		snprintf(name, sizeof(name), "n%03d", i);
		ck_assert(
		    params_change(mapped.shared.params, &mapped.server.session.params, name, "x"));
	}
	put_to_work(&mapped);
	compare_count = 0;
	for (size_t i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "n%03zu", i % 400);
		snprintf(value, sizeof(value), "%zu", i);
		ck_assert(server_report(&mapped.server, name, value, &is_news));
		if (mapped.server.session.reports.list.count > most)
			most = mapped.server.session.reports.list.count;
		flood_count += mapped.server.wire.has_flooded;
		mapped.server.wire.has_flooded = false;
	}
	server_settle_reports(&mapped.server);
	ck_assert_uint_lt(most, (size_t)20 * 1024);
	ck_assert_uint_gt(flood_count, 10);
	ck_assert_uint_lt(compare_count / count, 64);
	ck_assert_uint_lt(mapped.server.session.reports.list.capacity, 1024);
	ck_assert(!mapped.server.close_reason);
	ck_assert_str_eq(params_find(mapped.server.session.params, "n399"), "99999");
	mapped_done(&mapped);
}
END_TEST

START_TEST(server_reports_at_rest_have_an_end)
{
	static const struct pair none[MAP_MAX] = { { 0 } };
	struct mapped_server mapped;
	char value[16];
	bool is_news;
	int count = 0;

	mapped_make(&mapped, none, none);
	do
		snprintf(value, sizeof(value), "%d", count);
	while (server_report(&mapped.server, "TimeZone", value, &is_news) && ++count < 100000);
	ck_assert_int_eq(count, 200);
	mapped_done(&mapped);
}
END_TEST

/* More names than a map may have: the server cannot be reused. */
START_TEST(server_reports_too_many_names)
{
	static const struct pair none[MAP_MAX] = { { 0 } };
	struct mapped_server mapped;
	char name[16];
	bool is_news;

	mapped_make(&mapped, none, none);
	put_to_work(&mapped);
	for (int i = 0; i <= PARAMS_NAMES_MAX; i++) {
		ck_assert(!mapped.server.close_reason);
		snprintf(name, sizeof(name), "n%d", i);
		ck_assert(server_report(&mapped.server, name, "x", &is_news));
	}
	server_settle_reports(&mapped.server);
	ck_assert(mapped.server.close_reason);
	mapped_done(&mapped);
}
END_TEST

/* ---- resets ---- */

static const struct {
	const char *says;
	struct pair baseline[MAP_MAX];
	struct pair have[MAP_MAX];
	bool is_all;
	struct pair after[MAP_MAX];
} resets[] = {
	{ "DISCARD ALL: what it does not report is gone",
	  { { "TimeZone", "UTC" } },
	  { { "TimeZone", "CET" }, { "work_mem", "1MB" } },
	  true,
	  { { "TimeZone", "CET" } } },
	{ "RESET: what it does not report may be anything",
	  { { "TimeZone", "UTC" } },
	  { { "TimeZone", "CET" }, { "work_mem", "1MB" } },
	  false,
	  { { "TimeZone", "CET" }, { "work_mem", "\001" } } },
	{ "DISCARD ALL: so is a role, whose default is known",
	  { { "role", "app" } },
	  { { "role", "other" } },
	  true,
	  { { 0 } } },
	{ "RESET: it may be another role",
	  { { "role", "app" } },
	  { { "role", "other" } },
	  false,
	  { { "role", "\001" } } },
	{ "nothing was set", { { "TimeZone", "UTC" } }, { { 0 } }, false, { { 0 } } },
	{ "a library stays", { { 0 } }, { { "load:x", "x" } }, true, { { "load:x", "x" } } },
};

START_TEST(server_forgets_the_rest)
{
	struct mapped_server mapped;

	mapped_make(&mapped, resets[_i].baseline, resets[_i].have);
	server_forget_rest(&mapped.server, resets[_i].is_all);
	ck_assert(server_holds(&mapped.server, HELD_REST));
	mapped_check(&mapped, resets[_i].says, resets[_i].baseline, resets[_i].after);
	mapped_done(&mapped);
}
END_TEST

/* One text may have a hundred thousand of them. */
START_TEST(server_resets_are_little_work)
{
	static const struct pair zone[MAP_MAX] = { { "TimeZone", "UTC" } },
				 none[MAP_MAX] = { { 0 } };
	const size_t count = 1000;
	struct mapped_server mapped;
	char name[16];

	mapped_make(&mapped, zone, none);
	for (int i = 0; i < 400; i++) {
		snprintf(name, sizeof(name), "n%03d", i);
		ck_assert(
		    params_change(mapped.shared.params, &mapped.server.session.params, name, "x"));
	}
	compare_count = 0;
	for (size_t i = 0; i < count; i++)
		server_forget_rest(&mapped.server, false);
	ck_assert_uint_lt(compare_count / count, 16);
	ck_assert_str_eq(params_find(mapped.server.session.params, "n399"), "\001");
	/* Later settings are reset as well, and DISCARD ALL leaves nothing. */
	ck_assert(params_change(mapped.shared.params, &mapped.server.session.params, "n399", "y"));
	server_forget_rest(&mapped.server, false);
	ck_assert_str_eq(params_find(mapped.server.session.params, "n399"), "\001");
	server_forget_rest(&mapped.server, true);
	ck_assert_uint_eq(params_count(mapped.server.session.params), 0);
	mapped_done(&mapped);
}
END_TEST

/* ---- libraries ---- */

START_TEST(server_add_library_adds)
{
	static const struct pair none[MAP_MAX] = { { 0 } };
	static const struct pair marked[MAP_MAX] = { { "load:^^foo", "^foo" } };
	struct mapped_server mapped;

	mapped_make(&mapped, none, none);
	ck_assert(server_add_library(&mapped.server, "foo"));
	ck_assert(server_holds(&mapped.server, HELD_LIBRARY));
	ck_assert(server_add_library(&mapped.server, "Foo"));
	ck_assert(server_add_library(&mapped.server, "foo"));
	ck_assert_str_eq(params_find(mapped.server.session.params, "load:^Foo"), "Foo");
	ck_assert_str_eq(params_find(mapped.server.session.params, "load:foo"), "foo");
	ck_assert_uint_eq(params_count(mapped.server.session.params), 2);
	params_release(mapped.shared.params, &mapped.server.session.params);
	ck_assert(server_add_library(&mapped.server, "^foo"));
	mapped_check(&mapped, "the mark is marked", none, marked);
	ck_assert(!server_add_library(&mapped.server, "\xc3\xa9"));
	mapped_done(&mapped);
}
END_TEST

static const struct {
	const char *says;
	struct pair params[MAP_MAX];
	struct pair others[MAP_MAX];
	bool are_in;
} fits[] = {
	{ "no libraries", { { "a", "1" } }, { { 0 } }, true },
	{ "one that the other has", { { "load:x", "x" } }, { { "load:x", "x" } }, true },
	{ "one that the other lacks", { { "load:x", "x" } }, { { "load:y", "y" } }, false },
	{ "one of two", { { "load:x", "x" }, { "load:y", "y" } }, { { "load:y", "y" } }, false },
	{ "the other has more", { { "load:x", "x" } }, { { "load:x", "x" }, { "z", "1" } }, true },
	{ "upper case is another library",
	  { { "load:^foo", "Foo" } },
	  { { "load:foo", "foo" } },
	  false },
};

START_TEST(server_libraries_are_in_says)
{
	struct params_table *table = params_table_new();
	const struct params *params = param_map(table, fits[_i].params);
	const struct params *others = param_map(table, fits[_i].others);

	ck_assert_msg(server_libraries_are_in(params, others) == fits[_i].are_in, "%s",
	              fits[_i].says);
	params_release(table, &params);
	params_release(table, &others);
	params_table_free(&table);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/server_params");
	TCase *tcase = tcase_create("server_params");

	tcase_add_loop_test(tcase, server_parameter_files, 0, COUNT_OF(reports));
	tcase_add_loop_test(tcase, server_files_reports_when_its_work_is_done, 0,
	                    COUNT_OF(reports));
	tcase_add_test(tcase, server_reports_are_little_work);
	tcase_add_test(tcase, server_reports_at_rest_have_an_end);
	tcase_add_test(tcase, server_reports_too_many_names);
	tcase_add_loop_test(tcase, server_forgets_the_rest, 0, COUNT_OF(resets));
	tcase_add_test(tcase, server_resets_are_little_work);
	tcase_add_test(tcase, server_add_library_adds);
	tcase_add_loop_test(tcase, server_libraries_are_in_says, 0, COUNT_OF(fits));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
