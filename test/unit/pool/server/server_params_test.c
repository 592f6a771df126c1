/* SPDX-License-Identifier: ISC */
/*
 * pool/server/server_params.c: the statements that change one map of parameters to another, and
 * the effect of reports and resets. No server is connected.
 */
#include <stdio.h>
#include <string.h>

#include "../../../../src/pool/server/server_priv.h"
#include "pgweir/config/config.h"
#include "pgweir/pool/server/facts.h"
#include "pgweir/pool/server/question.h"

#include "../../compares.h"
#include "../../unit.h"

#define MAP_MAX 4

struct pair {
	const char *name;
	const char *value;
};

/* Only the struct of a server, without a connection. */
struct dummy {
	struct server_shared shared;
	struct server_site site;
	struct server server;
};

static const struct params *make_map(struct params_table *table, const struct pair *pairs)
{
	const struct params *map = params_none(table);

	for (size_t i = 0; i < MAP_MAX && pairs[i].name; i++)
		ck_assert(params_change(table, &map, pairs[i].name, pairs[i].value));
	return map;
}

static void on_close_needed(struct server *server) { (void)server; }

static void on_library(struct server *server) { ck_assert(server->has_library); }

static void make(struct dummy *dummy, const struct pair *baseline, const struct pair *have)
{
	static const struct server_ops ops = { .on_close_needed = on_close_needed,
		                               .on_library = on_library };
	static const char text[] = "[pgbouncer]\ntrack_extra_parameters = search_path, my.x\n";
	struct problems problems = { 0 };

	*dummy = (struct dummy){ 0 };
	dummy->shared.params = params_table_new();
	dummy->shared.config = config_parse(bytes_of(text, sizeof(text) - 1), "f", &problems);
	ck_assert_ptr_nonnull(dummy->shared.config);
	dummy->site.shared = &dummy->shared;
	dummy->site.ops = &ops;
	dummy->server.site = &dummy->site;
	dummy->server.baseline = make_map(dummy->shared.params, baseline);
	dummy->server.params = make_map(dummy->shared.params, have);
}

static void done(struct dummy *dummy)
{
	struct params_table *table = dummy->shared.params;

	params_release(table, &dummy->server.baseline);
	params_release(table, &dummy->server.params);
	params_release(table, &dummy->server.forgotten);
	ledger_done(&dummy->server.ledger);
	buf_free(&dummy->server.reports);
	ck_assert_uint_eq(params_table_count(table), 0);
	params_table_free(&dummy->shared.params);
	config_unref(&dummy->shared.config);
}

/* ---- replay ---- */

static const struct {
	const char *says;
	struct pair baseline[MAP_MAX]; /* the server's defaults that it reported */
	struct pair have[MAP_MAX];     /* what is set there */
	struct pair want[MAP_MAX];
	const char *text;
} replays[] = {
	{ "nothing wanted, nothing there", { { 0 } }, { { 0 } }, { { 0 } }, "" },
	{ "a value is set", { { 0 } }, { { 0 } }, { { "a", "1" } }, "SET \"a\"='1';" },
	{ "a character whose second byte is a backslash in another encoding",
	  { { 0 } },
	  { { 0 } },
	  { { "a", "\x83\\'; evil" } },
	  "SET \"a\"=E'\\x83\\\\''; evil';" },
	{ "it is there already", { { 0 } }, { { "a", "1" } }, { { "A", "1" } }, "" },
	{ "it is the default already", { { "a", "1" } }, { { 0 } }, { { "a", "1" } }, "" },
	{ "another is there",
	  { { "a", "1" } },
	  { { "a", "2" } },
	  { { "a", "3" } },
	  "SET \"a\"='3';" },
	{ "back to the default, which another client changed",
	  { { "a", "1" } },
	  { { "a", "2" } },
	  { { "a", "1" } },
	  "SET \"a\"='1';" },
	{ "not wanted: back to the default",
	  { { "a", "1" } },
	  { { "a", "2" } },
	  { { 0 } },
	  "SET \"a\"='1';" },
	{ "not wanted, default not known", { { 0 } }, { { "a", "2" } }, { { 0 } }, "RESET \"a\";" },
	{ "some go, some come, some stay",
	  { { 0 } },
	  { { "a", "1" }, { "b", "2" } },
	  { { "b", "2" }, { "c", "3" } },
	  "RESET \"a\";SET \"c\"='3';" },
	{ "an empty value", { { 0 } }, { { 0 } }, { { "a", "" } }, "SET \"a\"='';" },
	{ "quotes",
	  { { 0 } },
	  { { 0 } },
	  { { "a", "o'clock'; DROP--" } },
	  "SET \"a\"='o''clock''; DROP--';" },
	{ "backslashes",
	  { { 0 } },
	  { { 0 } },
	  { { "a", "\\' \\n" } },
	  "SET \"a\"=E'\\\\'' \\\\n';" },
	{ "a name of two parts",
	  { { 0 } },
	  { { "x.y", "2" } },
	  { { "my.x", "1" } },
	  "RESET \"x\".\"y\";SET \"my\".\"x\"='1';" },
	{ "a name with quotes", { { 0 } }, { { 0 } }, { { "a\"b", "1" } }, "SET \"a\"\"b\"='1';" },
	{ "a list of names",
	  { { 0 } },
	  { { 0 } },
	  { { "search_path", "\"A b\", c'd" } },
	  "SELECT pg_catalog.set_config('search_path','\"A b\", c''d',false);" },
	{ "a list of names, back",
	  { { "search_path", "public" } },
	  { { "search_path", "x" } },
	  { { 0 } },
	  "SELECT pg_catalog.set_config('search_path','public',false);" },
	{ "a list of names in any case",
	  { { 0 } },
	  { { 0 } },
	  { { "Temp_Tablespaces", "x" } },
	  "SELECT pg_catalog.set_config('Temp_Tablespaces','x',false);" },
	{ "a list of words is not one of names",
	  { { 0 } },
	  { { 0 } },
	  { { "DateStyle", "ISO, DMY" } },
	  "SET \"DateStyle\"='ISO, DMY';" },
	{ "the case of an encoding does not count",
	  { { "client_encoding", "UTF8" } },
	  { { 0 } },
	  { { "client_encoding", "utf8" } },
	  "" },
	{ "the case of a schema counts",
	  { { 0 } },
	  { { "search_path", "\"Foo\"" } },
	  { { "search_path", "\"foo\"" } },
	  "SELECT pg_catalog.set_config('search_path','\"foo\"',false);" },
	{ "the case of a name counts",
	  { { "application_name", "App" } },
	  { { 0 } },
	  { { "application_name", "app" } },
	  "SET \"application_name\"='app';" },
	{ "one that does harm is enough",
	  { { 0 } },
	  { { 0 } },
	  { { "a", "1" }, { "application_name", "app" } },
	  "SET \"a\"='1';SET \"application_name\"='app';" },
	{ "another user for the session comes last",
	  { { "session_authorization", "app" } },
	  { { 0 } },
	  { { "a", "1" }, { "session_authorization", "bob" }, { "z", "2" } },
	  "SET \"a\"='1';SET \"z\"='2';SET \"session_authorization\"='bob';" },
	{ "and goes first",
	  { { "session_authorization", "app" } },
	  { { "b", "1" }, { "session_authorization", "bob" } },
	  { { "a", "1" } },
	  "SET \"session_authorization\"='app';RESET \"b\";SET \"a\"='1';" },
	{ "alone too",
	  { { "session_authorization", "app" } },
	  { { "session_authorization", "bob" } },
	  { { 0 } },
	  "SET \"session_authorization\"='app';" },
	{ "what a user may not set is set by the one of the login",
	  { { "session_authorization", "app" } },
	  { { "session_authorization", "bob" } },
	  { { "a", "1" }, { "session_authorization", "bob" } },
	  "SET \"session_authorization\"='app';SET \"a\"='1';"
	  "SET \"session_authorization\"='bob';" },
	{ "it is that user already",
	  { { "session_authorization", "app" } },
	  { { "a", "1" }, { "session_authorization", "bob" } },
	  { { "A", "1" }, { "session_authorization", "bob" } },
	  "" },
	{ "from one user to another",
	  { { "session_authorization", "app" } },
	  { { "session_authorization", "bob" } },
	  { { "session_authorization", "carol" } },
	  "SET \"session_authorization\"='app';SET \"session_authorization\"='carol';" },
	{ "the user of the login by name",
	  { { "session_authorization", "app" } },
	  { { 0 } },
	  { { "session_authorization", "app" } },
	  "" },
	{ "a server that does not report it",
	  { { 0 } },
	  { { "session_authorization", "bob" } },
	  { { 0 } },
	  "RESET \"session_authorization\";" },
	{ "what is unknown is set",
	  { { 0 } },
	  { { "a", "\001" } },
	  { { "a", "1" } },
	  "SET \"a\"='1';" },
	{ "what is unknown is reset", { { 0 } }, { { "a", "\001" } }, { { 0 } }, "RESET \"a\";" },
	{ "a role comes last",
	  { { 0 } },
	  { { 0 } },
	  { { "a", "1" }, { "role", "bob" }, { "z", "2" } },
	  "SET \"a\"='1';SET \"z\"='2';SET \"role\"='bob';" },
	{ "and goes first",
	  { { 0 } },
	  { { "b", "1" }, { "role", "bob" } },
	  { { "a", "1" } },
	  "SET \"role\"='none';RESET \"b\";SET \"a\"='1';" },
	{ "a role that stays is put aside",
	  { { 0 } },
	  { { "role", "bob" } },
	  { { "a", "1" }, { "role", "bob" } },
	  "SET \"role\"='none';SET \"a\"='1';SET \"role\"='bob';" },
	{ "but not for a name",
	  { { 0 } },
	  { { "role", "bob" } },
	  { { "application_name", "x" }, { "role", "bob" } },
	  "SET \"application_name\"='x';" },
	{ "a role alone goes",
	  { { 0 } },
	  { { "role", "bob" } },
	  { { 0 } },
	  "SET \"role\"='none';" },
	{ "from one role to another",
	  { { 0 } },
	  { { "role", "bob" } },
	  { { "role", "carol" } },
	  "SET \"role\"='carol';" },
	{ "the case of a role counts",
	  { { 0 } },
	  { { "role", "bob" } },
	  { { "role", "Bob" } },
	  "SET \"role\"='Bob';" },
	{ "it is that role already",
	  { { 0 } },
	  { { "a", "1" }, { "role", "bob" } },
	  { { "a", "1" }, { "role", "bob" } },
	  "" },
	{ "a default role is put aside, and is set again",
	  { { "role", "app" } },
	  { { 0 } },
	  { { "a", "1" } },
	  "SET \"role\"='none';SET \"a\"='1';SET \"role\"='app';" },
	{ "back to the default role",
	  { { "role", "app" } },
	  { { "role", "bob" } },
	  { { 0 } },
	  "SET \"role\"='app';" },
	{ "no role instead of the default",
	  { { "role", "app" } },
	  { { 0 } },
	  { { "role", "none" } },
	  "SET \"role\"='none';" },
	{ "role and session user: the role is the inner one",
	  { { "session_authorization", "app" } },
	  { { "role", "r1" }, { "session_authorization", "bob" } },
	  { { "a", "1" }, { "role", "r2" }, { "session_authorization", "carol" } },
	  "SET \"role\"='none';SET \"session_authorization\"='app';SET \"a\"='1';"
	  "SET \"session_authorization\"='carol';SET \"role\"='r2';" },
	{ "another role of the same session user",
	  { { "session_authorization", "app" } },
	  { { "role", "r1" }, { "session_authorization", "bob" } },
	  { { "role", "r2" }, { "session_authorization", "bob" } },
	  "SET \"role\"='r2';" },
	{ "the session user goes, the role stays",
	  { { "session_authorization", "app" } },
	  { { "role", "r1" }, { "session_authorization", "bob" } },
	  { { "role", "r1" } },
	  "SET \"role\"='none';SET \"session_authorization\"='app';SET \"role\"='r1';" },
	{ "a library comes before its parameters",
	  { { 0 } },
	  { { 0 } },
	  { { "auto_explain.log_analyze", "on" }, { "load:auto_explain", "auto_explain" } },
	  "LOAD 'auto_explain';SET \"auto_explain\".\"log_analyze\"='on';" },
	{ "a placeholder that a library refuses is set back before",
	  { { 0 } },
	  { { "plpgsql.nonsense", "on" } },
	  { { "load:plpgsql", "plpgsql" } },
	  "RESET \"plpgsql\".\"nonsense\";LOAD 'plpgsql';" },
	{ "a library is loaded without a role",
	  { { 0 } },
	  { { "role", "bob" } },
	  { { "load:x'", "X'" }, { "role", "bob" } },
	  "SET \"role\"='none';LOAD 'X''';SET \"role\"='bob';" },
	{ "a library that is there", { { 0 } }, { { "load:x", "x" } }, { { "load:x", "x" } }, "" },
	{ "a library cannot be taken back", { { 0 } }, { { "load:x", "x" } }, { { 0 } }, "" },
	{ "what is not ASCII, whatever client_encoding is and will be",
	  { { "client_encoding", "LATIN1" }, { "server_encoding", "UTF8" } },
	  { { "client_encoding", "SJIS" } },
	  { { "a", "\xc3\xa9'\\" }, { "client_encoding", "LATIN1" } },
	  "SET \"a\"=E'\\xc3\\xa9''\\\\';SET \"client_encoding\"='LATIN1';" },
	{ "back to a default that was reported in the encoding of the database",
	  { { "a", "\xc3\xa9" }, { "client_encoding", "UTF8" }, { "server_encoding", "utf8" } },
	  { { "a", "1" } },
	  { { 0 } },
	  "SET \"a\"=E'\\xc3\\xa9';" },
	{ "back to one that was reported in another encoding",
	  { { "a", "\xe9" }, { "client_encoding", "LATIN1" }, { "server_encoding", "UTF8" } },
	  { { "a", "1" } },
	  { { 0 } },
	  "RESET \"a\";" },
};

START_TEST(server_replay_text_says)
{
	struct dummy dummy;
	const struct params *want;
	struct buf text = { 0 };

	make(&dummy, replays[_i].baseline, replays[_i].have);
	want = make_map(dummy.shared.params, replays[_i].want);
	server_replay_text(&dummy.server, want, &text);
	ck_assert_msg(strcmp(buf_text(&text), replays[_i].text) == 0, "%s: %s", replays[_i].says,
	              buf_text(&text));
	buf_free(&text);
	params_release(dummy.shared.params, &want);
	done(&dummy);
}
END_TEST

static const struct {
	const char *says;
	struct pair baseline[MAP_MAX];
	struct pair have[MAP_MAX];
	const char *connect_query;
	const char *text;
} cleanings[] = {
	{ "nothing is known", { { "TimeZone", "UTC" } }, { { 0 } }, NULL, "RESET ALL;" },
	{ "what is known is set again",
	  { { "TimeZone", "UTC" } },
	  { { "a.b", "1" }, { "TimeZone", "CET" } },
	  NULL,
	  "RESET ALL;SET \"a\".\"b\"='1';SET \"TimeZone\"='CET';" },
	{ "what is to be set back stays so", { { 0 } }, { { "a", "\001" } }, NULL, "RESET ALL;" },
	{ "without the role, which may not set all of it",
	  { { "session_authorization", "app" } },
	  { { "a", "1" }, { "role", "r" }, { "session_authorization", "bob" } },
	  NULL,
	  "SET \"role\"='none';SET \"session_authorization\"='app';RESET ALL;SET \"a\"='1';"
	  "SET \"session_authorization\"='bob';SET \"role\"='r';" },
	{ "a library cannot be removed", { { 0 } }, { { "load:x", "x" } }, NULL, "RESET ALL;" },
	{ "connect_query has set defaults",
	  { { "DateStyle", "ISO" }, { "TimeZone", "CET" } },
	  { { "DateStyle", "SQL" } },
	  "SET TimeZone = 'CET'",
	  "RESET ALL;SET \"TimeZone\"='CET';SET \"DateStyle\"='SQL';" },
};

START_TEST(server_clean_text_says)
{
	struct config_database entry = { .connect_query = (char *)cleanings[_i].connect_query };
	struct dummy dummy;
	struct buf text = { 0 };

	make(&dummy, cleanings[_i].baseline, cleanings[_i].have);
	dummy.site.entry = &entry;
	buf_add_text(&text, "what was there before");
	server_clean_text(&dummy.server, &text);
	ck_assert_msg(strcmp(buf_text(&text), cleanings[_i].text) == 0, "%s: %s",
	              cleanings[_i].says, buf_text(&text));
	buf_free(&text);
	done(&dummy);
}
END_TEST

START_TEST(server_replay_is_harmless_for_a_name_alone)
{
	static const struct pair other[MAP_MAX] = { { "application_name", "other" } };
	static const struct {
		struct pair want[MAP_MAX];
		bool is_harmless;
	} cases[] = {
		{ { { "application_name", "app" } }, true },
		{ { { "Application_Name", "app" } }, true },
		{ { { 0 } }, true },
		{ { { "application_name", "app" }, { "a", "1" } }, false },
		{ { { "a", "1" }, { "application_name", "other" } }, false },
		{ { { "application_name", "app" }, { "session_authorization", "bob" } }, false },
		{ { { "application_name", "app" }, { "role", "bob" } }, false },
		{ { { "application_name", "app" }, { "load:x", "x" } }, false },
	};

	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct dummy dummy;
		const struct params *want;
		struct buf text = { 0 };

		make(&dummy, (struct pair[MAP_MAX]){ { 0 } }, other);
		want = make_map(dummy.shared.params, cases[i].want);
		ck_assert_int_eq(server_replay_text(&dummy.server, want, &text),
		                 cases[i].is_harmless);
		buf_free(&text);
		params_release(dummy.shared.params, &want);
		done(&dummy);
	}
}
END_TEST

/* Two maps with many names: one pass over each, not one per name of the other. */
START_TEST(server_replay_text_compares_little)
{
	static const struct pair none[MAP_MAX] = { { 0 } };
	const unsigned int count = PARAMS_NAMES_MAX;
	struct dummy dummy;
	struct params_table *table;
	const struct params *want;
	struct buf text = { 0 }, have_text = { 0 }, want_text = { 0 };

	make(&dummy, none, none);
	table = dummy.shared.params;
	want = params_none(table);
	for (unsigned int i = 0; i < count; i++) {
		buf_printf(&have_text, "h%04u%cx%c", i, 0, 0);
		buf_printf(&want_text, "%c%04u%cy%c", i % 2 ? 'h' : 'w', i, 0, 0);
	}
	ck_assert(params_add_text(table, &dummy.server.params, buf_bytes(&have_text)));
	ck_assert(params_add_text(table, &want, buf_bytes(&want_text)));
	compare_count = 0;
	server_replay_text(&dummy.server, want, &text);
	/* is_name_list(), is_same() and is_harmless() ask some ten names for each. */
	ck_assert_uint_lt(compare_count, (count + count) * 25);
	buf_free(&text);
	buf_free(&have_text);
	buf_free(&want_text);
	params_release(table, &want);
	done(&dummy);
}
END_TEST

/* ---- reports ---- */

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

static void check_maps(const struct dummy *dummy, const char *says, const struct pair *baseline,
                       const struct pair *have)
{
	struct params_table *table = dummy->shared.params;
	const struct params *map = make_map(table, baseline);

	ck_assert_msg(dummy->server.baseline == map, "%s: the baseline", says);
	params_release(table, &map);
	map = make_map(table, have);
	ck_assert_msg(dummy->server.params == map, "%s: what is set", says);
	params_release(table, &map);
}

START_TEST(server_parameter_files)
{
	struct dummy dummy;
	bool is_news;

	make(&dummy, reports[_i].baseline, reports[_i].have);
	ck_assert(server_report(&dummy.server, reports[_i].report.name, reports[_i].report.value,
	                        &is_news));
	ck_assert_msg(is_news == reports[_i].is_news, "%s", reports[_i].says);
	check_maps(&dummy, reports[_i].says, reports[_i].baseline_after, reports[_i].have_after);
	done(&dummy);
}
END_TEST

/* The server responds to a query of its borrower. */
static void put_to_work(struct dummy *dummy)
{
	dummy->server.state = SERVER_LENT;
	ck_assert_int_eq(ledger_add(&dummy->server.ledger, LEDGER_QUERY, LEDGER_FORWARD),
	                 LEDGER_SENT);
}

START_TEST(server_files_reports_when_its_work_is_done)
{
	struct dummy dummy;
	bool is_news;

	make(&dummy, reports[_i].baseline, reports[_i].have);
	put_to_work(&dummy);
	ck_assert(server_report(&dummy.server, "is_superuser", "on", &is_news));
	ck_assert(server_report(&dummy.server, reports[_i].report.name, "before", &is_news));
	ck_assert(server_report(&dummy.server, reports[_i].report.name, reports[_i].report.value,
	                        &is_news));
	ck_assert(server_report(&dummy.server, "is_superuser", "gone", &is_news));
	ck_assert(is_news);
	check_maps(&dummy, reports[_i].says, reports[_i].baseline, reports[_i].have);
	server_settle_reports(&dummy.server);
	ck_assert_str_eq(params_find(dummy.server.baseline, "is_superuser"), "gone");
	ck_assert(params_change(dummy.shared.params, &dummy.server.baseline, "is_superuser", NULL));
	if (strcmp(reports[_i].report.name, "is_superuser") != 0)
		check_maps(&dummy, reports[_i].says, reports[_i].baseline_after,
		           reports[_i].have_after);
	done(&dummy);
}
END_TEST

/* A megabyte of reports: memory and comparisons do not grow with the input. */
START_TEST(server_reports_are_little_work)
{
	static const struct pair zone[MAP_MAX] = { { "TimeZone", "UTC" } },
				 none[MAP_MAX] = { { 0 } };
	const size_t count = 100000;
	struct dummy dummy;
	char name[16], value[16];
	bool is_news;
	size_t most = 0, flood_count = 0;

	make(&dummy, zone, none);
	for (int i = 0; i < 400; i++) {
		snprintf(name, sizeof(name), "n%03d", i);
		ck_assert(params_change(dummy.shared.params, &dummy.server.params, name, "x"));
	}
	put_to_work(&dummy);
	compare_count = 0;
	for (size_t i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "n%03zu", i % 400);
		snprintf(value, sizeof(value), "%zu", i);
		ck_assert(server_report(&dummy.server, name, value, &is_news));
		if (dummy.server.reports.count > most)
			most = dummy.server.reports.count;
		flood_count += dummy.server.has_flooded;
		dummy.server.has_flooded = false;
	}
	server_settle_reports(&dummy.server);
	ck_assert_uint_lt(most, (size_t)20 * 1024);
	ck_assert_uint_gt(flood_count, 10);
	ck_assert_uint_lt(compare_count / count, 64);
	ck_assert_uint_lt(dummy.server.reports.capacity, 1024);
	ck_assert(!dummy.server.is_close_needed);
	ck_assert_str_eq(params_find(dummy.server.params, "n399"), "99999");
	done(&dummy);
}
END_TEST

START_TEST(server_reports_at_rest_have_an_end)
{
	static const struct pair none[MAP_MAX] = { { 0 } };
	struct dummy dummy;
	char value[16];
	bool is_news;
	int count = 0;

	make(&dummy, none, none);
	do
		snprintf(value, sizeof(value), "%d", count);
	while (server_report(&dummy.server, "TimeZone", value, &is_news) && ++count < 100000);
	ck_assert_int_eq(count, 200);
	done(&dummy);
}
END_TEST

/* More names than a map may have: the server cannot be reused. */
START_TEST(server_reports_too_many_names)
{
	static const struct pair none[MAP_MAX] = { { 0 } };
	struct dummy dummy;
	char name[16];
	bool is_news;

	make(&dummy, none, none);
	put_to_work(&dummy);
	for (int i = 0; i <= PARAMS_NAMES_MAX; i++) {
		ck_assert(!dummy.server.is_close_needed);
		snprintf(name, sizeof(name), "n%d", i);
		ck_assert(server_report(&dummy.server, name, "x", &is_news));
	}
	server_settle_reports(&dummy.server);
	ck_assert(dummy.server.is_close_needed);
	done(&dummy);
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
	{ "nothing was set", { { "TimeZone", "UTC" } }, { { 0 } }, false, { { 0 } } },
	{ "a library stays", { { 0 } }, { { "load:x", "x" } }, true, { { "load:x", "x" } } },
};

START_TEST(server_forgets_the_rest)
{
	struct dummy dummy;

	make(&dummy, resets[_i].baseline, resets[_i].have);
	server_forget_rest(&dummy.server, resets[_i].is_all);
	ck_assert(dummy.server.is_rest_unknown);
	check_maps(&dummy, resets[_i].says, resets[_i].baseline, resets[_i].after);
	done(&dummy);
}
END_TEST

/* One text may have a hundred thousand of them. */
START_TEST(server_resets_are_little_work)
{
	static const struct pair zone[MAP_MAX] = { { "TimeZone", "UTC" } },
				 none[MAP_MAX] = { { 0 } };
	const size_t count = 1000;
	struct dummy dummy;
	char name[16];

	make(&dummy, zone, none);
	for (int i = 0; i < 400; i++) {
		snprintf(name, sizeof(name), "n%03d", i);
		ck_assert(params_change(dummy.shared.params, &dummy.server.params, name, "x"));
	}
	compare_count = 0;
	for (size_t i = 0; i < count; i++)
		server_forget_rest(&dummy.server, false);
	ck_assert_uint_lt(compare_count / count, 16);
	ck_assert_str_eq(params_find(dummy.server.params, "n399"), "\001");
	/* Later settings are reset as well, and DISCARD ALL leaves nothing. */
	ck_assert(params_change(dummy.shared.params, &dummy.server.params, "n399", "y"));
	server_forget_rest(&dummy.server, false);
	ck_assert_str_eq(params_find(dummy.server.params, "n399"), "\001");
	server_forget_rest(&dummy.server, true);
	ck_assert_uint_eq(params_count(dummy.server.params), 0);
	done(&dummy);
}
END_TEST

/* ---- libraries ---- */

START_TEST(server_add_library_adds)
{
	static const struct pair none[MAP_MAX] = { { 0 } };
	static const struct pair marked[MAP_MAX] = { { "load:^^foo", "^foo" } };
	struct dummy dummy;

	make(&dummy, none, none);
	ck_assert(server_add_library(&dummy.server, "foo"));
	ck_assert(dummy.server.has_library);
	ck_assert(server_add_library(&dummy.server, "Foo"));
	ck_assert(server_add_library(&dummy.server, "foo"));
	ck_assert_str_eq(params_find(dummy.server.params, "load:^Foo"), "Foo");
	ck_assert_str_eq(params_find(dummy.server.params, "load:foo"), "foo");
	ck_assert_uint_eq(params_count(dummy.server.params), 2);
	params_release(dummy.shared.params, &dummy.server.params);
	ck_assert(server_add_library(&dummy.server, "^foo"));
	check_maps(&dummy, "the mark is marked", none, marked);
	ck_assert(!server_add_library(&dummy.server, "\xc3\xa9"));
	done(&dummy);
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
	const struct params *params = make_map(table, fits[_i].params);
	const struct params *others = make_map(table, fits[_i].others);

	ck_assert_msg(server_libraries_are_in(params, others) == fits[_i].are_in, "%s",
	              fits[_i].says);
	params_release(table, &params);
	params_release(table, &others);
	params_table_free(&table);
}
END_TEST

/* ---- facts ---- */

static const struct {
	const char *says;
	struct pair baseline[MAP_MAX];
	struct pair have[MAP_MAX];
	struct pair startup[MAP_MAX];
	struct pair facts[MAP_MAX];
	struct pair before[MAP_MAX]; /* if has_before */
	bool has_before;
	const char *back; /* the startup parameter that a text set back */
	const char *role; /* the default */
	bool is_startup_unset;
	struct pair baseline_after[MAP_MAX];
	struct pair have_after[MAP_MAX];
} takes[] = {
	{ .says = "nothing is set" },
	{ .says = "a parameter was set",
	  .facts = { { "work_mem", "1024" } },
	  .have_after = { { "work_mem", "1024" } } },
	{ .says = "one of several was set back",
	  .have = { { "a", "1" }, { "b", "2" } },
	  .facts = { { "b", "2" } },
	  .have_after = { { "b", "2" } } },
	{ .says = "what a RESET left unknown is known",
	  .have = { { "a", "\001" }, { "b", "\001" } },
	  .facts = { { "b", "3" } },
	  .have_after = { { "b", "3" } } },
	{ .says = "what is reported is known by its report",
	  .baseline = { { "TimeZone", "UTC" } },
	  .have = { { "TimeZone", "CET" } },
	  .facts = { { "TimeZone", "EET" } },
	  .baseline_after = { { "TimeZone", "UTC" } },
	  .have_after = { { "TimeZone", "CET" } } },
	{ .says = "a reported one that the server's files have changed",
	  .baseline = { { "TimeZone", "UTC" } },
	  .have = { { "TimeZone", "CET" } },
	  .is_startup_unset = true,
	  .baseline_after = { { "TimeZone", "UTC" } },
	  .have_after = { { "TimeZone", "\001" } } },
	{ .says = "a reported one that is not tracked: its default is not known",
	  .baseline = { { "other", "2" } },
	  .facts = { { "other", "2" } },
	  .have_after = { { "other", "2" } } },
	{ .says = "a role", .facts = { { "role", "app" } }, .have_after = { { "role", "app" } } },
	{ .says = "the role was given up", .have = { { "role", "app" } } },
	{ .says = "a default role", .role = "app", .baseline_after = { { "role", "app" } } },
	{ .says = "a default role that was given up",
	  .baseline = { { "role", "app" } },
	  .facts = { { "role", "none" } },
	  .role = "app",
	  .baseline_after = { { "role", "app" } },
	  .have_after = { { "role", "none" } } },
	{ .says = "the role has no default any more", .baseline = { { "role", "app" } } },
	{ .says = "a library stays",
	  .have = { { "load:x", "x" } },
	  .facts = { { "a", "1" } },
	  .have_after = { { "a", "1" }, { "load:x", "x" } } },
	{ .says = "a value of the startup that is still set",
	  .have = { { "a", "1" } },
	  .startup = { { "a", "1" } },
	  .facts = { { "a", "1" } },
	  .have_after = { { "a", "1" } } },
	{ .says = "a value of the startup that was changed",
	  .have = { { "a", "1" } },
	  .startup = { { "a", "1" } },
	  .facts = { { "a", "2" } },
	  .have_after = { { "a", "2" } } },
	{ .says = "a value of the startup that was reset",
	  .have = { { "a", "1" }, { "b", "1" } },
	  .startup = { { "a", "1" }, { "b", "1" } },
	  .facts = { { "b", "1" } },
	  .is_startup_unset = true,
	  .have_after = { { "a", "\001" }, { "b", "1" } } },
	{ .says = "a reported value of the startup that was reset",
	  .baseline = { { "DateStyle", "ISO, MDY" } },
	  .startup = { { "datestyle", "German" } },
	  .is_startup_unset = true,
	  .baseline_after = { { "DateStyle", "ISO, MDY" } },
	  .have_after = { { "datestyle", "\001" } } },
	{ .says = "a reported value that was set to the default: that is no reset",
	  .baseline = { { "DateStyle", "ISO, MDY" } },
	  .startup = { { "datestyle", "German" } },
	  .facts = { { "DateStyle", "ISO, MDY" } },
	  .baseline_after = { { "DateStyle", "ISO, MDY" } } },
	{ .says = "a reported value that had been set to the default before",
	  .baseline = { { "DateStyle", "ISO, MDY" } },
	  .startup = { { "datestyle", "German" } },
	  .has_before = true,
	  .baseline_after = { { "DateStyle", "ISO, MDY" } } },
	{ .says = "one that a text has set back since",
	  .baseline = { { "DateStyle", "ISO, MDY" } },
	  .startup = { { "datestyle", "German" } },
	  .has_before = true,
	  .back = "DateStyle",
	  .is_startup_unset = true,
	  .baseline_after = { { "DateStyle", "ISO, MDY" } },
	  .have_after = { { "datestyle", "\001" } } },
	{ .says = "one that had another value before",
	  .baseline = { { "DateStyle", "ISO, MDY" } },
	  .startup = { { "datestyle", "German" } },
	  .before = { { "datestyle", "SQL, MDY" } },
	  .has_before = true,
	  .is_startup_unset = true,
	  .baseline_after = { { "DateStyle", "ISO, MDY" } },
	  .have_after = { { "datestyle", "\001" } } },
	{ .says = "a value of the startup that is the server's anyway",
	  .baseline = { { "client_encoding", "UTF8" } },
	  .startup = { { "client_encoding", "utf8" } },
	  .baseline_after = { { "client_encoding", "UTF8" } } },
	{ .says = "a custom parameter that a text set back",
	  .have = { { "a.b", "\001" } },
	  .startup = { { "a.b", "1" } },
	  .facts = { { "a.b", "" } },
	  .back = "A.b",
	  .is_startup_unset = true,
	  .have_after = { { "a.b", "\001" } } },
	{ .says = "a custom parameter that was set to nothing",
	  .have = { { "a.b", "1" } },
	  .startup = { { "a.b", "1" } },
	  .facts = { { "a.b", "" } },
	  .have_after = { { "a.b", "" } } },
	{ .says = "a parameter of PostgreSQL is not set to nothing by a RESET",
	  .have = { { "search_path", "\001" } },
	  .startup = { { "search_path", "a" } },
	  .facts = { { "search_path", "" } },
	  .back = "search_path",
	  .have_after = { { "search_path", "" } } },
	{ .says = "a value that is not ASCII, in another encoding than the startup's",
	  .baseline = { { "client_encoding", "LATIN1" }, { "server_encoding", "UTF8" } },
	  .startup = { { "a.b", "1" } },
	  .facts = { { "a.b", "\xc3\xa9" } },
	  .baseline_after = { { "client_encoding", "LATIN1" }, { "server_encoding", "UTF8" } },
	  .have_after = { { "a.b", "\xc3\xa9" } } },
	{ .says = "a report in another encoding",
	  .baseline = { { "search_path", "x" } },
	  .have = { { "search_path", "\xe9" } },
	  .facts = { { "search_path", "\xc3\xa9" } },
	  .baseline_after = { { "search_path", "x" } },
	  .have_after = { { "search_path", "\xc3\xa9" } } },
};

static void make_facts(struct facts *facts, const struct pair *pairs, const char *role)
{
	for (size_t i = 0; i < MAP_MAX && pairs[i].name; i++) {
		buf_add_cstr(&facts->params, pairs[i].name);
		buf_add_cstr(&facts->params, pairs[i].value);
	}
	if (role) {
		buf_add_cstr(&facts->defaults, "role");
		buf_add_cstr(&facts->defaults, role);
	}
}

START_TEST(server_take_facts_takes)
{
	struct facts facts = { .parts = QUESTION_PARAMS };
	struct bytes back = bytes_of("", 0);
	const struct params *startup, *before;
	struct dummy dummy;

	make(&dummy, takes[_i].baseline, takes[_i].have);
	startup = make_map(dummy.shared.params, takes[_i].startup);
	before = make_map(dummy.shared.params, takes[_i].before);
	make_facts(&facts, takes[_i].facts, takes[_i].role);
	dummy.server.is_rest_unknown = true;
	if (takes[_i].back)
		back = bytes_of(takes[_i].back, strlen(takes[_i].back) + 1);
	ck_assert_msg(server_take_facts(&dummy.server, &facts, startup,
	                                takes[_i].has_before ? before : NULL, back),
	              "%s", takes[_i].says);
	ck_assert(!dummy.server.is_rest_unknown);
	ck_assert_msg(dummy.server.is_startup_unset == takes[_i].is_startup_unset, "%s",
	              takes[_i].says);
	check_maps(&dummy, takes[_i].says, takes[_i].baseline_after, takes[_i].have_after);
	facts_done(&facts);
	params_release(dummy.shared.params, &startup);
	params_release(dummy.shared.params, &before);
	done(&dummy);
}
END_TEST

static const struct {
	const char *says;
	struct pair baseline[MAP_MAX];
	struct pair have[MAP_MAX];
	struct pair facts[MAP_MAX];
	unsigned int too_long;
} cannot[] = {
	{ .says = "too long", .too_long = QUESTION_PARAMS },
	{ .says = "the value that means unknown", .facts = { { "a.b", "\001" }, { "x", "1" } } },
	{ .says = "a name that is not ASCII",
	  .facts = { { "\xc3\xa9", "1" }, { "a.b", "\001" }, { "x", "1" } } },
};

/* The value is in no map, so nobody sets it back: the caller keeps the server. */
START_TEST(server_take_facts_cannot)
{
	struct facts facts = { .too_long = cannot[_i].too_long };
	struct dummy dummy;

	make(&dummy, cannot[_i].baseline, cannot[_i].have);
	ck_assert(params_change(dummy.shared.params, &dummy.server.params, "x", "1"));
	ck_assert(params_change(dummy.shared.params, &dummy.server.params, "a.b", "old"));
	make_facts(&facts, cannot[_i].facts, NULL);
	ck_assert_msg(!server_take_facts(&dummy.server, &facts, params_none(dummy.shared.params),
	                                 NULL, bytes_of("", 0)),
	              "%s", cannot[_i].says);
	ck_assert_str_eq(params_find(dummy.server.params, "x"), "1");
	if (!cannot[_i].too_long)
		ck_assert_ptr_null(params_find(dummy.server.params, "a.b"));
	facts_done(&facts);
	done(&dummy);
}
END_TEST

START_TEST(server_take_facts_has_a_limit)
{
	static const struct pair none[MAP_MAX] = { { 0 } };
	struct facts facts = { 0 };
	struct dummy dummy;

	make(&dummy, none, none);
	for (int i = 0; i < PARAMS_NAMES_MAX; i++)
		buf_printf(&facts.params, "a.n%d%cx%c", i, 0, 0);
	ck_assert(server_take_facts(&dummy.server, &facts, params_none(dummy.shared.params), NULL,
	                            bytes_of("", 0)));
	ck_assert_uint_eq(params_count(dummy.server.params), PARAMS_NAMES_MAX);
	buf_add(&facts.params, "b\0x", 4);
	ck_assert(!server_take_facts(&dummy.server, &facts, params_none(dummy.shared.params), NULL,
	                             bytes_of("", 0)));
	ck_assert_uint_eq(params_count(dummy.server.params), PARAMS_NAMES_MAX);
	facts_done(&facts);
	done(&dummy);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/server_params");
	TCase *tcase = tcase_create("server_params");

	tcase_add_loop_test(tcase, server_replay_text_says, 0, COUNT_OF(replays));
	tcase_add_loop_test(tcase, server_clean_text_says, 0, COUNT_OF(cleanings));
	tcase_add_test(tcase, server_replay_is_harmless_for_a_name_alone);
	tcase_add_loop_test(tcase, server_parameter_files, 0, COUNT_OF(reports));
	tcase_add_test(tcase, server_replay_text_compares_little);
	tcase_add_loop_test(tcase, server_files_reports_when_its_work_is_done, 0,
	                    COUNT_OF(reports));
	tcase_add_test(tcase, server_reports_are_little_work);
	tcase_add_test(tcase, server_reports_at_rest_have_an_end);
	tcase_add_test(tcase, server_reports_too_many_names);
	tcase_add_loop_test(tcase, server_forgets_the_rest, 0, COUNT_OF(resets));
	tcase_add_test(tcase, server_resets_are_little_work);
	tcase_add_test(tcase, server_add_library_adds);
	tcase_add_loop_test(tcase, server_libraries_are_in_says, 0, COUNT_OF(fits));
	tcase_add_loop_test(tcase, server_take_facts_takes, 0, COUNT_OF(takes));
	tcase_add_loop_test(tcase, server_take_facts_cannot, 0, COUNT_OF(cannot));
	tcase_add_test(tcase, server_take_facts_has_a_limit);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
