/* SPDX-License-Identifier: ISC */
/*
 * pgwire/sql_primary.c: texts that a standby refuses, or where they mean something else.
 */
#include "pgweir/pgwire/sql_primary.h"

#include <string.h>

#include "../unit.h"

static const struct {
	const char *text;
	bool is_for_primary;
} cases[] = {
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
	{ "CHECKPOINT", true },
};

START_TEST(sql_primary_says)
{
	ck_assert_msg(sql_is_for_primary(bytes_text(cases[_i].text)) == cases[_i].is_for_primary,
	              "%s", cases[_i].text);
}
END_TEST

START_TEST(sql_primary_at_every_cut)
{
	const char *text = cases[_i].text;

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
	Suite *suite = suite_create("pgwire/sql_primary");
	TCase *tcase = tcase_create("sql_primary");

	tcase_add_loop_test(tcase, sql_primary_says, 0, COUNT_OF(cases));
	tcase_add_loop_test(tcase, sql_primary_at_every_cut, 0, COUNT_OF(cases));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
