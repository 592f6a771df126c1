/* SPDX-License-Identifier: ISC */
/*
 * auth/ldap.c: LDAP's URLs, at every cut.
 */
#include "../../../src/auth/hba_priv.h"

#include <string.h>

#include "../unit.h"

#define NOT_A_URL "ldapurl: it is not a valid LDAP URL"

static const struct {
	const char *url;
	const char *problem; /* NULL: valid, with these values: */
	const char *servers, *base, *attribute, *filter;
	int port;
	enum ldap_scope scope;
} cases[] = {
	{ "ldap://a", NULL, "a", NULL, NULL, NULL, 0, LDAP_AT_BASE },
	{ "LDAPS://a.b/", NULL, "a.b", NULL, NULL, NULL, 0, LDAP_AT_BASE },
	{ "ldap://[::1]:7/dc=x", NULL, "::1", "dc=x", NULL, NULL, 7, LDAP_AT_BASE },
	{ "ldap://[::1]/dc=x", NULL, "::1", "dc=x", NULL, NULL, 0, LDAP_AT_BASE },
	{ "ldap://a/dc%3dx%2Cdc=y?uid?sub", NULL, "a", "dc=x,dc=y", "uid", NULL, 0, LDAP_SUBTREE },
	{ "ldap://a/b??one?(c=$username)", NULL, "a", "b", NULL, "(c=$username)", 0,
	  LDAP_ONE_LEVEL },
	{ "ldap://a/b?c?base", NULL, "a", "b", "c", NULL, 0, LDAP_AT_BASE },
	{ .url = "http://a", .problem = NOT_A_URL },
	{ .url = "ldapi://a", .problem = "ldapurl: it must begin with ldap:// or ldaps://" },
	{ .url = "ldap:///b", .problem = "ldapurl: the host is missing" },
	{ .url = "ldap://[]/b", .problem = "ldapurl: the host is missing" },
	{ .url = "ldap://[::1/b", .problem = NOT_A_URL },
	{ .url = "ldap://a:12345678/b", .problem = "ldapurl: the port must be from 1 to 65535" },
	{ .url = "ldap://a:/b", .problem = NOT_A_URL },
	{ .url = "ldap://a/b%4", .problem = NOT_A_URL },
	{ .url = "ldap://a/b%zz", .problem = NOT_A_URL },
	{ .url = "ldap://a/b%00", .problem = NOT_A_URL },
	{ .url = "ldap://a/b?c,d", .problem = "ldapurl: there is more than one attribute in it" },
	{ .url = "ldap://a/b??all", .problem = NOT_A_URL },
	{ .url = "ldap://a/b??children", .problem = "ldapurl: the scope must be base, one or sub" },
	{ .url = "ldap://a/b????x", .problem = "ldapurl: extensions are not supported" },
};

static void same(const char *a, const char *b)
{
	ck_assert_str_eq(a ? a : "(none)", b ? b : "(none)");
}

START_TEST(ldap_url_answers)
{
	struct ldap_options options = { 0 };
	struct err err = { 0 };
	bool is_good = ldap_options_url(&options, cases[_i].url, &err);

	ck_assert_msg(is_good == !cases[_i].problem, "%s: %s", cases[_i].url, err.text);
	if (is_good) {
		same(options.servers, cases[_i].servers);
		same(options.base_dn, cases[_i].base);
		same(options.search_attribute, cases[_i].attribute);
		same(options.search_filter, cases[_i].filter);
		ck_assert_int_eq(options.port, cases[_i].port);
		ck_assert_int_eq(options.scope, cases[_i].scope);
	} else {
		same(err.text, cases[_i].problem);
	}
	ldap_options_done(&options);
}
END_TEST

START_TEST(ldap_url_at_every_cut)
{
	static const char whole[] = "ldaps://[::1]:636/dc%3dx?uid?sub?(uid=$username)";

	for (size_t count = 0; count < sizeof(whole); count++) {
		struct ldap_options options = { 0 };
		char *url = strndup(whole, count);
		struct err err = { 0 };

		ck_assert(ldap_options_url(&options, url, &err) == !*err.text);
		ldap_options_done(&options);
		free(url);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("auth/ldap_url");
	TCase *tcase = tcase_create("ldap_url");

	if (PGWEIR_LDAP) {
		tcase_add_loop_test(tcase, ldap_url_answers, 0, COUNT_OF(cases));
		tcase_add_test(tcase, ldap_url_at_every_cut);
	}
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
