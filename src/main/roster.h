/* SPDX-License-Identifier: ISC */
/*
 * Users and rules as lists of lines, to count what a reload changes.
 */
#ifndef PGWEIR_MAIN_ROSTER_H
#define PGWEIR_MAIN_ROSTER_H

#include "pgweir/auth/hba.h"
#include "pgweir/auth/users.h"
#include "pgweir/base/buf.h"

struct roster {
	char **lines;
	size_t count, capacity;
	bool is_whole; /* false: no memory for all lines */
};

/* Start with ROSTER_EMPTY. */
#define ROSTER_EMPTY             \
	{                        \
		.is_whole = true \
	}

void roster_add(struct roster *roster, const char *line);
void roster_done(struct roster *roster);

/* The rules, in the words of SHOW HBA without file and line; NULL has none. */
void roster_add_rules(struct roster *roster, const struct hba *hba);

/* One line by the columns of SHOW HBA from type to options; NULL: that column is. */
void roster_add_rule(struct roster *roster, const char *const *columns, size_t count);

/*
 * Adds "9 rules (2 new, 1 gone)" for these lists, and sorts them. what: "rule". false: they are
 * the same, or there was no memory, and nothing is added.
 */
bool roster_compare(struct roster *old, struct roster *fresh, const char *what, struct buf *out);

/* How many lines of `fresh` are not in `old`. 0 also if there was no memory. */
size_t roster_count_new(struct roster *old, struct roster *fresh);

/* The same of users, with how many have another secret: "7 users (1 new, 0 gone, 2 changed)". */
bool roster_compare_users(const struct users *old, const struct users *fresh, struct buf *out);

#endif
