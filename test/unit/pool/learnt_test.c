/* SPDX-License-Identifier: ISC */
/*
 * pool/learnt.h.
 */
#include "pgweir/pgwire/sql_touch.h"
#include "pgweir/pool/learnt.h"

#include "../unit.h"

static const struct learnt_statement *add(struct learnt **learnt, uint64_t digest,
                                          unsigned int touches)
{
	struct learnt_statement found = { .digest = digest,
		                          .touches = touches,
		                          .text = "SELECT f(?)" };
	const struct learnt_statement *statement = learnt_add(learnt, &found);

	ck_assert_ptr_nonnull(statement);
	ck_assert_str_eq(statement->text, "SELECT f(?)");
	return statement;
}

START_TEST(nothing_learnt)
{
	struct learnt *learnt = NULL;

	ck_assert_uint_eq(learnt_touches(learnt, 1), 0);
	ck_assert_ptr_null(learnt_next(learnt, NULL));
	learnt_free(&learnt);
}
END_TEST

START_TEST(touches_add_up)
{
	struct learnt *learnt = NULL;

	ck_assert_uint_eq(add(&learnt, 7, 1)->found_count, 1);
	ck_assert_uint_eq(add(&learnt, 7, 4)->found_count, 2);
	ck_assert_uint_eq(add(&learnt, 8, 2)->found_count, 1);
	ck_assert_uint_eq(learnt_touches(learnt, 7), 5);
	ck_assert_uint_eq(learnt_touches(learnt, 8), 2);
	ck_assert_uint_eq(learnt_touches(learnt, 9), 0);
	ck_assert_uint_eq(learnt->count, 2);
	learnt_free(&learnt);
	ck_assert_ptr_null(learnt);
}
END_TEST

/* Only clients that listen need to know which statements notify. */
START_TEST(notifications_are_no_state)
{
	struct learnt *learnt = NULL;

	add(&learnt, 7, SQL_TOUCH_NOTIFY);
	ck_assert(!learnt->has_state);
	add(&learnt, 7, SQL_TOUCH_NOTIFY | SQL_TOUCH_TEMP);
	ck_assert(learnt->has_state);
	add(&learnt, 8, SQL_TOUCH_NOTIFY);
	ck_assert(learnt->has_state);
	learnt_free(&learnt);
}
END_TEST

/* Digests with the same low half are different entries. */
START_TEST(low_halves_collide)
{
	struct learnt *learnt = NULL;

	add(&learnt, 7, 1);
	add(&learnt, 7 | UINT64_C(1) << 32, 2);
	ck_assert_uint_eq(learnt_touches(learnt, 7), 1);
	ck_assert_uint_eq(learnt_touches(learnt, 7 | UINT64_C(1) << 32), 2);
	learnt_free(&learnt);
}
END_TEST

START_TEST(longest_unused_goes)
{
	const struct learnt_statement *statement = NULL;
	struct learnt *learnt = NULL;
	unsigned int count = 0;

	for (uint64_t digest = 0; digest < LEARNT_MAX; digest++)
		add(&learnt, digest, 1);
	ck_assert_uint_eq(learnt_touches(learnt, 0), 1); /* it is used */
	add(&learnt, LEARNT_MAX, 2);
	add(&learnt, LEARNT_MAX + 1, 2);
	ck_assert_uint_eq(learnt_touches(learnt, 0), 1);
	ck_assert_uint_eq(learnt_touches(learnt, 1), 0);
	ck_assert_uint_eq(learnt_touches(learnt, 2), 0);
	ck_assert_uint_eq(learnt_touches(learnt, 3), 1);
	ck_assert_uint_eq(learnt->count, LEARNT_MAX);
	while ((statement = learnt_next(learnt, statement)))
		count++;
	ck_assert_uint_eq(count, LEARNT_MAX);
	learnt_free(&learnt);
}
END_TEST

/* Another loop's find adds to what is known, and counts as no find here. */
START_TEST(others_finds_are_heard)
{
	struct learnt_statement entry = { .digest = 7, .touches = 1, .text = "SELECT f(?)" };
	const struct learnt_statement *statement;
	struct learnt *learnt = NULL;

	entry.since_wall = 5;
	entry.found_wall = 9;
	ck_assert(learnt_hear(&learnt, &entry, 3));
	ck_assert_uint_eq(learnt_touches(learnt, 7), 1);
	statement = learnt_next(learnt, NULL);
	ck_assert_uint_eq(statement->number, 3);
	ck_assert_uint_eq(statement->found_count, 0);
	ck_assert_int_eq(statement->since_wall, 5);
	statement = add(&learnt, 7, 1);
	ck_assert_int_eq(statement->news, LEARNT_KNOWN);
	ck_assert_uint_eq(statement->found_count, 1);
	ck_assert_int_eq(statement->found_wall, 9);
	ck_assert_int_eq(add(&learnt, 7, 2)->news, LEARNT_MORE);
	ck_assert_int_eq(add(&learnt, 8, 2)->news, LEARNT_NEW);
	entry.is_sure = true;
	ck_assert(learnt_hear(&learnt, &entry, 4));
	ck_assert_int_eq(learnt_next(learnt, NULL)->news, LEARNT_MORE);
	learnt_free(&learnt);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/learnt");
	TCase *tests = tcase_create("learnt");

	tcase_add_test(tests, nothing_learnt);
	tcase_add_test(tests, touches_add_up);
	tcase_add_test(tests, notifications_are_no_state);
	tcase_add_test(tests, low_halves_collide);
	tcase_add_test(tests, others_finds_are_heard);
	tcase_add_test(tests, longest_unused_goes);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
