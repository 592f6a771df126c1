/* SPDX-License-Identifier: ISC */
#ifndef PGWEIR_MAIN_PRIVILEGES_H
#define PGWEIR_MAIN_PRIVILEGES_H

#include <stdbool.h>
#include <sys/types.h>

#include "pgweir/base/err.h"

/*
 * Becomes `user` with its groups, for good (NULL or "": stays who it is). false:
 * there is no such user, we may not become it, or we would run as root: then
 * the daemon must not go on.
 */
bool privileges_drop(const char *user, struct err *err);

/*
 * The same for a while, to find out what that user may: for root only, anybody else stays who it
 * is, and is not asked whether it may become that user. false: there is no such user, or it would
 * be root.
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
