/* SPDX-License-Identifier: ISC */
/*
 * Parts: what must be made of a configuration before it is applied: users, rules,
 * certificates, proxies. The settings of one part only fit together, such as a certificate
 * and its key.
 */
#ifndef PGWEIR_MAIN_PARTS_H
#define PGWEIR_MAIN_PARTS_H

#include "pgweir/auth/hba.h"
#include "pgweir/auth/users.h"
#include "pgweir/base/log.h"
#include "pgweir/net/range.h"
#include "pgweir/web/web.h"

#include "tls_sets.h"

enum part { PART_LOGINS, PART_CLIENT_TLS, PART_SERVER_TLS, PART_PROXIES, PART_WEB, PARTS };

/* A set of parts, for example 1u << PART_LOGINS. */
typedef unsigned int part_set;

struct parts {
	struct users *users;
	struct hba *hba; /* NULL unless auth_type is hba */
	struct tls_sets tls;
	struct ranges *proxies; /* NULL: keep those in force */
	struct web_rights *web; /* the same */
};

/* The part that a setting belongs to. PARTS: none; such a setting fits with every other value. */
enum part part_of(const char *setting);

/* The settings of a part; ends with NULL. */
const char *const *part_settings(enum part part);

/* For messages: "client_tls_...". */
const char *part_name(enum part part);

/*
 * Makes one part of `fresh`, and replaces that part. running: the configuration that *parts
 * was made of; a file of users or rules is read only if `fresh` names another one. false:
 * the part is unchanged, and *err has the reason, which begins with a setting's name;
 * ERR_UNFIT if a change of another setting can help. Further problems and the warnings are
 * logged.
 */
bool parts_make(struct parts *parts, enum part part, const struct config *fresh,
                const struct config *running, const struct logger *logger, struct err *err);

/* Frees or releases all parts. */
void parts_done(struct parts *parts);

#endif
