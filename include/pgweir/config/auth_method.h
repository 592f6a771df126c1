/* SPDX-License-Identifier: ISC */
/*
 * The methods of authentication, each once. What each of them does is in auth/auth_methods.c.
 */
#ifndef PGWEIR_CONFIG_AUTH_METHOD_H
#define PGWEIR_CONFIG_AUTH_METHOD_H

/*
 * METHOD(name, word, missing): those that auth_type can have, in the order of its words.
 * missing: what pgweir would have to be built with; NULL: it is there.
 */
#define AUTH_METHODS_OF_SETTING(METHOD)                                        \
	/* nothing is asked, not even whether the user is known */             \
	METHOD(ANY, "any", NULL)                                               \
	/* nothing is asked, but the user must be known */                     \
	METHOD(TRUST, "trust", NULL)                                           \
	/* the password itself */                                              \
	METHOD(PLAIN, "plain", NULL)                                           \
	/* goes over to SCRAM if the user's secret is of that kind */          \
	METHOD(MD5, "md5", NULL)                                               \
	METHOD(SCRAM, "scram-sha-256", NULL)                                   \
	/* no method: the first rule of auth_hba_file that matches names it */ \
	METHOD(HBA, "hba", NULL)                                               \
	/* the name in the client's certificate */                             \
	METHOD(CERT, "cert", NULL)                                             \
	/* the password is judged outside */                                   \
	METHOD(PAM, "pam", PGWEIR_PAM ? NULL : "PAM")                          \
	METHOD(LDAP, "ldap", PGWEIR_LDAP ? NULL : "LDAP")

/* Those that only a rule of auth_hba_file can name. */
#define AUTH_METHODS_OF_RULES(METHOD)                             \
	/* the system user at the other end of the Unix socket */ \
	METHOD(PEER, "peer", NULL)                                \
	/* nobody */                                              \
	METHOD(REJECT, "reject", NULL)

#define AUTH_METHOD_NAME(name, ...) AUTH_METHOD_##name,

enum auth_method {
	AUTH_METHODS_OF_SETTING(AUTH_METHOD_NAME) AUTH_METHODS_OF_RULES(AUTH_METHOD_NAME)
	    AUTH_METHODS
};

#endif
