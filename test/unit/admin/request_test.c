/* SPDX-License-Identifier: ISC */
/*
 * admin/request.c, admin/small_talk.c and the tables of SHOW and commands.
 */
#include "../../../src/admin/admin_priv.h"

#include "../unit.h"

enum request_kind { REQUEST_EMPTY, REQUEST_TALK, REQUEST_SHOW, REQUEST_COMMAND };

static enum request_kind kind_of(const struct request *request)
{
	if (request->talk)
		return REQUEST_TALK;
	if (request->command)
		return REQUEST_COMMAND;
	return request->show ? REQUEST_SHOW : REQUEST_EMPTY;
}

static const struct {
	const char *text;
	enum request_kind kind;
	const char *tag;
} understood[] = {
	{ "", REQUEST_EMPTY, "" },
	{ " ; ", REQUEST_EMPTY, "" },
	{ "-- ping", REQUEST_EMPTY, "" },
	{ "/* ping */", REQUEST_EMPTY, "" },
	{ "BEGIN", REQUEST_TALK, "BEGIN" },
	{ "begin read only;", REQUEST_TALK, "BEGIN" },
	{ "START TRANSACTION ISOLATION LEVEL SERIALIZABLE", REQUEST_TALK, "START TRANSACTION" },
	{ "COMMIT", REQUEST_TALK, "COMMIT" },
	{ "END", REQUEST_TALK, "COMMIT" },
	{ "ROLLBACK TO SAVEPOINT a", REQUEST_TALK, "ROLLBACK" },
	{ "DISCARD ALL", REQUEST_TALK, "DISCARD ALL" },
	{ "DEALLOCATE \"_pg3_0\"", REQUEST_TALK, "DEALLOCATE" },
	{ "deallocate all", REQUEST_TALK, "DEALLOCATE ALL" },
	{ "RESET ALL", REQUEST_TALK, "RESET" },
	{ "CLOSE ALL", REQUEST_TALK, "CLOSE CURSOR ALL" },
	{ "UNLISTEN *", REQUEST_TALK, "UNLISTEN" },
	{ "SELECT 1", REQUEST_TALK, "SELECT 1" },
	{ "/* pool */ select 1;", REQUEST_TALK, "SELECT 1" },
	{ "SELECT version()", REQUEST_TALK, "SELECT 1" },
	{ "SELECT pg_advisory_unlock_all()", REQUEST_TALK, "SELECT 1" },
	{ "SHOW transaction isolation level", REQUEST_TALK, "SHOW" },
	{ "SHOW server_version", REQUEST_TALK, "SHOW" },
	{ "SHOW DateStyle;", REQUEST_TALK, "SHOW" },
	{ "SET client_encoding TO 'UTF8'", REQUEST_TALK, "SET" },
	{ "SET extra_float_digits = 3", REQUEST_TALK, "SET" },
	{ "SET LOCAL search_path = a, \"b\"", REQUEST_TALK, "SET" },
	{ "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", REQUEST_TALK, "SET" },
	{ "SET DateStyle TO ISO, MDY", REQUEST_TALK, "SET" },
	{ "SET NAMES 'UTF8'", REQUEST_TALK, "SET" },
	{ "SHOW POOLS", REQUEST_SHOW, "SHOW" },
	{ "select version", REQUEST_SHOW, "SHOW" },
	{ "SHOW CLIENTS my_db;", REQUEST_SHOW, "SHOW" },
	{ "SELECT pools \"my-db\"", REQUEST_SHOW, "SHOW" },
	{ "SHOW LIMITS hit", REQUEST_SHOW, "SHOW" },
	{ "SHOW COLUMNS Pools", REQUEST_SHOW, "SHOW" },
	{ "SHOW Default_Pool_Size", REQUEST_SHOW, "SHOW" },
	{ "SHOW TIME ZONE", REQUEST_TALK, "SHOW" },
	{ "SELECT pg_catalog.lower(name) FROM pg_catalog.pg_settings  WHERE context IN ('user', "
	  "'superuser')    AND pg_catalog.lower(name) LIKE pg_catalog.lower('po%')\nLIMIT 1000",
	  REQUEST_TALK, "SELECT" },
	{ "SELECT help", REQUEST_COMMAND, "SHOW" },
	{ "help", REQUEST_COMMAND, "SHOW" },
	{ "SET default_pool_size = 3", REQUEST_COMMAND, "SET" },
	{ "SET transaction_timeout = 3", REQUEST_COMMAND, "SET" }, /* ours, not PostgreSQL's */
	{ "SET no_such = 3", REQUEST_COMMAND, "SET" },
	{ "PAUSE", REQUEST_COMMAND, "PAUSE" },
	{ "pause db;", REQUEST_COMMAND, "PAUSE" },
	{ "KILL_CLIENT 3", REQUEST_COMMAND, "KILL_CLIENT" },
	{ "KILL_CLIENT", REQUEST_COMMAND, "KILL_CLIENT" },
	{ "Shutdown", REQUEST_COMMAND, "SHUTDOWN" },
	{ "SHUTDOWN wait_for_clients", REQUEST_COMMAND, "SHUTDOWN" },
};

START_TEST(requests_are_understood)
{
	struct request request;
	struct err err;

	ck_assert_msg(request_read(bytes_text(understood[_i].text), commands, &request, 1, &err),
	              "%s: %s", understood[_i].text, err.text);
	ck_assert_msg(kind_of(&request) == understood[_i].kind, "%s", understood[_i].text);
	ck_assert_str_eq(request.tag, understood[_i].tag);
}
END_TEST

static const struct {
	const char *text;
	const char *sqlstate, *words;
} refused[] = {
	{ "NONSENSE", "42601", "invalid command 'NONSENSE', use SHOW HELP;" },
	{ "SHOW", "42601", "invalid command 'SHOW', use SHOW HELP;" },
	{ "SHOW NONSENSE;", "42601", "invalid command 'SHOW NONSENSE;', use SHOW HELP;" },
	{ "SHOW VERSION NOW", "42601", "invalid command 'SHOW VERSION NOW', use SHOW HELP;" },
	{ "SHOW pool_mode now", "42601", "invalid command 'SHOW pool_mode now', use SHOW HELP;" },
	{ "SHOW LIMITS hits", "42601", "invalid command 'SHOW LIMITS hits', use SHOW HELP;" },
	{ "SHOW COLUMNS pool", "42601", "invalid command 'SHOW COLUMNS pool', use SHOW HELP;" },
	{ "SHOW CLIENTS a b", "42601", "invalid command 'SHOW CLIENTS a b', use SHOW HELP;" },
	{ "SELECT 1 + 1", "42601", "invalid command 'SELECT 1 + 1', use SHOW HELP;" },
	{ "SELECT 2", "42601", "invalid command 'SELECT 2', use SHOW HELP;" },
	{ "RELOAD db", "42601", "invalid command 'RELOAD db', use SHOW HELP;" },
	{ "SHUTDOWN now", "42601", "invalid command 'SHUTDOWN now', use SHOW HELP;" },
	{ "SET datestyle", "42601", "invalid command 'SET datestyle', use SHOW HELP;" },
	{ "PAUSE = 3", "42601", "invalid command 'PAUSE = 3', use SHOW HELP;" },
	{ "BEGIN; RELOAD", "42601", "invalid command 'BEGIN; RELOAD', use SHOW HELP;" },
	{ "SET datestyle = ISO; RELOAD", "42601",
	  "invalid command 'SET datestyle = ISO; RELOAD', use SHOW HELP;" },
	{ "CCCCCCCCCCCCCCCC", "42601", "bad arguments" },
};

START_TEST(others_are_refused)
{
	struct request request;
	struct err err;

	ck_assert_msg(!request_read(bytes_text(refused[_i].text), commands, &request, 1, &err),
	              "%s", refused[_i].text);
	ck_assert_str_eq(err.text, refused[_i].words);
	ck_assert_str_eq(err.sqlstate, refused[_i].sqlstate);
}
END_TEST

static const struct {
	const char *text, *suggestion;
} suggestions[] = {
	{ "SHOW POOL", "Did you mean SHOW POOLS?" },
	{ "SELECT pool", "Did you mean SHOW POOLS?" },
	{ "SHOW HEL", "Did you mean SHOW HELP?" },
	{ "SHOW pool_mod;", "Did you mean SHOW pool_mode?" },
	{ "CLIENTS", "Did you mean SHOW CLIENTS?" },
	{ "RESUM", "Did you mean RESUME?" },
	{ "SHUTDWON wait_for_client", "Did you mean SHUTDOWN WAIT_FOR_CLIENTS?" },
	{ "RELOAD db", "Syntax: RELOAD." },
	{ "SET a", "Syntax: SET key = value." },
	{ "SHOW VERSION x", "Syntax: SHOW VERSION." },
	{ "SHOW COLUMNS client", "Did you mean SHOW COLUMNS CLIENTS?" },
	{ "SHOW COLUMNS nonsense", "Syntax: SHOW COLUMNS [table]." },
	{ "SHOW", "" },
	{ "SHOW NONSENSE", "" },
	{ "NONSENSE", "" },
	{ "SELECT 1 + 1", "" },
	{ "CCCCCCCCCCCCCCCC", "" },
	{ "", "" },
};

START_TEST(what_may_have_been_meant)
{
	struct console_session session;

	request_explain(bytes_text(suggestions[_i].text), commands, &session);
	ck_assert_str_eq(session.hint, suggestions[_i].suggestion);
}
END_TEST

START_TEST(a_long_text_is_quoted_in_part)
{
	char text[2001];
	struct request request;
	struct err err;

	/* Two bytes per character, so that a cut can be within one. */
	for (size_t i = 0; i < 2000; i += 2)
		memcpy(text + i, "\xc3\xa4", 2);
	text[2000] = 0;
	for (size_t shift = 0; shift < 2; shift++) {
		text[shift] = '?'; /* no word */
		ck_assert(!request_read(bytes_text(text + shift), commands, &request, 1, &err));
		ck_assert_ptr_nonnull(strstr(err.text, "...', use SHOW HELP;"));
		ck_assert_int_eq((unsigned char)strstr(err.text, "...'")[-1], 0xa4);
	}
}
END_TEST

START_TEST(every_show_has_its_columns_and_help)
{
	for (size_t i = 0; shows[i]; i++) {
		const struct show *show = shows[i];

		ck_assert_ptr_eq(show_find(show->item), show);
		ck_assert_msg(show->next, "SHOW %s has no rows", show->item);
		ck_assert_ptr_nonnull(show->help);
		ck_assert_uint_gt(show->columns.count, 0);
		ck_assert_uint_le(show->columns.count, COLUMNS_MAX);
		for (size_t n = 0; n < show->columns.count; n++) {
			ck_assert_ptr_nonnull(show->columns.at[n].help);
			ck_assert(show->columns.at[n].at == ROW_NEXT ||
			          show->columns.at[n].at < ROW_SIZE_MAX);
		}
	}
	ck_assert_ptr_null(show_find("NONSENSE"));
}
END_TEST

START_TEST(every_command_runs_and_has_its_help)
{
	for (size_t i = 0; commands[i].words; i++) {
		ck_assert_msg(commands[i].run, "%s does nothing", commands[i].words);
		ck_assert_ptr_nonnull(commands[i].tag);
		ck_assert_ptr_nonnull(commands[i].help);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("admin/request");
	TCase *tests = tcase_create("request");

	tcase_add_loop_test(tests, requests_are_understood, 0, COUNT_OF(understood));
	tcase_add_loop_test(tests, others_are_refused, 0, COUNT_OF(refused));
	tcase_add_loop_test(tests, what_may_have_been_meant, 0, COUNT_OF(suggestions));
	tcase_add_test(tests, a_long_text_is_quoted_in_part);
	tcase_add_test(tests, every_show_has_its_columns_and_help);
	tcase_add_test(tests, every_command_runs_and_has_its_help);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
