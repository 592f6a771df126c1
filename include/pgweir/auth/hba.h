/* SPDX-License-Identifier: ISC */
/*
 * HBA rules: which clients may log in, and how. From the HBA file, and the maps of the ident
 * file.
 *
 * A `struct hba` is immutable and counts its references, like `struct users`: a reload makes a
 * new one. A file with an error is refused as a whole. A line that PgBouncer accepts but that
 * can admit nobody becomes a rule with a flaw, and a warning. For one thread only.
 */
#ifndef PGWEIR_AUTH_HBA_H
#define PGWEIR_AUTH_HBA_H

#include "pgweir/auth/auth_methods.h"
#include "pgweir/base/buf.h"
#include "pgweir/config/problems.h"
#include "pgweir/net/address.h"

enum hba_type {
	HBA_LOCAL, /* Unix socket */
	HBA_HOST,  /* TCP, with or without TLS */
	HBA_HOSTSSL,
	HBA_HOSTNOSSL,
	HBA_HOSTGSSENC,  /* matches nothing: GSSAPI is not supported */
	HBA_HOSTNOGSSENC /* same as HBA_HOST */
};

/* What a rule requires of the client's certificate, in addition to its method. */
enum hba_client_cert {
	HBA_CERT_ANY,   /* nothing */
	HBA_CERT_VALID, /* clientcert=verify-ca: a verified certificate */
	HBA_CERT_NAMED  /* clientcert=verify-full: and its name is the user's, or is mapped to it */
};

struct hba;
struct hba_rule;

/* Facts about a client that wants to log in. Borrowed texts. */
struct hba_facts {
	const struct address *peer;
	const char *database, *user;
	bool is_tls;
	/* requests physical replication: only the keyword `replication` matches */
	bool is_physical;
	bool is_host_known; /* the host name was looked up; the result is in `host` */
	const char *host;   /* verified name of the client's address; NULL: none */
};

enum hba_answer {
	HBA_RULE,      /* *rule is the first rule that matches */
	HBA_NO_RULE,   /* no rule matches */
	HBA_NEEDS_HOST /* look up the host name and try again */
};

/* Loads the files. ident_path NULL or "": no maps. NULL: *problems lists all errors. */
struct hba *hba_load(const char *path, const char *ident_path, struct problems *problems);

/* The same from text; includes are refused. */
struct hba *hba_parse(struct bytes text, struct bytes ident, struct problems *problems);

struct hba *hba_hold(struct hba *hba);
void hba_release(struct hba **hba);

/* Finds the rule that applies. It is valid as long as a reference is held. */
enum hba_answer hba_find(const struct hba *hba, const struct hba_facts *facts,
                         const struct hba_rule **rule);

enum auth_method hba_rule_method(const struct hba_rule *rule);
enum hba_client_cert hba_rule_client_cert(const struct hba_rule *rule);

/* Why this rule, although it matches, admits nobody; NULL: it may. Valid as long as the rule. */
const char *hba_rule_flaw(const struct hba_rule *rule);

/* PAM: the service, NULL = that of the settings; LDAP: its options. NULL for other methods. */
const char *hba_rule_options(const struct hba_rule *rule);

struct source_pos hba_rule_source_pos(const struct hba_rule *rule);

/* Whether this rule lets the system user or certificate `name` log in as `user`. */
bool hba_rule_admits(const struct hba *hba, const struct hba_rule *rule, const char *name,
                     const char *user);

/* ---- for SHOW ---- */

size_t hba_rule_count(const struct hba *hba);

struct hba_row {
	const char *file;
	int line;
	const char *type, *address, *netmask, *method; /* address, netmask: may be NULL */
	const char *error; /* see hba_rule_flaw(); also for a rule that matches nobody */
};

/*
 * Fills rule `index` (from 0). false: past the last one. Lists are added to the buffers in
 * PostgreSQL's array format; `options` stays empty if there are none.
 */
struct hba_lists {
	struct buf database, user, options;
	char address[ADDRESS_TEXT_SIZE], netmask[ADDRESS_TEXT_SIZE];
};
bool hba_row(const struct hba *hba, size_t index, struct hba_row *row, struct hba_lists *lists);

struct ident_row {
	const char *file;
	int line;
	const char *map, *system_user, *user;
};

/* Fills line `index` of the maps. false: it is past the last line. */
bool hba_ident_row(const struct hba *hba, size_t index, struct ident_row *row);

#endif
