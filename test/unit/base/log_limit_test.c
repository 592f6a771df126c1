/* SPDX-License-Identifier: ISC */
/*
 * base/log.c
 */
#include "../../../src/base/log_priv.h"

#include <stdio.h>
#include <string.h>

#include "../unit.h"

static bool passes(struct log_limit *limit, const char *text)
{
	return log_limit_passes(limit, LOG_LEVEL_INFO, bytes_text(text));
}

static const struct {
	const char *one, *other;
	bool is_same_kind;
} pairs[] = {
	{ "closing because: a (age=1s)", "closing because: a (age=2s)", true },
	{ "closing because: a (age=1s)", "closing because: b (age=1s)", false },
	{ "login attempt: db=a user=b", "login attempt: db=c user=d", true },
	{ "pooler error: no such database: x", "pooler error: no such database: y", true },
	{ "server login failed: FATAL role \"a\"", "server login failed: FATAL role \"b\"", true },
	{ "login attempt: db=a", "login failed: db=a", false },
};

START_TEST(log_limit_knows_kinds)
{
	struct log_limit limit = { .per_second = 1 };

	ck_assert(passes(&limit, pairs[_i].one));
	ck_assert(passes(&limit, pairs[_i].other) != pairs[_i].is_same_kind);
	ck_assert(!passes(&limit, pairs[_i].one));
}
END_TEST

START_TEST(log_limit_is_bounded_whatever_comes)
{
	struct log_limit limit = { .per_second = 3 };
	unsigned int count = 0;
	char text[32];

	for (int i = 0; i < 100000; i++) {
		snprintf(text, sizeof(text), "no such user: %c%c%c%c", 'a' + i % 26,
		         'a' + i / 26 % 26, 'a' + i / 676 % 26, 'a' + i / 17576);
		count += passes(&limit, text);
	}
	ck_assert_uint_le(count, 3 * LOG_KINDS);
}
END_TEST

START_TEST(log_limit_lets_pass)
{
	struct log_limit none = { 0 }, one = { .per_second = 1 };

	for (int i = 0; i < 100; i++) {
		ck_assert(passes(&none, "often"));
		ck_assert(log_limit_passes(&one, LOG_LEVEL_FATAL, bytes_text("often")));
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/log_limit");
	TCase *tcase = tcase_create("log_limit");

	tcase_add_loop_test(tcase, log_limit_knows_kinds, 0, COUNT_OF(pairs));
	tcase_add_test(tcase, log_limit_is_bounded_whatever_comes);
	tcase_add_test(tcase, log_limit_lets_pass);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
