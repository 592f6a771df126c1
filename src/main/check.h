/* SPDX-License-Identifier: ISC */
/*
 * Checks a configuration from the command line.
 */
#ifndef PGWEIR_MAIN_CHECK_H
#define PGWEIR_MAIN_CHECK_H

#include <stdbool.h>

#include "pgweir/auth/hba.h"
#include "pgweir/auth/users.h"
#include "pgweir/base/buf.h"
#include "pgweir/config/config.h"

#include "options.h"

/* --check and --against. false: there is a problem, or that daemon does not answer. */
bool check_file(const struct options *options);

/* ---- warnings: valid settings that are probably a mistake ---- */

/* users: those of auth_file; NULL: they could not be read. */
void lint(const struct config *config, const struct users *users, struct problems *problems);

/*
 * ---- what would fail at the start or at the first login ----
 *
 * No file is created, no socket is opened.
 */

/* With the rights of the daemon's user: privileges_borrow(). */
void preflight_files(const struct config *config, struct problems *problems);

/* Lookups of users, and logins. users: of auth_file; NULL: they could not be read. */
void preflight_logins(const struct config *config, const struct users *users,
                      struct problems *problems);

/* ---- recount.c: what a reload changes of rules and users ---- */

#define RECOUNT_RULE_COLUMNS                                                   \
	7 /* type, database, user_name, address, netmask, auth_method, options \
	   */

/* Zeroed: empty. */
struct recount {
	struct recount_line *lines;
	size_t new_count;
	bool is_broken; /* a line is missing, for lack of memory */
};

/* By how much a rule of the configuration in force, and of the new one, changes its line. */
enum recount_of { RECOUNT_OLD = -1, RECOUNT_NEW = 1 };

/* Adds a rule. columns: those of SHOW HBA; each may be NULL. */
void recount_rule(struct recount *recount, const char *const *columns, enum recount_of whose);

/* Adds all rules. hba may be NULL. */
void recount_rules(struct recount *recount, const struct hba *hba, enum recount_of whose);

/* Frees all, and adds "9 rules (2 new, 1 gone)". false: nothing is new or gone. */
bool recount_end(struct recount *recount, struct buf *out);

/* For users: "7 users (1 new, 0 gone, 2 changed)". */
bool recount_users(const struct users *old, const struct users *fresh, struct buf *out);

#endif
