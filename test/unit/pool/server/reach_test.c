/* SPDX-License-Identifier: ISC */
/*
 * pool/server/hosts.c, reach: when an address that cannot be reached is tried again, by the test's
 * clock.
 */
#include "pgweir/pool/server/hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../unit.h"

#define MSEC (USEC_PER_SEC / 1000)

static struct err refused(void)
{
	struct err err;

	err_set(&err, ERR_SERVER_CONNECT, "connect failed: Connection refused");
	return err;
}

/*
 * A script, a word each, at a clock in milliseconds:
 *   f  an attempt fails     w, W  one succeeds: it had not failed, it had
 *   t, T  a test may not begin, it begins     +N  the clock goes on     =N  due in N
 */
static const struct {
	const char *says;
	int most;
	const char *script;
} cases[] = {
	{ "one that has not failed needs no test", 9999, "=0 t w" },
	{ "one that fails is tried again soon", 9999, "f =50 t +49 t +1 T" },
	{ "then less often, but never rarely", 9999,
	  "f =50 +50 T f =100 +100 T f =200 +200 T f =400 +400 T f =500 +500 T f =500" },
	{ "server_login_retry may be shorter", 80, "f =50 +50 T f =80 +80 T f =80" },
	{ "one connection tries it", 9999, "f +50 T t +100 t t" },
	{ "one without a result does not hold up the others for long", 9999,
	  "f +50 T +999 t +1 T t" },
	{ "a success ends it", 9999, "f +50 T W =0 t w f =50" },
	{ "a success without a test, too", 9999, "f W =0" },
	{ "many that fail at once", 9999, "f f f =200 t" },
};

static void play(struct reach *reach, struct reach_target *target, const char *word, usec_t *now,
                 int most, const char *says)
{
	const struct err err = refused();
	usec_t due = target->due;

	switch (*word) {
	case '+':
		*now += strtol(word + 1, NULL, 10) * MSEC;
		return;
	case '=':
		ck_assert_msg((due ? due - *now : 0) == strtol(word + 1, NULL, 10) * MSEC,
		              "%s: %s, but it is %lld", says, word, (long long)(due - *now));
		return;
	case 'f':
		reach_failed(reach, target, *now, most * MSEC, &err);
		return;
	case 'w':
	case 'W':
		ck_assert_msg(reach_worked(reach, target) == (*word == 'W'), "%s: %s", says, word);
		return;
	default:
		ck_assert_msg(reach_begin_test(reach, target, *now) == (*word == 'T'), "%s: %s",
		              says, word);
		ck_assert_msg(*word == 't' || target->is_tested, "%s", says);
	}
}

START_TEST(the_pace)
{
	struct reach reach;
	struct reach_target *target;
	usec_t now = 1000 * USEC_PER_SEC;
	char script[128];

	reach_init(&reach);
	target = reach_hold(&reach, "/a", NULL, 5432);
	snprintf(script, sizeof(script), "%s", cases[_i].script);
	for (char *rest = NULL, *word = strtok_r(script, " ", &rest); word;
	     word = strtok_r(NULL, " ", &rest))
		play(&reach, target, word, &now, cases[_i].most, cases[_i].says);
	reach_release(&reach, &target);
	ck_assert(reach.failing_count == 0);
	reach_done(&reach);
}
END_TEST

START_TEST(a_target_is_an_address_and_a_port)
{
	struct address one, same, two;
	struct reach reach;
	struct reach_target *targets[6];
	const struct err err = refused();
	struct err last;

	ck_assert(address_parse(&one, "10.0.0.1", 0) && address_parse(&same, "10.0.0.1", 99) &&
	          address_parse(&two, "10.0.0.2", 0));
	reach_init(&reach);
	targets[0] = reach_hold(&reach, "db.test", &one, 5432);
	targets[1] = reach_hold(&reach, "other.test", &same, 5432);
	targets[2] = reach_hold(&reach, "db.test", &two, 5432);
	targets[3] = reach_hold(&reach, "db.test", &one, 5433);
	targets[4] = reach_hold(&reach, "10.0.0.1", NULL, 5432);
	targets[5] = reach_hold(&reach, "10.0.0.1", NULL, 5432);
	ck_assert_ptr_eq(targets[0], targets[1]);
	ck_assert_ptr_eq(targets[4], targets[5]);
	for (int i = 1; i < 4; i++)
		ck_assert_ptr_ne(targets[i], targets[i + 1]);

	ck_assert(!reach_failure(&reach, targets[0], &last));
	reach_failed(&reach, targets[0], 1, USEC_PER_SEC, &err);
	ck_assert(reach_failure(&reach, targets[1], &last));
	ck_assert_str_eq(last.text, "connect failed: Connection refused");
	ck_assert(!reach_failure(&reach, targets[2], &last));
	reach_release(&reach, &targets[0]);
	ck_assert(reach.failing_count > 0); /* the other one is still there */
	for (size_t i = 0; i < COUNT_OF(targets); i++)
		reach_release(&reach, &targets[i]);
	ck_assert(reach.failing_count == 0);
	reach_done(&reach);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/reach");
	TCase *tcase = tcase_create("reach");

	tcase_add_loop_test(tcase, the_pace, 0, COUNT_OF(cases));
	tcase_add_test(tcase, a_target_is_an_address_and_a_port);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
