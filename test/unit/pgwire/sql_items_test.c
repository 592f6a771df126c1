/* SPDX-License-Identifier: ISC */
/*
 * pgwire/sql_block.c: names of libraries, channels and parameters, and the value of one SET.
 */

#include <stdio.h>
#include <string.h>

#include "pgweir/base/buf.h"
#include "pgweir/pgwire/sql_block.h"

#include "../unit.h"

#define NAME_63 "a23456789_123456789_123456789_123456789_123456789_123456789_123"

#define NAME_100                                                                               \
	"a23456789_a23456789_a23456789_a23456789_a23456789_a23456789_a23456789_a23456789_a234" \
	"56789_a23456789_"

/* Of kinds, in their order: l(i)brary, (L)isten, (U)nlisten ... */
static const char kinds[] = "iLU*?=dDr-";

static const struct {
	const char *text;
	const char *items;
} cases[] = {
	{ "", "" },
	{ "SELECT 1", "-" },
	{ "LOAD 'auto_explain'", "i(auto_explain)" },
	{ "load '$libdir/it''s';", "i($libdir/it's)" },
	{ "LOAD $$a b$$", "i(a b)" },
	{ "LOAD $x$a$$b$x$", "i(a$$b)" },
	{ "LOAD E'a'", "?" },
	{ "LOAD U&'a'", "?" },
	{ "LOAD 'a'\n'b'", "?" },
	{ "LOAD 'a\\b'", "?" },
	{ "LOAD 'a\\'", "?? in two ways" },
	{ "LOAD a", "?" },
	{ "LOAD ''", "?" },
	{ "LOAD 'a'; SELECT 1; LOAD 'b'", "i(a)-i(b)" },
	{ "/* LOAD 'x' */ LOAD 'a' -- LOAD 'y'", "i(a)" },
	{ "LISTEN a", "L(a)" },
	{ "LISTEN ABC;", "L(abc)" },
	{ "LISTEN \"Ab c\"", "L(Ab c)" },
	{ "LISTEN \"a\"\"b\"", "L(a\"b)" },
	{ "LISTEN " NAME_63, "L(" NAME_63 ")" },
	{ "LISTEN " NAME_63 "4", "?" },
	{ "LISTEN \"" NAME_63 "\"", "L(" NAME_63 ")" },
	{ "LISTEN \"" NAME_63 "4\"", "?" },
	{ "LISTEN \303\204", "?" },
	{ "LISTEN \"\303\204\"", "L(\303\204)" },
	{ "LISTEN U&\"a\"", "?" },
	{ "LISTEN u", "L(u)" },
	{ "LISTEN *", "?" },
	{ "LISTEN", "?" },
	{ "UNLISTEN a", "U(a)" },
	{ "UNLISTEN *", "*" },
	{ "unlisten /* all */ * ;", "*" },
	{ "DISCARD ALL", "D" },
	{ "DISCARD TEMP", "" },
	{ "LISTEN a; UNLISTEN *; LISTEN b; UNLISTEN c", "L(a)*L(b)U(c)" },
	{ "SELECT 'LISTEN a'; SELECT 1 AS listen", "--" },
	{ "SAVEPOINT a; LISTEN b; ROLLBACK TO SAVEPOINT a; RELEASE a", "-L(b)r-" },
	{ "ROLLBACK WORK TO a", "r" },
	{ "ROLLBACK", "r" },
	{ "PREPARE TRANSACTION 'x'; UNLISTEN *", "-*" },
	{ "PREPARE transaction AS SELECT 1; PREPARE a AS SELECT 'b'", "--" },
	{ "ROLLBACK WORK; LISTEN a", "rL(a)" },
	{ "ABORT; UNLISTEN *; Commit and chain; END", "r*" },
	{ "DO 'BEGIN COMMIT; END'; SELECT CASE WHEN true THEN 1 END", "--" },
	{ "SELECT 'a\\'; LISTEN a; --'", "-L(a)- in two ways" },
	{ "SELECT 'a\\b'; LISTEN a", "-L(a)" },
	{ "SELECT E'a\\'; LISTEN a; --'", "-" },
	{ "SET work_mem = '1MB'", "=(work_mem)" },
	{ "RESET ALL", "d" },
	{ "SELECT set_config('a.\303\204', $1, false)", "-" },
	{ "SELECT a.b FROM c.d", "-" },
	/* parameters */
	{ "", "" },
	{ "SELECT 1", "-" },
	{ "RESET work_mem", "d(work_mem)" },
	{ "reset \"Work_Mem\" ;", "d(work_mem)" },
	{ "RESET app . tenant", "d(app.tenant)" },
	{ "RESET \"app\".\"tenant\"", "d(app.tenant)" },
	{ "/* a */ RESET /* b */ ALL -- c", "d" },
	{ "RESET TIME ZONE", "d(timezone)" },
	{ "RESET SESSION AUTHORIZATION", "d(session_authorization)" },
	{ "RESET TRANSACTION ISOLATION LEVEL", "d(transaction_isolation)" },
	{ "RESET session.x", "d(session.x)" },
	{ "RESET", "" },
	{ "RESET 'a'", "" },
	{ "RESET a..b", "" },
	{ "RESET " NAME_100 NAME_100, "" },
	{ "SET work_mem TO DEFAULT", "d(work_mem)" },
	{ "SET SESSION work_mem = default", "d(work_mem)" },
	{ "SET session.x = DEFAULT", "d(session.x)" },
	{ "SET TIME ZONE DEFAULT", "d(timezone)" },
	{ "SET TIME ZONE LOCAL", "d(timezone)" },
	{ "SET SESSION TIME ZONE LOCAL", "d(timezone)" },
	{ "SET NAMES", "d(client_encoding)" },
	{ "SET NAMES DEFAULT", "d(client_encoding)" },
	{ "SET SESSION AUTHORIZATION DEFAULT", "d(session_authorization)" },
	{ "SET NAMES 'UTF8'", "=(client_encoding)" },
	{ "SET work_mem = 5", "=(work_mem)" },
	{ "SET x = 'DEFAULT'", "=(x)" },
	{ "SET LOCAL x TO DEFAULT", "locald(x)" },
	{ "SET LOCAL x = 1", "local=(x)" },
	{ "SET LOCAL TIME ZONE LOCAL", "locald(timezone)" },
	{ "SET LOCAL SESSION AUTHORIZATION DEFAULT", "locald(session_authorization)" },
	{ "SET LOCAL x TO DEFAULT; SET y TO DEFAULT; SELECT 1", "locald(x)d(y)-" },
	{ "SET LOCAL x TO DEFAULT; RESET y", "locald(x)d(y)" },
	{ "SET x", "" },
	{ "SET x TO", "" },
	{ "SET local.x TO DEFAULT", "d(local.x)" },
	{ "SELECT 'RESET a'; SELECT $$; RESET b$$", "--" },
	{ "DISCARD ALL", "D" },
	{ "; /* a */ discard all;;", "D" },
	{ "DISCARD PLANS", "" },
	{ "DISCARD ALL; SELECT 1", "-" },
	{ "SELECT 1; DISCARD ALL", "-" },
	{ "SELECT 1; RESET a", "-d(a)" },
	{ "RESET a; SELECT 1", "d(a)-" },
	{ "RESET a; SET a = 1", "d(a)=(a)" },
	{ "BEGIN; RESET a; COMMIT", "d(a)" },
	{ "RESET a;; ROLLBACK", "d(a)r" },
	{ "RESET a; SELECT 1; ROLLBACK TO b", "d(a)-r" },
	{ "ROLLBACK; RESET a", "rd(a)" },
	{ "SET SESSION AUTHORIZATION DEFAULT;RESET ALL;CLOSE ALL;UNLISTEN *;"
	  "SELECT pg_advisory_unlock_all();DISCARD SEQUENCES;DISCARD TEMP",
	  "d(session_authorization)d*" },
	{ "RESET a; SELECT pg_advisory_unlock_all(), b", "d(a)-" },
	{ "RESET a; SELECT pg_advisory_unlock_all", "d(a)-" },
	{ "RESET a; (SELECT 1)", "d(a)-" },
	{ "RESET a; SELECT 'x", "d(a)-" },
	{ "RESET a; SELECT 'b\\c'", "d(a)-" },
	{ "RESET a; SET b = 'c\\d'", "d(a)=(b)" },
	{ "SET b = 'c\\d'", "=(b)" },
	{ "SELECT 'it\\'s; RESET a'", "-d(a)- in two ways" },
	{ "SELECT '\\'; RESET a; --'", "-d(a)- in two ways" },
	{ "SELECT '\\'; RESET a; SELECT 1 --'\n; RESET b", "-d(a)-d(b)-d(b) in two ways" },
	{ "RESET a; SELECT '\\'; SELECT 2 --'\n; RESET b", "d(a)--d(b)d(a)-d(b) in two ways" },
	{ "SELECT '\\'; DISCARD ALL; --'", "-- in two ways" },
	{ "SELECT \"a\\\"; RESET b", "-d(b)" },
};

static void add_item(void *context, const struct sql_item *item)
{
	struct buf *out = context;

	if (item->is_local)
		buf_add_text(out, "local");
	buf_add_byte(out, kinds[item->kind]);
	if (*item->name)
		buf_printf(out, "(%s)", item->name);
}

START_TEST(items)
{
	struct buf found = { 0 };

	if (!sql_items(bytes_text(cases[_i].text), add_item, &found))
		buf_add_text(&found, " in two ways");
	ck_assert_msg(strcmp(buf_text(&found), cases[_i].items) == 0, "%s: %s, not %s",
	              cases[_i].text, buf_text(&found), cases[_i].items);
	buf_free(&found);
}
END_TEST

START_TEST(every_cut)
{
	const char *text = cases[_i].text;

	for (size_t count = 0; count <= strlen(text); count++) {
		char *copy = malloc(count ? count : 1); /* the sanitizer detects reads after it */
		struct buf found = { 0 };
		struct sql_set set;

		memcpy(copy, text, count);
		sql_items(bytes_of(copy, count), add_item, &found);
		sql_set_read(bytes_of(copy, count), &set);
		buf_free(&found);
		free(copy);
	}
}
END_TEST

static const struct {
	const char *text;
	const char *name; /* NULL: not certain */
	const char *value;
} sets[] = {
	{ "SET work_mem = '1MB'", "work_mem", "1MB" },
	{ "SET SESSION work_mem TO 1000;", "work_mem", "1000" },
	{ "set Statement_Timeout=0 ; ;", "statement_timeout", "0" },
	{ "SET enable_seqscan = off", "enable_seqscan", "off" },
	{ "SET enable_seqscan TO OFF", "enable_seqscan", "off" },
	{ "SET app.tenant = 'it''s'", "app.tenant", "it's" },
	{ "SET app.tenant = ''", "app.tenant", "" },
	{ "SET \"App.Tenant\" = $$x$$", "app.tenant", "x" },
	{ "SET session.x = 1", "session.x", "1" },
	{ "SET local.x = 1", "local.x", "1" },
	{ "SET x = -5", "x", "-5" },
	{ "SET x = 1.5", "x", "1.5" },
	{ "/* a */ SET x /* b */ = 1 -- c", "x", "1" },
	{ "SET x = 'read, write'", NULL, NULL },
	{ "SET output_plugin_libraries = 'pgoutput, test_decoding'", NULL, NULL }, /* 15.20 */
	{ "SET x = 'Name'", NULL, NULL },
	{ "SET x = ''", NULL, NULL },
	{ "SET application_name = 'My, own'", "application_name", "My, own" },
	{ "SET app.x = 'a, b'", "app.x", "a, b" },
	{ "SET x = 07", NULL, NULL },
	{ "SET x = 1e5", NULL, NULL },
	{ "SET x = 12345678901", NULL, NULL },
	{ "SET x = DEFAULT", NULL, NULL },
	{ "SET x TO default", NULL, NULL },
	{ "SET x = a, b", NULL, NULL },
	{ "SET x = 'a' 'b'", NULL, NULL },
	{ "SET x = 'a'\n'b'", NULL, NULL },
	{ "SET x = 'a\\b'", NULL, NULL },
	{ "SET x = E'a'", NULL, NULL },
	{ "SET x = '\303\204'", NULL, NULL },
	{ "SET x = \"a\"", NULL, NULL },
	{ "SET x = - a", NULL, NULL },
	{ "SET x", NULL, NULL },
	{ "SET x =", NULL, NULL },
	{ "SET x = 1; SELECT 1", NULL, NULL },
	{ "SET x = 1; SET y = 2", NULL, NULL },
	{ "SELECT 1; SET x = 1", NULL, NULL },
	{ "SET x = 1 /* no end", NULL, NULL },
	{ "SET LOCAL x = 1", NULL, NULL },
	{ "SET role = 'a'", NULL, NULL },
	{ "SET \"ROLE\" = 'a'", NULL, NULL },
	{ "SET ROLE a", NULL, NULL },
	{ "SET session_authorization = 'a'", NULL, NULL },
	{ "SET SESSION AUTHORIZATION a", NULL, NULL },
	{ "SET TIME ZONE 'UTC'", NULL, NULL },
	{ "SET timezone = 'UTC'", NULL, NULL },
	{ "SET DateStyle = iso", NULL, NULL },
	{ "SET search_path = a", NULL, NULL },
	{ "SET NAMES 'utf8'", NULL, NULL },
	{ "SET transaction_isolation = 'serializable'", NULL, NULL },
	{ "SET TRANSACTION READ ONLY", NULL, NULL },
	{ "RESET x", NULL, NULL },
	{ "", NULL, NULL },
};

START_TEST(one_set)
{
	const char *text = sets[_i].text;
	struct sql_set set;
	bool is_certain = sql_set_read(bytes_text(text), &set);

	ck_assert_msg(is_certain == (sets[_i].name != NULL), "%s", text);
	if (is_certain) {
		ck_assert_str_eq(set.name, sets[_i].name);
		ck_assert_str_eq(set.value, sets[_i].value);
	}
}
END_TEST

/* The longest name and value, and one byte more. */
START_TEST(limits)
{
	char text[1000], part[300];
	struct sql_set set;

	memset(part, 'a', sizeof(part));
	snprintf(text, sizeof(text), "SET %.63s.%.63s = '%.255s'", part, part, part);
	ck_assert(sql_set_read(bytes_text(text), &set));
	ck_assert_uint_eq(strlen(set.name), SQL_SET_NAME_MAX);
	ck_assert_uint_eq(strlen(set.value), SQL_SET_VALUE_MAX);
	snprintf(text, sizeof(text), "SET %.63s.%.63s = %.255s", part, part, part);
	ck_assert(sql_set_read(bytes_text(text), &set));
	snprintf(text, sizeof(text), "SET %.63s.%.63s = '%.256s'", part, part, part);
	ck_assert(!sql_set_read(bytes_text(text), &set));
	snprintf(text, sizeof(text), "SET %.63s.%.63s = %.256s", part, part, part);
	ck_assert(!sql_set_read(bytes_text(text), &set));
	snprintf(text, sizeof(text), "SET %.63s.%.62s.a = 1", part, part);
	ck_assert(!sql_set_read(bytes_text(text), &set));
	snprintf(text, sizeof(text), "SET %.64s = 1", part);
	ck_assert(!sql_set_read(bytes_text(text), &set));
}
END_TEST

static const struct {
	const char *text;
	const char *name; /* NULL: not one SET */
} named[] = {
	{ "SET work_mem = 1", "work_mem" },
	{ "set session Client_Encoding to 'UTF8';", "client_encoding" },
	{ "SET DateStyle TO ISO, DMY", "datestyle" },
	{ "SET TIME ZONE LOCAL", "timezone" },
	{ "SET SESSION TIME ZONE 'UTC'", "timezone" },
	{ "SET NAMES 'LATIN1'", "client_encoding" },
	{ "SET SESSION AUTHORIZATION bob", "session_authorization" },
	{ "SET app.user = 'x'", "app.user" },
	{ "SET TimeZone = 'UTC'; SELECT 1", NULL },
	{ "SELECT 1", NULL },
	{ "SET", NULL },
	{ "", NULL },
};

START_TEST(names_of_sets)
{
	char name[SQL_SET_NAME_MAX + 1];
	bool is_set = sql_set_name(bytes_text(named[_i].text), name);

	ck_assert_msg(is_set == (named[_i].name != NULL), "%s", named[_i].text);
	if (is_set)
		ck_assert_str_eq(name, named[_i].name);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pgwire/sql_items");
	TCase *tests = tcase_create("sql_items");

	tcase_add_loop_test(tests, items, 0, COUNT_OF(cases));
	tcase_add_loop_test(tests, every_cut, 0, COUNT_OF(cases));
	tcase_add_loop_test(tests, one_set, 0, COUNT_OF(sets));
	tcase_add_loop_test(tests, names_of_sets, 0, COUNT_OF(named));
	tcase_add_test(tests, limits);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
