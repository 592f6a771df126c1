/* SPDX-License-Identifier: ISC */
/*
 * pgwire/sql_resets.c: the parameters that a text sets back.
 */
#include "pgweir/pgwire/sql_resets.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/base/buf.h"

#include "../unit.h"

#define NAME_100                                                                               \
	"a23456789_a23456789_a23456789_a23456789_a23456789_a23456789_a23456789_a23456789_a234" \
	"56789_a23456789_"

static const struct {
	const char *text;
	const char *items; /* a name that gets a value has = behind it; * are all */
	enum sql_resets result;
} cases[] = {
	{ "", "", SQL_RESETS_NONE },
	{ "SELECT 1", "", SQL_RESETS_NONE },
	{ "RESET work_mem", "work_mem;", SQL_RESETS_LAST },
	{ "reset \"Work_Mem\" ;", "work_mem;", SQL_RESETS_LAST },
	{ "RESET app . tenant", "app.tenant;", SQL_RESETS_LAST },
	{ "RESET \"app\".\"tenant\"", "app.tenant;", SQL_RESETS_LAST },
	{ "/* a */ RESET /* b */ ALL -- c", "*;", SQL_RESETS_LAST },
	{ "RESET TIME ZONE", "timezone;", SQL_RESETS_LAST },
	{ "RESET SESSION AUTHORIZATION", "session_authorization;", SQL_RESETS_LAST },
	{ "RESET TRANSACTION ISOLATION LEVEL", "transaction_isolation;", SQL_RESETS_LAST },
	{ "RESET session.x", "session.x;", SQL_RESETS_LAST },
	{ "RESET", "", SQL_RESETS_NONE },
	{ "RESET 'a'", "", SQL_RESETS_NONE },
	{ "RESET a..b", "", SQL_RESETS_NONE },
	{ "RESET " NAME_100 NAME_100, "", SQL_RESETS_NONE },
	{ "SET work_mem TO DEFAULT", "work_mem;", SQL_RESETS_LAST },
	{ "SET SESSION work_mem = default", "work_mem;", SQL_RESETS_LAST },
	{ "SET session.x = DEFAULT", "session.x;", SQL_RESETS_LAST },
	{ "SET TIME ZONE DEFAULT", "timezone;", SQL_RESETS_LAST },
	{ "SET TIME ZONE LOCAL", "timezone;", SQL_RESETS_LAST },
	{ "SET SESSION TIME ZONE LOCAL", "timezone;", SQL_RESETS_LAST },
	{ "SET NAMES", "client_encoding;", SQL_RESETS_LAST },
	{ "SET NAMES DEFAULT", "client_encoding;", SQL_RESETS_LAST },
	{ "SET SESSION AUTHORIZATION DEFAULT", "session_authorization;", SQL_RESETS_LAST },
	{ "SET NAMES 'UTF8'", "client_encoding=;", SQL_RESETS_NONE },
	{ "SET work_mem = 5", "work_mem=;", SQL_RESETS_NONE },
	{ "SET x = 'DEFAULT'", "x=;", SQL_RESETS_NONE },
	{ "SET LOCAL x TO DEFAULT", "x local;", SQL_RESETS_LAST },
	{ "SET LOCAL x = 1", "x=local;", SQL_RESETS_NONE },
	{ "SET LOCAL TIME ZONE LOCAL", "timezone local;", SQL_RESETS_LAST },
	{ "SET LOCAL SESSION AUTHORIZATION DEFAULT", "session_authorization local;",
	  SQL_RESETS_LAST },
	{ "SET LOCAL x TO DEFAULT; SET y TO DEFAULT; SELECT 1", "x local;y;", SQL_RESETS_USED },
	{ "SET LOCAL x TO DEFAULT; RESET y", "x local;y;", SQL_RESETS_LAST },
	{ "SET x", "", SQL_RESETS_NONE },
	{ "SET x TO", "", SQL_RESETS_NONE },
	{ "SET local.x TO DEFAULT", "local.x;", SQL_RESETS_LAST },
	{ "SELECT 'RESET a'; SELECT $$; RESET b$$", "", SQL_RESETS_NONE },
	{ "DISCARD ALL", "*;", SQL_RESETS_LAST },
	{ "; /* a */ discard all;;", "*;", SQL_RESETS_LAST },
	{ "DISCARD PLANS", "", SQL_RESETS_NONE },
	{ "DISCARD ALL; SELECT 1", "", SQL_RESETS_NONE },
	{ "SELECT 1; DISCARD ALL", "", SQL_RESETS_NONE },
	{ "SELECT 1; RESET a", "a;", SQL_RESETS_LAST },
	{ "RESET a; SELECT 1", "a;", SQL_RESETS_USED },
	{ "RESET a; SET a = 1", "a;a=;", SQL_RESETS_LAST },
	{ "BEGIN; RESET a; COMMIT", "a;", SQL_RESETS_LAST },
	{ "RESET a;; ROLLBACK", "a;", SQL_RESETS_UNDONE },
	{ "RESET a; SELECT 1; ROLLBACK TO b", "a;", SQL_RESETS_UNDONE },
	{ "ROLLBACK; RESET a", "a;", SQL_RESETS_LAST },
	{ "SET SESSION AUTHORIZATION DEFAULT;RESET ALL;CLOSE ALL;UNLISTEN *;"
	  "SELECT pg_advisory_unlock_all();DISCARD SEQUENCES;DISCARD TEMP",
	  "session_authorization;*;", SQL_RESETS_LAST },
	{ "RESET a; SELECT pg_advisory_unlock_all(), b", "a;", SQL_RESETS_USED },
	{ "RESET a; SELECT pg_advisory_unlock_all", "a;", SQL_RESETS_USED },
	{ "RESET a; (SELECT 1)", "a;", SQL_RESETS_USED },
	{ "RESET a; SELECT 'x", "a;", SQL_RESETS_USED },
	{ "RESET a; SELECT 'b\\c'", "a;a;", SQL_RESETS_UNSURE },
	{ "RESET a; SET b = 'c\\d'", "a;b=;a;b=;", SQL_RESETS_UNSURE },
	{ "SET b = 'c\\d'", "b=;b=;", SQL_RESETS_NONE },
	{ "SELECT 'it\\'s; RESET a'", "a;", SQL_RESETS_UNSURE },
	{ "SELECT '\\'; RESET a; --'", "a;", SQL_RESETS_UNSURE },
	{ "SELECT '\\'; RESET a; SELECT 1 --'\n; RESET b", "a;b;b;", SQL_RESETS_UNSURE },
	{ "RESET a; SELECT '\\'; SELECT 2 --'\n; RESET b", "a;b;a;b;", SQL_RESETS_UNSURE },
	{ "SELECT '\\'; DISCARD ALL; --'", "", SQL_RESETS_NONE },
	{ "SELECT \"a\\\"; RESET b", "b;b;", SQL_RESETS_UNSURE },
};

static void add_item(void *context, const struct sql_reset *reset)
{
	struct buf *out = context;

	buf_add_text(out, reset->name ? reset->name : "*");
	buf_add_text(out, reset->is_set ? "=" : "");
	buf_add_text(out, reset->is_local ? (reset->is_set ? "local;" : " local;") : ";");
}

START_TEST(sql_resets_finds)
{
	struct buf found = { 0 };
	enum sql_resets result = sql_resets(bytes_text(cases[_i].text), add_item, &found);

	ck_assert_msg(strcmp(buf_text(&found), cases[_i].items) == 0, "%s: %s", cases[_i].text,
	              buf_text(&found));
	ck_assert_msg(result == cases[_i].result, "%s: %d", cases[_i].text, (int)result);
	buf_free(&found);
}
END_TEST

START_TEST(sql_resets_at_every_cut)
{
	const char *text = cases[_i].text;

	for (size_t count = 0; count <= strlen(text); count++) {
		char *copy = malloc(count ? count : 1); /* the sanitizer detects reads after it */
		struct buf found = { 0 };

		ck_assert_ptr_nonnull(copy);
		memcpy(copy, text, count);
		sql_resets(bytes_of(copy, count), add_item, &found);
		buf_free(&found);
		free(copy);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pgwire/sql_resets");
	TCase *tcase = tcase_create("sql_resets");

	tcase_add_loop_test(tcase, sql_resets_finds, 0, COUNT_OF(cases));
	tcase_add_loop_test(tcase, sql_resets_at_every_cut, 0, COUNT_OF(cases));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
