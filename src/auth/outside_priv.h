/* SPDX-License-Identifier: ISC */
/*
 * Passwords that PAM or LDAP checks, internal to the module: what the files of the libraries
 * provide.
 */
#ifndef PGWEIR_AUTH_OUTSIDE_PRIV_H
#define PGWEIR_AUTH_OUTSIDE_PRIV_H

#include "pgweir/auth/outside.h"
#include "pgweir/base/buf.h"
#include "pgweir/base/err.h"

/*
 * LDAP options, as in auth_ldap_options and HBA lines.
 *
 *   ldapserver="a.example.com b.example.com" ldapbasedn="dc=example,dc=com" ldaptls=1
 *
 * Options are key=value, separated by blanks. A value in quotes may contain blanks, and ""
 * means one quote.
 */

#define LDAP_OPTIONS_MAX 8192 /* bytes of all options together */

enum ldap_scope { LDAP_AT_BASE, LDAP_ONE_LEVEL, LDAP_SUBTREE }; /* as libldap has them */

/* All texts are owned. NULL: the option is not set, unless the comment says otherwise. */
struct ldap_options {
	char *servers; /* names and addresses, separated by blanks; never NULL */
	int port;      /* 0 = default of the scheme */
	bool is_ldaps; /* TLS from the start */
	bool has_start_tls;
	/* simple bind: prefix, name and suffix make the user's entry */
	char *prefix, *suffix;
	/* search and bind: if base_dn is set, the user's entry is searched */
	char *base_dn;
	char *bind_dn, *bind_password; /* both or neither: who searches */
	char *search_attribute;        /* used if there is no filter; NULL = uid */
	char *search_filter;           /* contains $username */
	enum ldap_scope scope;
	bool is_contradictory; /* the only error is that two options exclude each other */
};

/* false: *err says why, without a secret. Call ldap_options_done() in both cases. */
bool ldap_options_parse(const char *text, struct ldap_options *options, struct err *err);

/* Wipes and frees the texts. */
void ldap_options_done(struct ldap_options *options);

/* The option that is never shown. */
#define LDAP_PASSWORD "ldapbindpasswd="

/* Adds an option to a text of options, quoted if necessary. */
void ldap_options_add(struct buf *text, const char *option);

/* ---- names and filters ---- */

/* Makes the entry for a simple bind. The name is escaped: it stays one value of one attribute. */
void ldap_options_dn(const struct ldap_options *options, const char *user, struct buf *out);

/* Makes the filter of a search. The name is escaped: none of its characters is special. */
void ldap_options_filter(const struct ldap_options *options, const char *user, struct buf *out);

/*
 * Parses ldap[s]://host[:port]/base[?attribute[?scope[?filter]]] into the options, by libldap. An
 * empty part changes nothing.
 */
bool ldap_options_url(struct ldap_options *options, const char *url, struct err *err);

#endif
