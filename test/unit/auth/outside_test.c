/* SPDX-License-Identifier: ISC */
/*
 * auth/auth_methods.c, verifiers.c and auth_server.c: possible checks, and the lifetime of a check
 * whose client disconnects. The test runs the jobs; no PAM or LDAP server is used.
 */
#include "pgweir/auth/auth_server.h"

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

	ck_assert_int_eq(auth_methods[checks[_i].method].outside->check(checks[_i].options, &err),
	                 checks[_i].fitness);
	if (checks[_i].problem)
		ck_assert_str_eq(err.text, checks[_i].problem);
}
END_TEST

struct bench {
	struct job *job;
	bool is_crowded;
	int calls;
};

static void count(void *arg) { ((struct bench *)arg)->calls++; }

static bool submit(void *arg, struct job *job, bool is_slow)
{
	struct bench *bench = arg;

	(void)is_slow;
	bench->job = job;
	return !bench->is_crowded;
}

/* An unreachable LDAP server: it is not used, because the time limit has passed. */
static struct auth_server *make(struct bench *bench)
{
	struct auth_server *auth = auth_server_new(&(struct auth_server_who){
	    .method = AUTH_METHOD_LDAP,
	    .user = "bo",
	    .options = "ldapserver=127.0.0.1 ldapport=1 ldapprefix=b",
	    .host = "[local]",
	    .deadline = 1,
	    .runner = { submit, count, bench },
	});
	struct buf out = { 0 };
	struct err err;

	ck_assert_ptr_nonnull(auth);
	ck_assert_int_eq(auth_server_start(auth, &out, &err), AUTH_SERVER_MORE);
	ck_assert_int_eq(auth_server_answer(auth, bytes_of("secret", 7), &out, &err),
	                 bench->is_crowded ? AUTH_SERVER_BUSY : AUTH_SERVER_WORK);
	buf_free(&out);
	return auth;
}

START_TEST(auth_work_answers)
{
	struct bench bench = { 0 };
	struct auth_server *auth = make(&bench);
	struct buf out = { 0 };
	struct err err;

	bench.job->run(bench.job);
	ck_assert_int_eq(bench.calls, 0);
	bench.job->done(bench.job);
	ck_assert_int_eq(bench.calls, 1);
	ck_assert_int_eq(auth_server_resume(auth, &out, &err), AUTH_SERVER_REFUSED);
	ck_assert_str_eq(auth_server_reason(auth), "it waited too long for a helper thread");
	auth_server_free(&auth);
	ck_assert_ptr_null(auth);
}
END_TEST

START_TEST(auth_work_goes_without_its_owner)
{
	struct bench bench = { 0 };
	struct auth_server *auth = make(&bench);

	auth_server_free(&auth);
	ck_assert(bench.job->is_abandoned);
	bench.job->run(bench.job);
	bench.job->done(bench.job);
	ck_assert_int_eq(bench.calls, 0);
}
END_TEST

START_TEST(auth_work_ends_before_its_owner)
{
	struct bench bench = { 0 };
	struct auth_server *auth = make(&bench);

	bench.job->is_abandoned = true; /* as workers_free() does, while the owner lives */
	bench.job->done(bench.job);
	ck_assert_int_eq(bench.calls, 0);
	auth_server_free(&auth);
}
END_TEST

START_TEST(auth_work_may_be_refused)
{
	struct bench bench = { .is_crowded = true };
	struct auth_server *auth = make(&bench);

	ck_assert_int_eq(bench.calls, 0);
	auth_server_free(&auth);
}
END_TEST

START_TEST(outside_is_named)
{
	ck_assert_str_eq(outside_pam.name, "PAM");
	ck_assert_str_eq(outside_ldap.name, "LDAP");
	ck_assert(outside_pam.is_built == PGWEIR_PAM);
	ck_assert(outside_ldap.is_built == PGWEIR_LDAP);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("auth/outside");
	TCase *tcase = tcase_create("outside");

	tcase_add_loop_test(tcase, outside_checks, 0, COUNT_OF(checks));
	tcase_add_test(tcase, auth_work_answers);
	tcase_add_test(tcase, auth_work_goes_without_its_owner);
	tcase_add_test(tcase, auth_work_ends_before_its_owner);
	tcase_add_test(tcase, auth_work_may_be_refused);
	tcase_add_test(tcase, outside_is_named);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
