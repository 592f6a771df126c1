/* SPDX-License-Identifier: ISC */
/*
 * auth/outside.c: possible checks, and the lifetime of a check whose client
 * disconnects. The test runs the jobs; no PAM or LDAP server is used.
 */
#include "pgweir/auth/outside.h"

#include "../unit.h"

static const struct {
	enum auth_method method;
	const char *options;
	enum outside_fitness fitness;
	const char *problem; /* NULL: none */
} checks[] = {
	{ AUTH_METHOD_PAM, "pgbouncer", OUTSIDE_FIT, NULL },
	{ AUTH_METHOD_PAM, "/dev/null", OUTSIDE_FIT, NULL },
	{ AUTH_METHOD_PAM, "", OUTSIDE_BAD, "the name of the PAM service is empty" },
	{ AUTH_METHOD_PAM, "/etc/pam.d/", OUTSIDE_BAD, "the name of the PAM service is empty" },
	{ AUTH_METHOD_PAM, "a/b", OUTSIDE_BAD,
	  "the PAM service a/b is neither a name nor an absolute path" },
	{ AUTH_METHOD_PAM, "/nowhere/b", OUTSIDE_BAD,
	  "cannot read the PAM service /nowhere/b: No such file or directory" },
	{ AUTH_METHOD_LDAP, "ldapserver=a ldapprefix=b", OUTSIDE_FIT, NULL },
	{ AUTH_METHOD_LDAP, "ldapserver=a", OUTSIDE_BAD,
	  "LDAP needs ldapprefix, ldapsuffix or ldapbasedn" },
	{ AUTH_METHOD_LDAP, "ldapserver=a ldapprefix=b ldapbasedn=c", OUTSIDE_CONTRADICTORY,
	  "ldapprefix and ldapsuffix cannot be combined with search options" },
	{ AUTH_METHOD_LDAP, "ldapserver=a ldapprefix=b ldapscheme=ldaps ldaptls=1",
	  OUTSIDE_CONTRADICTORY, "ldaps has TLS: it cannot have ldaptls=1 too" },
	{ AUTH_METHOD_LDAP, "ldapserver=a ldapbasedn=b ldapsearchattribute=c ldapsearchfilter=x",
	  OUTSIDE_BAD,
	  "ldapsearchfilter does not contain $username, so it would find the same "
	  "entry for every user" },
};

START_TEST(outside_checks)
{
	struct err err = { 0 };

	ck_assert_int_eq(outside_check(checks[_i].method, checks[_i].options, &err),
	                 checks[_i].fitness);
	if (checks[_i].problem)
		ck_assert_str_eq(err.text, checks[_i].problem);
}
END_TEST

static void count(void *arg) { (*(int *)arg)++; }

/* An unreachable LDAP server: it is not used, because the time limit has passed. */
static struct outside *make(int *calls)
{
	struct outside *outside = outside_new(&(struct outside_who){
	    .method = AUTH_METHOD_LDAP,
	    .user = "bo",
	    .options = "ldapserver=127.0.0.1 ldapport=1 ldapprefix=b",
	    .host = "[local]",
	    .on_done = count,
	    .arg = calls,
	});

	ck_assert_ptr_nonnull(outside);
	ck_assert(outside_ask(outside, "secret", 1));
	return outside;
}

START_TEST(outside_answers)
{
	int calls = 0;
	struct outside *outside = make(&calls);
	struct job *job = outside_job(outside);

	job->run(job);
	ck_assert_int_eq(calls, 0);
	job->done(job);
	ck_assert_int_eq(calls, 1);
	ck_assert_int_eq(outside_answer(outside), OUTSIDE_FAILED);
	ck_assert_str_eq(outside_reason(outside), "it waited too long for a helper thread");
	outside_free(&outside);
	ck_assert_ptr_null(outside);
}
END_TEST

START_TEST(outside_goes_without_its_asker)
{
	int calls = 0;
	struct outside *outside = make(&calls);
	struct job *job = outside_job(outside);

	outside_free(&outside);
	ck_assert(job->is_abandoned);
	job->run(job);
	job->done(job);
	ck_assert_int_eq(calls, 0);
}
END_TEST

START_TEST(outside_may_be_refused)
{
	int calls = 0;
	struct outside *outside = make(&calls);

	outside_job(outside);
	outside_refused(outside);
	outside_free(&outside);
	ck_assert_int_eq(calls, 0);
}
END_TEST

START_TEST(outside_is_named)
{
	ck_assert_str_eq(outside_name(AUTH_METHOD_PAM), "PAM");
	ck_assert_str_eq(outside_name(AUTH_METHOD_LDAP), "LDAP");
	ck_assert(outside_is_built(AUTH_METHOD_PAM) == PGWEIR_PAM);
	ck_assert(outside_is_built(AUTH_METHOD_LDAP) == PGWEIR_LDAP);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("auth/outside");
	TCase *tcase = tcase_create("outside");

	tcase_add_loop_test(tcase, outside_checks, 0, COUNT_OF(checks));
	tcase_add_test(tcase, outside_answers);
	tcase_add_test(tcase, outside_goes_without_its_asker);
	tcase_add_test(tcase, outside_may_be_refused);
	tcase_add_test(tcase, outside_is_named);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
