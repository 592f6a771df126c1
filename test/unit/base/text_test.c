/* SPDX-License-Identifier: ISC */
/*
 * base/text.c.
 */
#include "pgweir/base/text.h"
#include "pgweir/base/bytes.h"

#include "../unit.h"

START_TEST(text_numbers_are_whole)
{
	int64_t value;

	ck_assert(text_to_i64("-42", &value));
	ck_assert_int_eq(value, -42);
	ck_assert(!text_to_i64("42x", &value));
	ck_assert(!text_to_i64("", &value));
	ck_assert(!text_to_i64("99999999999999999999", &value));
}
END_TEST

START_TEST(text_hex_is_lower_case)
{
	char out[7];

	text_hex(out, "\x00\xff\x1a", 3);
	ck_assert_str_eq(out, "00ff1a");
}
END_TEST

START_TEST(text_copies_are_bounded)
{
	char out[4];

	ck_assert(text_copy(out, sizeof(out), "abc"));
	ck_assert(!text_copy(out, sizeof(out), "abcd"));
	ck_assert_str_eq(out, "abc");
}
END_TEST

static const struct {
	const char *text, *copy;
} cuts[] = {
	{ "ab\xc3\xa4", "ab" },
	{ "a\xc3\xa4"
	  "b",
	  "a\xc3\xa4" },
	{ "\xe2\x82\xac"
	  "b",
	  "\xe2\x82\xac" },
	{ "a\xe2\x82\xac", "a" },
	{ "\xf0\x9f\x90\x98", "" },
	{ "\x80\x80\x80\x80", "\x80\x80\x80" },
};

START_TEST(text_is_cut_between_characters)
{
	char out[4], more[4];
	struct strbuf line = strbuf_begin(more, sizeof(more)), printed;

	ck_assert(!text_copy(out, sizeof(out), cuts[_i].text));
	ck_assert_str_eq(out, cuts[_i].copy);
	strbuf_add(&line, cuts[_i].text);
	strbuf_add(&line, "x"); /* nothing comes behind it */
	ck_assert_str_eq(more, cuts[_i].copy);
	printed = strbuf_begin(more, sizeof(more));
	strbuf_printf(&printed, "%s", cuts[_i].text);
	strbuf_add(&printed, "x");
	ck_assert_str_eq(more, cuts[_i].copy);
	ck_assert_uint_eq(printed.count, strlen(more));
}
END_TEST

START_TEST(text_trims_both_sides)
{
	char text[] = " \t a b \r\n";

	ck_assert_str_eq(text_trim(text), "a b");
}
END_TEST

START_TEST(bytes_contain_a_text_in_any_case)
{
	struct bytes bytes = bytes_of("do $$ Set_Config('x') $$", 24);

	ck_assert(bytes_contain(bytes, "set_config"));
	ck_assert(bytes_contain(bytes, "DO"));
	ck_assert(bytes_contain(bytes, "'x"));
	ck_assert(bytes_contain(bytes, "$$"));
	ck_assert(!bytes_contain(bytes, "set_configs"));
	ck_assert(!bytes_contain(bytes_of("set", 2), "set")); /* one byte is missing */
	ck_assert(!bytes_contain(bytes_of(NULL, 0), "x"));
}
END_TEST

START_TEST(bytes_are_ascii_up_to_the_end)
{
	ck_assert(bytes_are_ascii(bytes_of("", 0)));
	ck_assert(bytes_are_ascii(bytes_text("\001a\x7f")));
	ck_assert(!bytes_are_ascii(bytes_text("a\x80")));
	ck_assert(bytes_are_ascii(bytes_of("a\x80", 1)));
}
END_TEST

START_TEST(bytes_take_text_needs_the_zero)
{
	struct bytes in = bytes_of("ab\0cd", 5);
	const char *text;

	ck_assert(bytes_take_text(&in, &text));
	ck_assert_str_eq(text, "ab");
	ck_assert(!bytes_take_text(&in, &text));
	ck_assert_uint_eq(in.count, 2);
}
END_TEST

START_TEST(bytes_secrets_compare)
{
	ck_assert(bytes_equal_secret(bytes_text("abc"), bytes_text("abc")));
	ck_assert(!bytes_equal_secret(bytes_text("abc"), bytes_text("abd")));
	ck_assert(!bytes_equal_secret(bytes_text("abc"), bytes_text("ab")));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/text");
	TCase *cases = tcase_create("text");

	tcase_add_test(cases, text_numbers_are_whole);
	tcase_add_test(cases, text_hex_is_lower_case);
	tcase_add_test(cases, text_copies_are_bounded);
	tcase_add_loop_test(cases, text_is_cut_between_characters, 0, COUNT_OF(cuts));
	tcase_add_test(cases, text_trims_both_sides);
	tcase_add_test(cases, bytes_take_text_needs_the_zero);
	tcase_add_test(cases, bytes_contain_a_text_in_any_case);
	tcase_add_test(cases, bytes_are_ascii_up_to_the_end);
	tcase_add_test(cases, bytes_secrets_compare);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
