/* SPDX-License-Identifier: ISC */
/*
 * pool/server/statements.c: each text is stored once, and freed with its last owner.
 */
#include "pgweir/pool/server/statements.h"

#include <string.h>

#include "../../unit.h"
#include "../../colliding.h"

static const struct bytes none = { "", 0 }; /* scope */

/* The rest of a Parse message after its name: text, zero, the number of types, the types. */
static struct bytes text_of(const char *text, size_t count) { return bytes_of(text, count); }

START_TEST(statements_are_held_once)
{
	struct statements statements = { 0 };
	struct bytes text = text_of("select 1\0\0\0", 11);
	struct statement *one = statement_of(&statements, text, none);
	struct statement *two = statement_of(&statements, text, none);

	ck_assert_ptr_nonnull(one);
	ck_assert_ptr_eq(one, two);
	statement_release(&statements, &one);
	ck_assert_ptr_null(one);
	ck_assert_uint_eq(HASH_COUNT(statements.table), 1);
	statement_release(&statements, &two);
	ck_assert_uint_eq(HASH_COUNT(statements.table), 0);
	statement_release(&statements, &two);
}
END_TEST

START_TEST(statements_differ_by_their_types)
{
	struct statements statements = { 0 };
	struct statement *open = statement_of(&statements, text_of("x\0\0\0", 4), none);
	struct statement *some = statement_of(&statements, text_of("x\0\0\1\0\0\0\27", 8), none);

	ck_assert_ptr_ne(open, some);
	statement_release(&statements, &open);
	statement_release(&statements, &some);
}
END_TEST

START_TEST(statements_never_give_a_number_twice)
{
	struct statements statements = { 0 };
	struct statement *one = statement_of(&statements, text_of("x\0\0\0", 4), none);

	ck_assert_str_eq(statement_name(one).at, "PGBOUNCER_1");
	statement_release(&statements, &one);
	one = statement_of(&statements, text_of("x\0\0\0", 4), none);
	ck_assert_str_eq(statement_name(one).at, "PGBOUNCER_2");
	ck_assert_uint_eq(statement_name(one).count, strlen("PGBOUNCER_2"));
	statement_release(&statements, &one);
}
END_TEST

START_TEST(statements_have_names_that_nobody_can_guess)
{
	struct statements statements = { 0 }, others = { 0 };
	struct statement_name old = { "", 7 }, arrived = { "abc", 9 };
	struct statement *one, *two, *three;

	ck_assert(statements_init(&statements) && statements_init(&others));
	ck_assert_str_ne(statements.stem, others.stem);
	one = statement_of(&statements, text_of("x\0\0\0", 4), none);
	ck_assert(bytes_are(statement_stem(one), statements.stem));
	ck_assert_uint_eq(statement_number(one), 1);
	/* From another process; and from one without stems. */
	two = statement_named(&statements, text_of("y\0\0\0", 4), none, &arrived);
	ck_assert_str_eq(statement_name(two).at, "PGBOUNCER_abc_9");
	ck_assert(bytes_are(statement_stem(two), "abc"));
	ck_assert_uint_eq(statement_number(two), 9);
	ck_assert(statement_is_called(two, &arrived) && !statement_is_called(two, &old));
	three = statement_named(&statements, text_of("z\0\0\0", 4), none, &old);
	ck_assert_str_eq(statement_name(three).at, "PGBOUNCER_7");
	ck_assert(bytes_are(statement_stem(three), ""));
	ck_assert_uint_eq(statement_number(three), 7);
	statement_release(&statements, &one);
	statement_release(&statements, &two);
	statement_release(&statements, &three);
}
END_TEST

START_TEST(statements_of_chosen_texts_make_no_long_chains)
{
	struct statement *all[COLLIDING_COUNT];
	struct statements statements = { 0 };
	struct colliding colliding;
	char text[COLLIDING_SIZE + 3] = "";
	unsigned int longest;

	colliding_find(&colliding);
	ck_assert(statements_init(&statements));
	for (int i = 0; i < COLLIDING_COUNT; i++) {
		colliding_text(&colliding, i, text);
		all[i] = statement_of(&statements, bytes_of(text, sizeof(text)), none);
	}
	ck_assert_uint_eq(HASH_COUNT(statements.table), COLLIDING_COUNT);
	COLLIDING_LONGEST(statements.table, longest);
	ck_assert_uint_lt(longest, 20);
	for (int i = 0; i < COLLIDING_COUNT; i++)
		statement_release(&statements, &all[i]);
}
END_TEST

START_TEST(statements_are_whole_parse_messages)
{
	static const char expected[] = "P\0\0\0\024PGBOUNCER_1\0x\0\0\0";
	struct statements statements = { 0 };
	struct statement *one = statement_of(&statements, text_of("x\0\0\0", 4), none);

	ck_assert_uint_eq(one->message_size, sizeof(expected) - 1);
	ck_assert_mem_eq(one->message, expected, sizeof(expected) - 1);
	statement_release(&statements, &one);
}
END_TEST

START_TEST(statements_differ_by_their_scope)
{
	static const struct bytes scope = { "role\0a\0", 7 };
	struct statements statements = { 0 };
	struct statement *one = statement_of(&statements, text_of("x\0\0\0", 4), none);
	struct statement *two = statement_of(&statements, text_of("x\0\0\0", 4), scope);
	struct statement *three = statement_scoped(one, scope);

	ck_assert_ptr_ne(one, two);
	ck_assert_ptr_eq(two, three);
	ck_assert(bytes_equal(statement_scope(two), scope));
	ck_assert(bytes_equal(statement_scope(one), none));
	/* The scope is not sent to a server. */
	ck_assert_uint_eq(one->message_size, two->message_size);
	ck_assert(bytes_equal(statement_text(one), statement_text(two)));
	statement_release(&statements, &one);
	statement_release(&statements, &two);
	statement_release(&statements, &three);
	ck_assert_ptr_null(statements.key.at);
}
END_TEST

START_TEST(statements_with_the_types_that_were_found)
{
	static const struct bytes scope = { "role\0a\0", 7 }, types = { "\0\1\0\0\0\27", 6 };
	struct statements statements = { 0 };
	struct statement *open = statement_of(&statements, text_of("x\0\0\0", 4), scope);
	struct statement *some = statement_of(&statements, text_of("x\0\0\1\0\0\0\27", 8), scope);
	struct statement *typed = statement_typed(open, types);

	ck_assert_ptr_eq(typed, some);
	ck_assert(typed->is_typed && !open->is_typed);
	ck_assert(bytes_equal(statement_scope(typed), scope));
	statement_release(&statements, &typed);
	/* No unspecified types: it is the same. */
	typed = statement_typed(some, types);
	ck_assert_ptr_eq(typed, some);
	statement_release(&statements, &typed);
	statement_release(&statements, &open);
	statement_release(&statements, &some);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/statements");
	TCase *tcase = tcase_create("statements");

	tcase_add_test(tcase, statements_are_held_once);
	tcase_add_test(tcase, statements_differ_by_their_types);
	tcase_add_test(tcase, statements_differ_by_their_scope);
	tcase_add_test(tcase, statements_with_the_types_that_were_found);
	tcase_add_test(tcase, statements_never_give_a_number_twice);
	tcase_add_test(tcase, statements_have_names_that_nobody_can_guess);
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, statements_of_chosen_texts_make_no_long_chains);
	tcase_add_test(tcase, statements_are_whole_parse_messages);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
