/* SPDX-License-Identifier: ISC */
/*
 * What is made of a configuration before it can be in force: users, rules, certificates,
 * proxies. Each part is made of settings that only fit together, such as a certificate and
 * its key.
 */
#ifndef PGWEIR_MAIN_PARTS_H
#define PGWEIR_MAIN_PARTS_H

#include "pgweir/auth/hba.h"
#include "pgweir/auth/users.h"
#include "pgweir/base/log.h"
#include "pgweir/net/ranges.h"

#include "tls_sets.h"

enum part { PART_LOGINS, PART_CLIENT_TLS, PART_SERVER_TLS, PART_PROXIES, PARTS };

/* A set of parts, for example 1u << PART_LOGINS. */
typedef unsigned int part_set;

struct parts {
	struct users *users;
	struct hba *hba; /* NULL unless auth_type is hba */
	struct tls_sets tls;
	struct ranges *proxies; /* NULL: those that are in force */
};

/* The part that a setting belongs to; PARTS: none, it fits with any value. */
enum part part_of(const char *setting);

/* Its settings, up to NULL. */
const char *const *part_settings(enum part part);

/* "client_tls_...", for messages. */
const char *part_name(enum part part);

/*
 * Makes one part of `fresh`, in place of the one there; `running` is what *parts were made of,
 * so that a file of users or rules is read only if another one is named. false: *err says why,
 * ERR_UNFIT if another setting can mend it; it begins with the setting's name. The part stays
 * as it was. All further problems and the warnings go to the log.
 */
bool parts_make(struct parts *parts, enum part part, const struct config *fresh,
                const struct config *running, const struct logger *logger, struct err *err);

/* Gives all of them back. */
void parts_done(struct parts *parts);

#endif
