/* SPDX-License-Identifier: ISC */
/*
 * client/login/auth_cache.c: the answers of auth_query.
 */
#include "../../../../src/client/login/login_priv.h"

#include <stdio.h>

#include "../../unit.h"

#define LONG (3600 * USEC_PER_SEC)

static struct auth_answer *make_question(const char *user)
{
	struct auth_answer *question = auth_answer_new("app", "asker", "SELECT 1", user);

	ck_assert_ptr_nonnull(question);
	return question;
}

static void keep(struct logins *logins, const char *user, const char *secret, usec_t until)
{
	struct auth_answer *answer = make_question(user);

	auth_answer_take(answer,
	                 &(struct auth_reply){ .name = strdup(user), .secret = strdup(secret) });
	auth_cache_keep(logins, answer, until);
	auth_answer_release(&answer);
}

static struct auth_answer *find(struct logins *logins, const char *user, usec_t now)
{
	struct auth_answer *question = make_question(user);
	struct auth_answer *answer = auth_cache_find(logins, question, now);

	auth_answer_release(&question);
	return answer;
}

static bool has(struct logins *logins, const char *user, const char *secret)
{
	struct auth_answer *answer = find(logins, user, 1);
	bool is_same = answer && strcmp(answer->secret, secret) == 0;

	auth_answer_release(&answer);
	return is_same;
}

START_TEST(an_answer_is_found)
{
	struct logins *logins = logins_new(NULL);

	keep(logins, "alice", "secret", LONG);
	keep(logins, "bob", "not kept", 0);
	ck_assert(has(logins, "alice", "secret"));
	ck_assert_ptr_null(find(logins, "bob", 1));
	keep(logins, "alice", "new secret", LONG);
	ck_assert(has(logins, "alice", "new secret"));
	logins_free(&logins);
}
END_TEST

START_TEST(it_is_dropped)
{
	struct logins *logins = logins_new(NULL);
	struct auth_answer *answer;

	keep(logins, "alice", "secret", LONG);
	answer = find(logins, "alice", 1);
	auth_cache_forget(logins, answer);
	auth_cache_forget(logins, answer); /* it is not there any more */
	ck_assert_ptr_null(find(logins, "alice", 1));
	ck_assert_str_eq(answer->secret, "secret"); /* the login still has it */
	keep(logins, "alice", "new secret", LONG);
	auth_cache_forget(logins, answer); /* the new one is another answer */
	ck_assert(has(logins, "alice", "new secret"));
	auth_answer_release(&answer);
	auth_cache_forget_all(logins);
	ck_assert_ptr_null(find(logins, "alice", 1));
	logins_free(&logins);
}
END_TEST

START_TEST(its_time_ends)
{
	struct logins *logins = logins_new(NULL);

	keep(logins, "alice", "secret", 1000);
	keep(logins, "bob", "secret", 2000);
	ck_assert_ptr_null(find(logins, "alice", 1000));
	logins_sweep(logins, 999);
	ck_assert(has(logins, "alice", "secret"));
	logins_sweep(logins, 1000);
	ck_assert(!has(logins, "alice", "secret"));
	ck_assert(has(logins, "bob", "secret"));
	logins_sweep(logins, 2000);
	ck_assert(!has(logins, "bob", "secret"));
	logins_free(&logins);
}
END_TEST

START_TEST(the_oldest_makes_room)
{
	struct logins *logins = logins_new(NULL);
	char name[16];

	for (int i = 0; i <= AUTH_CACHE_MAX; i++) {
		snprintf(name, sizeof(name), "u%d", i);
		keep(logins, name, "secret", LONG);
	}
	ck_assert_ptr_null(find(logins, "u0", 1));
	ck_assert(has(logins, "u1", "secret"));
	ck_assert(has(logins, name, "secret"));
	logins_free(&logins);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/login/auth_cache");
	TCase *tests = tcase_create("auth_cache");

	tcase_add_test(tests, an_answer_is_found);
	tcase_add_test(tests, it_is_dropped);
	tcase_add_test(tests, its_time_ends);
	tcase_add_test(tests, the_oldest_makes_room);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
