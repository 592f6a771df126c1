/* SPDX-License-Identifier: ISC */
/*
 * client/applications.c: names that clients choose need bounded memory, and no count is lost.
 */
#include "pgweir/client/calls.h"

#include <stdio.h>

#include "../unit.h"

static const struct hash_key key = { { 3, 4 } };
static struct applications applications;

static void begin(void) { applications_init(&applications, &key); }

static void end(void) { applications_done(&applications); }

START_TEST(application_is_shared)
{
	struct application *one = applications_join(&applications, "web");
	struct application *two = applications_join(&applications, "web");

	ck_assert_ptr_eq(one, two);
	ck_assert_uint_eq(one->client_count, 2);
	applications_leave(&applications, &one);
	ck_assert_ptr_null(one);
	ck_assert_ptr_eq(applications_find(&applications, "web"), two);
	ck_assert_ptr_null(applications_find(&applications, "Web"));
	applications_leave(&applications, &two);
	applications_leave(&applications, &two);
	ck_assert_uint_eq(applications.unused_count, 1);
	two = applications_join(&applications, "web");
	ck_assert_uint_eq(applications.unused_count, 0);
	applications_leave(&applications, &two);
}
END_TEST

START_TEST(application_has_a_name_of_bounded_size)
{
	char name[200];
	struct application *one, *two;

	memset(name, 'n', sizeof(name));
	name[sizeof(name) - 1] = 0;
	one = applications_join(&applications, name);
	name[100] = 0;
	two = applications_join(&applications, name);
	ck_assert_ptr_eq(one, two);
	ck_assert_uint_eq(strlen(one->name), APPLICATION_NAME_SIZE - 1);
	ck_assert_ptr_eq(applications_find(&applications, name), one);
	applications_leave(&applications, &one);
	applications_leave(&applications, &two);
}
END_TEST

START_TEST(applications_are_bounded)
{
	char name[32];

	for (unsigned int i = 0; i < 5 * APPLICATIONS_KEPT; i++) {
		struct application *application;

		snprintf(name, sizeof(name), "app %u", i);
		application = applications_join(&applications, name);
		application->xact_count = 2;
		application->error_count = 1;
		applications_leave(&applications, &application);
	}
	ck_assert_uint_eq(applications.unused_count, APPLICATIONS_KEPT);
	ck_assert_uint_eq(HASH_COUNT(applications.table), APPLICATIONS_KEPT);
	ck_assert_uint_eq(applications.gone_xact_count, 8 * APPLICATIONS_KEPT);
	ck_assert_uint_eq(applications.gone_error_count, 4 * APPLICATIONS_KEPT);
	ck_assert_ptr_null(applications_find(&applications, "app 0"));
	ck_assert_ptr_nonnull(applications_find(&applications, name));
}
END_TEST

START_TEST(applications_begin_again)
{
	struct application *stays = applications_join(&applications, "stays");
	struct application *goes = applications_join(&applications, "goes");

	stays->xact_count = goes->error_count = 5;
	applications_leave(&applications, &goes);
	applications_reset(&applications);
	ck_assert_ptr_null(applications_find(&applications, "goes"));
	ck_assert_uint_eq(stays->xact_count, 0);
	ck_assert_uint_eq(applications.gone_error_count, 0);
	applications_leave(&applications, &stays);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/applications");
	TCase *tests = tcase_create("applications");

	tcase_add_checked_fixture(tests, begin, end);
	tcase_add_test(tests, application_is_shared);
	tcase_add_test(tests, application_has_a_name_of_bounded_size);
	tcase_add_test(tests, applications_are_bounded);
	tcase_add_test(tests, applications_begin_again);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
