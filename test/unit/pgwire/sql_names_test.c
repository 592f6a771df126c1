/* SPDX-License-Identifier: ISC */
/*
 * pgwire/sql_names.c: names of placeholders that a text may set.
 */
#include "pgweir/pgwire/sql_names.h"

#include <stdio.h>
#include <string.h>

#include "../unit.h"

#define NAME_63 "a23456789_123456789_123456789_123456789_123456789_123456789_123"

/* Names, each with a space after it; $n: the value of a parameter; ?: others. */
struct names_case {
	const char *text;
	const char *names;
};

static const struct names_case plain[] = {
	{ "", "" },
	{ "SELECT a.b FROM c.d WHERE e = 'f.g'", "" },
	/* SET */
	{ "SET app.tenant = 'a'", "app.tenant " },
	{ "SET App.Tenant TO a", "app.tenant " },
	{ "SET SESSION app.tenant = 1; RESET b.c", "app.tenant b.c " },
	{ "SET LOCAL app.tenant = 5", "app.tenant " },
	{ "SET local.x = 5; SET session.x = 5", "local.x session.x " },
	{ "SET app . tenant = 'a'", "app.tenant " },
	{ "SET app/* . */.--\n\ttenant = 'a'", "app.tenant " },
	{ "SET \"app\" . \"Tenant\" = 'a'", "app.Tenant " },
	{ "SET \"app.tenant\" = 'a'", "app.tenant " },
	{ "SET U&\"app\\002etenant\" = 'a'", "?" },
	{ "SET u&\"app!002etenant\" UESCAPE '!' = 'a'", "?" },
	{ "SET U&\"d\\0061t\\+000061\".x = 'a'", "?" },
	{ "SET U&\"d\\00e4.x\" = 'a'", "?" },
	{ "LISTEN U&\"n\\0065ws\"", "" },
	{ "UNLISTEN U&\"n\\0065ws\"; NOTIFY U&\"n\\0065ws\", 'x'", "" },
	{ "SELECT listen, U&\"n\\0065ws\"", "?" },
	{ "SET a.b.c = 5", "a.b.c " },
	{ "SET \"a b\".c = 5", "" }, /* PostgreSQL refuses it */
	{ "SET work_mem = '1MB'; SET TIME ZONE 'a.b'; RESET ALL", "" },
	{ "SET app.\320\272 = 1", "?" },
	{ "SET " NAME_63 "." NAME_63 " = 1", NAME_63 "." NAME_63 " " },
	{ "SET " NAME_63 "4." NAME_63 "5 = 1", NAME_63 "." NAME_63 " " },
	{ "SET " NAME_63 "." NAME_63 ".c = 1", "?" },
	{ "SET " NAME_63 "." NAME_63 "." NAME_63 "." NAME_63 "." NAME_63 " = 1", "?" },
	{ "UPDATE t SET (a, b) = (SELECT 1, 2); SET a.b = 1", "a.b " },
	{ "SET a.b = 1; SET a.b = 2; SET A.B = 3", "a.b " },
	/* set_config() */
	{ "SELECT set_config('app.tenant', $1, false), 'x.y'", "app.tenant " },
	{ "SELECT pg_catalog . \"set_config\" /* */ ( 'app.tenant' , 'x.y', false)",
	  "app.tenant " },
	{ "SELECT U&\"set\\005fconfig\"('app.tenant', '', false)", "?" },
	{ "SELECT SET_CONFIG('app.' || 'tenant', '', false)", "?" },
	{ "SELECT set_config(a, b, false) FROM t", "?" },
	{ "SELECT set_config(format('%s.x', $1), b, false) FROM t", "?" },
	{ "SELECT set_config($1, $2, false)", "$1" },
	{ "SELECT set_config($2::text, $1, false), set_config(($7), '', false)", "$2$7" },
	{ "SELECT set_config($63, '', false)", "$63" },
	{ "SELECT set_config($64, '', false)", "$*" },
	{ "SELECT set_config('app.tenant'::text, '', false)", "app.tenant " },
	{ "SELECT set_config('app.tenant'::pg_catalog.\"varchar\"::text, '', false)",
	  "app.tenant " },
	{ "SELECT set_config('app.tenant'::character varying, '', false)", "app.tenant " },
	{ "SELECT set_config('app.tenant  '::bpchar, '', false)", "app.tenant " },
	{ "SELECT set_config('app.tenant'::varchar(5), '', false)", "?" },
	{ "SELECT set_config('app.tenant'::char, '', false)", "?" },
	{ "SELECT set_config('app.tenant'::mine.text, '', false)", "?" },
	{ "SELECT set_config('app.tenant'::text[], '', false)", "?" },
	{ "SELECT set_config(CAST('app.tenant' AS text), '', false)", "app.tenant " },
	{ "SELECT set_config(cast($1 as character varying), '', false)", "$1" },
	{ "SELECT set_config((('app.tenant')::text), '', false)", "app.tenant " },
	{ "SELECT set_config(text 'app.tenant', '', false)", "app.tenant " },
	{ "SELECT set_config(E'app\\x2etenant', '', false)", "?" },
	{ "SELECT set_config(E'app\\056t\\u0065nant', '', false)", "?" },
	{ "SELECT set_config(E'a'\n'pp.tenant', '', false)", "?" },
	{ "SELECT set_config('app.'\n'tenant', '', false)", "app.tenant " },
	{ "SELECT set_config(N'app.tenant', '', false)", "app.tenant " },
	{ "SELECT set_config(U&'app\\002etenant', '', false)", "?" },
	{ "SELECT set_config(U&'app!002etenant' UESCAPE '!', '', false)", "?" },
	{ "SELECT set_config($$app.tenant$$, '', false)", "app.tenant " },
	{ "SELECT set_config($a$app.tenant$a$, '', false)", "app.tenant " },
	{ "SELECT set_config('app\\056tenant', '', false)", "?" },
	{ "SELECT set_config('work_mem', '', false)", "" },
	{ "SELECT set_config(NULL, '', false)", "?" },
	{ "SELECT set_config(-5, '', false)", "?" },
	{ "SELECT set_config('" NAME_63 NAME_63 "." NAME_63 NAME_63 "." NAME_63 "', '', false)",
	  "?" },
	{ "SELECT set_config('a.b'::text || $1, '', false)", "?" },
	{ "SELECT set_config(text('a.b'), '', false)", "?" },
	{ "SELECT set_config($1 COLLATE c, '', false)", "$1?" },
	{ "SELECT set_config(setting_name => 'app.tenant', is_local => false)", "app.tenant " },
	{ "SELECT set_config(is_local := f(1, 2), new_value := '', \"setting_name\" := $1)", "$1" },
	{ "SELECT set_config('app.tenant', is_local => false, new_value => 'x')", "app.tenant " },
	{ "SELECT set_config('a.b', set_config('c.d', '', false), false)", "a.b c.d " },
	{ "SELECT set_config(is_local => set_config('c.d', '', false)::bool)", "c.d ?" },
	{ "SELECT set_config, current_setting('app.tenant')", "" },
	{ "-- SET a.b = 1\nSELECT '/*', set_config('app.tenant', '', false) /* SET c.d */",
	  "app.tenant " },
	{ "SELECT 'a\\', set_config('b.c', '', false) --'", "b.c " },
	/* strings are nothing */
	{ "SELECT set_config('a.b', 'SET c.d = 1', false)", "a.b " },
	{ "EXECUTE p('a.b')", "" },
	{ "SELECT set_config((((a, 'b.c', (((", "?" },
};

/* What functions may run. */
static const struct names_case inside[] = {
	{ "DO $$BEGIN SET \"app\" . tenant = 'x'; PERFORM t.a FROM t; END$$", "app.tenant " },
	{ "DO 'BEGIN PERFORM set_config(''app.tenant'', ''x'', false); END'", "app.tenant " },
	{ "DO $$BEGIN PERFORM set_config('app.' || x, 'y', false); END$$", "?" },
	{ "DO $$BEGIN EXECUTE 'SET app.tenant = 1'; EXECUTE 'RESET b.c'; END$$",
	  "app.tenant b.c " },
	{ "DO $$BEGIN EXECUTE 'SET ' || x; END$$", "?" },
	{ "DO $$BEGIN EXECUTE 'SET app.' || x; END$$", "?" },
	{ "DO $$BEGIN EXECUTE 'SET app.x' || y; END$$", "app.x ?" },
	{ "DO $$BEGIN EXECUTE 'SET app.x ' || y; END$$", "app.x " },
	{ "DO $$BEGIN EXECUTE format('SET %I = 1', x); END$$", "?" },
	{ "DO $$BEGIN EXECUTE format('SET app.%I = 1', x); END$$", "?" },
	{ "DO $$BEGIN EXECUTE 'SET LOCAL ' || x; EXECUTE 'UPDATE t SET ' || y; END$$", "" },
	{ "DO $$BEGIN EXECUTE 'SET search_path TO ' || x; EXECUTE 'SET ROLE ' || y; END$$", "" },
	{ "DO $$BEGIN EXECUTE $a$DO $b$BEGIN SET c.d = 1; END$b$ $a$; END$$", "c.d " },
	{ "DO LANGUAGE plpython3u $$plpy.execute(\"SET app.tenant = 1\")$$", "app.tenant " },
	{ "CALL f('app.tenant', $1)", "app.tenant " },
	{ "CALL f('{\"app.tenant\": 1}', 'a.b=1,c . d=2')", "app.tenant a.b c.d " },
	{ "CALL f('it''s app.tenant')", "app.tenant " },
	{ "CALL f(E'app\\x2etenant')", "?" },
	{ "CALL f(E'it\\'s app.tenant', '{\"a.b\": \"caf\\u00e9\"}')", "app.tenant a.b " },
	{ "CALL f('pg_catalog.now()')", "" },
	{ "CALL s.f(t.a, 1.5, 'a b')", "" },
	{ "CALL f('stra\303\237e.x')", "?" },
	{ "PREPARE p AS SELECT set_config($1, $2, false); EXECUTE p('app.tenant', 'x')",
	  "app.tenant $1?" },
	{ "EXECUTE p(1 + 2, 'a')", "" },
	{ "EXECUTE p(-1, NULL, true, 'a.b'::text)", "a.b " },
	{ "CREATE TRIGGER t EXECUTE FUNCTION f('a' || 'b')", "" },
};

static void check_names(const struct sql_names *names, const struct names_case *want)
{
	struct bytes list = buf_bytes(&names->list);
	struct buf out = { 0 };
	const char *name;

	while (bytes_take_text(&list, &name))
		buf_printf(&out, "%s ", name);
	if (names->parameters & SQL_PARAMETERS_ALL)
		buf_add_text(&out, "$*");
	for (unsigned int i = 1; i <= SQL_PARAMETER_LAST; i++) {
		if (names->parameters >> i & 1)
			buf_printf(&out, "$%u", i);
	}
	buf_add_text(&out, names->is_unknown ? "?" : "");
	ck_assert_msg(strcmp(buf_text(&out), want->names) == 0, "%s: %s, not %s", want->text,
	              buf_text(&out), want->names);
	buf_free(&out);
}

START_TEST(of_plain_texts)
{
	struct sql_names names = { 0 };

	sql_names_read(&names, bytes_text(plain[_i].text), false);
	check_names(&names, &plain[_i]);
	sql_names_free(&names);
}
END_TEST

START_TEST(of_texts_that_run_functions)
{
	struct sql_names names = { 0 };

	sql_names_read(&names, bytes_text(inside[_i].text), true);
	check_names(&names, &inside[_i]);
	sql_names_free(&names);
}
END_TEST

static void cut(const char *text)
{
	for (size_t count = 0; count <= strlen(text); count++) {
		char *copy = malloc(count ? count : 1); /* the sanitizer detects reads after it */
		struct sql_names names = { 0 };

		memcpy(copy, text, count);
		sql_names_read(&names, bytes_of(copy, count), false);
		sql_names_read(&names, bytes_of(copy, count), true);
		sql_names_free(&names);
		free(copy);
	}
}

START_TEST(every_cut)
{
	for (size_t i = 0; i < COUNT_OF(plain); i++)
		cut(plain[i].text);
	for (size_t i = 0; i < COUNT_OF(inside); i++)
		cut(inside[i].text);
}
END_TEST

static const struct {
	const char *name;
	enum sql_name kind;
} judged[] = {
	{ "", SQL_NAME_OTHER },
	{ "a", SQL_NAME_OTHER },
	{ "a.b", SQL_NAME_PLACEHOLDER },
	{ "_a1$._2", SQL_NAME_PLACEHOLDER },
	{ "a.b.c", SQL_NAME_PLACEHOLDER },
	{ ".b", SQL_NAME_OTHER },
	{ "a.", SQL_NAME_OTHER },
	{ "a..b", SQL_NAME_OTHER },
	{ "a.1", SQL_NAME_OTHER },
	{ "1.a", SQL_NAME_OTHER },
	{ "a.b c", SQL_NAME_OTHER },
	{ "a.b-c", SQL_NAME_OTHER },
	{ "\303\244.b", SQL_NAME_UNKNOWN },
	{ NAME_63 "." NAME_63, SQL_NAME_PLACEHOLDER },
	{ NAME_63 "." NAME_63 "4", SQL_NAME_UNKNOWN },
};

START_TEST(names_are_judged)
{
	ck_assert_msg(sql_name_judge(bytes_text(judged[_i].name)) == judged[_i].kind, "%s",
	              judged[_i].name);
}
END_TEST

START_TEST(sets_are_bounded)
{
	struct sql_names names = { 0 }, other = { 0 };
	char name[SQL_PLACEHOLDER_MAX + 1];

	for (int i = 0; i < SQL_NAMES_MAX; i++) {
		snprintf(name, sizeof(name), "a.b%d", i * 7 % SQL_NAMES_MAX);
		sql_names_add(&names, bytes_text(name));
		sql_names_add(&names, bytes_text(name));
	}
	ck_assert(names.count == SQL_NAMES_MAX && !names.is_unknown);
	for (int i = 1; i < SQL_NAMES_MAX; i++)
		ck_assert(
		    strcmp(names.list.at + names.order[i - 1], names.list.at + names.order[i]) < 0);
	sql_names_merge(&other, &names);
	ck_assert(other.count == SQL_NAMES_MAX && !other.is_unknown);
	sql_names_add(&names, bytes_text("c.d"));
	ck_assert(names.count == SQL_NAMES_MAX && names.is_unknown);
	sql_names_merge(&other, &names);
	ck_assert(other.is_unknown);
	sql_names_free(&names);
	sql_names_free(&other);
	memset(name, 'a', sizeof(name));
	name[1] = '.';
	for (int i = 0; i < SQL_NAMES_SIZE_MAX / SQL_PLACEHOLDER_MAX; i++) {
		ck_assert(!names.is_unknown);
		snprintf(name + 2, sizeof(name) - 2, "%0125d", i);
		name[2] = 'b';
		sql_names_add(&names, bytes_of(name, SQL_PLACEHOLDER_MAX));
	}
	sql_names_add(&names, bytes_text("c.d"));
	ck_assert(names.list.count <= SQL_NAMES_SIZE_MAX);
	sql_names_free(&names);
}
END_TEST

/* A text of 62 KB that is full of words with dots costs a few comparisons for each. */
START_TEST(names_are_found_in_order)
{
	struct sql_names names = { 0 };
	struct buf text = { 0 };
	uint64_t words = 0;

	buf_add_text(&text, "SELECT set_config('x.y', '', false), '");
	for (; text.count < 62000; words++)
		buf_printf(&text, "a%d.b ", (int)words);
	buf_add_text(&text, "'");
	sql_names_read(&names, buf_bytes(&text), false);
	ck_assert(names.count == 1 && !names.is_unknown && names.compare_count == 0);
	sql_names_read(&names, buf_bytes(&text), true);
	ck_assert(names.count == SQL_NAMES_MAX && names.is_unknown);
	ck_assert_msg(words > 5000 && names.compare_count < words * 10, "%lu for %lu",
	              (unsigned long)names.compare_count, (unsigned long)words);
	buf_free(&text);
	sql_names_free(&names);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pgwire/sql_names");
	TCase *tests = tcase_create("sql_names");

	tcase_add_loop_test(tests, of_plain_texts, 0, COUNT_OF(plain));
	tcase_add_loop_test(tests, of_texts_that_run_functions, 0, COUNT_OF(inside));
	tcase_add_loop_test(tests, names_are_judged, 0, COUNT_OF(judged));
	tcase_add_test(tests, every_cut);
	tcase_add_test(tests, sets_are_bounded);
	tcase_add_test(tests, names_are_found_in_order);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
