/* SPDX-License-Identifier: ISC */
/*
 * pgwire/sql_touchers.h.
 */

#include <stdio.h>
#include <string.h>

#include "pgweir/pgwire/sql_touch.h"

#include "../unit.h"

#define FUNCTION 1u
#define TABLE 2u
#define ODD 4u
#define LONG 8u

#define SIXTY_THREE "a23456789012345678901234567890123456789012345678901234567890123"

#define SIXTY_I "iiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiii"

static struct sql_touchers set;

static void make(void)
{
	static const struct {
		const char *name;
		unsigned int bits;
		bool is_called;
	} names[] = {
		{ "my_pin", FUNCTION, true }, { "inner_pin", FUNCTION, true },
		{ "orders", TABLE, false },   { "a?b", ODD, true },
		{ SIXTY_THREE, LONG, true },
	};

	for (size_t i = 0; i < COUNT_OF(names); i++) {
		struct sql_toucher what = { .bits = names[i].bits,
			                    .is_called = names[i].is_called };

		ck_assert(sql_touchers_add(&set, bytes_text(names[i].name), &what));
	}
}

static void forget(void) { sql_touchers_free(&set); }

static const struct {
	const char *text;
	unsigned int bits;
} cases[] = {
	{ "", 0 },
	{ "SELECT 1", 0 },
	{ "SELECT my_pin(1)", FUNCTION },
	{ "SELECT a.MY_PIN /* */ (1)", FUNCTION },
	{ "SELECT \"my_pin\"()", FUNCTION },
	{ "SELECT public . \"my_pin\"\n--\n()", FUNCTION },
	{ "SELECT ('x'::text).my_pin", FUNCTION },
	{ "SELECT (x) . my_pin", FUNCTION },
	{ "SELECT 1my_pin()", FUNCTION },
	{ "SELECT 'a\\', my_pin(), '", FUNCTION },
	{ "SELECT my_pin FROM t WHERE a IN (1)", 0 },
	{ "SELECT 'my_pin(1)' -- my_pin()", 0 },
	{ "SELECT $$my_pin(1)$$ /* my_pin() */", 0 },
	{ "SELECT my_pins(1), m(2)", 0 },
	{ "TABLE orders", TABLE },
	{ "INSERT INTO public.Orders VALUES (my_pin())", TABLE | FUNCTION },
	{ "SELECT 'orders'", 0 },
	{ "SELECT \xddnner_pin()", FUNCTION | ODD },     /* a capital I with a dot, in one byte */
	{ "SELECT \xc4\xb0nner_pin()", FUNCTION | ODD }, /* and in two */
	{ "SELECT 'a', \"b\"", 0 },
	{ "SELECT 'na\xc3\xafve'", ODD }, /* a name may be there that is not ASCII */
	{ "SELECT \"a\"\"b\"()", ODD },
	{ "SELECT " SIXTY_THREE "()", LONG },
	{ "SELECT " SIXTY_THREE "456()", LONG }, /* PostgreSQL cuts it */
	{ "SELECT b" SIXTY_THREE "()", 0 },
	{ "SELECT '\x95\x5c', my_pin()", SQL_TOUCH_HIDDEN | ODD | FUNCTION }, /* Shift JIS */
};

START_TEST(finds_names)
{
	unsigned int bits = sql_touchers_in(&set, bytes_text(cases[_i].text), NULL);

	ck_assert_msg(bits == cases[_i].bits, "%s: %u", cases[_i].text, bits);
}
END_TEST

/* Nothing after a text is read. */
START_TEST(every_cut)
{
	const char *text = cases[_i].text;

	for (size_t count = 0; count <= strlen(text); count++) {
		char *copy = malloc(count ? count : 1); /* the sanitizer detects reads after it */

		memcpy(copy, text, count);
		ck_assert_uint_eq(sql_touchers_in(&set, bytes_of(text, count), NULL),
		                  sql_touchers_in(&set, bytes_of(copy, count), NULL));
		free(copy);
	}
}
END_TEST

START_TEST(tells_the_first)
{
	const struct sql_toucher *first;

	sql_touchers_in(&set, bytes_text("SELECT my_pin(a) FROM orders"), &first);
	ck_assert_str_eq(set.names.at + first->name, "my_pin");
	sql_touchers_in(&set, bytes_text("SELECT 1"), &first);
	ck_assert_ptr_null(first);
}
END_TEST

START_TEST(an_empty_set)
{
	struct sql_touchers none = { 0 };

	ck_assert_uint_eq(sql_touchers_in(&none, bytes_text("SELECT my_pin()"), NULL), 0);
	sql_touchers_free(&none);
}
END_TEST

/* Names that are spelled in many ways. */
START_TEST(many_that_are_alike)
{
	struct sql_toucher what = { .is_called = true };
	struct sql_touchers alike = { 0 };
	char text[64];

	for (int i = 0; i < 900; i++) {
		what.bits = i < 450 ? FUNCTION : ODD;
		snprintf(text, sizeof(text), "%.*sx%.*s", 1 + i % 30, SIXTY_I, 1 + i / 30, SIXTY_I);
		ck_assert(sql_touchers_add(&alike, bytes_text(text), &what));
	}
	ck_assert_uint_eq(sql_touchers_in(&alike, bytes_text("SELECT ixi()"), NULL),
	                  FUNCTION | ODD);
	sql_touchers_free(&alike);
}
END_TEST

/* A function and a table may have one name; many names are found. */
START_TEST(many_names)
{
	struct sql_toucher what = { .bits = 1, .is_called = true };
	struct sql_touchers many = { 0 };
	char text[64];

	for (int i = 0; i < 1000; i++) {
		snprintf(text, sizeof(text), "f_%d", i);
		ck_assert(sql_touchers_add(&many, bytes_text(text), &what));
	}
	what = (struct sql_toucher){ .bits = 2 };
	ck_assert(sql_touchers_add(&many, bytes_text("f_7"), &what));
	for (int i = 0; i < 1000; i++) {
		snprintf(text, sizeof(text), "SELECT F_%d()", i);
		ck_assert_uint_eq(sql_touchers_in(&many, bytes_text(text), NULL), i == 7 ? 3 : 1);
	}
	ck_assert_uint_eq(sql_touchers_in(&many, bytes_text("SELECT * FROM f_7"), NULL), 2);
	sql_touchers_free(&many);
}
END_TEST

/* Memory that a set gets without end is refused. */
START_TEST(a_limit)
{
	struct sql_toucher what = { .bits = 1 };
	struct sql_touchers small = { .names.limit = 10 };

	ck_assert(sql_touchers_add(&small, bytes_text("abcdefgh"), &what));
	ck_assert(!sql_touchers_add(&small, bytes_text("abcdefgh"), &what));
	sql_touchers_free(&small);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pgwire/sql_touchers");
	TCase *tests = tcase_create("sql_touchers");

	tcase_add_checked_fixture(tests, make, forget);
	tcase_add_loop_test(tests, finds_names, 0, COUNT_OF(cases));
	tcase_add_loop_test(tests, every_cut, 0, COUNT_OF(cases));
	tcase_add_test(tests, tells_the_first);
	tcase_add_test(tests, an_empty_set);
	tcase_add_test(tests, many_names);
	tcase_add_test(tests, many_that_are_alike);
	tcase_add_test(tests, a_limit);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
