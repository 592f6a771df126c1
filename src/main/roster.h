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
	bool is_whole; /* false: a line is missing, for lack of memory */
};

/* The initial value. */
#define ROSTER_EMPTY             \
	{                        \
		.is_whole = true \
	}

void roster_add(struct roster *roster, const char *line);
void roster_done(struct roster *roster);

/* Adds the rules as SHOW HBA shows them, without file and line. hba may be NULL. */
void roster_add_rules(struct roster *roster, const struct hba *hba);

/* Adds a rule. columns: those of SHOW HBA from type to options; each may be NULL. */
void roster_add_rule(struct roster *roster, const char *const *columns, size_t count);

/*
 * Sorts the lists and adds a text like "9 rules (2 new, 1 gone)". what: "rule". false:
 * nothing is added, because the lists are equal or there was no memory.
 */
bool roster_compare(struct roster *old, struct roster *fresh, const char *what, struct buf *out);

/* How many lines of `fresh` are not in `old`. 0 if there was no memory. */
size_t roster_count_new(struct roster *old, struct roster *fresh);

/*
 * The same for users, with the number of users whose secret has changed: "7 users (1 new, 0
 * gone, 2 changed)".
 */
bool roster_compare_users(const struct users *old, const struct users *fresh, struct buf *out);

#endif
