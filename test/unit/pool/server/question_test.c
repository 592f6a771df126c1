/* SPDX-License-Identifier: ISC */
/*
 * pool/server/question.c: the text of the question. test/e2e/test_question.py runs it in
 * PostgreSQL.
 */
#include <string.h>

#include "pgweir/pool/server/question.h"

#include "../../unit.h"

static const struct {
	const char *says;
	unsigned int parts;
	const char *names; /* with spaces instead of zeros */
	unsigned int major;
	const char *has;
	const char *lacks;
} texts[] = {
	{ "parameters", QUESTION_PARAMS, "", 15, "pg_show_all_settings()", "UNION" },
	{ "parameters put the role aside", QUESTION_PARAMS, "", 15, "('role','none',true)", "'u'" },
	{ "channels", QUESTION_CHANNELS, "", 15, "pg_listening_channels()", "UNION" },
	{ "nothing else puts the role aside", QUESTION_CHANNELS, "", 15, "SET LOCAL", "'role'" },
	{ "cursors", QUESTION_CURSORS, "", 15, "pg_cursor()", "UNION" },
	{ "temporary objects", QUESTION_TEMP, "", 15, "pg_depend", "UNION" },
	{ "locks", QUESTION_LOCKS, "", 15, "pg_lock_status()", "UNION" },
	{ "statements of SQL", QUESTION_STATEMENTS, "", 15, "WHERE s.from_sql", "pg_depend" },
	{ "statements under a client's names", QUESTION_EXPOSED, "", 15, "NOT s.from_sql",
	  "UNION" },
	{ "two parts", QUESTION_CURSORS | QUESTION_LOCKS, "", 15, " UNION ALL ", "pg_depend" },
	{ "names", QUESTION_PARAMS, "a.b c.d ", 15, "ARRAY['a.b','c.d']", "x.y" },
	{ "names with flags", QUESTION_PARAMS, "a.b ", 15, "get_flags", "x.y" },
	{ "names without flags", QUESTION_PARAMS, "a.b ", 14, "ARRAY['a.b']", "get_flags" },
	{ "names of a server unknown", QUESTION_PARAMS, "a.b ", 0, "ARRAY['a.b']", "get_flags" },
	{ "a bad name among good ones", QUESTION_PARAMS, "a.b a.'b x.y ", 15, "ARRAY['a.b','x.y']",
	  "a.'" },
	{ "only bad names", QUESTION_PARAMS, "a.'b b ", 15, "pg_show_all_settings()", "ARRAY" },
	{ "names are parameters", QUESTION_TEMP, "a.b ", 15, "pg_depend", "ARRAY" },
	{ "a wait", QUESTION_POSITION, "", 19,
	  "=0;WAIT FOR LSN '16/B374D848' WITH (TIMEOUT '6ms',NO_THROW);SELECT", "UNION" },
	{ "a server that cannot wait", QUESTION_POSITION, "", 18, "pg_last_wal_replay_lsn()",
	  "WAIT" },
};

START_TEST(question_text_asks)
{
	const struct question_wait wait = { UINT64_C(0x16B374D848), 5 * USEC_PER_MS };
	struct buf out = { 0 }, list = { 0 };

	buf_add_text(&list, texts[_i].names);
	for (size_t i = 0; i < list.count; i++)
		list.at[i] = list.at[i] == ' ' ? '\0' : list.at[i];
	question_text(texts[_i].parts, buf_bytes(&list), texts[_i].major, &wait, &out);
	ck_assert_msg(strstr(buf_text(&out), texts[_i].has), "%s: %s", texts[_i].says,
	              buf_text(&out));
	ck_assert_msg(!strstr(buf_text(&out), texts[_i].lacks), "%s: %s", texts[_i].says,
	              buf_text(&out));
	buf_free(&out);
	buf_free(&list);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/question");
	TCase *tcase = tcase_create("question");

	tcase_add_loop_test(tcase, question_text_asks, 0, COUNT_OF(texts));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
