/* SPDX-License-Identifier: ISC */
/*
 * LDAP options, internal to the module.
 */
#ifndef PGWEIR_AUTH_LDAP_OPTIONS_PRIV_H
#define PGWEIR_AUTH_LDAP_OPTIONS_PRIV_H

#include "pgweir/auth/ldap_options.h"

/* Parses ldap[s]://host[:port]/base[?attribute[?scope[?filter]]] into the options. */
bool ldap_options_url(const char *url, struct ldap_options *options, struct err *err);

/* Replaces a text by a copy of `value`. false: no memory. */
bool ldap_options_put(char **slot, struct bytes value, struct err *err);

bool ldap_options_put_port(struct ldap_options *options, const char *text, struct err *err);

#endif
