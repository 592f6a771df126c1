/* SPDX-License-Identifier: ISC */
/*
 * pgwire/sql.h.
 */
#include "pgweir/pgwire/sql.h"

#include <stdlib.h>

#include "../unit.h"

static const struct {
	const char *text;
	enum sql_kind kind;
	const char *name;
	const char *body;
} cases[] = {
	{ "PREPARE s AS SELECT 1", SQL_PREPARE, "s", "SELECT 1" },
	{ "prepare S aS select $1 ; -- end", SQL_PREPARE, "s", "select $1" },
	{ ";;PREPARE s AS SELECT 1;; /* x */ ;", SQL_PREPARE, "s", "SELECT 1" },
	{ "PREPARE \"S\"\"x\" AS SELECT 1", SQL_PREPARE, "S\"x", "SELECT 1" },
	{ "PREPARE/**/s(int)AS(SELECT 1)", SQL_PREPARE, "s", "(SELECT 1)" },
	{ "--c\nPREPARE s AS SELECT ';' /*;*/ , $$;$$, $a$ ; $$ $a$", SQL_PREPARE, "s",
	  "SELECT ';' /*;*/ , $$;$$, $a$ ; $$ $a$" },
	{ "PREPARE s AS SELECT a$b$c; SELECT 1", SQL_UNSURE, NULL, NULL },
	{ "PREPARE s AS SELECT '''', \";\"", SQL_PREPARE, "s", "SELECT '''', \";\"" },
	{ "PREPARE s AS SELECT E'\\';'", SQL_PREPARE, "s", "SELECT E'\\';'" },
	{ "PREPARE s AS SELECT '\\d'", SQL_PREPARE, "s", "SELECT '\\d'" },
	{ "PREPARE s AS SELECT '\\'; SELECT '", SQL_UNSURE, NULL, NULL },
	{ "PREPARE s AS SELECT '\\'';'", SQL_UNSURE, NULL, NULL },
	{ "PREPARE s AS SELECT 1 /* ; /* ; */ ; */", SQL_PREPARE, "s", "SELECT 1" },
	{ "PREPARE s AS SELECT 1 /* ; /* ; */ ;", SQL_OTHER, NULL, NULL },
	{ "PREPARE s AS SELECT 1; EXECUTE s", SQL_UNSURE, NULL, NULL },
	{ "PREPARE s AS SELECT 'no end", SQL_OTHER, NULL, NULL },
	{ "PREPARE s AS", SQL_OTHER, NULL, NULL },
	{ "PREPARE \"\" AS SELECT 1", SQL_OTHER, NULL, NULL },
	{ "PREPARE TRANSACTION 'x'", SQL_OTHER, NULL, NULL },
	{ "PREPARE transaction AS SELECT 1", SQL_PREPARE, "transaction", "SELECT 1" },
	{ "PREPARE s (mood) AS SELECT $1", SQL_PREPARE, "s", "SELECT $1" },
	{ "PREPARE s (bit (3)[], \"char\") AS SELECT $1", SQL_PREPARE, "s", "SELECT $1" },
	{ "PREPARE s (pg_catalog.int4) AS SELECT $1", SQL_PREPARE, "s", "SELECT $1" },
	{ "PREPARE s (int AS SELECT 1", SQL_OTHER, NULL, NULL },
	{ "PREPARE s (mood) AS SELECT $1; SELECT 1", SQL_UNSURE, NULL, NULL },
	{ "PREPARE U&\"s\" AS SELECT 1", SQL_UNSURE, NULL, NULL },
	{ "PREPARE a23456789012345678901234567890123456789012345678901234567890123 AS SELECT 1",
	  SQL_PREPARE, "a23456789012345678901234567890123456789012345678901234567890123",
	  "SELECT 1" },
	{ "PREPARE a234567890123456789012345678901234567890123456789012345678901234 AS SELECT 1",
	  SQL_UNSURE, NULL, NULL },
	{ "EXECUTE s", SQL_EXECUTE, "s", NULL },
	{ "EXECUTE s;", SQL_EXECUTE, "s", NULL },
	{ "EXECUTE\"s\"(1, ')', f(2))", SQL_EXECUTE, "s", NULL },
	{ "EXECUTE s(1); SELECT 1", SQL_UNSURE, NULL, NULL },
	{ "EXECUTE s(1) x", SQL_OTHER, NULL, NULL },
	{ "EXECUTE s(1", SQL_OTHER, NULL, NULL },
	{ "EXECUTE", SQL_OTHER, NULL, NULL },
	{ "EXECUTE 's'", SQL_OTHER, NULL, NULL },
	{ "EXPLAIN EXECUTE s(1)", SQL_EXECUTE, "s", NULL },
	{ "explain analyze verbose execute s", SQL_EXECUTE, "s", NULL },
	{ "EXPLAIN (COSTS off, ANALYZE) EXECUTE s", SQL_EXECUTE, "s", NULL },
	{ "EXPLAIN SELECT 1", SQL_OTHER, NULL, NULL },
	{ "EXPLAIN CREATE TABLE t AS EXECUTE s", SQL_EXECUTE, "s", NULL },
	{ "CREATE TEMP TABLE t (a, b) WITH (fillfactor = 10) AS EXECUTE s(1) WITH NO DATA",
	  SQL_EXECUTE, "s", NULL },
	{ "CREATE TABLE IF NOT EXISTS t AS EXECUTE s WITH DATA;", SQL_EXECUTE, "s", NULL },
	{ "CREATE TABLE t AS SELECT 1", SQL_OTHER, NULL, NULL },
	{ "CREATE TABLE t AS SELECT 1 AS execute WHERE (true)", SQL_OTHER, NULL, NULL },
	{ "EXPLAIN SELECT 1 AS execute WHERE (true)", SQL_OTHER, NULL, NULL },
	{ "EXPLAIN SELECT count(*) execute LIMIT (1)", SQL_OTHER, NULL, NULL },
	{ "EXPLAIN ANALYZE DELETE FROM t AS execute WHERE (true)", SQL_OTHER, NULL, NULL },
	{ "CREATE TABLE t (a int); EXECUTE s", SQL_OTHER, NULL, NULL },
	{ "CREATE TABLE t (a int GENERATED ALWAYS AS (1) STORED)", SQL_OTHER, NULL, NULL },
	{ "CREATE VIEW execute AS SELECT 1", SQL_OTHER, NULL, NULL },
	{ "DEALLOCATE s", SQL_DEALLOCATE, "s", NULL },
	{ "DEALLOCATE PREPARE s;", SQL_DEALLOCATE, "s", NULL },
	{ "DEALLOCATE prepare", SQL_DEALLOCATE, "prepare", NULL },
	{ "DEALLOCATE \"all\"", SQL_DEALLOCATE, "all", NULL },
	{ "DEALLOCATE ALL", SQL_FORGET, NULL, NULL },
	{ "DEALLOCATE PREPARE ALL", SQL_FORGET, NULL, NULL },
	{ "; discard /* x */ all ; ;", SQL_FORGET, NULL, NULL },
	{ "DEALLOCATE ALL; SELECT 1", SQL_OTHER, NULL, NULL },
	{ "DISCARD ALL x", SQL_OTHER, NULL, NULL },
	{ "DISCARD PLANS", SQL_OTHER, NULL, NULL },
	{ "DISCARD \"all\"", SQL_OTHER, NULL, NULL },
	{ "DEALLOCATE s; SELECT 1", SQL_UNSURE, NULL, NULL },
	{ "DEALLOCATE s x", SQL_OTHER, NULL, NULL },
};

START_TEST(sql_read_finds)
{
	struct sql_statement found;

	sql_read(bytes_text(cases[_i].text), &found);
	ck_assert_msg(found.kind == cases[_i].kind, "%s: %d", cases[_i].text, found.kind);
	ck_assert_msg((found.kind == SQL_UNSURE) == (found.reason != NULL), "%s", cases[_i].text);
	if (cases[_i].name)
		ck_assert_str_eq(found.name, cases[_i].name);
	if (cases[_i].body)
		ck_assert_msg(bytes_are(found.body, cases[_i].body), "%s: %.*s", cases[_i].text,
		              (int)found.body.count, found.body.at);
}
END_TEST

/* The first word must not depend on how much has arrived, and nothing after it is read. */
START_TEST(sql_glance_at_every_cut)
{
	struct bytes text = bytes_text(cases[_i].text);
	enum wire_result whole = sql_glance(bytes_of(text.at, text.count + 1));
	bool is_said = false;

	ck_assert_msg(whole == WIRE_OK || cases[_i].kind == SQL_OTHER, "%s", cases[_i].text);
	for (size_t count = 0; count <= text.count; count++) {
		char *cut = count ? malloc(count) : NULL;
		struct sql_statement found;
		enum wire_result result;

		if (count)
			memcpy(cut, text.at, count);
		result = sql_glance(bytes_of(cut, count));
		ck_assert_msg(result == WIRE_MORE || result == whole, "%s: %zu", cases[_i].text,
		              count);
		ck_assert_msg(!is_said || result == whole, "%s: %zu", cases[_i].text, count);
		ck_assert_msg(!sql_is_other(bytes_of(cut, count)) || whole == WIRE_BAD, "%s",
		              cases[_i].text);
		is_said = result != WIRE_MORE;
		sql_read(bytes_of(cut, count), &found);
		free(cut);
	}
}
END_TEST

static const struct {
	const char *text;
	enum wire_result result;
} glances[] = {
	{ "", WIRE_MORE },
	{ " /* x", WIRE_MORE },
	{ "/", WIRE_MORE },
	{ "-", WIRE_MORE },
	{ "-- x", WIRE_MORE },
	{ "/* x */ --\nS", WIRE_BAD },
	{ "SELECT", WIRE_BAD },
	{ "(", WIRE_BAD },
	{ "p", WIRE_MORE },
	{ "PREPARE", WIRE_MORE },
	{ "PREPARE ", WIRE_OK },
	{ "PREPARED ", WIRE_BAD },
	{ "DELETE ", WIRE_BAD },
	{ "commit", WIRE_MORE },
	{ "commit;", WIRE_BAD },
	{ "execute\"", WIRE_OK },
	{ "deallocatexyz", WIRE_BAD },
	{ "insert", WIRE_BAD },
};

START_TEST(sql_glance_answers)
{
	ck_assert_msg(sql_glance(bytes_text(glances[_i].text)) == glances[_i].result, "%s",
	              glances[_i].text);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pgwire/sql");
	TCase *tests = tcase_create("sql");

	tcase_add_loop_test(tests, sql_read_finds, 0, COUNT_OF(cases));
	tcase_add_loop_test(tests, sql_glance_at_every_cut, 0, COUNT_OF(cases));
	tcase_add_loop_test(tests, sql_glance_answers, 0, COUNT_OF(glances));
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
