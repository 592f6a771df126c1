/* SPDX-License-Identifier: ISC */
/*
 * pgwire/sql_block.c: texts that are one statement, those that only read, and similar ones.
 */
#include "pgweir/pgwire/sql_block.h"

#include <stdio.h>
#include <string.h>

#include "../unit.h"

/* Functions that only read, besides the well-known ones. */
#define FUNCTIONS bytes_of("price\0tax_of\0pg_size_pretty\0", 28)

static const struct {
	const char *text;
	enum sql_single what;
} cases[] = {
	{ "SELECT 1", SQL_SINGLE_READ },
	{ " /* who */ select * from t -- all", SQL_SINGLE_READ },
	{ "SELECT 1;", SQL_SINGLE_READ },
	{ "SELECT 1 ; ; -- end", SQL_SINGLE_READ },
	{ "SELECT a.b, c FROM s.t AS a WHERE id = $1 AND x IN ($2, $3)", SQL_SINGLE_READ },
	{ "select count (*), Sum(x), MAX(y) from t group by (a, b) having avg(z) > 1",
	  SQL_SINGLE_READ },
	{ "SELECT coalesce(lower(name), '') || ';' FROM t WHERE NOT (a OR (b))", SQL_SINGLE_READ },
	{ "SELECT row_number() OVER (PARTITION BY a ORDER BY b), sum(x) FILTER (WHERE y) FROM t",
	  SQL_SINGLE_READ },
	{ "WITH a AS (SELECT 1), b AS MATERIALIZED (VALUES (1)) SELECT * FROM a UNION (SELECT 2)",
	  SQL_SINGLE_READ },
	{ "SELECT x::numeric(10,2), now(), extract(year FROM d), 'into' FROM t", SQL_SINGLE_READ },
	{ "SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM u) LIMIT (1)", SQL_SINGLE_READ },
	{ "SELECT \"for\", $$insert(';')$$, E'update', 'delete'';' FROM \"Update\"",
	  SQL_SINGLE_READ },
	{ "SELECT 'stra\xc3\x9f"
	  "e', $$\xc3\xa4$$",
	  SQL_SINGLE_READ },
	{ "VALUES (1), (2)", SQL_SINGLE_READ },
	{ "SELECT 1.5, $12, .5", SQL_SINGLE_READ },
	{ "TABLE t", SQL_SINGLE_READ },
	{ "SELECT price(1), Tax_Of(2), shop.price(3)", SQL_SINGLE_READ },
	{ "SELECT PG_size_pretty(1)", SQL_SINGLE_READ },

	/* not only reading, or not certain */
	{ "INSERT INTO t VALUES (1)", SQL_SINGLE_ANY },
	{ "update t set a = 1", SQL_SINGLE_ANY },
	{ "DELETE FROM t;", SQL_SINGLE_ANY },
	{ "MERGE INTO t USING s ON (a) WHEN MATCHED THEN DELETE", SQL_SINGLE_ANY },
	{ "WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x", SQL_SINGLE_ANY },
	{ "SELECT * INTO u FROM t", SQL_SINGLE_ANY },
	{ "SELECT * FROM t FOR UPDATE", SQL_SINGLE_ANY },
	{ "SELECT * FROM t for/**/share", SQL_SINGLE_ANY },
	{ "SELECT * FROM t LIMIT 1for update", SQL_SINGLE_ANY },
	{ "SELECT $1into u", SQL_SINGLE_ANY },
	{ "SELECT 1f (2)", SQL_SINGLE_ANY },
	{ "SELECT 1.5 (2)", SQL_SINGLE_ANY },
	{ "SELECT nextval('s')", SQL_SINGLE_ANY },
	{ "SELECT f (1)", SQL_SINGLE_ANY },
	{ "SELECT prices(1)", SQL_SINGLE_ANY },
	{ "SELECT pric(1)", SQL_SINGLE_ANY },
	{ "SELECT counts(1)", SQL_SINGLE_ANY },
	{ "SELECT coun(1)", SQL_SINGLE_ANY },
	{ "SELECT \"count\"(1)", SQL_SINGLE_ANY },
	{ "SELECT shop.count(1)", SQL_SINGLE_ANY },
	{ "SELECT shop . /* */ count /* */ (1)", SQL_SINGLE_ANY },
	{ "SELECT 1 OPERATOR(shop.+) 2", SQL_SINGLE_ANY },
	{ "SELECT t\xc3\xa4(1)", SQL_SINGLE_ANY },
	{ "SELECT t\xc3\xa4 FROM t", SQL_SINGLE_ANY },
	{ "SELECT 1 AS \"\xc3\xa4\"", SQL_SINGLE_ANY },
	{ "SELECT \x83|count(1)", SQL_SINGLE_ANY },
	{ "SELECT * FROM pg_stat_activity", SQL_SINGLE_ANY },
	{ "SELECT * FROM \"pg_locks\"", SQL_SINGLE_ANY },
	{ "SELECT pg_catalog.count(1)", SQL_SINGLE_ANY },
	{ "SELECT * FROM pg_temp.t", SQL_SINGLE_ANY },
	{ "SELECT * FROM t TABLESAMPLE system (10)", SQL_SINGLE_ANY },

	/* not one of these statements, or not one */
	{ "", SQL_SINGLE_NOT },
	{ ";", SQL_SINGLE_NOT },
	{ "; SELECT 1", SQL_SINGLE_NOT },
	{ "(SELECT 1)", SQL_SINGLE_NOT },
	{ "SELECTS 1", SQL_SINGLE_NOT },
	{ "\"select\" 1", SQL_SINGLE_NOT },
	{ "SELECT 1; SELECT 2", SQL_SINGLE_NOT },
	{ "SELECT 1; BEGIN", SQL_SINGLE_NOT },
	{ "INSERT INTO t VALUES (1); COMMIT; BEGIN;", SQL_SINGLE_NOT },
	{ "BEGIN", SQL_SINGLE_NOT },
	{ "COMMIT", SQL_SINGLE_NOT },
	{ "COPY t FROM stdin", SQL_SINGLE_NOT },
	{ "CALL p()", SQL_SINGLE_NOT },
	{ "DO ''", SQL_SINGLE_NOT },
	{ "EXPLAIN SELECT 1", SQL_SINGLE_NOT },
	{ "EXECUTE s", SQL_SINGLE_NOT },
	{ "SELECT 'a", SQL_SINGLE_NOT },
	{ "SELECT /* a", SQL_SINGLE_NOT },
	{ "SELECT 1; /* a", SQL_SINGLE_NOT },
	{ "SELECT 'a\\'; BEGIN; --'", SQL_SINGLE_NOT },
	{ "SELECT E'a\\''", SQL_SINGLE_NOT },
};

START_TEST(reads)
{
	ck_assert_msg(sql_single(bytes_text(cases[_i].text), FUNCTIONS) == cases[_i].what, "%s",
	              cases[_i].text);
}
END_TEST

START_TEST(no_function_is_known_without_the_list)
{
	ck_assert_int_eq(sql_single(bytes_text("SELECT price(1)"), bytes_of("", 0)),
	                 SQL_SINGLE_ANY);
	ck_assert_int_eq(sql_single(bytes_text("SELECT count(1)"), bytes_of("", 0)),
	                 SQL_SINGLE_READ);
}
END_TEST

/* The result does not depend on data after the text, and nothing after it is read. */
START_TEST(every_cut)
{
	const char *text = cases[_i].text;
	size_t size = strlen(text);

	for (size_t count = 0; count <= size; count++) {
		char *copy = malloc(count ? count : 1); /* the sanitizer detects reads after it */

		memcpy(copy, text, count);
		ck_assert_int_eq(sql_single(bytes_of(text, count), FUNCTIONS),
		                 sql_single(bytes_of(copy, count), FUNCTIONS));
		free(copy);
	}
}
END_TEST

/* With another statement behind it, a text is not one. */
START_TEST(every_text_with_another)
{
	static const char *const others[] = { "\n;BEGIN", "\n;INSERT INTO t VALUES (1)", "\n;\\" };
	char text[256];

	for (size_t i = 0; i < COUNT_OF(others); i++) {
		snprintf(text, sizeof(text), "%s%s", cases[_i].text, others[i]);
		ck_assert_msg(sql_single(bytes_text(text), FUNCTIONS) == SQL_SINGLE_NOT, "%s",
		              text);
	}
}
END_TEST

/* ---- texts for the primary ---- */

static const struct {
	const char *text;
	bool is_for_primary;
} for_primary[] = {
	{ "", false },
	{ ";", false },
	{ "SELECT 1", false },
	{ "SELECT count(*) FROM locks", false },
	{ "SELECT pg_is_in_recovery(), pg_last_wal_replay_lsn()", false },
	{ "SELECT txid_current_if_assigned(), pg_current_snapshot()", false },
	{ "EXPLAIN ANALYZE SELECT 1", false },
	{ "SELECT lo_get(1), lo_open(1, 262144)", false },

	{ "SELECT txid_current()", true },
	{ "SELECT TXID_CURRENT()", true },
	{ "select pg_catalog.pg_current_xact_id()", true },
	{ "select \"pg_export_snapshot\"()", true },
	{ "SELECT pg_current_wal_lsn() - pg_current_wal_insert_lsn()", true },
	{ "SELECT pg_walfile_name_offset(pg_current_wal_flush_lsn())", true },
	{ "SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL)", true },
	{ "SELECT pg_create_physical_replication_slot('s')", true },
	{ "SELECT lo_put(1, 0, 'x')", true },
	{ "SELECT lowrite(0, 'x')", true },
	{ "SELECT 1, brin_summarize_new_values('i')", true },
	{ "SELECT 'txid_current'", true }, /* too much is no harm */
	{ "SELECT my_txid_current(), txid_current2()", false },

	{ "LOCK TABLE t", true },
	{ " /* a */ lock t", true },
	{ "SELECT 1; LOCK t", true },
	{ "SELECT 1;;\n vacuum t", true },
	{ "SELECT ';lock'", false },
	{ "ANALYZE", true },
	{ "analyse t", true },
	{ "CLUSTER", true },
	{ "REINDEX TABLE t", true },
	{ "REPACK (CONCURRENTLY) t", true },
	{ "WAIT FOR LSN '0/306EE20'", false },
	{ "CHECKPOINT", true },
};

START_TEST(says_for_primary)
{
	ck_assert_msg(sql_is_for_primary(bytes_text(for_primary[_i].text)) ==
	                  for_primary[_i].is_for_primary,
	              "%s", for_primary[_i].text);
}
END_TEST

START_TEST(for_primary_at_every_cut)
{
	const char *text = for_primary[_i].text;

	for (size_t count = 0; count <= strlen(text); count++) {
		char *copy = malloc(count ? count : 1); /* the sanitizer detects reads after it */

		ck_assert_ptr_nonnull(copy);
		memcpy(copy, text, count);
		sql_is_for_primary(bytes_of(copy, count));
		free(copy);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pgwire/sql_single");
	TCase *tests = tcase_create("sql_single");

	tcase_add_loop_test(tests, reads, 0, COUNT_OF(cases));
	tcase_add_test(tests, no_function_is_known_without_the_list);
	tcase_add_loop_test(tests, every_cut, 0, COUNT_OF(cases));
	tcase_add_loop_test(tests, every_text_with_another, 0, COUNT_OF(cases));
	tcase_add_loop_test(tests, says_for_primary, 0, COUNT_OF(for_primary));
	tcase_add_loop_test(tests, for_primary_at_every_cut, 0, COUNT_OF(for_primary));
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
