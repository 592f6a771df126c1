/* SPDX-License-Identifier: ISC */
/*
 * auth/hba.c: rules are parsed, matched and shown.
 */
#include "pgweir/auth/hba.h"

#include <stdio.h>

#include "../../lib/auth_text.h"
#include "../unit.h"

static const char ident[] = "m root alice\nn /^(.*)$ \\1\n";

static struct hba *parse(const char *text, struct problems *problems)
{
	*problems = (struct problems){ 0 };
	return hba_parse(bytes_text(text), bytes_text(ident), problems);
}

/* ---- refused lines ---- */

static const struct {
	const char *text, *problem;
} bad[] = {
	{ "", "hba: it contains no rule, so no login would be possible" },
	{ "locale all all trust",
	  "hba:1: unknown connection type locale: valid types are local, host, "
	  "hostssl, hostnossl, hostgssenc and hostnogssenc" },
	{ "local,host all all trust", "hba:1: the connection type is a list" },
	{ "local", "hba:1: the database is missing: the line ends before it" },
	{ "local all", "hba:1: the user is missing: the line ends before it" },
	{ "local all all", "hba:1: the method is missing: the line ends before it" },
	{ "local all all trust,md5", "hba:1: the method is a list" },
	{ "local all all 127.0.0.1/32 trust", "hba:1: unknown method 127.0.0.1/32" },
	{ "local all all Trust", "hba:1: unknown method Trust: did you mean trust?" },
	{ "local all all md6", "hba:1: unknown method md6: did you mean md5?" },
#if PGWEIR_LDAP
	{ "local all all ldap", "hba:1: LDAP needs ldapserver or ldapurl" },
	{ "local all all ldap ldapserver=a ldapprefix=b ldapbindpasswd=two words",
	  "hba:1: not an option of ldap: a value with blanks must be quoted" },
	{ "local all all ldap ldapserver=a ldapprefix=b map=m",
	  "hba:1: map= is only possible with peer and cert" },
#else
	{ "local all all ldap ldapserver=a", "hba:1: method ldap: pgweir was built without LDAP" },
#endif
#if PGWEIR_PAM
	{ "local all all pam pamservice=", "hba:1: the name of the PAM service is empty" },
#else
	{ "local all all pam", "hba:1: method pam: pgweir was built without PAM" },
#endif
	{ "local all all md5 pamservice=x", "hba:1: pamservice= is only possible with pam" },
	{ "local all all ident", "hba:1: method ident is not supported yet" },
	{ "host all all all gss", "hba:1: method gss is not supported yet" },
	{ "local samerole all trust", "hba:1: samerole: groups are not supported" },
	{ "local samegroup all trust", "hba:1: samegroup: groups are not supported" },
	{ "local all +staff trust",
	  "hba:1: +staff: groups are not supported: list the names, or put them "
	  "into a file and write @file" },
	{ "local +staff all trust",
	  "hba:1: +staff: groups are not supported: list the names, or put them "
	  "into a file and write @file" },
	/* The words of libc for it: most of them differ from one libc to another, not these. */
	{ "local /a\\ all trust", "hba:1: /a\\: Trailing backslash" },
	{ "local all /b\\ trust", "hba:1: /b\\: Trailing backslash" },
	{ "host all all", "hba:1: the address is missing: the line ends before it" },
	{ "host all all 127.0.0.1", "hba:1: the mask is missing: the line ends before it" },
	{ "host all all 127.0.0.1 md5", "hba:1: md5 is not a mask" },
	{ "host all all 127.0.0.1 ffff:: md5",
	  "hba:1: the address and its mask ffff:: are not of the same kind" },
	{ "host all all 127.0.0.1/33 md5",
	  "hba:1: the mask of 127.0.0.1 must be a number from 0 to 32" },
	{ "host all all 127.0.0.1/ md5",
	  "hba:1: the mask of 127.0.0.1 must be a number from 0 to 32" },
	{ "host all all 127.0.0.1/-1 md5",
	  "hba:1: the mask of 127.0.0.1 must be a number from 0 to 32" },
	{ "host all all ::1/129 md5", "hba:1: the mask of ::1 must be a number from 0 to 128" },
	{ "host all all 1.2.3/24 md5",
	  "hba:1: 1.2.3/24 is not an IP address, so it can have no mask" },
	{ "host all all host.example.com/24 md5",
	  "hba:1: host.example.com/24 is not an IP address, so it can have no mask" },
	{ "host all all 1.2.3 md5", "hba:1: 1.2.3 is neither an IP address nor a host's name" },
	{ "host all all ::g md5", "hba:1: ::g is neither an IP address nor a host's name" },
	{ "host all all fe80::1%1/128 md5",
	  "hba:1: fe80::1%1/128 is not an IP address, so it can have no mask" },
	{ "host all all \"\" md5", "hba:1: \"\" is neither an IP address nor a host's name" },
	{ "host all all a,b md5", "hba:1: the address is a list" },
	{ "local all all peer map",
	  "hba:1: unknown option map: valid options are map=, clientcert= and "
	  "pamservice=" },
	{ "local all all peer map=x", "hba:1: there is no map x in auth_ident_file" },
	{ "local all all md5 map=m", "hba:1: map= is only possible with peer and cert" },
	{ "local all all md5 clientcert=verify-ca",
	  "hba:1: clientcert= is only possible with hostssl" },
	{ "hostssl all all all md5 clientcert=1",
	  "hba:1: clientcert= must be verify-ca or verify-full" },
	{ "hostssl all all all cert clientcert=verify-ca",
	  "hba:1: clientcert= of method cert can only be verify-full" },
	{ "hostssl all all all cert clientname=DN",
	  "hba:1: unknown option clientname=DN: valid options are map=, "
	  "clientcert= and pamservice=" },
};

START_TEST(bad_lines)
{
	struct problems problems;
	struct hba *hba = parse(bad[_i].text, &problems);

	ck_assert_msg(!hba, "%s", bad[_i].text);
	ck_assert_uint_eq(problems.errors.count, 1);
	ck_assert_str_eq(problems.errors.texts[0], bad[_i].problem);
	problems_done(&problems);
}
END_TEST

#define OUTSIDE_OF_MASK "the address has bits outside of its mask: the range begins at 10.0.0.0: "
#define MATCHES_NOBODY OUTSIDE_OF_MASK "the rule never matches"
#define REJECTS_ALL OUTSIDE_OF_MASK "the rule rejects that whole range"

static const struct {
	const char *text, *flaw;
	bool matches; /* and ends the search */
} flawed[] = {
	{ "host all all all peer",
	  "method peer is only possible with local: the rule allows no login", true },
	{ "host all all all cert",
	  "method cert is only possible with hostssl: the rule allows no login", true },
	{ "hostnossl all all all cert map=m",
	  "method cert is only possible with hostssl: the rule allows no login", true },
	{ "host all all 10.1.0.0/8 md5", MATCHES_NOBODY, false },
	{ "host all all 10.1.0.0 255.0.0.0 md5", MATCHES_NOBODY, false },
	{ "host all all 10.1.0.0/8 reject", REJECTS_ALL, true },
	{ "host all all 10.9.9.9 255.0.0.0 reject", REJECTS_ALL, true },
	{ "host all all 10.1.0.0/8 peer", MATCHES_NOBODY, false },
#if PGWEIR_LDAP
	{ "host all all all ldap ldapserver=a ldapprefix=b ldapbasedn=c",
	  "ldapprefix and ldapsuffix cannot be combined with search options: the "
	  "rule allows no login",
	  true },
	{ "host all all all ldap ldapserver=a ldapprefix=b ldapscheme=ldaps ldaptls=1",
	  "ldaps has TLS: it cannot have ldaptls=1 too: the rule allows no login", true },
#endif
};

/* Lines that PgBouncer accepts are accepted with a warning. */
START_TEST(flawed_lines)
{
	struct problems problems;
	struct hba *hba = parse(flawed[_i].text, &problems);
	const struct hba_rule *rule;
	struct address peer;
	char warning[256];

	ck_assert_msg(hba != NULL, "%s", flawed[_i].text);
	snprintf(warning, sizeof(warning), "hba:1: %s", flawed[_i].flaw);
	ck_assert_uint_eq(problems.warnings.count, 1);
	ck_assert_str_eq(problems.warnings.texts[0], warning);
	address_parse(&peer, "10.1.0.0", 1234);
	ck_assert_int_eq(
	    hba_find(hba, &(struct hba_facts){ .peer = &peer, .database = "d", .user = "u" },
	             &rule),
	    flawed[_i].matches ? HBA_RULE : HBA_NO_RULE);
	if (rule)
		ck_assert_str_eq(rule->flaw.at, flawed[_i].flaw);
	ck_assert_str_eq(hba->rules[0].flaw.at, flawed[_i].flaw);
	hba_release(&hba);
	problems_done(&problems);
}
END_TEST

START_TEST(all_bad_lines_are_said)
{
	struct problems problems;
	struct hba *hba = parse("x\nlocal all all trust\nlocal all\n\nlocal \"a\n", &problems);

	ck_assert_ptr_null(hba);
	ck_assert_uint_eq(problems.errors.count, 3);
	ck_assert_ptr_nonnull(strstr(problems.errors.texts[0], "hba:1: "));
	ck_assert_ptr_nonnull(strstr(problems.errors.texts[1], "hba:3: "));
	ck_assert_ptr_nonnull(strstr(problems.errors.texts[2], "hba:5: "));
	problems_done(&problems);
}
END_TEST

START_TEST(bad_maps_and_bad_rules_are_said_together)
{
	struct problems problems = { 0 };
	struct hba *hba = hba_parse(bytes_text("local all all peer map=x\nlocal all\n"),
	                            bytes_text("m\n"), &problems);

	ck_assert_ptr_null(hba);
	ck_assert_uint_eq(problems.errors.count, 2);
	ck_assert_ptr_nonnull(strstr(problems.errors.texts[0], "ident:1: "));
	ck_assert_ptr_nonnull(strstr(problems.errors.texts[1], "hba:2: "));
	problems_done(&problems);
}
END_TEST

/* ---- matching ---- */

enum { TLS = 1, PHYSICAL = 2 };
#define NOT_LOOKED_UP "?"

static const struct {
	const char *rule;
	const char *peer; /* NULL: by Unix socket */
	const char *database, *user;
	unsigned int how;
	const char *host; /* NULL: no host name */
	enum hba_answer answer;
} cases[] = {
	/* the connection type */
	{ "local all all trust", NULL, "d", "u", 0, NULL, HBA_RULE },
	{ "local all all trust", "127.0.0.1", "d", "u", 0, NULL, HBA_NO_RULE },
	{ "host all all all trust", NULL, "d", "u", 0, NULL, HBA_NO_RULE },
	{ "host all all all trust", "::1", "d", "u", 0, NULL, HBA_RULE },
	{ "host all all all trust", "::1", "d", "u", TLS, NULL, HBA_RULE },
	{ "hostssl all all all trust", "::1", "d", "u", 0, NULL, HBA_NO_RULE },
	{ "hostssl all all all trust", "::1", "d", "u", TLS, NULL, HBA_RULE },
	{ "hostssl all all all trust", NULL, "d", "u", TLS, NULL, HBA_NO_RULE },
	{ "hostnossl all all all trust", "::1", "d", "u", 0, NULL, HBA_RULE },
	{ "hostnossl all all all trust", "::1", "d", "u", TLS, NULL, HBA_NO_RULE },
	{ "hostgssenc all all all trust", "::1", "d", "u", 0, NULL, HBA_NO_RULE },
	{ "hostnogssenc all all all trust", "::1", "d", "u", 0, NULL, HBA_RULE },
	{ "hostnogssenc all all all trust", NULL, "d", "u", 0, NULL, HBA_NO_RULE },
	/* databases */
	{ "local d all trust", NULL, "d", "u", 0, NULL, HBA_RULE },
	{ "local D all trust", NULL, "d", "u", 0, NULL, HBA_NO_RULE },
	{ "local a,d,c all trust", NULL, "d", "u", 0, NULL, HBA_RULE },
	{ "local \"all\" all trust", NULL, "d", "u", 0, NULL, HBA_NO_RULE },
	{ "local \"all\" all trust", NULL, "all", "u", 0, NULL, HBA_RULE },
	{ "local sameuser all trust", NULL, "u", "u", 0, NULL, HBA_RULE },
	{ "local sameuser all trust", NULL, "d", "u", 0, NULL, HBA_NO_RULE },
	{ "local \"sameuser\" all trust", NULL, "u", "u", 0, NULL, HBA_NO_RULE },
	{ "local replication all trust", NULL, "replication", "u", 0, NULL, HBA_NO_RULE },
	{ "local \"replication\" all trust", NULL, "replication", "u", 0, NULL, HBA_RULE },
	{ "local replication all trust", NULL, "d", "u", PHYSICAL, NULL, HBA_RULE },
	{ "local all all trust", NULL, "d", "u", PHYSICAL, NULL, HBA_NO_RULE },
	{ "local d,sameuser,/.* all trust", NULL, "d", "d", PHYSICAL, NULL, HBA_NO_RULE },
	{ "local \"replication\" all trust", NULL, "replication", "u", PHYSICAL, NULL,
	  HBA_NO_RULE },
	{ "local /^db[0-9]+$ all trust", NULL, "db12", "u", 0, NULL, HBA_RULE },
	{ "local /^db[0-9]+$ all trust", NULL, "db12x", "u", 0, NULL, HBA_NO_RULE },
	{ "local /b all trust", NULL, "abc", "u", 0, NULL, HBA_RULE },
	{ "local \"/^a b,c$\" all trust", NULL, "a b,c", "u", 0, NULL, HBA_RULE },
	/* users */
	{ "local all u trust", NULL, "d", "u", 0, NULL, HBA_RULE },
	{ "local all a,b trust", NULL, "d", "u", 0, NULL, HBA_NO_RULE },
	{ "local all \"+u\" trust", NULL, "d", "+u", 0, NULL, HBA_RULE },
	{ "local all sameuser trust", NULL, "d", "sameuser", 0, NULL, HBA_RULE },
	{ "local all sameuser trust", NULL, "u", "u", 0, NULL, HBA_NO_RULE },
	{ "local all replication trust", NULL, "d", "replication", 0, NULL, HBA_RULE },
	{ "local all /^u|v$ trust", NULL, "d", "v", 0, NULL, HBA_RULE },
	{ "local all /^U$ trust", NULL, "d", "u", 0, NULL, HBA_NO_RULE },
	/* addresses */
	{ "host all all 10.0.0.0/8 trust", "10.255.255.255", "d", "u", 0, NULL, HBA_RULE },
	{ "host all all 10.0.0.0/8 trust", "11.0.0.0", "d", "u", 0, NULL, HBA_NO_RULE },
	{ "host all all 10.0.0.0/8 trust", "::ffff:10.1.2.3", "d", "u", 0, NULL, HBA_RULE },
	{ "host all all 10.0.0.0/8 trust", "a00::", "d", "u", 0, NULL, HBA_NO_RULE },
	{ "host all all 10.0.0.0 255.255.0.0 trust", "10.0.9.9", "d", "u", 0, NULL, HBA_RULE },
	{ "host all all 10.0.0.0 255.255.0.0 trust", "10.1.0.0", "d", "u", 0, NULL, HBA_NO_RULE },
	{ "host all all 0.0.0.0/0 trust", "1.2.3.4", "d", "u", 0, NULL, HBA_RULE },
	{ "host all all 0.0.0.0/0 trust", "::1", "d", "u", 0, NULL, HBA_NO_RULE },
	{ "host all all ::/0 trust", "::1", "d", "u", 0, NULL, HBA_RULE },
	{ "host all all fe80::/10 trust", "febf::1", "d", "u", 0, NULL, HBA_RULE },
	{ "host all all fe80::/10 trust", "fec0::1", "d", "u", 0, NULL, HBA_NO_RULE },
	{ "host all all ::1 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff trust", "::1", "d", "u", 0,
	  NULL, HBA_RULE },
	{ "host all all samehost trust", "127.0.0.1", "d", "u", 0, NULL, HBA_RULE },
	{ "host all all samehost trust", "203.0.113.77", "d", "u", 0, NULL, HBA_NO_RULE },
	{ "host all all samenet trust", "127.9.9.9", "d", "u", 0, NULL, HBA_RULE },
	{ "host all all samenet trust", "203.0.113.77", "d", "u", 0, NULL, HBA_NO_RULE },
	/* names */
	{ "host all all app.example.com trust", "1.2.3.4", "d", "u", 0, NOT_LOOKED_UP,
	  HBA_NEEDS_HOST },
	{ "host all all app.example.com trust", "1.2.3.4", "d", "u", 0, NULL, HBA_NO_RULE },
	{ "host all all app.example.com trust", "1.2.3.4", "d", "u", 0, "APP.example.com",
	  HBA_RULE },
	{ "host all all app.example.com trust", "1.2.3.4", "d", "u", 0, "x.app.example.com",
	  HBA_NO_RULE },
	{ "host all all .example.com trust", "1.2.3.4", "d", "u", 0, "a.b.Example.com", HBA_RULE },
	{ "host all all .example.com trust", "1.2.3.4", "d", "u", 0, ".example.com", HBA_NO_RULE },
	{ "host all all .example.com trust", "1.2.3.4", "d", "u", 0, "badexample.com",
	  HBA_NO_RULE },
	{ "host all all \"all\" trust", "1.2.3.4", "d", "u", 0, NOT_LOOKED_UP, HBA_NEEDS_HOST },
	/* no lookup if the rule cannot match anyway */
	{ "host x all app.example.com trust", "1.2.3.4", "d", "u", 0, NOT_LOOKED_UP, HBA_NO_RULE },
	{ "host all all 1.0.0.0/8 md5\nhost all all a.b reject", "1.2.3.4", "d", "u", 0,
	  NOT_LOOKED_UP, HBA_RULE },
};

START_TEST(matching)
{
	struct problems problems;
	struct hba *hba = parse(cases[_i].rule, &problems);
	struct address peer = { .un = { .family = AF_UNIX } };
	bool is_known = !cases[_i].host || strcmp(cases[_i].host, NOT_LOOKED_UP) != 0;
	const struct hba_rule *rule;

	ck_assert_msg(hba != NULL, "%s", problems.errors.count ? problems.errors.texts[0] : "?");
	if (cases[_i].peer)
		ck_assert(address_parse(&peer, cases[_i].peer, 1234));
	ck_assert_msg(hba_find(hba,
	                       &(struct hba_facts){
				   .peer = &peer,
				   .database = cases[_i].database,
				   .user = cases[_i].user,
				   .is_tls = cases[_i].how & TLS,
				   .is_physical = cases[_i].how & PHYSICAL,
				   .is_host_known = is_known,
				   .host = is_known ? cases[_i].host : NULL,
			       },
	                       &rule) == cases[_i].answer,
	              "%s: %s/%s from %s", cases[_i].rule, cases[_i].database, cases[_i].user,
	              cases[_i].peer ? cases[_i].peer : "unix");
	ck_assert_int_eq(rule != NULL, cases[_i].answer == HBA_RULE);
	hba_release(&hba);
}
END_TEST

/* Unauthenticated clients can send names of any length. */
START_TEST(very_long_names)
{
	struct problems problems;
	struct hba *hba = parse("local /^(a+)+$ all trust\nlocal all /(a|aa)+b trust", &problems);
	struct address peer = { .un = { .family = AF_UNIX } };
	char *name = malloc(65536);
	const struct hba_rule *rule;

	memset(name, 'a', 65535);
	name[65535] = 0;
	ck_assert_int_eq(
	    hba_find(hba, &(struct hba_facts){ .peer = &peer, .database = name, .user = name },
	             &rule),
	    HBA_NO_RULE);
	name[1000] = 0;
	ck_assert_int_eq(
	    hba_find(hba, &(struct hba_facts){ .peer = &peer, .database = "b", .user = name },
	             &rule),
	    HBA_NO_RULE);
	free(name);
	hba_release(&hba);
}
END_TEST

static const struct hba_rule *rule_for(const struct hba *hba, const char *database)
{
	struct address peer = { .un = { .family = AF_UNIX } };
	const struct hba_rule *rule;

	ck_assert_int_eq(
	    hba_find(hba, &(struct hba_facts){ .peer = &peer, .database = database, .user = "u" },
	             &rule),
	    HBA_RULE);
	return rule;
}

START_TEST(the_first_rule_counts)
{
	struct problems problems;
	struct hba *hba =
	    parse("local a all md5\nlocal a,b all reject\n\nlocal all all trust", &problems);

	ck_assert_int_eq(rule_for(hba, "a")->method, AUTH_METHOD_MD5);
	ck_assert_int_eq(rule_for(hba, "b")->method, AUTH_METHOD_REJECT);
	ck_assert_int_eq(rule_for(hba, "c")->method, AUTH_METHOD_TRUST);
	ck_assert_int_eq(rule_for(hba, "c")->pos.line, 4);
	ck_assert_str_eq(rule_for(hba, "c")->pos.file, "hba");
	hba_release(&hba);
}
END_TEST

START_TEST(maps)
{
	struct problems problems;
	struct hba *hba = parse("local none all peer\nlocal one all peer map=m\n"
	                        "local two all peer map=m map=n\n",
	                        &problems);

	ck_assert(hba_rule_admits(hba, rule_for(hba, "none"), "alice", "alice"));
	ck_assert(!hba_rule_admits(hba, rule_for(hba, "none"), "root", "alice"));
	ck_assert(hba_rule_admits(hba, rule_for(hba, "one"), "root", "alice"));
	ck_assert(!hba_rule_admits(hba, rule_for(hba, "one"), "alice", "alice"));
	ck_assert(hba_rule_admits(hba, rule_for(hba, "two"), "root", "alice"));
	ck_assert(hba_rule_admits(hba, rule_for(hba, "two"), "bob", "bob"));
	ck_assert(!hba_rule_admits(hba, rule_for(hba, "two"), "bob", "alice"));
	hba_release(&hba);
}
END_TEST

START_TEST(client_certificates)
{
	struct problems problems;
	struct hba *hba = parse("hostssl all all 1.0.0.0/8 md5 clientcert=verify-ca\n"
	                        "hostssl all all 2.0.0.0/8 cert map=m clientcert=verify-full\n"
	                        "hostssl all all all scram-sha-256\n",
	                        &problems);
	static const struct {
		const char *peer;
		enum hba_client_cert wanted;
	} wanted[] = { { "1.1.1.1", HBA_CERT_VALID },
		       { "2.1.1.1", HBA_CERT_NAMED },
		       { "3.1.1.1", HBA_CERT_ANY } };

	for (size_t i = 0; i < COUNT_OF(wanted); i++) {
		const struct hba_rule *rule;
		struct address peer;

		address_parse(&peer, wanted[i].peer, 1);
		ck_assert_int_eq(
		    hba_find(hba,
		             &(struct hba_facts){
				 .peer = &peer, .database = "d", .user = "u", .is_tls = true },
		             &rule),
		    HBA_RULE);
		ck_assert_int_eq(rule->client_cert, wanted[i].wanted);
	}
	hba_release(&hba);
}
END_TEST

/* ---- showing ---- */

static const struct {
	const char *rule, *shown;
} rows[] = {
	{ "local all all trust", "1 local {all} {all} - - trust -" },
	{ "host a,b,\"c d\",\"x\"\"y\\z\",\"\",null u 10.0.0.0/8 md5",
	  "1 host {a,b,\"c d\",\"x\\\"y\\\\z\",\"\",\"null\"} {u} 10.0.0.0 255.0.0.0 md5 -" },
	{ "\nhostssl sameuser /^a ::/64 cert map=m map=n",
	  "2 hostssl {sameuser} {/^a} :: ffff:ffff:ffff:ffff:: cert "
	  "{map=m,map=n}" },
	{ "hostnossl all all samenet plain", "1 hostnossl {all} {all} samenet - password -" },
	{ "hostnogssenc all all .example.com reject",
	  "1 hostnogssenc {all} {all} .example.com - reject -" },
	{ "hostssl all all all cert clientcert=verify-full map=m",
	  "1 hostssl {all} {all} all - cert {clientcert=verify-full,map=m}" },
#if PGWEIR_LDAP
	{ "local all all ldap ldapserver=\"a b\" ldapbasedn=dc=a,dc=b ldapbinddn=u "
	  "\"ldapbindpasswd=x y\"",
	  "1 local {all} {all} - - ldap {\"ldapserver=a b\",\"ldapbasedn=dc=a,dc=b\",ldapbinddn=u,"
	  "ldapbindpasswd=***}" },
#endif
};

static const char *or_dash(const char *text) { return *text ? text : "-"; }

START_TEST(showing)
{
	struct problems problems;
	struct hba *hba = parse(rows[_i].rule, &problems);
	struct buf texts = { 0 }, shown = { 0 };
	const struct hba_rule *rule;
	const char *text[5];
	struct bytes rest;

	ck_assert_uint_eq(hba->count, 1);
	rule = &hba->rules[0];
	hba_rule_texts(rule, &texts);
	rest = buf_bytes(&texts);
	for (int i = 0; i < 5; i++)
		ck_assert(bytes_take_text(&rest, &text[i]));
	buf_printf(&shown, "%d %s %s %s %s %s %s %s", rule->pos.line, hba_type_name(rule->type),
	           text[0], text[1], or_dash(text[2]), or_dash(text[3]),
	           auth_methods[rule->method].hba_name, or_dash(text[4]));
	ck_assert_str_eq(buf_text(&shown), rows[_i].shown);
	buf_free(&texts);
	buf_free(&shown);
	hba_release(&hba);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("hba");
	TCase *tcase = tcase_create("hba");

	tcase_add_loop_test(tcase, bad_lines, 0, (int)COUNT_OF(bad));
	tcase_add_loop_test(tcase, flawed_lines, 0, (int)COUNT_OF(flawed));
	tcase_add_test(tcase, all_bad_lines_are_said);
	tcase_add_test(tcase, bad_maps_and_bad_rules_are_said_together);
	tcase_add_loop_test(tcase, matching, 0, (int)COUNT_OF(cases));
	tcase_add_test(tcase, very_long_names);
	tcase_add_test(tcase, the_first_rule_counts);
	tcase_add_test(tcase, maps);
	tcase_add_test(tcase, client_certificates);
	tcase_add_loop_test(tcase, showing, 0, (int)COUNT_OF(rows));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
