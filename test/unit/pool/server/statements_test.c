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

/* As it comes from another process. */
static struct statement *arrive(struct statements *statements, const struct statement_name *name,
                                struct bytes text)
{
	struct statement_image *image = statement_image_named(&statements->names, name, text, none);
	struct statement *statement = statement_of_image(statements, image);

	statement_image_release(&image);
	return statement;
}

START_TEST(statements_are_held_once)
{
	struct statements statements = { 0 };
	struct bytes text = text_of("select 1\0\0\0", 11);
	struct statement *one = statement_of(&statements, text, none);
	struct statement *two = statement_of(&statements, text, none);

	ck_assert_ptr_nonnull(one);
	ck_assert_ptr_eq(one, two);
	statement_release(&one);
	ck_assert_ptr_null(one);
	ck_assert_uint_eq(HASH_COUNT(statements.table), 1);
	statement_release(&two);
	ck_assert_uint_eq(HASH_COUNT(statements.table), 0);
	statement_release(&two);
}
END_TEST

START_TEST(statements_differ_by_their_types)
{
	struct statements statements = { 0 };
	struct statement *open = statement_of(&statements, text_of("x\0\0\0", 4), none);
	struct statement *some = statement_of(&statements, text_of("x\0\0\1\0\0\0\27", 8), none);

	ck_assert_ptr_ne(open, some);
	statement_release(&open);
	statement_release(&some);
}
END_TEST

/* The number is a hash of the content: the same in each loop, and at each time. */
START_TEST(statements_have_names_from_their_content)
{
	static const struct {
		const char *says;
		struct bytes text, scope;
		bool is_same;
	} cases[] = {
		{ "the same", { "x\0\0\0", 4 }, { "", 0 }, true },
		{ "another text", { "y\0\0\0", 4 }, { "", 0 }, false },
		{ "other types", { "x\0\0\1\0\0\0\27", 8 }, { "", 0 }, false },
		{ "another scope", { "x\0\0\0", 4 }, { "role\0a\0", 7 }, false },
	};
	struct statements one = { 0 }, other = { 0 };
	struct statement_names names;
	struct statement *first, *second;

	ck_assert(statement_names_draw(&names));
	ck_assert(statements_init(&one, &names) && statements_init(&other, &names));
	first = statement_of(&one, text_of("x\0\0\0", 4), none);
	ck_assert(bytes_are(statement_image_stem(first->image), names.stem));
	ck_assert_uint_eq(statement_number(first), hash_bytes(&names.key, "x\0\0\0", 4));
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		second = statement_of(&other, cases[i].text, cases[i].scope);
		ck_assert_msg(bytes_equal(statement_name(first), statement_name(second)) ==
		                  cases[i].is_same,
		              "%s", cases[i].says);
		statement_release(&second);
		second = statement_of(&other, cases[i].text, cases[i].scope);
		ck_assert_msg(bytes_equal(statement_name(first), statement_name(second)) ==
		                  cases[i].is_same,
		              "%s, again", cases[i].says);
		statement_release(&second);
	}
	statement_release(&first);
}
END_TEST

START_TEST(statements_have_names_that_nobody_can_guess)
{
	struct statements statements = { 0 }, others = { 0 };
	struct statement_name old = { "", 7 }, arrived = { "abc", 9 };
	struct statement *one, *two, *three;

	ck_assert(statements_init(&statements, NULL) && statements_init(&others, NULL));
	ck_assert_str_ne(statements.names.stem, others.names.stem);
	one = statement_of(&statements, text_of("x\0\0\0", 4), none);
	two = statement_of(&others, text_of("x\0\0\0", 4), none);
	ck_assert_uint_ne(statement_number(one), statement_number(two));
	statement_release(&two);
	/* From another process; and from one without stems. */
	two = arrive(&statements, &arrived, text_of("y\0\0\0", 4));
	ck_assert_str_eq(statement_name(two).at, "PGBOUNCER_abc_9");
	ck_assert(bytes_are(statement_image_stem(two->image), "abc"));
	ck_assert_uint_eq(statement_number(two), 9);
	three = arrive(&statements, &old, text_of("z\0\0\0", 4));
	ck_assert_str_eq(statement_name(three).at, "PGBOUNCER_7");
	ck_assert(bytes_are(statement_image_stem(three->image), ""));
	ck_assert_uint_eq(statement_number(three), 7);
	statement_release(&one);
	statement_release(&two);
	statement_release(&three);
}
END_TEST

/* A server has a statement under the name that another process gave it. */
START_TEST(statements_have_other_names_for_servers)
{
	static const struct bytes scope = { "role\0a\0", 7 };
	struct statement_name arrived = { "abc", 9 };
	struct bytes text = text_of("x\0\0\0", 4);
	struct statements statements = { 0 };
	struct statement *own, *named;
	struct statement_image *image;

	ck_assert(statements_init(&statements, NULL));
	image = statement_image_named(&statements.names, &arrived, text, scope);
	/* No other name is known: it gets this one, for clients too. */
	named = statement_of_image(&statements, image);
	own = statement_of(&statements, text, scope);
	ck_assert_ptr_eq(own, named);
	ck_assert_str_eq(statement_name(own).at, "PGBOUNCER_abc_9");
	ck_assert_ptr_eq(image, own->image);
	statement_release(&own);
	statement_release(&named);
	own = statement_of(&statements, text, scope);
	named = statement_of_image(&statements, image);
	ck_assert_ptr_eq(own, named);
	ck_assert_ptr_ne(image, own->image);
	ck_assert_str_eq(statement_image_name(image).at, "PGBOUNCER_abc_9");
	ck_assert_uint_eq(image->hash, own->image->hash);
	ck_assert_uint_eq(image->scope_size, scope.count);
	ck_assert_uint_eq(HASH_COUNT(statements.table), 1);
	statement_release(&named);
	statement_release(&own);
	ck_assert_ptr_null(statements.table);
	statement_image_release(&image);
}
END_TEST

/* What loops share is the image: no text is copied or hashed again. */
START_TEST(statements_go_to_another_loop)
{
	static const struct bytes scope = { "role\0a\0", 7 };
	struct bytes text = text_of("listen x\0\0\0", 11);
	struct statements here = { 0 }, there = { 0 };
	struct statement_names names;
	struct statement *one, *two, *three;
	struct statement_image *image;

	ck_assert(statement_names_draw(&names));
	ck_assert(statements_init(&here, &names) && statements_init(&there, &names));
	one = statement_of(&here, text, scope);
	image = statement_image_hold(one->image);
	two = statement_of_image(&there, image);
	ck_assert_ptr_eq(two->image, image);
	ck_assert_ptr_ne(two, one);
	ck_assert_uint_eq(two->touches, one->touches);
	ck_assert_uint_ne(two->touches, 0);
	three = statement_of(&there, text, scope);
	ck_assert_ptr_eq(three, two);
	statement_release(&one);
	statement_release(&two);
	/* Found by its content, though it was made there. */
	two = statement_of_image(&there, image);
	ck_assert_ptr_eq(three, two);
	statement_release(&two);
	statement_release(&three);
	statement_image_release(&image);
	ck_assert_ptr_null(image);
	ck_assert_ptr_null(here.table);
	ck_assert_ptr_null(there.table);
}
END_TEST

/* Two loops may have different names for one text that came from another process. */
START_TEST(statements_of_another_loop_are_found_by_their_content)
{
	struct bytes text = text_of("x\0\0\0", 4);
	struct statements here = { 0 }, there = { 0 };
	struct statement_name arrived = { "abc", 9 };
	struct statement_names names;
	struct statement *one, *two, *three;

	ck_assert(statement_names_draw(&names));
	ck_assert(statements_init(&here, &names) && statements_init(&there, &names));
	one = arrive(&here, &arrived, text);
	two = statement_of(&there, text, none);
	three = statement_of_image(&there, one->image);
	ck_assert_ptr_eq(three, two);
	ck_assert_str_ne(statement_name(three).at, "PGBOUNCER_abc_9");
	statement_release(&three);
	statement_release(&two);
	/* Nobody has it there any more: it gets the name that it has here. */
	two = statement_of_image(&there, one->image);
	ck_assert_str_eq(statement_name(two).at, "PGBOUNCER_abc_9");
	statement_release(&one);
	statement_release(&two);
	ck_assert_ptr_null(here.table);
	ck_assert_ptr_null(there.table);
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
	ck_assert(statements_init(&statements, NULL));
	for (int i = 0; i < COLLIDING_COUNT; i++) {
		colliding_text(&colliding, i, text);
		all[i] = statement_of(&statements, bytes_of(text, sizeof(text)), none);
	}
	ck_assert_uint_eq(HASH_COUNT(statements.table), COLLIDING_COUNT);
	COLLIDING_LONGEST(statements.table, longest);
	ck_assert_uint_lt(longest, 20);
	for (int i = 0; i < COLLIDING_COUNT; i++)
		statement_release(&all[i]);
}
END_TEST

START_TEST(statements_are_whole_parse_messages)
{
	static const char expected[] = "P\0\0\0\024PGBOUNCER_1\0x\0\0\0";
	struct statements statements = { 0 };
	struct statement_name name = { "", 1 };
	struct statement *one = arrive(&statements, &name, text_of("x\0\0\0", 4));

	ck_assert(bytes_equal(statement_message(one), bytes_of(expected, sizeof(expected) - 1)));
	statement_release(&one);
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
	ck_assert_uint_eq(statement_message(one).count, statement_message(two).count);
	ck_assert(bytes_equal(statement_text(one), statement_text(two)));
	statement_release(&one);
	statement_release(&two);
	statement_release(&three);
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
	statement_release(&typed);
	/* No unspecified types: it is the same. */
	typed = statement_typed(some, types);
	ck_assert_ptr_eq(typed, some);
	statement_release(&typed);
	statement_release(&open);
	statement_release(&some);
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
	tcase_add_test(tcase, statements_have_names_from_their_content);
	tcase_add_test(tcase, statements_have_names_that_nobody_can_guess);
	tcase_add_test(tcase, statements_have_other_names_for_servers);
	tcase_add_test(tcase, statements_go_to_another_loop);
	tcase_add_test(tcase, statements_of_another_loop_are_found_by_their_content);
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, statements_of_chosen_texts_make_no_long_chains);
	tcase_add_test(tcase, statements_are_whole_parse_messages);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
