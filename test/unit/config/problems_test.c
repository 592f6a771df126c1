/* SPDX-License-Identifier: ISC */
/*
 * config/problems.c: messages with their source position, and the limit.
 */
#include "pgweir/config/problems.h"

#include "../unit.h"

START_TEST(problems_say_where)
{
	struct problems problems = { 0 };

	ck_assert(!problems_any(&problems));
	ck_assert(!problems_add(&problems, (struct source_pos){ "a.ini", 7 }, "no %s", "good"));
	ck_assert(!problems_add(&problems, (struct source_pos){ "b.ini", 0 }, "cannot open"));
	ck_assert_uint_eq(problems.errors.count, 2);
	ck_assert_str_eq(problems.errors.texts[0], "a.ini:7: no good");
	ck_assert_str_eq(problems.errors.texts[1], "b.ini: cannot open");
	ck_assert(problems_any(&problems));
	problems_done(&problems);
	ck_assert(!problems_any(&problems));
}
END_TEST

START_TEST(a_warning_is_no_problem)
{
	struct problems problems = { 0 };

	problems_warn(&problems, (struct source_pos){ "a.ini", 7 }, "look at %s", "this");
	problems_warn(&problems, (struct source_pos){ NULL, 0 }, "no file");
	ck_assert(!problems_any(&problems));
	ck_assert_uint_eq(problems.warnings.count, 2);
	ck_assert_str_eq(problems.warnings.texts[0], "a.ini:7: look at this");
	ck_assert_str_eq(problems.warnings.texts[1], "no file");
	for (int i = 0; i < CONFIG_PROBLEMS_MAX; i++)
		problems_warn(&problems, (struct source_pos){ "a.ini", i + 1 }, "look");
	ck_assert_uint_eq(problems.warnings.count, CONFIG_PROBLEMS_MAX);
	ck_assert_uint_eq(problems.warnings.dropped_count, 2);
	problems_done(&problems);
	ck_assert_uint_eq(problems.warnings.count, 0);
}
END_TEST

START_TEST(problems_are_bounded)
{
	struct problems problems = { 0 };
	static char words[5000];

	for (int i = 0; i < CONFIG_PROBLEMS_MAX + 3; i++)
		problems_add(&problems, (struct source_pos){ "a.ini", i + 1 }, "bad");
	ck_assert_uint_eq(problems.errors.count, CONFIG_PROBLEMS_MAX);
	ck_assert_uint_eq(problems.errors.dropped_count, 3);
	problems_done(&problems);

	/* a problem with too long a message is still a problem */
	for (size_t i = 0; i + 1 < sizeof(words); i++)
		words[i] = 'x';
	problems_add(&problems, (struct source_pos){ "a.ini", 1 }, "%s", words);
	ck_assert(problems_any(&problems));
	problems_done(&problems);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config/problems");
	TCase *cases = tcase_create("problems");

	tcase_add_test(cases, problems_say_where);
	tcase_add_test(cases, a_warning_is_no_problem);
	tcase_add_test(cases, problems_are_bounded);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
