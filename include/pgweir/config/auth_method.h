/* SPDX-License-Identifier: ISC */
/*
 * The list of authentication methods. What each of them does is in auth/auth_methods.c.
 */
#ifndef PGWEIR_CONFIG_AUTH_METHOD_H
#define PGWEIR_CONFIG_AUTH_METHOD_H

/*
 * METHOD(name, word, missing): the methods that auth_type accepts, in the order of its words.
 * missing: the library that pgweir was built without; NULL: the method is available.
 */
#define AUTH_METHODS_OF_SETTING(METHOD)                                 \
	/* no authentication, and the user may be unknown */            \
	METHOD(ANY, "any", NULL)                                        \
	/* no authentication, but the user must be known */             \
	METHOD(TRUST, "trust", NULL)                                    \
	/* cleartext password */                                        \
	METHOD(PLAIN, "plain", NULL)                                    \
	/* uses SCRAM if the user's secret is a SCRAM secret */         \
	METHOD(MD5, "md5", NULL)                                        \
	METHOD(SCRAM, "scram-sha-256", NULL)                            \
	/* the first matching rule of auth_hba_file names the method */ \
	METHOD(HBA, "hba", NULL)                                        \
	/* user name in the client's certificate */                     \
	METHOD(CERT, "cert", NULL)                                      \
	/* another service checks the password */                       \
	METHOD(PAM, "pam", PGWEIR_PAM ? NULL : "PAM")                   \
	METHOD(LDAP, "ldap", PGWEIR_LDAP ? NULL : "LDAP")

/* Methods that only rules of auth_hba_file can name. */
#define AUTH_METHODS_OF_RULES(METHOD)                         \
	/* system user at the other end of the Unix socket */ \
	METHOD(PEER, "peer", NULL)                            \
	/* refuses all clients */                             \
	METHOD(REJECT, "reject", NULL)

#define AUTH_METHOD_NAME(name, ...) AUTH_METHOD_##name,

enum auth_method {
	AUTH_METHODS_OF_SETTING(AUTH_METHOD_NAME) AUTH_METHODS_OF_RULES(AUTH_METHOD_NAME)
	    AUTH_METHODS
};

#endif
