/* SPDX-License-Identifier: ISC */
/*
 * The table of authentication methods. A new method needs a line in config/config.h and a row
 * here; if another service checks the password, also one in outside.c.
 */
#ifndef PGWEIR_AUTH_AUTH_METHODS_H
#define PGWEIR_AUTH_AUTH_METHODS_H

#include "pgweir/base/close_reason.h"
#include "pgweir/config/config.h"
#include "pgweir/net/tls.h"

struct outside;

enum auth_question {
	AUTH_ASKS_NOTHING,
	AUTH_ASKS_PASSWORD, /* a cleartext password */
	AUTH_ASKS_MD5,
	AUTH_ASKS_SCRAM
};

/* What verifies the user if the client is asked for nothing. */
enum auth_voucher {
	AUTH_NO_VOUCHER,
	AUTH_BY_SYSTEM_USER, /* the system user at the other end of the Unix socket */
	AUTH_BY_CERTIFICATE
};

struct auth_method_row {
	const char *name; /* name in the log */
	/* Name in HBA files, and a second name; NULL: not possible there. */
	const char *hba_name, *hba_alias;
	const char *hba_only; /* the only type of rule that may have it; NULL: any */
	enum auth_question question;
	enum auth_voucher voucher;
	bool takes_anybody; /* the user may be unknown, and has no secret */
	bool needs_no_file; /* auth_file is not read if auth_type is this method */
	/* Who else checks the password: outside.h. NULL: nobody */
	const struct outside *outside;
	/* Then: the setting with its options; whether it may be unset with another auth_type. */
	const char *setting;
	size_t setting_at; /* offset in struct config, of a char * */
	bool may_be_unset;
	/* threads of its own, because it waits for others; 0: uses those that derive keys */
	unsigned int threads;
	enum close_reason refusal; /* why the client is refused, with the error text */
};

extern const struct auth_method_row auth_methods[AUTH_METHODS];

/* Finds the method of a word in an HBA file; AUTH_METHODS: there is none. */
enum auth_method auth_methods_by_hba_name(const char *word);

/* Returns the options of the method in the settings; NULL: not set, or it has none. */
const char *auth_methods_options(enum auth_method method, const struct config *config);

/* ---- TLS of clients: the settings client_tls_*, also of the web server's clients ---- */

/* protocol: name for ALPN, static; NULL = PostgreSQL's. Texts are borrowed from the snapshot. */
struct tls_options client_tls_options(const struct config *config, const char *protocol);

#endif
