/* SPDX-License-Identifier: ISC */
/*
 * Users and rules as lists of lines, to count what a reload changes.
 */
#ifndef PGWEIR_MAIN_LISTING_H
#define PGWEIR_MAIN_LISTING_H

#include "pgweir/auth/hba.h"
#include "pgweir/auth/users.h"
#include "pgweir/base/buf.h"

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

void listing_add(struct listing *listing, const char *line);
void listing_done(struct listing *listing);

/* Adds the rules as SHOW HBA shows them, without file and line. hba may be NULL. */
void listing_add_rules(struct listing *listing, const struct hba *hba);

/* Adds a rule. columns: those of SHOW HBA from type to options; each may be NULL. */
void listing_add_rule(struct listing *listing, const char *const *columns, size_t count);

/*
 * Sorts the lists and adds a text like "9 rules (2 new, 1 gone)". what: "rule". false:
 * nothing is added, because the lists are equal or there was no memory.
 */
bool listing_compare(struct listing *old, struct listing *fresh, const char *what, struct buf *out);

/* How many lines of `fresh` are not in `old`. 0 if there was no memory. */
size_t listing_count_new(struct listing *old, struct listing *fresh);

/*
 * The same for users, with the number of users whose secret has changed: "7 users (1 new, 0
 * gone, 2 changed)".
 */
bool listing_compare_users(const struct users *old, const struct users *fresh, struct buf *out);

#endif
