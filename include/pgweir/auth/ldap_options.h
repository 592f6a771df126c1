/* SPDX-License-Identifier: ISC */
/*
 * How an LDAP server is asked: options as auth_ldap_options and HBA lines have them.
 *
 *   ldapserver="a.example.com b.example.com" ldapbasedn="dc=example,dc=com" ldaptls=1
 *
 * key=value with blanks between them; quotes take blanks in, "" within them is one.
 * No library and no network: text in, facts out.
 */
#ifndef PGWEIR_AUTH_LDAP_OPTIONS_H
#define PGWEIR_AUTH_LDAP_OPTIONS_H

#include "pgweir/base/buf.h"
#include "pgweir/base/err.h"

#define LDAP_OPTIONS_MAX 8192 /* bytes of all options together */

enum ldap_scope { LDAP_AT_BASE, LDAP_ONE_LEVEL, LDAP_SUBTREE };

/* All texts owned; NULL where the option is not given, but where it says otherwise. */
struct ldap_options {
	char *servers; /* names and addresses, blanks between them; never NULL */
	int port;      /* 0 = that of the scheme */
	bool is_ldaps; /* TLS from the first byte */
	bool has_start_tls;
	/* simple bind: the user's entry is prefix, name and suffix */
	char *prefix, *suffix;
	/* search and bind: the user's entry is found */
	char *base_dn;
	char *bind_dn, *bind_password; /* both or neither: who searches */
	char *search_attribute;        /* used when there is no filter; NULL = uid */
	char *search_filter;           /* with $username */
	enum ldap_scope scope;
	bool is_contradictory; /* not good only because two options exclude each other */
};

/* false: *err says what is wrong, and no secret. In both cases ldap_options_done(). */
bool ldap_options_parse(const char *text, struct ldap_options *options, struct err *err);

/* Wipes what is secret. */
void ldap_options_done(struct ldap_options *options);

/* Whether the user's entry is searched for. */
static inline bool ldap_options_search(const struct ldap_options *options)
{
	return options->base_dn;
}

/* For showing: the next option of `*text` with its password hidden; false: no more. */
bool ldap_options_next(const char **text, struct buf *shown);

/* Adds an option to a text of options, quoted as it has to be. */
void ldap_options_add(struct buf *text, const char *option);

/* ---- what becomes of a name ---- */

/* The entry of a simple bind. The name is escaped: it stays one value of one attribute. */
void ldap_options_dn(const struct ldap_options *options, const char *user, struct buf *out);

/* The filter of a search; the name is escaped: no character of it means anything. */
void ldap_options_filter(const struct ldap_options *options, const char *user, struct buf *out);

#endif
