/* SPDX-License-Identifier: ISC */
/*
 * What each method of authentication is like: one row each. auth_server.c, hba_rule.c, the
 * client module and main go by it.
 *
 * A new method is a line in config/auth_method.h and a row here. One whose password is judged
 * outside also has a row in outside.c.
 */
#ifndef PGWEIR_AUTH_AUTH_METHODS_H
#define PGWEIR_AUTH_AUTH_METHODS_H

#include "pgweir/base/close_reason.h"
#include "pgweir/config/config.h"

/* What a client is asked for. */
enum auth_question {
	AUTH_ASKS_NOTHING,
	AUTH_ASKS_PASSWORD, /* in the clear */
	AUTH_ASKS_MD5,
	AUTH_ASKS_SCRAM
};

/* What says that a client is who it says, if it is asked for nothing. */
enum auth_voucher {
	AUTH_NO_VOUCHER,
	AUTH_BY_SYSTEM_USER, /* at the other end of its Unix socket */
	AUTH_BY_CERTIFICATE
};

struct auth_method_row {
	const char *name; /* in the log */
	/* In an HBA file, with a second word for the same; NULL: it cannot stand there. */
	const char *hba_name, *hba_alias;
	const char *hba_only; /* the only type of rule that it can stand in; NULL: any */
	enum auth_question question;
	enum auth_voucher voucher;
	bool takes_anybody; /* the user need not be known, and has no secret */
	bool needs_no_file; /* auth_file is not read while it is auth_type */
	bool is_outside;    /* the password is judged outside: outside.h */
	/* Outside: the setting with its options, and whether it may be empty otherwise. */
	const char *setting;
	size_t setting_at; /* in struct config, a char * */
	bool may_be_unset;
	unsigned int threads; /* of its own, as it waits for others; 0: those that derive keys */
	enum close_reason refusal; /* what the client is told */
};

extern const struct auth_method_row auth_methods[AUTH_METHODS];

/* The method of a word in an HBA file; AUTH_METHODS: there is none. */
enum auth_method auth_methods_by_hba_name(const char *word);

/* Its options by the settings; NULL: they are not set, or it has none. */
const char *auth_methods_options(enum auth_method method, const struct config *config);

#endif
