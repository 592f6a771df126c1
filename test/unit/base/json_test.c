/* SPDX-License-Identifier: ISC */
/*
 * base/text.c
 */
#include "pgweir/base/text.h"

#include "../unit.h"

#define BAD "\xef\xbf\xbd" /* U+FFFD */

static const struct {
	const char *says;
	const char *in;
	const char *out;
} cases[] = {
	{ "nothing", "", "\"\"" },
	{ "plain", "abc ~", "\"abc ~\"" },
	{ "quotes", "a\"b\\c", "\"a\\\"b\\\\c\"" },
	{ "ends of lines", "a\nb\rc\td", "\"a\\nb\\rc\\td\"" },
	{ "controls", "\x01\x1b[2J\x7f", "\"\\u0001\\u001b[2J\\u007f\"" },
	{ "good UTF-8", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\x98",
	  "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\x98\"" },
	{ "C1 controls", "\xc2\x9b", "\"\\u009b\"" },
	{ "ends of lines for scripts", "\xe2\x80\xa8\xe2\x80\xa9", "\"\\u2028\\u2029\"" },
	{ "a lone continuation", "a\x80z", "\"a" BAD "z\"" },
	{ "never a beginning", "\xff\xfe\xc0\xc1", "\"" BAD BAD BAD BAD "\"" },
	{ "cut off", "\xe2\x82", "\"" BAD BAD "\"" },
	{ "cut by a letter", "\xe2\x82z", "\"" BAD BAD "z\"" },
	{ "overlong", "\xe0\x80\xaf", "\"" BAD BAD BAD "\"" },
	{ "half of a pair", "\xed\xa0\x80", "\"" BAD BAD BAD "\"" },
	{ "too high", "\xf4\x90\x80\x80", "\"" BAD BAD BAD BAD "\"" },
	{ "far too high", "\xf8\x88\x80\x80\x80", "\"" BAD BAD BAD BAD BAD "\"" },
};

START_TEST(json_texts)
{
	struct buf out = { 0 };

	json_add_text(&out, bytes_text(cases[_i].in));
	ck_assert_msg(strcmp(buf_text(&out), cases[_i].out) == 0, "%s: %s", cases[_i].says,
	              buf_text(&out));
	buf_free(&out);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/json");
	TCase *tcase = tcase_create("json");

	tcase_add_loop_test(tcase, json_texts, 0, COUNT_OF(cases));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
