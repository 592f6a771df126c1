/* SPDX-License-Identifier: ISC */
/*
 * HBA rules, inside the room.
 */
#ifndef PGWEIR_AUTH_HBA_PRIV_H
#define PGWEIR_AUTH_HBA_PRIV_H

#include "pgweir/auth/hba.h"
#include "pgweir/net/range.h"

#include "ident_priv.h"
#include "pattern_priv.h"

enum hba_where {
	WHERE_ALL, /* and that of HBA_LOCAL */
	WHERE_RANGE,
	WHERE_NOBODY, /* a range whose address has bits outside of its mask, but for reject */
	WHERE_SAME_HOST,
	WHERE_SAME_NET,
	WHERE_NAME,  /* the host's name is `host` */
	WHERE_SUFFIX /* it ends in `host`, which begins with a dot */
};

struct hba_rule {
	struct source_pos place;
	enum hba_type type;
	enum auth_method method;
	enum hba_client_cert client_cert;
	struct patterns databases, users;
	enum hba_where where;
	struct range range; /* RANGE, NOBODY */
	char *host;         /* NAME, SUFFIX */
	char **maps;        /* of `map=`, any of which will do */
	size_t map_count;
	char *flaw;         /* why nobody comes in by it, or what is wrong with a reject; or NULL */
	struct buf options; /* of pam and ldap: see hba_rule_options(); may hold a password */
};

/*
 * Reads a rule; what is wrong goes to *err, and *rule can be freed by hba_rule_done()
 * then too. ident NULL: the maps are not known, as their file is bad. A rule that PgBouncer
 * takes and that can let nobody in is read, and has a flaw.
 */
bool hba_rule_read(struct hba_rule *rule, const struct rule_line *line, const struct ident *ident,
                   struct err *err);
void hba_rule_done(struct hba_rule *rule);

const char *hba_type_name(enum hba_type type);

struct hba {
	unsigned long reference_count;
	struct hba_rule *rules;
	size_t count, capacity;
	struct ident *ident;
	char **files; /* the names in places */
	size_t file_count;
};

#endif
