/* SPDX-License-Identifier: ISC */
/*
 * base/log.c: the lines that are kept, and the counts of their kinds
 */
#include "pgweir/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit.h"

#define KEPT 1000
#define KINDS 64

static struct log *kept_log;

/* Whose lines come: one after another. */
static const char *database, *user;

static void set_up(void)
{
	database = user = NULL;
	kept_log = log_new();
	ck_assert_ptr_nonnull(kept_log);
	ck_assert(log_configure(kept_log, &(struct log_options){ 0 }, NULL));
}

static void tear_down(void) { log_free(&kept_log); }

static void tell_who(const struct logger *logger, struct log_who *who)
{
	(void)logger;
	who->database = database;
	who->user = user;
}

static void add(const char *kind, const char *text)
{
	struct logger logger = { kept_log, database ? tell_who : NULL };

	log_kept(&logger, LOG_LEVEL_WARNING, kind, "%s", text);
}

static void add_number(unsigned int number)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", number);
	add("set", text);
}

START_TEST(log_kept_is_empty)
{
	uint64_t number = 0;
	struct log_kept kept;

	ck_assert(!log_kept_next(kept_log, &number, &kept));
}
END_TEST

START_TEST(log_kept_has_all_of_a_line)
{
	usec_t before = wall_now();
	uint64_t number = 0;
	struct log_kept kept;

	database = "app";
	user = "alice";
	add("limit", "many");
	database = NULL;
	add("limit", "all");
	ck_assert(log_kept_next(kept_log, &number, &kept));
	ck_assert_str_eq(kept.kind, "limit");
	ck_assert_str_eq(kept.database, "app");
	ck_assert_str_eq(kept.user, "alice");
	ck_assert_str_eq(kept.text, "many");
	ck_assert_int_eq(kept.level, LOG_LEVEL_WARNING);
	ck_assert(kept.at >= before && kept.at <= wall_now());
	ck_assert(log_kept_next(kept_log, &number, &kept));
	ck_assert_str_eq(kept.database, "");
	ck_assert_str_eq(kept.user, "");
	ck_assert_str_eq(kept.text, "all");
	ck_assert(!log_kept_next(kept_log, &number, &kept));
}
END_TEST

START_TEST(log_kept_has_the_last_ones)
{
	uint64_t number = 0;
	struct log_kept kept;

	for (unsigned int i = 0; i < KEPT + 3; i++)
		add_number(i);
	for (unsigned int i = 3; i < KEPT + 3; i++) {
		ck_assert(log_kept_next(kept_log, &number, &kept));
		ck_assert_int_eq(strtoll(kept.text, NULL, 10), i);
		ck_assert_uint_eq(number, i + 1);
	}
	ck_assert(!log_kept_next(kept_log, &number, &kept));
	/* who reads slowly misses what has left, and nothing else */
	add_number(KEPT + 3);
	ck_assert(log_kept_next(kept_log, &number, &kept));
	ck_assert_int_eq(strtoll(kept.text, NULL, 10), KEPT + 3);
	number = 2;
	ck_assert(log_kept_next(kept_log, &number, &kept));
	ck_assert_int_eq(strtoll(kept.text, NULL, 10), 4);
}
END_TEST

START_TEST(log_kept_cuts_texts)
{
	char text[LOG_KEPT_TEXT_MAX + 100], name[300];
	uint64_t number = 0;
	struct log_kept kept;

	memset(text, 'x', sizeof(text));
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	text[sizeof(text) - 1] = 0;
	database = user = name;
	add("set", text);
	ck_assert(log_kept_next(kept_log, &number, &kept));
	ck_assert_uint_eq(strlen(kept.text), LOG_KEPT_TEXT_MAX);
	ck_assert_uint_eq(strlen(kept.database), sizeof(kept.database) - 1);
	ck_assert_uint_eq(strlen(kept.user), sizeof(kept.user) - 1);
	memcpy(text + LOG_KEPT_TEXT_MAX - 1, "\xc3\xa4", 2);
	memcpy(name + sizeof(kept.user) - 2, "\xc3\xa4", 2);
	add("set", text);
	ck_assert(log_kept_next(kept_log, &number, &kept));
	ck_assert_uint_eq(strlen(kept.text), LOG_KEPT_TEXT_MAX - 1);
	ck_assert_uint_eq(strlen(kept.user), sizeof(kept.user) - 2);
}
END_TEST

static uint64_t count_of(const char *name)
{
	const char *kind;
	uint64_t count;

	for (size_t i = 0; log_kept_kind(kept_log, i, &kind, &count); i++) {
		if (strcmp(kind, name) == 0)
			return count;
	}
	return UINT64_MAX;
}

START_TEST(log_kept_counts_kinds)
{
	ck_assert_uint_eq(count_of("pause"), 0);
	ck_assert_uint_eq(count_of("KILL"), UINT64_MAX);
	log_expect(kept_log, "KILL");
	log_expect(kept_log, "PAUSE");
	ck_assert_uint_eq(count_of("KILL"), 0);
	ck_assert_uint_eq(count_of("PAUSE"), UINT64_MAX);
	add("PAUSE", "by command");
	add("pause", "by signal");
	add("new", "not expected");
	ck_assert_uint_eq(count_of("pause"), 2);
	ck_assert_uint_eq(count_of("new"), 1);
	for (unsigned int i = 0; i < KEPT; i++)
		add_number(i);
	ck_assert_uint_eq(count_of("pause"), 2);
	ck_assert_uint_eq(count_of("set"), KEPT);
}
END_TEST

START_TEST(log_kept_bounds_kinds)
{
	static char names[KINDS + 1][8];
	uint64_t number = 0, count;
	struct log_kept kept;
	const char *kind;

	for (unsigned int i = 0; i <= KINDS; i++) {
		snprintf(names[i], sizeof(names[i]), "k%u", i);
		add(names[i], "event");
	}
	ck_assert(log_kept_kind(kept_log, KINDS - 1, &kind, &count));
	ck_assert(!log_kept_kind(kept_log, KINDS, &kind, &count));
	for (unsigned int i = 0; i <= KINDS; i++) {
		ck_assert(log_kept_next(kept_log, &number, &kept));
		ck_assert_str_eq(kept.kind, names[i]);
	}
	ck_assert_uint_eq(count_of("k0"), 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/log_kept");
	TCase *tests = tcase_create("log_kept");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, log_kept_is_empty);
	tcase_add_test(tests, log_kept_has_all_of_a_line);
	tcase_add_test(tests, log_kept_has_the_last_ones);
	tcase_add_test(tests, log_kept_cuts_texts);
	tcase_add_test(tests, log_kept_counts_kinds);
	tcase_add_test(tests, log_kept_bounds_kinds);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
