/* SPDX-License-Identifier: ISC */
/*
 * main/handover_version.c: by which name a process asks for a hand-over.
 */
#include "../../../src/main/takeover.h"

#include <string.h>

#include "../unit.h"

/*
 * Version 3, the plain format, is that of the releases 0.1.0 and 0.2.0. When this test fails, a
 * table of records has changed: then no process of these releases can be taken over from without a
 * restart. If that is wanted, say it in CHANGELOG.md.
 */
START_TEST(the_plain_format_is_that_of_releases)
{
	ck_assert_str_eq(handover_version_plain(), "3");
}
END_TEST

/* It has more than the plain format, so it must not be taken for it. */
START_TEST(session_state_is_in_the_version)
{
	char version[HANDOVER_VERSION_SIZE];

	handover_version(version, sizeof(version));
	ck_assert_msg(version[0] == 'r' && strlen(version) == 17, "%s", version);
	ck_assert(!handover_version_is(handover_version_plain()));
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

	tcase_add_test(tests, the_plain_format_is_that_of_releases);
	tcase_add_test(tests, session_state_is_in_the_version);
	tcase_add_test(tests, it_is_known_by_its_own_name);
	tcase_add_loop_test(tests, others_are_refused, 0, COUNT_OF(others));
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
