/* SPDX-License-Identifier: ISC */
/*
 * pool/server/server_params.c: the statements that change one map of parameters to another. No
 * server is connected.
 */
#include <string.h>

#include "../../../lib/mapped_server.h"

#include "../../compares.h"
#include "../../unit.h"

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
	{ "a list that we do not know",
	  { { 0 } },
	  { { 0 } },
	  { { "a", "b, \"c\"" } },
	  "SELECT pg_catalog.set_config('a','b, \"c\"',false);" },
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
	struct mapped_server mapped;
	const struct params *want;
	struct buf text = { 0 };

	mapped_make(&mapped, replays[_i].baseline, replays[_i].have);
	want = param_map(mapped.shared.params, replays[_i].want);
	server_replay_text(&mapped.server, want, &text);
	ck_assert_msg(strcmp(buf_text(&text), replays[_i].text) == 0, "%s: %s", replays[_i].says,
	              buf_text(&text));
	buf_free(&text);
	params_release(mapped.shared.params, &want);
	mapped_done(&mapped);
}
END_TEST

#define CLEANED "DISCARD SEQUENCES;"

static const struct {
	const char *says;
	struct pair baseline[MAP_MAX];
	struct pair want[MAP_MAX];
	const char *connect_query;
	const char *text;
} cleanings[] = {
	{ "nothing is wanted", { { "TimeZone", "UTC" } }, { { 0 } }, NULL, CLEANED },
	{ "what is wanted is set again, what is the default is not",
	  { { "TimeZone", "UTC" }, { "DateStyle", "ISO" } },
	  { { "a.b", "1" }, { "DateStyle", "iso" }, { "TimeZone", "CET" } },
	  NULL,
	  CLEANED "SET \"a\".\"b\"='1';SET \"TimeZone\"='CET';" },
	{ "what is not known stays as it is by default",
	  { { 0 } },
	  { { "a", "\001" } },
	  NULL,
	  CLEANED },
	{ "the user and the role come last",
	  { { "session_authorization", "app" } },
	  { { "a", "1" }, { "role", "r" }, { "session_authorization", "bob" } },
	  NULL,
	  CLEANED "SET \"a\"='1';SET \"session_authorization\"='bob';SET \"role\"='r';" },
	{ "a library", { { 0 } }, { { "load:x", "x" } }, NULL, CLEANED "LOAD 'x';" },
	{ "connect_query has set defaults",
	  { { "DateStyle", "ISO" }, { "TimeZone", "CET" } },
	  { { "DateStyle", "SQL" } },
	  "SET TimeZone = 'CET'",
	  "SET \"DateStyle\"='ISO';SET \"TimeZone\"='CET';" CLEANED "SET \"DateStyle\"='SQL';" },
};

/* What each cleaning begins with. */
#define CLEANS                                                                \
	"SET TRANSACTION ISOLATION LEVEL READ COMMITTED,READ ONLY;RESET ALL;" \
	"RESET SESSION AUTHORIZATION;CLOSE ALL;UNLISTEN *;DISCARD TEMP;"
#define CLEANS_MORE \
	"SELECT pg_catalog.pg_advisory_unlock_all(),pg_catalog.setseed(0.?);DEALLOCATE ALL;"

/* Puts a sign in place of the digits of the seed. */
static void hide_seed(struct buf *text)
{
	const char *zeroed = buf_text(text);
	char *digits = text->at + (strstr(zeroed, "setseed(0.") - zeroed) + strlen("setseed(0.");
	size_t count = strspn(digits, "0123456789");

	ck_assert_uint_eq(count, 9);
	*digits = '?';
	memmove(digits + 1, digits + count, strlen(digits + count) + 1);
}

START_TEST(server_clean_text_says)
{
	static const struct pair nothing[MAP_MAX] = { { 0 } };
	struct config_database entry = { .connect_query = (char *)cleanings[_i].connect_query };
	struct mapped_server mapped;
	const struct params *want;
	struct buf text = { 0 }, expected = { 0 };

	mapped_make(&mapped, cleanings[_i].baseline, nothing);
	mapped.site.entry = &entry;
	want = param_map(mapped.shared.params, cleanings[_i].want);
	buf_add_text(&text, "what was there before");
	server_clean_text(&mapped.server, want, &text);
	hide_seed(&text);
	buf_printf(&expected, "%s%s%s", CLEANS, CLEANS_MORE, cleanings[_i].text);
	ck_assert_msg(strcmp(buf_text(&text), buf_text(&expected)) == 0, "%s: %s",
	              cleanings[_i].says, buf_text(&text));
	params_release(mapped.shared.params, &want);
	mapped_done(&mapped);
	buf_free(&text);
	buf_free(&expected);
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
		struct mapped_server mapped;
		const struct params *want;
		struct buf text = { 0 };

		mapped_make(&mapped, (struct pair[MAP_MAX]){ { 0 } }, other);
		want = param_map(mapped.shared.params, cases[i].want);
		ck_assert_int_eq(server_replay_text(&mapped.server, want, &text),
		                 cases[i].is_harmless);
		buf_free(&text);
		params_release(mapped.shared.params, &want);
		mapped_done(&mapped);
	}
}
END_TEST

/* Two maps with many names: one pass over each, not one per name of the other. */
START_TEST(server_replay_text_compares_little)
{
	static const struct pair none[MAP_MAX] = { { 0 } };
	const unsigned int count = PARAMS_NAMES_MAX;
	struct mapped_server mapped;
	struct params_table *table;
	const struct params *want;
	struct buf text = { 0 }, have_text = { 0 }, want_text = { 0 };

	mapped_make(&mapped, none, none);
	table = mapped.shared.params;
	want = params_none(table);
	for (unsigned int i = 0; i < count; i++) {
		buf_printf(&have_text, "h%04u%cx%c", i, 0, 0);
		buf_printf(&want_text, "%c%04u%cy%c", i % 2 ? 'h' : 'w', i, 0, 0);
	}
	ck_assert(params_add_text(table, &mapped.server.session.params, buf_bytes(&have_text)));
	ck_assert(params_add_text(table, &want, buf_bytes(&want_text)));
	compare_count = 0;
	server_replay_text(&mapped.server, want, &text);
	/* is_name_list(), is_same() and is_harmless() ask some ten names for each. */
	ck_assert_uint_lt(compare_count, (count + count) * 25);
	buf_free(&text);
	buf_free(&have_text);
	buf_free(&want_text);
	params_release(table, &want);
	mapped_done(&mapped);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/server_params_sql");
	TCase *tcase = tcase_create("server_params_sql");

	tcase_add_loop_test(tcase, server_replay_text_says, 0, COUNT_OF(replays));
	tcase_add_loop_test(tcase, server_clean_text_says, 0, COUNT_OF(cleanings));
	tcase_add_test(tcase, server_replay_is_harmless_for_a_name_alone);
	tcase_add_test(tcase, server_replay_text_compares_little);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
