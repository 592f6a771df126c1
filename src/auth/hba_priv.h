/* SPDX-License-Identifier: ISC */
/*
 * HBA rules, internal to the module.
 */
#ifndef PGWEIR_AUTH_HBA_PRIV_H
#define PGWEIR_AUTH_HBA_PRIV_H

#include <stdatomic.h>

#include "pgweir/auth/hba.h"
#include "pgweir/net/range.h"

#include "ident_priv.h"
#include "pattern_priv.h"

enum hba_where {
	WHERE_ALL, /* also for HBA_LOCAL */
	WHERE_RANGE,
	WHERE_NOBODY, /* matches no address: the range has bits outside its mask (not for reject) */
	WHERE_SAME_HOST,
	WHERE_SAME_NET,
	WHERE_NAME,  /* the host's name is `host` */
	WHERE_SUFFIX /* the host's name ends with `host`, which begins with a dot */
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
	char **maps;        /* from `map=`; one that fits is enough */
	size_t map_count;
	/* why the rule admits nobody, or what is wrong with a reject rule; or NULL */
	char *flaw;
	struct buf options; /* for pam and ldap: see hba_rule_options(); may contain a password */
};

/*
 * Parses a rule. false: *err says why, and *rule can be freed by hba_rule_done() too. ident
 * NULL: the maps are not known, because their file is invalid. A rule that PgBouncer accepts
 * but that can admit nobody is accepted, and has a flaw.
 */
bool hba_rule_read(struct hba_rule *rule, const struct rule_line *line, const struct ident *ident,
                   struct err *err);
void hba_rule_done(struct hba_rule *rule);

const char *hba_type_name(enum hba_type type);

struct hba {
	atomic_size_t reference_count; /* everything else never changes after loading */
	struct hba_rule *rules;
	size_t count, capacity;
	struct ident *ident;
	char **files; /* names of files, for `pos` of rules */
	size_t file_count;
};

#endif
