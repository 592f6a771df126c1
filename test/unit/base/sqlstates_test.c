/* SPDX-License-Identifier: ISC */
/*
 * base/sqlstates.c: errors are counted by their code, and strangers cannot fill the table.
 */
#include "pgweir/base/close_reason.h"

#include <stdio.h>
#include <string.h>

#include "../unit.h"

static struct sqlstates sqlstates;

static void tear_down(void) { sqlstates_done(&sqlstates); }

static void note(const char *sqlstate, const char *severity, bool is_ours)
{
	sqlstates_note(&sqlstates, &(struct sqlstate_said){ .sqlstate = sqlstate,
	                                                    .severity = severity,
	                                                    .is_ours = is_ours,
	                                                    .database = "app",
	                                                    .user = sqlstate });
}

static unsigned long count(const char *sqlstate, enum sqlstate_severity severity, bool is_ours)
{
	for (size_t i = 0; i < sqlstates.count; i++) {
		const struct sqlstate_count *at = &sqlstates.counts[i];

		if (strcmp(at->sqlstate, sqlstate) == 0 && sqlstate_is_ours(at->key) == is_ours &&
		    sqlstate_severity(at->key) == severity)
			return at->count;
	}
	return 0;
}

START_TEST(sides_and_severities_are_apart)
{
	note("23505", "ERROR", false);
	note("23505", "ERROR", false);
	note("57P01", "FATAL", false);
	note("57P01", "FATAL", true);
	note("XX000", "PANIC", false);
	note("42601", "FEHLER", false);
	note("42601", NULL, false);
	ck_assert_uint_eq(count("23505", SQLSTATE_ERROR, false), 2);
	ck_assert_uint_eq(count("23505", SQLSTATE_FATAL, false), 0);
	ck_assert_uint_eq(count("57P01", SQLSTATE_FATAL, false), 1);
	ck_assert_uint_eq(count("57P01", SQLSTATE_FATAL, true), 1);
	ck_assert_uint_eq(count("XX000", SQLSTATE_PANIC, false), 1);
	ck_assert_uint_eq(count("42601", SQLSTATE_ERROR, false), 2);
	ck_assert_uint_eq(sqlstates.total, 7);
}
END_TEST

START_TEST(the_last_one_is_kept)
{
	char name[200];

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	note("23505", "ERROR", false);
	sqlstates_note(&sqlstates, &(struct sqlstate_said){ "23505", "ERROR", false, name, NULL });
	ck_assert_uint_eq(strlen(sqlstates.counts[0].database), SQLSTATES_NAME_SIZE - 1);
	ck_assert_str_eq(sqlstates.counts[0].user, "");
	ck_assert_int_gt(sqlstates.counts[0].wall_last, 0);
}
END_TEST

START_TEST(keys_are_walked_in_order)
{
	static const char *const codes[] = { "57014", "01000", "XX002", "23505", "F0000", "40001" };
	const struct sqlstate_count *at;
	const char *last = "";
	sqlstate_key key = 0;
	size_t found = 0;

	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < COUNT_OF(codes); i++)
			note(codes[i], round == 1 ? "FATAL" : "ERROR", round == 2);
	}
	while ((at = sqlstates_from(&sqlstates, key))) {
		ck_assert_int_le(strcmp(last, at->sqlstate), 0);
		last = at->sqlstate;
		key = at->key + 1;
		found++;
	}
	ck_assert_uint_eq(found, 3 * COUNT_OF(codes));
}
END_TEST

START_TEST(there_is_room_for_so_many)
{
	char code[SQLSTATE_SIZE];

	note("23505", "ERROR", false);
	for (int i = 0; i < 10000; i++) {
		snprintf(code, sizeof(code), "Q%04d", i);
		note(code, i % 2 ? "ERROR" : "FATAL", false);
	}
	ck_assert_uint_eq(sqlstates.count, SQLSTATES_MAX + 2);
	ck_assert_uint_eq(count(SQLSTATES_OTHER, SQLSTATE_ERROR, false) +
	                      count(SQLSTATES_OTHER, SQLSTATE_FATAL, false),
	                  10001 - SQLSTATES_MAX);
	/* and those that have theirs keep it */
	note("23505", "ERROR", false);
	note("Q0003", "ERROR", false);
	/* classes of PostgreSQL that come later have one count each, and our codes their own */
	note("57014", "ERROR", false);
	note("57P01", "ERROR", false);
	note("XX000", "ERROR", false);
	note("Q9999", "ERROR", true);
	ck_assert_uint_eq(count("57000", SQLSTATE_ERROR, false), 2);
	ck_assert_uint_eq(count("57014", SQLSTATE_ERROR, false), 0);
	ck_assert_uint_eq(count("XX000", SQLSTATE_ERROR, false), 1);
	ck_assert_uint_eq(count("Q9999", SQLSTATE_ERROR, true), 1);
	ck_assert_uint_eq(count("23505", SQLSTATE_ERROR, false), 2);
	ck_assert_uint_eq(count("Q0003", SQLSTATE_ERROR, false), 2);
	ck_assert_uint_eq(sqlstates.total, 10007);
}
END_TEST

START_TEST(what_is_no_code_is_another)
{
	note("", "ERROR", false);
	note("1234", "ERROR", false);
	note("123456", "ERROR", false);
	ck_assert_uint_eq(count(SQLSTATES_OTHER, SQLSTATE_ERROR, false), 3);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sqlstates");
	TCase *cases = tcase_create("sqlstates");

	tcase_add_checked_fixture(cases, NULL, tear_down);
	tcase_add_test(cases, sides_and_severities_are_apart);
	tcase_add_test(cases, the_last_one_is_kept);
	tcase_add_test(cases, keys_are_walked_in_order);
	tcase_add_test(cases, there_is_room_for_so_many);
	tcase_add_test(cases, what_is_no_code_is_another);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
