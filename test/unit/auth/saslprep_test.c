/* SPDX-License-Identifier: ISC */
/*
 * auth/digest.c: the examples of RFC 4013, and where PostgreSQL uses the
 * bytes unchanged.
 */
#include "pgweir/auth/digest.h"

#include "../unit.h"

static const struct {
	const char *says, *in, *out;
} cases[] = {
	{ "ASCII", "user", "user" },
	{ "case stays", "USER", "USER" },
	{ "empty", "", "" },
	{ "a soft hyphen goes", "I\xc2\xadX", "IX" },
	{ "a feminine ordinal becomes a", "\xc2\xaa", "a" },
	{ "a roman numeral becomes letters", "\xe2\x85\xa8", "IX" },
	{ "a no-break space becomes a space", "a\xc2\xa0z", "a z" },
	{ "a composed letter stays", "\xc3\xa9", "\xc3\xa9" },
	{ "a letter and its accent become one", "e\xcc\x81", "\xc3\xa9" },
	{ "control bytes stay", "a\x07", "a\x07" },
	{ "forbidden: as it is", "\xc2\xaa\x07", "\xc2\xaa\x07" },
	{ "right to left, mixed: as it is", "\xd8\xa7\x31", "\xd8\xa7\x31" },
	{ "not UTF-8: as it is", "a\xff\xc2\xaa", "a\xff\xc2\xaa" },
	{ "cut short: as it is", "\xc2", "\xc2" },
	{ "overlong: as it is", "\xc0\x80", "\xc0\x80" },
	{ "nothing would remain: as it is", "\xc2\xad", "\xc2\xad" },
	{ "not known to Unicode 3.2: as it is", "\xf0\x9f\x98\x80\xc2\xaa",
	  "\xf0\x9f\x98\x80\xc2\xaa" },
};

START_TEST(saslprep_answers)
{
	char *out = saslprep(cases[_i].in);

	ck_assert_msg(strcmp(out, cases[_i].out) == 0, "%s", cases[_i].says);
	secret_free(&out);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("auth/saslprep");
	TCase *tests = tcase_create("saslprep");

	tcase_add_loop_test(tests, saslprep_answers, 0, COUNT_OF(cases));
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
