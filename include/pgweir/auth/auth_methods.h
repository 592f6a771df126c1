/* SPDX-License-Identifier: ISC */
/*
 * The table of authentication methods. A new method needs a line in config/config.h and a row
 * here; if another service checks the password, also a struct outside.
 */
#ifndef PGWEIR_AUTH_AUTH_METHODS_H
#define PGWEIR_AUTH_AUTH_METHODS_H

#include "pgweir/base/clock.h"
#include "pgweir/base/close_reason.h"
#include "pgweir/base/err.h"
#include "pgweir/config/config.h"
#include "pgweir/net/tls.h"

/*
 * ---- passwords that are checked outside of this process: by PAM or by an LDAP server ----
 *
 * That may take any time: derived.h has it done by a helper thread.
 */

enum outside_answer {
	OUTSIDE_YES,
	OUTSIDE_NO,    /* unknown user, wrong password, or the user may not log in now */
	OUTSIDE_FAILED /* no service could be asked, or the answer was an error */
};

#define OUTSIDE_REASON_SIZE 160

/*
 * The password must not be empty: an LDAP server treats an empty one as an anonymous bind, which
 * succeeds.
 */
struct outside_question {
	const char *password, *user;
	const char *options; /* PAM: the service; LDAP: options for ldap_options_parse() */
	const char *host;    /* the client's host, for PAM */
	usec_t deadline;     /* by clock_now(): the answer is not needed after it; 0 = none */
	char reason[OUTSIDE_REASON_SIZE]; /* of another answer than yes: for the log, no secret */
};

/* To be called once, before any thread asks: prepares the libraries for several threads. */
void ldap_prepare(void);

/* Sets the reason and returns `answer`. */
enum outside_answer auth_outside_reply(struct outside_question *question,
                                       enum outside_answer answer, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

enum outside_fitness {
	OUTSIDE_BAD,           /* the options are invalid; *err says why */
	OUTSIDE_FIT,           /* the options can be used */
	OUTSIDE_CONTRADICTORY, /* each is valid, but not together; *err says why */
};

struct outside {
	const char *name;
	bool is_built;
	/* Called on a helper thread; may block. */
	enum outside_answer (*judge)(struct outside_question *question);
	/* Checks options, also if it is not built. */
	enum outside_fitness (*check)(const char *options, struct err *err);
};

extern const struct outside outside_pam, outside_ldap;

/* ---- the table ---- */

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
	/* Who else checks the password. NULL: nobody */
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
