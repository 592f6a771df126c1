/* SPDX-License-Identifier: ISC */
/*
 * main/handover_version.c: by which name a process asks for a hand-over.
 */
#include "../../../src/main/handover_priv.h"

#include <string.h>

#include "../unit.h"

/*
 * Version 3 is that of release 0.1.0. When this test fails, a table of records has changed: then
 * no process of that release can be taken over from without a restart. If that is wanted, name
 * the new version here (it is in the message), and say it in CHANGELOG.md.
 */
START_TEST(it_is_that_of_the_last_release)
{
	char version[HANDOVER_VERSION_SIZE];

	handover_version(version, sizeof(version));
	ck_assert_str_eq(version, "3");
}
END_TEST

START_TEST(it_is_known_by_its_own_name)
{
	char version[HANDOVER_VERSION_SIZE];

	handover_version(version, sizeof(version));
	ck_assert(handover_version_is(version));
}
END_TEST

static const char *const others[] = { "", "2", "4", "33", "3x", "r", "r3", "r0000000000000000" };

START_TEST(others_are_refused)
{
	ck_assert_msg(!handover_version_is(others[_i]), "\"%s\"", others[_i]);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("main/handover_version");
	TCase *tests = tcase_create("handover_version");

	tcase_add_test(tests, it_is_that_of_the_last_release);
	tcase_add_test(tests, it_is_known_by_its_own_name);
	tcase_add_loop_test(tests, others_are_refused, 0, COUNT_OF(others));
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
