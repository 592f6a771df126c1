/* SPDX-License-Identifier: ISC */
/*
 * Rules for who may come in how: the HBA file, and the maps of the ident file.
 *
 * A `struct hba` is immutable and counts its references, as users do: a reload
 * makes a new one. A file with a mistake is refused as a whole; a line that PgBouncer takes
 * and that can let nobody in is a rule with a flaw, and a warning. All of one thread.
 */
#ifndef PGWEIR_AUTH_HBA_H
#define PGWEIR_AUTH_HBA_H

#include "pgweir/auth/auth_methods.h"
#include "pgweir/base/buf.h"
#include "pgweir/config/problems.h"
#include "pgweir/net/address.h"

enum hba_type {
	HBA_LOCAL, /* by Unix socket */
	HBA_HOST,  /* by TCP, with TLS or without */
	HBA_HOSTSSL,
	HBA_HOSTNOSSL,
	HBA_HOSTGSSENC,  /* never: there is no GSSAPI here */
	HBA_HOSTNOGSSENC /* as HBA_HOST */
};

/* What a rule wants of the client's certificate, besides its method. */
enum hba_client_cert {
	HBA_CERT_ANY,   /* nothing */
	HBA_CERT_VALID, /* clientcert=verify-ca: one that was verified */
	HBA_CERT_NAMED  /* clientcert=verify-full: and its name is the user's, or mapped to it */
};

struct hba;
struct hba_rule;

/* What is known of somebody who wants to come in. Borrowed texts. */
struct hba_facts {
	const struct address *peer;
	const char *database, *user;
	bool is_tls;
	bool is_physical;   /* asks for physical replication: only `replication` is meant */
	bool is_host_known; /* host is what was found; else it was not looked up yet */
	const char *host;   /* the verified name of its address; NULL: none */
};

enum hba_answer {
	HBA_RULE,      /* *rule is the first that matches */
	HBA_NO_RULE,   /* nobody may come in like that */
	HBA_NEEDS_HOST /* look the host's name up, then ask again */
};

/* ident_path: NULL or "": no maps. NULL: all that is wrong is in *problems. */
struct hba *hba_load(const char *path, const char *ident_path, struct problems *problems);

/* The same from text; nothing can be included. */
struct hba *hba_parse(struct bytes text, struct bytes ident, struct problems *problems);

struct hba *hba_hold(struct hba *hba);

/* Gives one reference back and leaves NULL; accepts NULL. */
void hba_release(struct hba **hba);

/* The rule is good as long as a reference is held. */
enum hba_answer hba_find(const struct hba *hba, const struct hba_facts *facts,
                         const struct hba_rule **rule);

enum auth_method hba_rule_method(const struct hba_rule *rule);
enum hba_client_cert hba_rule_client_cert(const struct hba_rule *rule);

/* Why this rule, which matches, lets nobody in; NULL: it may. Good as long as the rule. */
const char *hba_rule_flaw(const struct hba_rule *rule);

/* PAM: its service, NULL = that of the settings; LDAP: its options. NULL for all others. */
const char *hba_rule_options(const struct hba_rule *rule);

/* "file:line", for the log. */
struct source_pos hba_rule_source_pos(const struct hba_rule *rule);

/* Whether who is `name` outside (system user, certificate) may come in as `user` by this rule. */
bool hba_rule_admits(const struct hba *hba, const struct hba_rule *rule, const char *name,
                     const char *user);

/* ---- for SHOW ---- */

size_t hba_rule_count(const struct hba *hba);

struct hba_row {
	const char *file;
	int line;
	const char *type, *address, *netmask, *method; /* address, netmask: NULL: none */
	const char *error; /* see hba_rule_flaw(), also of one that matches nobody */
};

/*
 * Rule `index` (from 0); false behind the last one. Lists are added to the buffers,
 * as PostgreSQL writes arrays; `options` stays empty if there are none. room: for
 * the texts of the addresses.
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

/* Line `index` of the maps; false behind the last one. */
bool hba_ident_row(const struct hba *hba, size_t index, struct ident_row *row);

#endif
