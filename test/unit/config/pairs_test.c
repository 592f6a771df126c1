/* SPDX-License-Identifier: ISC */
/*
 * config/value.c: key=value key='a value'.
 */
#include "../../../src/config/config_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit.h"

#define HINT "(a value that holds blanks, or has a comment behind it, needs single quotes)"

static const struct {
	const char *text;
	const char *joined; /* key<value> for each */
	const char *error;
} cases[] = {
	{ "", "", NULL },
	{ "  ", "", NULL },
	{ "host=a port=5", "host<a>port<5>", NULL },
	{ "host = a\tport =5 ", "host<a>port<5>", NULL },
	{ "password='it''s a secret' user=x", "password<it's a secret>user<x>", NULL },
	{ "password=a;b#c'd", "password<a;b#c'd>", NULL },
	{ "host='a' ; here = there", "host<a>", NULL },
	{ "host='a' # here", "host<a>", NULL },
	{ "a=b=c", "a<b=c>", NULL },
	{ "host=a ; here", "host<a>", "key=value is expected after host " HINT },
	{ "password=my secret", "password<my>", "key=value is expected after password " HINT },
	{ "nonsense", "", "key=value is expected" },
	{ "=a", "", "key=value is expected" },
	{ "ho'st=a", "", "key=value is expected" },
	{ "host", "", "key=value is expected" },
	{ "host=", "", "host: the value is missing (omit the key for its default)" },
	{ "host=''", "", "host: the value is missing (omit the key for its default)" },
	{ "host='a", "", "host: unterminated quote" },
	{ "host='a''", "", "host: unterminated quote" },
	{ "host='a'port=5", "", "host: a blank must follow the quotes" },
	{ "host='a';", "", "host: a blank must follow the quotes" },
};

START_TEST(pairs_next_answers)
{
	char *copy = strdup(cases[_i].text), joined[128] = "";
	struct pairs pairs = { .at = copy };
	struct err err = { 0 };
	enum pairs_result result;

	while ((result = pairs_next(&pairs, &err)) == PAIRS_ONE) {
		size_t used = strlen(joined);

		snprintf(joined + used, sizeof(joined) - used, "%s<%s>", pairs.key, pairs.value);
	}
	ck_assert_str_eq(joined, cases[_i].joined);
	ck_assert_str_eq(err.text, cases[_i].error ? cases[_i].error : "");
	ck_assert_int_eq(result, cases[_i].error ? PAIRS_BAD : PAIRS_END);
	free(copy);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config/pairs");
	TCase *tcase = tcase_create("pairs");

	tcase_add_loop_test(tcase, pairs_next_answers, 0, COUNT_OF(cases));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
