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

/* ---- rules as lists of lines, and users, to count what a reload changes ---- */

struct listing {
	char **lines;
	size_t count, capacity;
	bool is_whole; /* false: a line is missing, for lack of memory */
};

/* The initial value. */
#define LISTING_EMPTY            \
	{                        \
		.is_whole = true \
	}

void listing_done(struct listing *listing);

/* Adds the rules as SHOW HBA shows them, without file and line. hba may be NULL. */
void listing_add_rules(struct listing *listing, const struct hba *hba);

/* Adds a rule. columns: those of SHOW HBA from type to options; each may be NULL. */
void listing_add_rule(struct listing *listing, const char *const *columns, size_t count);

/* Sorts both, and adds "9 rules (2 new, 1 gone)". false: they are equal, or a line is missing. */
bool listing_compare(struct listing *old, struct listing *fresh, struct buf *out);

/* For users: "7 users (1 new, 0 gone, 2 changed)". */
bool listing_compare_users(const struct users *old, const struct users *fresh, struct buf *out);

#endif
