/* SPDX-License-Identifier: ISC */
/*
 * auth/ldap.c: options, at every cut; and the escaping of user names.
 */
#include "../../../src/auth/hba_priv.h"

#include <string.h>

#include "../unit.h"

#define SIMPLE "ldapserver=a ldapprefix=b"
#define SEARCH "ldapserver=a ldapbasedn=b"

static const struct {
	const char *text, *problem; /* NULL: valid */
} cases[] = {
	{ SIMPLE, NULL },
	{ SEARCH, NULL },
	{ "  ldapserver=\"a b\"\tldapsuffix=\", dc=x\"\n", NULL },
	{ "\"ldapserver=a b\" \"ldapsuffix=, dc=x\"", NULL },
	{ "ldapserver=::1 ldapprefix=", NULL },
	{ SIMPLE " ldapport=1 ldapscheme=ldaps ldaptls=0", NULL },
	{ SEARCH " ldapbinddn=c ldapbindpasswd=d ldapsearchattribute=e", NULL },
	{ SEARCH " ldapsearchfilter=(uid=$username)", NULL },
	{ "", "LDAP needs ldapserver or ldapurl" },
	{ "ldapserver=\"  \" ldapprefix=b", "LDAP needs ldapserver or ldapurl" },
	{ "ldapserver=a:389 ldapprefix=b", "ldapserver must not contain a port: use ldapport" },
	{ "ldapserver=ldap://a ldapprefix=b", "ldapserver must not contain a port: use ldapport" },
	{ "ldapserver=a/b ldapprefix=b",
	  "ldapserver must be a list of names and addresses, separated by blanks" },
	{ "ldapserver=a", "LDAP needs ldapprefix, ldapsuffix or ldapbasedn" },
	{ SIMPLE " ldapbasedn=c",
	  "ldapprefix and ldapsuffix cannot be combined with search options" },
	{ SIMPLE " ldapsearchattribute=c",
	  "ldapprefix and ldapsuffix cannot be combined with search options" },
	{ "ldapserver=a ldapsearchattribute=c", "a search needs ldapbasedn" },
	{ SEARCH " ldapsearchattribute=c ldapsearchfilter=($username)",
	  "ldapsearchattribute and ldapsearchfilter exclude each other" },
	{ SEARCH " ldapsearchfilter=(uid=x)",
	  "ldapsearchfilter does not contain $username, so it would find the same "
	  "entry for every user" },
	{ SEARCH " ldapbinddn=c",
	  "ldapbinddn and ldapbindpasswd must both be set and not be empty" },
	{ SEARCH " ldapbindpasswd=c",
	  "ldapbinddn and ldapbindpasswd must both be set and not be empty" },
	{ SEARCH " ldapbinddn=c ldapbindpasswd=",
	  "ldapbinddn and ldapbindpasswd must both be set and not be empty" },
	{ SIMPLE " ldapport=0", "the LDAP port must be from 1 to 65535" },
	{ SIMPLE " ldapport=65536", "the LDAP port must be from 1 to 65535" },
	{ SIMPLE " ldapport=x", "the LDAP port must be from 1 to 65535" },
	{ SIMPLE " ldapscheme=http", "ldapscheme must be ldap or ldaps" },
	{ SIMPLE " ldaptls=yes", "ldaptls must be 0 or 1" },
	{ SIMPLE " ldaptls=1 ldapscheme=ldaps", "ldaps has TLS: it cannot have ldaptls=1 too" },
	{ SIMPLE " ldapfoo=1", "unknown LDAP option ldapfoo" },
	{ SIMPLE " se=cret", "LDAP option 3 is unknown" },
	{ SIMPLE " ldapbindpasswd=se cret",
	  "LDAP option 4 contains no =: a value with blanks must be quoted" },
	{ SIMPLE " ldapsuffix=\"c", "unterminated quote in LDAP option 3" },
	{ "\"\" " SIMPLE, "LDAP option 1 is empty" },
};

START_TEST(ldap_options_answers)
{
	struct ldap_options options;
	struct err err = { 0 };
	bool is_good = ldap_options_parse(cases[_i].text, &options, &err);

	ck_assert_msg(is_good == !cases[_i].problem, "%s: %s", cases[_i].text, err.text);
	if (cases[_i].problem)
		ck_assert_str_eq(err.text, cases[_i].problem);
	ldap_options_done(&options);
}
END_TEST

static const char whole[] =
    "ldapserver=\"a.b 10.0.0.1\" ldapport=636 ldapscheme=ldaps ldapbasedn=\"dc=x,dc=\"\"y\"\"\" "
    "ldapbinddn=cn=s ldapbindpasswd=\"top \"\"secret\" "
    "ldapsearchfilter=\"(|(u=$username)(m=$username))\"";

START_TEST(ldap_options_are_read)
{
	struct ldap_options options;

	ck_assert(ldap_options_parse(whole, &options, NULL));
	ck_assert_str_eq(options.servers, "a.b 10.0.0.1");
	ck_assert_int_eq(options.port, 636);
	ck_assert(options.is_ldaps && !options.has_start_tls);
	ck_assert_str_eq(options.base_dn, "dc=x,dc=\"y\"");
	ck_assert_str_eq(options.bind_dn, "cn=s");
	ck_assert_str_eq(options.bind_password, "top \"secret");
	ck_assert_int_eq(options.scope, LDAP_SUBTREE);
	ldap_options_done(&options);
}
END_TEST

/* At every cut there is a result, and the error never contains the password. */
START_TEST(ldap_options_at_every_cut)
{
	for (size_t count = 0; count < sizeof(whole); count++) {
		char *text = strndup(whole, count);
		struct ldap_options options;
		struct err err = { 0 };

		if (!ldap_options_parse(text, &options, &err)) {
			ck_assert_uint_gt(strlen(err.text), 0);
			ck_assert_ptr_null(strstr(err.text, "secret"));
			ck_assert_ptr_null(strstr(err.text, "top"));
		}
		ldap_options_done(&options);
		free(text);
	}
}
END_TEST

START_TEST(ldap_options_have_a_limit)
{
	struct ldap_options options;
	struct buf text = { 0 };
	struct err err;

	buf_add_text(&text, SIMPLE " ldapsuffix=");
	while (text.count < LDAP_OPTIONS_MAX)
		buf_add_byte(&text, 'x');
	ck_assert(ldap_options_parse(buf_text(&text), &options, &err));
	ldap_options_done(&options);
	buf_add_byte(&text, 'x');
	ck_assert(!ldap_options_parse(buf_text(&text), &options, &err));
	ck_assert_str_eq(err.text, "the LDAP options are longer than 8192 bytes");
	ldap_options_done(&options);
	buf_free(&text);
}
END_TEST

START_TEST(ldap_options_add_what_can_be_read)
{
	struct buf text = { 0 };
	struct ldap_options options;
	struct err err;

	ldap_options_add(&text, "ldapsuffix=, \"x\"");
	ldap_options_add(&text, "ldapserver=a b");
	ck_assert_str_eq(buf_text(&text), "\"ldapsuffix=, \"\"x\"\"\" \"ldapserver=a b\"");
	ck_assert(ldap_options_parse(buf_text(&text), &options, &err));
	ck_assert_str_eq(options.suffix, ", \"x\"");
	ck_assert_str_eq(options.servers, "a b");
	ldap_options_done(&options);
	buf_free(&text);
}
END_TEST

/* ---- names ---- */

static const struct {
	const char *user, *dn, *filter;
} names[] = {
	{ "alice", "uid=alice,x", "(uid=alice)" },
	{ "*", "uid=*,x", "(uid=\\2a)" },
	{ "a)(uid=*", "uid=a)(uid\\=*,x", "(uid=a\\29\\28uid=\\2a)" },
	{ "a,ou=b", "uid=a\\,ou\\=b,x", "(uid=a,ou=b)" },
	{ "a+b;c<d>e\"f", "uid=a\\+b\\;c\\<d\\>e\\\"f,x", "(uid=a+b;c<d>e\"f)" },
	{ "\\2a", "uid=\\\\2a,x", "(uid=\\5c2a)" },
	{ "#x#", "uid=\\#x#,x", "(uid=#x#)" },
	{ "  a  ", "uid=\\  a \\ ,x", "(uid=  a  )" },
	{ " ", "uid=\\ ,x", "(uid= )" },
	{ "a\nb\x7f", "uid=a\\0ab\\7f,x", "(uid=a\\0ab\\7f)" },
	{ "\xc3\xa9", "uid=\xc3\xa9,x", "(uid=\xc3\xa9)" },
};

START_TEST(ldap_options_names_mean_nothing)
{
	struct ldap_options simple, search;
	struct buf dn = { 0 }, filter = { 0 };

	ck_assert(ldap_options_parse("ldapserver=a ldapprefix=uid= ldapsuffix=,x", &simple, NULL));
	ck_assert(ldap_options_parse(SEARCH, &search, NULL));
	ldap_options_dn(&simple, names[_i].user, &dn);
	ldap_options_filter(&search, names[_i].user, &filter);
	ck_assert_str_eq(buf_text(&dn), names[_i].dn);
	ck_assert_str_eq(buf_text(&filter), names[_i].filter);
	buf_free(&dn);
	buf_free(&filter);
	ldap_options_done(&simple);
	ldap_options_done(&search);
}
END_TEST

START_TEST(ldap_options_fill_a_filter_in)
{
	struct ldap_options options;
	struct buf filter = { 0 };

	ck_assert(ldap_options_parse(whole, &options, NULL));
	ldap_options_filter(&options, "$username*", &filter);
	ck_assert_str_eq(buf_text(&filter), "(|(u=$username\\2a)(m=$username\\2a))");
	buf_free(&filter);
	ldap_options_done(&options);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("auth/ldap_options");
	TCase *tcase = tcase_create("ldap_options");

	tcase_add_loop_test(tcase, ldap_options_answers, 0, COUNT_OF(cases));
	tcase_add_test(tcase, ldap_options_are_read);
	tcase_add_test(tcase, ldap_options_at_every_cut);
	tcase_add_test(tcase, ldap_options_have_a_limit);
	tcase_add_test(tcase, ldap_options_add_what_can_be_read);
	tcase_add_loop_test(tcase, ldap_options_names_mean_nothing, 0, COUNT_OF(names));
	tcase_add_test(tcase, ldap_options_fill_a_filter_in);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
