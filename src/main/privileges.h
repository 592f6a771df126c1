/* SPDX-License-Identifier: ISC */
#ifndef PGWEIR_MAIN_PRIVILEGES_H
#define PGWEIR_MAIN_PRIVILEGES_H

#include <stdbool.h>
#include <sys/types.h>

#include "pgweir/base/err.h"

/*
 * Becomes `user` with its groups, permanently (NULL or "": no change). false: the user does
 * not exist, the process may not become that user, or would run as root; the daemon must
 * not start then.
 */
bool privileges_drop(const char *user, struct err *err);

/*
 * Becomes `user` for a while, to check the rights of that user. Only root changes the user;
 * any other process keeps its own and gets no error for it. false: the user does not exist,
 * or is root.
 */
struct privileges {
	bool is_borrowed;
	gid_t group;
	gid_t groups[64];
	int group_count;
};
bool privileges_borrow(struct privileges *own, const char *user, struct err *err);
void privileges_return(const struct privileges *own);

#endif
