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

#include <regex.h>

#include "pgweir/auth/auth_methods.h"
#include "pgweir/base/buf.h"
#include "pgweir/base/refs.h"
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

enum pattern_kind {
	PATTERN_NAME,
	PATTERN_ALL,
	PATTERN_SAME_USER,
	PATTERN_REPLICATION,
	PATTERN_REGEX /* written as /expression */
};

struct pattern {
	enum pattern_kind kind;
	char *text;     /* as written, without quotes */
	regex_t *regex; /* for REGEX */
};

struct patterns {
	struct pattern *at;
	size_t count;
};

enum hba_where {
	WHERE_ALL, /* also for HBA_LOCAL */
	WHERE_RANGE,
	WHERE_NOBODY, /* matches no address: the range has bits outside its mask (not for reject) */
	WHERE_SAME_HOST,
	WHERE_SAME_NET,
	WHERE_NAME /* the host's name is `host`; if that begins with a dot: ends with it */
};

struct hba_rule {
	struct source_pos pos;
	enum hba_type type;
	enum auth_method method;
	enum hba_client_cert client_cert;
	struct patterns databases, users;
	enum hba_where where;
	struct range range; /* RANGE, NOBODY */
	char *host;         /* NAME, SUFFIX */
	struct buf maps;    /* of `map=`, each with a terminating zero; one that fits is enough */
	/* why the rule admits nobody, or what is wrong with a reject rule; or empty */
	struct buf flaw;
	struct buf options; /* for pam and ldap: or empty; may contain a password */
	struct buf shown;   /* all options as written, each with a zero; without a password */
};

/* A line of the ident file. */
struct mapping {
	struct source_pos pos;
	char *map;
	struct pattern system_user;
	struct pattern user;
};

struct hba {
	struct refs refs; /* everything else never changes after loading */
	struct hba_rule *rules;
	size_t count, capacity;
	struct mapping *mappings; /* of the ident file */
	size_t mapping_count, mapping_capacity;
	bool has_bad_maps;         /* the ident file is invalid */
	struct source_files files; /* for `pos` of rules and mappings */
};

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

struct hba *hba_hold(struct hba *hba);
void hba_release(struct hba **hba);

/* Finds the rule that applies. It is valid as long as a reference is held. */
enum hba_answer hba_find(const struct hba *hba, const struct hba_facts *facts,
                         const struct hba_rule **rule);

/* Whether this rule lets the system user or certificate `name` log in as `user`. */
bool hba_rule_admits(const struct hba *hba, const struct hba_rule *rule, const char *name,
                     const char *user);

/* ---- for SHOW ---- */

const char *hba_type_name(enum hba_type type);

/*
 * Adds databases, users, address, netmask and options of a rule, each with a terminating zero;
 * lists in PostgreSQL's array format. Address, netmask and options may be "": there are none.
 */
void hba_rule_texts(const struct hba_rule *rule, struct buf *out);

#endif
